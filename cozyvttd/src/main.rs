//! The daemon's program: flags, signals, exit codes.

use std::fs::File;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use cozyvtt_proto::exit::OCCUPIED;
use cozyvtt_proto::profile::{self, Profile, addressed};
use cozyvttd::arguments::Arguments;
use cozyvttd::clients::MOST_CLIENTS;
use cozyvttd::config::{self, Config};
use cozyvttd::daemon::{Daemon, StartError};
use cozyvttd::logging;
use cozyvttd::options::{Environment, Options};
use cozyvttd::systemd::{Notify, Sockets};
use rustix::fs::Mode;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

/// How many descriptors the daemon wants: for its most clients, and as many again for
/// the table, its files and the control socket.
const DESCRIPTORS: u64 = 2 * MOST_CLIENTS as u64;

/// The exit code of wrong usage, which clap has as well.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Whatever is made from here on is for this user alone.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let profile = Profile::chosen(
        arguments.profile.as_ref(),
        std::env::var_os(profile::VARIABLE),
    );
    let profile = match profile {
        Ok(profile) => profile,
        Err(bad) => {
            eprintln!("cozyvttd: {bad}");
            return ExitCode::from(USAGE);
        }
    };
    if let Some(profile) = &profile {
        profile::speak_for(profile.clone());
    }
    if arguments.check_config {
        return check(&arguments, profile.as_ref());
    }
    match run(&arguments, profile) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Each error tells its cause itself.
            eprintln!("cozyvttd: {}", addressed(&error.to_string()));
            match error.downcast_ref::<StartError>() {
                Some(error) if error.is_occupied() => ExitCode::from(OCCUPIED),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn check(arguments: &Arguments, profile: Option<&Profile>) -> ExitCode {
    let variable = |name: &str| std::env::var(name).ok();
    let config = Config::resolve(arguments.config.as_deref(), profile, &variable);
    let told = if arguments.json {
        Ok(config::check::as_json(&config))
    } else {
        config::check::report(&config)
    };
    match told {
        Ok(report) => print!("{report}"),
        Err(problem) => eprintln!("cozyvttd: {}", addressed(&problem)),
    }
    if config.settings.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn run(arguments: &Arguments, profile: Option<Profile>) -> anyhow::Result<()> {
    // Before there are threads: it clears variables.
    let handed_over = Sockets::handed_over()?;
    let options = Options {
        profile,
        config: arguments.config.clone(),
        socket_dir: arguments.socket_dir.clone(),
        state_dir: arguments.state_dir.clone(),
        shared_dir: None,
        spawned: arguments.spawned,
        idle_exit_minutes: arguments.idle_exit,
    };
    if options.spawned {
        // Away from the client's terminal and process group. It fails only where the
        // process leads a group already, which is as good.
        let _ = rustix::process::setsid();
    }
    let state_dir = options.state_dir().ok_or(StartError::NoStateDir)?;
    let _log = logging::start(&state_dir, arguments.log.as_deref())?;
    allow_many_files();
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(serve(options, handed_over))
}

/// A thousand clients are a thousand descriptors, which is as many as a process gets
/// where it does not ask for more.
fn allow_many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit
        .maximum
        .map_or(DESCRIPTORS, |most| most.min(DESCRIPTORS));
    if limit.current.is_some_and(|now| now < wanted) {
        limit.current = Some(wanted);
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "no more descriptors than usual");
        }
    }
}

async fn serve(options: Options, handed_over: Sockets) -> anyhow::Result<()> {
    // Before anything is served: a signal that comes early must not be lost.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    // A terminal that is closed says so with the same signal.
    let in_terminal = std::io::stderr().is_terminal();
    let spawned = options.spawned;
    let environment: Environment = Arc::new(|name| std::env::var(name).ok());
    let notify = Notify::of_environment();
    let daemon = Daemon::start(options, environment, handed_over, notify)
        .inspect_err(|error| tracing::error!(%error, "cannot start"))?;
    if spawned {
        // Whoever reads it has heard enough, and may be gone tomorrow; the log goes on
        // in its file.
        let nowhere = File::options().write(true).open("/dev/null")?;
        rustix::stdio::dup2_stderr(nowhere)?;
    }
    let (stop, bell) = (daemon.stopper(), daemon.bell());
    tokio::spawn(async move {
        loop {
            let what = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
                _ = hangup.recv() => "SIGHUP",
            };
            tracing::info!("{what}");
            if what == "SIGHUP" && !in_terminal {
                bell.notify_one();
            } else {
                stop.cancel();
            }
        }
    });
    daemon.run().await;
    Ok(())
}
