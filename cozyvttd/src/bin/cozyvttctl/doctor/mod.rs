//! `cozyvttctl doctor`: looks at every hop, with and without a daemon, and names the mends.
//! It only looks: no file of the person's is made or changed, and no password is sent.

mod clients;
mod journal;
mod local;
mod network;
mod state;
mod units;

use std::path::{Path, PathBuf};

use cozyvtt_proto::control::{DaemonStatus, Hop, HopState, NoParams, Status};
use cozyvtt_proto::paths;
use cozyvtt_proto::profile::{Profile, addressed};
use cozyvttd::config::Config;
use serde_json::{Value, json};

use crate::daemon::{Daemon, PROMPT};
use crate::failure::{Exit, Failure};
use crate::rows;
use crate::terminal::{BAD, CARE, GOOD, Screen};
use crate::text::json_pretty;

/// Look at every hop from your agents to the table, and name what mends it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Looks at the programs, the sockets, the units, the configuration and the modes of secrets, the way to the \
server (name, TLS, answer, health, clock), login, campaign with your role, and WebSocket, the journal and \
the disk, and at your clients' files and a .mcp.json in this folder. It works without a daemon as well, \
changes no file of yours and sends no password.

A cross is a fault, a question mark something that could not be seen or that you may want to know. With \
--json the states are ok, broken, hint (the question mark) and waiting (the daemon is on its way there).

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
    let (config, of_the_shell) = configured(file.as_deref(), profile, status.as_ref());
    let patient = Patient {
        profile,
        socket_dir,
        state_dir,
        config,
        status,
        daemon,
    };
    let mut report = Report {
        checks: Vec::new(),
        as_json: args.json,
    };
    // The server is far away, the rest is not: both are looked at meanwhile.
    let near = async {
        report.take(local::programs(&patient).await, screen)?;
        report.take([local::daemon(&patient).await], screen)?;
        report.take(local::sockets(&patient), screen)?;
        report.take(units::checks(&patient).await, screen)?;
        report.take([local::configuration(&patient)], screen)?;
        report.take(of_the_shell, screen)?;
        report.take(state::secrets(&patient), screen)
    };
    let (told, far) = tokio::join!(near, network::checks(&patient));
    told?;
    report.take(far, screen)?;
    report.take(journal::checks(&patient).await, screen)?;
    report.take([state::disk(&patient)], screen)?;
    report.take(clients::checks(&patient), screen)?;
    report.end(screen)
}

/// The configuration as the daemon has it, and a word about this shell where that says
/// otherwise: a daemon that runs has variables of its own.
fn configured(
    file: Option<&Path>,
    profile: Option<&Profile>,
    status: Option<&Status>,
) -> (Config, Option<Hop>) {
    let here = Config::resolve(file, profile, &|name| std::env::var(name).ok());
    let Some(status) = status.filter(|_| here.uses_environment) else {
        return (here, None);
    };
    let of_file = Config::resolve(file, profile, &|_| None);
    // The daemon says itself whether it uses any.
    let told = status.hops.iter().find(|hop| hop.name == "configuration");
    if told.is_some_and(|hop| hop.detail.contains("environment")) || of_file.settings.is_err() {
        return (here, None);
    }
    let detail = "this shell sets variables of the configuration (COZYVTT_…), which the daemon \
                  that runs does not have";
    (of_file, Some(hint("environment", detail, None)))
}

/// The checks, shown as they come.
struct Report {
    checks: Vec<Hop>,
    as_json: bool,
}

impl Report {
    /// The longest name of a check.
    const NAME_WIDTH: usize = "configuration".len();

    fn take(
        &mut self,
        checks: impl IntoIterator<Item = Hop>,
        screen: &mut Screen,
    ) -> Result<(), Failure> {
        for mut check in checks {
            check.fix = check.fix.take().map(|fix| addressed(&fix).into_owned());
            if !self.as_json {
                let row = std::slice::from_ref(&check);
                screen.lines(rows::lines_with(row, Self::NAME_WIDTH, screen.layout))?;
            }
            self.checks.push(check);
        }
        Ok(())
    }

    fn end(self, screen: &mut Screen) -> Result<Exit, Failure> {
        let broken = self
            .checks
            .iter()
            .filter(|check| check.state == HopState::Broken)
            .count();
        if self.as_json {
            let checks: Vec<Value> = self.checks.iter().map(as_json).collect();
            let told = json!({"ok": broken == 0, "checks": checks});
            screen.line(&json_pretty(&told))?;
        } else {
            let (style, verdict) = match broken {
                0 => (GOOD, "No fault was found.".to_owned()),
                1 => (BAD, "One fault was found.".to_owned()),
                many => (BAD, format!("{many} faults were found.")),
            };
            screen.line("")?;
            screen.line(&format!("{style}{verdict}{style:#}"))?;
            let is_hint = |check: &Hop| check.state == HopState::Unknown;
            if self.checks.iter().any(is_hint) && broken == 0 {
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
}

/// A check for programs.
fn as_json(check: &Hop) -> Value {
    let mut told = json!(check);
    if check.state == HopState::Unknown {
        told["state"] = "hint".into();
    }
    told
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    shlex::try_quote(&path).map_or_else(|_| path.clone(), std::borrow::Cow::into_owned)
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
