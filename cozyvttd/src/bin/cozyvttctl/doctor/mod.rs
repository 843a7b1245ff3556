//! `cozyvttctl doctor`: looks at every hop, with and without a daemon, and names the mends.
//! It only looks: no file is made or changed, and no password is sent.

mod clients;
mod local;
mod network;
mod state;

use std::path::{Path, PathBuf};

use cozyvtt_proto::control::{DaemonStatus, Hop, HopState, NoParams, Status};
use cozyvtt_proto::paths;
use cozyvtt_proto::profile::{Profile, addressed};
use cozyvttd::config::Config;
use serde_json::json;

use crate::daemon::{Daemon, PROMPT};
use crate::failure::{Exit, Failure};
use crate::rows;
use crate::terminal::{BAD, CARE, GOOD, Screen};
use crate::text::json_pretty;

/// Look at every hop from your agents to the table, and name what mends it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Looks at the programs, the sockets, the units, the configuration and the modes of secrets, the way to the \
server (name, TLS, answer, clock), login, campaign and WebSocket, the journal and the disk, and at your \
clients' files. It works without a daemon as well, changes no file and sends no password.

A cross is a fault, a question mark something that could not be seen or that you may want to know.

Exit codes: 0 no fault, 1 a fault was found.

Examples:
  cozyvttctl doctor
  cozyvttctl --profile player doctor
  cozyvttctl doctor --json | jq -r '.checks[] | select(.state == \"broken\") | .fix'")]
pub(crate) struct Args {
    /// Print the checks as JSON
    #[arg(long)]
    json: bool,
}

/// What the checks look at.
struct Patient<'a> {
    profile: Option<&'a Profile>,
    socket_dir: &'a Path,
    state_dir: PathBuf,
    config: Config,
    /// What the daemon says of itself, if one answers.
    status: Option<Status>,
    daemon: &'a Daemon,
}

pub(crate) async fn run(
    args: Args,
    profile: Option<&Profile>,
    socket_dir: &Path,
    daemon: &Daemon,
    screen: &mut Screen,
) -> Result<Exit, Failure> {
    let status = daemon.try_ask::<DaemonStatus>(NoParams {}, PROMPT).await;
    let status = status.ok();
    // A daemon knows better than this shell where its things are.
    let theirs = |path: &str| (!path.is_empty()).then(|| PathBuf::from(path));
    let state_dir = status
        .as_ref()
        .and_then(|status| theirs(&status.state_dir))
        .or_else(|| paths::state_dir(None, profile))
        .ok_or_else(|| Failure::failed("no home is known, and so no place for the state"))?;
    let file = status
        .as_ref()
        .and_then(|status| theirs(&status.config_file))
        .filter(|file| file.exists());
    let variable = |name: &str| std::env::var(name).ok();
    let patient = Patient {
        profile,
        socket_dir,
        state_dir,
        config: Config::resolve(file.as_deref(), profile, &variable),
        status,
        daemon,
    };
    let mut checks = local::programs(&patient).await;
    checks.push(local::daemon(&patient).await);
    checks.extend(local::sockets(&patient));
    checks.extend(local::systemd(&patient).await);
    checks.push(local::configuration(&patient));
    checks.extend(state::secrets(&patient));
    checks.extend(network::checks(&patient).await);
    checks.extend(state::journal(&patient));
    checks.push(state::disk(&patient));
    checks.extend(clients::checks(&patient));
    for check in &mut checks {
        check.fix = check.fix.take().map(|fix| addressed(&fix).into_owned());
    }
    let broken = checks
        .iter()
        .filter(|check| check.state == HopState::Broken)
        .count();
    if args.json {
        let told = json!({"ok": broken == 0, "checks": checks});
        screen.line(&json_pretty(&told))?;
    } else {
        let (style, verdict) = match broken {
            0 => (GOOD, "No fault was found.".to_owned()),
            1 => (BAD, "One fault was found.".to_owned()),
            many => (BAD, format!("{many} faults were found.")),
        };
        screen.lines(rows::lines(&checks, screen.layout))?;
        screen.line("")?;
        screen.line(&format!("{style}{verdict}{style:#}"))?;
        if checks.iter().any(|check| check.state == HopState::Unknown) && broken == 0 {
            screen.line(&format!(
                "{CARE}What has a question mark may be worth a look.{CARE:#}"
            ))?;
        }
    }
    Ok(if broken == 0 {
        Exit::Fine
    } else {
        Exit::Failed
    })
}

fn ok(name: &str, detail: impl Into<String>) -> Hop {
    check(name, HopState::Ok, detail, None)
}

fn broken(name: &str, detail: impl Into<String>, fix: impl Into<String>) -> Hop {
    check(name, HopState::Broken, detail, Some(fix.into()))
}

fn hint(name: &str, detail: impl Into<String>, fix: Option<&str>) -> Hop {
    check(name, HopState::Unknown, detail, fix.map(str::to_owned))
}

fn check(name: &str, state: HopState, detail: impl Into<String>, fix: Option<String>) -> Hop {
    Hop {
        name: name.to_owned(),
        state,
        detail: detail.into(),
        fix,
    }
}
