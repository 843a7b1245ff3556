//! `cozyvttctl stop`: the daemon finishes what it does and leaves.

use std::time::{Duration, Instant};

use cozyvtt_proto::client::ClientError;
use cozyvtt_proto::control::{DaemonStop, NoParams};
use serde_json::{Value, json};

use crate::daemon::{Daemon, PROMPT, RawStatus};
use crate::failure::{Exit, Failure};
use crate::terminal::{GOOD, Screen, remark};
use crate::text::{json_line, plain};

/// How long the daemon may take to leave.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often it is asked whether it is still there.
const INTERVAL: Duration = Duration::from_millis(100);

/// Let running calls finish, then stop the daemon
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Waits up to 30 seconds for the daemon to leave; exits with 1 when it is still there then. MCP clients \
may stay open: their shims connect again as soon as another daemon runs, and start one when somebody asks.

Examples:
  cozyvttctl stop
  cozyvttctl stop && cozyvttd     bring the daemon up to date after an upgrade")]
pub(crate) struct Args {
    /// Print what happened as JSON: {"stopped": true, "draining": 0, "restarted": false}
    #[arg(long)]
    json: bool,
}

/// How the daemon was found after it had been told to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Nobody answers.
    Gone,
    /// It has gone, and systemd listens in its place.
    Awaited,
    /// Another run answers: somebody, or systemd for its socket, started it.
    Restarted,
    /// The same run still answers.
    StillThere,
}

pub(crate) async fn run(args: Args, daemon: &Daemon, screen: &mut Screen) -> Result<Exit, Failure> {
    let before = daemon.ask::<RawStatus>(NoParams {}, PROMPT).await?;
    let stopping = daemon.ask::<DaemonStop>(NoParams {}, PROMPT).await?;
    if !args.json && stopping.draining > 0 {
        remark(&match stopping.draining {
            1 => "One call is still running and will be finished first.".to_owned(),
            many => format!("{many} calls are still running and will be finished first."),
        });
    }
    let end = if before
        .get("activated")
        .is_some_and(|activated| activated == true)
    {
        // To ask it would be to start it again.
        ended(before.get("pid").and_then(Value::as_u64)).await
    } else {
        watch(daemon, before.get("instance")).await
    };
    if args.json {
        screen.line(&json_line(&json!({
            "stopped": end != End::StillThere,
            "draining": stopping.draining,
            "restarted": end == End::Restarted,
        })))?;
        return Ok(if end == End::StillThere {
            Exit::Failed
        } else {
            Exit::Fine
        });
    }
    let pid = before
        .get("pid")
        .map_or_else(|| "?".into(), |pid| plain(&pid.to_string()));
    match end {
        End::Gone => screen.line(&format!("{GOOD}cozyvttd (pid {pid}) has stopped.{GOOD:#}"))?,
        End::Awaited => {
            screen.line(&format!("{GOOD}cozyvttd (pid {pid}) has stopped.{GOOD:#}"))?;
            remark(
                "systemd starts it again with the next client; to keep it down: systemctl --user stop \
                 cozyvttd.socket cozyvttd.service (with @NAME of a profile).",
            );
        }
        End::Restarted => {
            screen.line(&format!(
                "{GOOD}cozyvttd (pid {pid}) has stopped,{GOOD:#} and another one has been started since."
            ))?;
        }
        End::StillThere => {
            return Err(Failure::failed(format!(
                "cozyvttd (pid {pid}) was told to stop, but still answers after {} s",
                PATIENCE.as_secs()
            ))
            .advise("A call may take long to finish: wait, then ask `cozyvttctl status`.")
            .advise(format!(
                "`kill {pid}` asks it again; running calls may then end with an unknown outcome."
            )));
        }
    }
    Ok(Exit::Fine)
}

/// Waits until a process is no more.
async fn ended(pid: Option<u64>) -> End {
    let Some(pid) = pid else {
        return End::StillThere;
    };
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        // Behind the name in parentheses: Z for one that nobody has taken note of yet.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
        if state.is_empty() || state.starts_with(['Z', 'X']) {
            return End::Awaited;
        }
        tokio::time::sleep(INTERVAL).await;
    }
    End::StillThere
}

async fn watch(daemon: &Daemon, instance: Option<&Value>) -> End {
    let deadline = Instant::now() + PATIENCE;
    while let Some(left) = deadline.checked_duration_since(Instant::now()) {
        match daemon
            .try_ask::<RawStatus>(NoParams {}, left.min(PROMPT))
            .await
        {
            Err(ClientError::Unreachable { .. }) => return End::Gone,
            Ok(status) if status.get("instance") != instance => return End::Restarted,
            // It answers, refuses because it is stopping, or is busy leaving.
            _ => tokio::time::sleep(INTERVAL).await,
        }
    }
    End::StillThere
}
