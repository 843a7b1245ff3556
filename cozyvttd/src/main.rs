//! The daemon's program: flags, signals, exit codes.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use cozyvttd::daemon::{self, Daemon, Options};
use cozyvttd::logging;
use rustix::fs::Mode;
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
    /// The configuration file [default: cozyvtt/config.toml in the XDG config folder]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The folder of the sockets [default: cozyvtt in the XDG runtime folder]
    #[arg(long, value_name = "DIR")]
    socket_dir: Option<PathBuf>,

    /// The folder of the journal and the logs [default: cozyvtt in the XDG state folder]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,

    /// What to log: error, warn, info, debug, or module=level pairs
    #[arg(long, value_name = "FILTER", env = "COZYVTT_LOG", value_parser = logging::filter)]
    log: Option<String>,
}

const HELP: &str = "\
Configuration file:
  url = \"https://table.example\"   (COZYVTT_URL)
  email = \"me@example.org\"        (COZYVTT_EMAIL)
  password = \"…\"                  (COZYVTT_PASSWORD; with it, chmod 600)
  campaign_id = \"…\"               (COZYVTT_CAMPAIGN_ID)
  read_folders = [\"~/games\"]      documents may be uploaded from here [default: the home]
A variable wins over the file's value.

Exit codes:
  0  stopped in order (SIGTERM, SIGINT, cozyvttctl stop)
  1  a socket or a folder cannot be used, or another cozyvttd uses it
  2  wrong usage";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Whatever is made from here on is for this user alone.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Each error tells its cause itself.
            eprintln!("cozyvttd: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let options = Options {
        config: arguments.config.clone(),
        socket_dir: arguments.socket_dir.clone(),
        state_dir: arguments.state_dir.clone(),
    };
    let state_dir = daemon::state_dir(options.state_dir.as_deref())?;
    let _log = logging::start(&state_dir, arguments.log.as_deref())?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(serve(&options))
}

async fn serve(options: &Options) -> anyhow::Result<()> {
    // Before anything is served: a signal that comes early must not be lost.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let daemon = Daemon::start(options, &|name| std::env::var(name).ok())
        .inspect_err(|error| tracing::error!(%error, "cannot start"))?;
    let stop = daemon.stopper();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM"),
            _ = interrupt.recv() => tracing::info!("SIGINT"),
        }
        stop.cancel();
    });
    daemon.run().await;
    Ok(())
}
