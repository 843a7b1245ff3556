//! `cozyvttctl hold`, `release`, `kick` and `tell`: the person is in charge of the clients.

use cozyvtt_proto::control::{
    ClientHold, ClientInfo, ClientKick, ClientRelease, ClientTell, SomeClients, TellParams,
    ThisClient,
};

use crate::clients::label;
use crate::daemon::{Daemon, PROMPT};
use crate::failure::{Exit, Failure};
use crate::terminal::{CARE, GOOD, Screen, remark};
use crate::text::json_pretty;

/// Refuse the writes of a client, or of all: what it reads goes on
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every write that a held client asks for is refused with a sentence that says so; what is under way is finished. \
Without CLIENT all are held, those to come as well. It outlives a restart of the daemon, until `release`. What \
you do yourself with `cozyvttctl call` is never held.

Exit codes: 0 held, 1 there is no such client, 3 the daemon cannot be reached.

Examples:
  cozyvttctl hold                  let nobody but you change anything
  cozyvttctl hold 2
  cozyvttctl hold \"Claude Code\"    all clients of that name")]
pub(crate) struct HoldArgs {
    /// The client's number or name (`cozyvttctl clients`); all without
    client: Option<String>,
    /// Print whom it was about as JSON: {"clients": [...], "all_held": false}
    #[arg(long)]
    json: bool,
}

/// Let a client, or all, write again after `hold`, or come back after `kick`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without CLIENT everybody is released, also those that are not connected now.

Exit codes: 0 released, 1 there is no such client, 3 the daemon cannot be reached.

Examples:
  cozyvttctl release
  cozyvttctl release 2")]
pub(crate) struct ReleaseArgs {
    /// The client's number or name (`cozyvttctl clients`); all without
    client: Option<String>,
    /// Print whom it was about as JSON: {"clients": [...], "all_held": false}
    #[arg(long)]
    json: bool,
}

/// Send a client away: its connection ends, and it is refused when it comes back
#[derive(Debug, clap::Args)]
#[command(after_help = "\
What it has sent to the table already is finished; what waits for its turn is dropped. The shim of a client comes \
back by itself, so all its calls are refused then, until `release`. A client that is started anew is another one.

Exit codes: 0 sent away, 1 there is no such client, 3 the daemon cannot be reached.

Examples:
  cozyvttctl kick 2
  cozyvttctl kick \"Claude Code\"    all clients of that name")]
pub(crate) struct KickArgs {
    /// The client's number or name (`cozyvttctl clients`)
    client: String,
    /// Print whom it was about as JSON: {"clients": [...], "all_held": false}
    #[arg(long)]
    json: bool,
}

/// Tell a client something: its next look at the events shows it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The text arrives in that client's next events_poll, as a system.note that no other client sees. It is in the \
journal, so `cozyvttctl events` shows it too.

Exit codes: 0 told, 1 there is no such client or no session, 3 the daemon cannot be reached.

Examples:
  cozyvttctl tell 2 \"Let the players find the door by themselves.\"
  cozyvttctl tell \"Claude Code\" \"Stop rolling for the goblins.\"")]
pub(crate) struct TellArgs {
    /// The client's number or name (`cozyvttctl clients`)
    client: String,
    /// What to tell it, 4000 characters at most
    text: String,
    /// Print the number of the record and whom it is for as JSON: {"seq": 12, "clients": [...]}
    #[arg(long)]
    json: bool,
}

pub(crate) async fn hold(
    args: HoldArgs,
    daemon: &Daemon,
    screen: &mut Screen,
) -> Result<Exit, Failure> {
    let all = args.client.is_none();
    let client = args.client;
    let held = daemon
        .ask::<ClientHold>(SomeClients { client }, PROMPT)
        .await?;
    if args.json {
        screen.line(&json_pretty(&held))?;
        return Ok(Exit::Fine);
    }
    let whom = names(&held.clients);
    screen.line(&format!("{CARE}Held{CARE:#}: {whom}."))?;
    if all {
        remark(
            "Whoever connects now is held as well. `cozyvttctl release` lets all of them write again.",
        );
    } else {
        remark("`cozyvttctl release` lets it write again.");
    }
    Ok(Exit::Fine)
}

pub(crate) async fn release(
    args: ReleaseArgs,
    daemon: &Daemon,
    screen: &mut Screen,
) -> Result<Exit, Failure> {
    let client = args.client;
    let released = daemon
        .ask::<ClientRelease>(SomeClients { client }, PROMPT)
        .await?;
    if args.json {
        screen.line(&json_pretty(&released))?;
        return Ok(Exit::Fine);
    }
    let whom = names(&released.clients);
    screen.line(&format!("{GOOD}Released{GOOD:#}: {whom}."))?;
    if released.all_held {
        remark("All others are still held.");
    }
    Ok(Exit::Fine)
}

pub(crate) async fn kick(
    args: KickArgs,
    daemon: &Daemon,
    screen: &mut Screen,
) -> Result<Exit, Failure> {
    let client = args.client;
    let gone = daemon
        .ask::<ClientKick>(ThisClient { client }, PROMPT)
        .await?;
    if args.json {
        screen.line(&json_pretty(&gone))?;
        return Ok(Exit::Fine);
    }
    let whom = names(&gone.clients);
    screen.line(&format!("{CARE}Sent away{CARE:#}: {whom}."))?;
    remark("When it comes back all its calls are refused, until `cozyvttctl release`.");
    Ok(Exit::Fine)
}

pub(crate) async fn tell(
    args: TellArgs,
    daemon: &Daemon,
    screen: &mut Screen,
) -> Result<Exit, Failure> {
    let params = TellParams {
        client: args.client,
        text: args.text,
    };
    let told = daemon.ask::<ClientTell>(params, PROMPT).await?;
    if args.json {
        screen.line(&json_pretty(&told))?;
        return Ok(Exit::Fine);
    }
    let whom = names(&told.clients);
    screen.line(&format!(
        "{GOOD}Noted{GOOD:#} for {whom}: its next events_poll shows it."
    ))?;
    Ok(Exit::Fine)
}

/// Clients in a sentence.
fn names(clients: &[ClientInfo]) -> String {
    if clients.is_empty() {
        return "nobody who is connected now".to_owned();
    }
    let names: Vec<_> = clients
        .iter()
        .map(|client| format!("{} (number {})", label(client), client.number))
        .collect();
    names.join(", ")
}
