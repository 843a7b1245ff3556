//! `cozyvttctl reload`: the daemon reads its configuration again.

use std::time::{Duration, Instant};

use cozyvtt_proto::client::ClientError;
use cozyvtt_proto::control::{DaemonReload, NoParams, Reloaded, Taken};
use serde_json::{Value, json};

use crate::daemon::{Daemon, PROMPT, RawStatus};
use crate::failure::{Exit, Failure};
use crate::terminal::{GOOD, Screen};
use crate::text::{json_line, plain};

/// How long another run may take to begin: the daemon gives running calls 25 seconds.
const PATIENCE: Duration = Duration::from_secs(45);

/// How often the daemon is asked whether it has begun.
const INTERVAL: Duration = Duration::from_millis(100);

/// Make the daemon read its configuration again
#[derive(Debug, clap::Args)]
#[command(after_help = "\
[policy], read_folders and idle_exit_minutes hold at once. Another address, account, password, campaign, \
ca_file or header field makes the daemon finish the calls that run and begin anew with it, in the same \
process; clients that come through cozyvtt-shim stay. A configuration that cannot be used is refused, and \
the old one stays. The daemon's own variables (COZYVTT_*) are those that it was started with.

Exit codes: 0 it holds, 1 it was refused or has not begun within 45 seconds, 3 the daemon cannot be reached.

Examples:
  cozyvttctl reload
  cozyvttd --check-config && cozyvttctl reload")]
pub(crate) struct Args {
    /// Print what happened as JSON: how the new configuration is `taken`, and what has `changed`
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, daemon: &Daemon, screen: &mut Screen) -> Result<Exit, Failure> {
    let reloaded = reload(daemon).await?;
    if args.json {
        screen.line(&json_line(&json!(reloaded)))?;
    } else {
        screen.lines(
            screen
                .layout
                .wrap(&told(&reloaded), 0)
                .iter()
                .map(|line| format!("{GOOD}{line}{GOOD:#}")),
        )?;
    }
    Ok(Exit::Fine)
}

/// Has the configuration read again, and waits for another run where one begins.
///
/// # Errors
///
/// It is refused, or the other run has not begun in time.
pub(crate) async fn reload(daemon: &Daemon) -> Result<Reloaded, Failure> {
    let before = daemon.ask::<RawStatus>(NoParams {}, PROMPT).await?;
    let reloaded = daemon.ask::<DaemonReload>(NoParams {}, PROMPT).await?;
    if reloaded.taken == Taken::WithAnotherRun {
        begun(daemon, before.get("instance")).await?;
    }
    Ok(reloaded)
}

fn told(reloaded: &Reloaded) -> String {
    let changed = plain(&reloaded.changed.join(", "));
    match (reloaded.taken, reloaded.changed.is_empty()) {
        (Taken::Unchanged, _) => "The configuration says the same as before.".to_owned(),
        (Taken::AtOnce | Taken::Unknown, _) => {
            format!("The new configuration holds. Changed: {changed}.")
        }
        (Taken::WithAnotherRun, true) => {
            "The configuration says the same as before; cozyvttd has begun anew with it, since it \
             could not get to the table."
                .to_owned()
        }
        (Taken::WithAnotherRun, false) => {
            format!("cozyvttd has begun anew with the new configuration. Changed: {changed}.")
        }
    }
}

/// Waits until another run answers than `instance`.
async fn begun(daemon: &Daemon, instance: Option<&Value>) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    while let Some(left) = deadline.checked_duration_since(Instant::now()) {
        let status = daemon
            .try_ask::<RawStatus>(NoParams {}, left.min(PROMPT))
            .await;
        match status {
            Ok(status) if status.get("instance") != instance => return Ok(()),
            Err(error @ ClientError::Unreachable { .. }) => {
                return Err(daemon.explain(error).await.advise(
                    "It was told to begin anew, and has ended instead: its log says why.",
                ));
            }
            _ => tokio::time::sleep(INTERVAL).await,
        }
    }
    Err(Failure::failed(format!(
        "cozyvttd was told to begin anew, and has not within {} s",
        PATIENCE.as_secs()
    ))
    .advise("A call may take long to finish: wait, then ask `cozyvttctl status`."))
}
