//! The daemon's program: flags, signals, exit codes.

use std::fs::File;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use cozyvtt_proto::exit::OCCUPIED;
use cozyvtt_proto::profile::{self, Profile, addressed};
use cozyvttd::clients::MOST_CLIENTS;
use cozyvttd::config::{self, Config};
use cozyvttd::daemon::{Daemon, StartError};
use cozyvttd::logging;
use cozyvttd::options::{Environment, Options};
use cozyvttd::systemd::{Notify, Sockets};
use rustix::fs::Mode;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

/// Holds one session with a CozyVTT table for many AI agents.
///
/// Serves MCP on mcp.sock (for cozyvtt-shim, which MCP clients start) and a
/// control API on control.sock (for cozyvttctl). It serves even when its
/// configuration is wrong or the table is down, and says so in every answer;
/// `cozyvttctl status` tells what to mend.
#[derive(Debug, Parser)]
#[command(version, after_long_help = HELP)]
struct Arguments {
    /// A name: this daemon is another one beside the main one, with a configuration
    /// (profiles/NAME.toml), a state and sockets of its own [env: COZYVTT_PROFILE]
    #[arg(long, value_name = "NAME")]
    profile: Option<Profile>,

    /// The configuration file; COZYVTT_CONFIG names that of the main daemon [default:
    /// cozyvtt/config.toml in the XDG config folder]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The folder of the sockets [default: cozyvtt in the XDG runtime folder]
    #[arg(long, value_name = "DIR")]
    socket_dir: Option<PathBuf>,

    /// The folder of the journal and the logs [env: COZYVTT_STATE_DIR] [default: cozyvtt in
    /// the XDG state folder]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,

    /// Leave after so many minutes without an MCP client; 0 for never [default: never, 30 with --spawned]
    #[arg(long, value_name = "MINUTES")]
    idle_exit: Option<u64>,

    /// For cozyvtt-shim, which starts the daemon so: take a session of its own, let go of
    /// stderr once the sockets serve, leave when idle
    #[arg(long)]
    spawned: bool,

    /// Say what the configuration comes to, or what is wrong with it, and end: 0 when it is
    /// good, 1 when it is not. Nothing is started, and nobody is asked
    #[arg(long)]
    check_config: bool,

    /// What to log: error, warn, info, debug, or module=level pairs
    #[arg(long, value_name = "FILTER", env = "COZYVTT_LOG", value_parser = logging::filter)]
    log: Option<String>,
}

/// How many descriptors the daemon wants: for its most clients, and as many again for
/// the table, its files and the control socket.
const DESCRIPTORS: u64 = 2 * MOST_CLIENTS as u64;

/// The exit code of wrong usage, which clap has as well.
const USAGE: u8 = 2;

const HELP: &str = "\
Configuration file, in TOML; a variable wins over its value:
  url = \"https://table.example\"      # COZYVTT_URL
  email = \"me@example.org\"           # COZYVTT_EMAIL
  campaign_id = \"…\"                  # COZYVTT_CAMPAIGN_ID
  # One of these three, and with the first: chmod 600
  password = \"…\"                     # COZYVTT_PASSWORD
  # password_file = \"~/…\"            # its first line; for your eyes alone
  # password_command = [\"pass\", \"show\", \"cozyvtt\"]
  read_folders = [\"~/games\"]         # uploads come from here [default: the home]
  idle_exit_minutes = 30             # as --idle-exit
  ca_file = \"~/our-authority.pem\"    # trusted besides the system's; COZYVTT_CA_FILE
  [extra_headers]                    # sent to the table alone, and never shown
  X-Access = \"…\"
  [policy]                           # what no client may do
  deny = [\"map_delete\"]
  [policy.clients.\"claude-code\"]     # those of this name, which is their own word
  deny = [\"token_delete\"]
systemd's credential cozyvtt-password wins over every other password. A daemon that has
none of url, email, password and campaign_id takes those that a client brings along.

Signals: SIGTERM and SIGINT let running calls finish, then stop it; SIGHUP makes it read
its configuration again, as `cozyvttctl reload`, and stops it where it runs in a terminal.

Under systemd it takes the sockets of its socket unit, says when it serves and how the
table stands, feeds the watchdog, and logs to the journal.

Exit codes:
  0  stopped in order (SIGTERM, SIGINT, cozyvttctl stop)
  1  a socket or a folder cannot be used; --check-config: the configuration is no good
  2  wrong usage
  3  another cozyvttd uses the folders";

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
        return check(arguments.config.as_deref(), profile.as_ref());
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

fn check(file: Option<&Path>, profile: Option<&Profile>) -> ExitCode {
    let config = Config::resolve(file, profile, &|name| std::env::var(name).ok());
    match config::check::report(&config) {
        Ok(report) => {
            print!("{report}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("cozyvttd: {}", addressed(&problem));
            ExitCode::FAILURE
        }
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_configuration_in_the_help_can_be_copied() {
        let from = HELP.find("  url").unwrap();
        let to = HELP.find("systemd's credential").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        std::fs::write(&file, HELP[from..to].replace("\"…\"", "\"x\"")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let config = Config::resolve(Some(&file), None, &|_| None);
        assert!(config.settings.is_ok(), "{:?}", config.settings);
        assert_eq!(config.idle_exit_minutes, Some(30));
        assert!(HELP.lines().all(|line| line.chars().count() <= 88));
    }
}
