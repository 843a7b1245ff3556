//! `cozyvttctl logout`: end the session at the server, and stay signed out.

use std::time::Duration;

use cozyvtt_proto::control::{AuthLogout, NoParams};
use serde_json::json;

use crate::daemon::Daemon;
use crate::failure::{Exit, Failure};
use crate::terminal::{GOOD, Screen, remark};
use crate::text::{json_line, plain};

/// How long it may take to tell the server.
const PATIENCE: Duration = Duration::from_secs(30);

/// End the session at the server, and stay signed out until `login`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The daemon goes on serving and says in every answer that it is signed out; a restart changes nothing \
about that. `cozyvttctl login` signs in again.

Exit codes: 0 signed out (also when the server could not be told), 3 the daemon cannot be reached.

Examples:
  cozyvttctl logout
  cozyvttctl logout && cozyvttctl stop     leave the table for today")]
pub(crate) struct Args {
    /// Print what happened as JSON: {"ended_at_server": true}
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, daemon: &Daemon, screen: &mut Screen) -> Result<Exit, Failure> {
    let end = daemon.ask::<AuthLogout>(NoParams {}, PATIENCE).await?;
    if args.json {
        screen.line(&json_line(&json!(end)))?;
        return Ok(Exit::Fine);
    }
    screen.line(&format!("{GOOD}Signed out.{GOOD:#}"))?;
    if let Some(why) = &end.why {
        remark(&format!(
            "The server could not be told: {}. The session there ends by itself, in 30 days at the latest; \
             its cookie is forgotten here.",
            plain(why)
        ));
    }
    remark("`cozyvttctl login` signs in again.");
    Ok(Exit::Fine)
}
