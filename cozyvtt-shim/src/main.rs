//! `cozyvtt-shim`: the program that an MCP client spawns. It carries lines
//! between the client's stdio and cozyvttd's socket `mcp.sock`, and stays when
//! the daemon goes, because clients do not start it again.

mod answer;
mod carry;
mod client;
mod connection;
mod line;
mod memory;
mod message;
mod outstanding;
mod session;
mod start;
mod wire;
mod wish;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Parser;
use clap::builder::NonEmptyStringValueParser;
use cozyvtt_proto::paths::{MCP_SOCKET, socket_dir};
use cozyvtt_proto::preset::{self, BadSelection, Selection};
use cozyvtt_proto::profile::{self, Profile};

use crate::answer::Trouble;
use crate::client::Client;
use crate::connection::Introduction;
use crate::session::{SIGN_OF_LIFE, Session};
use crate::start::Starter;
use crate::wish::Wishes;

/// How long outstanding answers are waited for after the end of stdin.
const FAREWELL: Duration = Duration::from_secs(2);

/// The variable that chooses tools.
const TOOLSETS: &str = "COZYVTT_MCP_TOOLSETS";

/// The variable that says where the sockets are.
const SOCKET_DIR: &str = "COZYVTT_SOCKET_DIR";

/// The exit code of wrong usage, which clap has as well.
const USAGE: u8 = 2;

/// Connects an MCP client to the CozyVTT daemon of this user.
///
/// An MCP client (Claude Code, Cursor, ...) starts this program and talks to it on
/// stdin and stdout. It carries every line to cozyvttd and back; the daemon holds
/// the login and does the work. You do not start it yourself.
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment, after_long_help = AFTER_HELP)]
struct Args {
    /// The daemon of this profile, not the main one; wins over COZYVTT_PROFILE
    #[arg(long, value_name = "NAME")]
    profile: Option<Profile>,

    /// Folder of the daemon's sockets; without it, the environment decides
    #[arg(long, value_name = "DIR")]
    socket_dir: Option<PathBuf>,

    /// Presets of tools to show, separated by commas; wins over COZYVTT_MCP_TOOLSETS [default: all]
    #[arg(long, value_name = "NAMES", overrides_with = "toolsets")]
    toolsets: Option<String>,

    /// Show, and allow, only tools that change nothing
    #[arg(long)]
    read_only: bool,

    /// The campaign to sit in; wins over COZYVTT_CAMPAIGN_ID [default: the daemon's]
    #[arg(long, value_name = "ID", overrides_with = "campaign", value_parser = NonEmptyStringValueParser::new())]
    campaign: Option<String>,

    /// Do not start the daemon when it does not run
    #[arg(long)]
    no_start: bool,

    /// How long a request may wait for the daemon to come back, 1 to 600 seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=600))]
    wait: u64,

    /// Print every preset with its tools, and end
    #[arg(long)]
    list_toolsets: bool,
}

const AFTER_HELP: &str = "\
In an MCP client's configuration:
  {\"mcpServers\": {\"cozyvtt\": {\"command\": \"cozyvtt-shim\"}}}
With Claude Code:
  claude mcp add cozyvtt -- cozyvtt-shim

The socket is mcp.sock in the first of these folders that is given:
  --socket-dir, $COZYVTT_SOCKET_DIR, $XDG_RUNTIME_DIR/cozyvtt,
  /run/user/UID/cozyvtt, ~/.local/state/cozyvtt/run
To all but the first a profile adds its name: with --profile dm (or COZYVTT_PROFILE)
this client plays through another daemon, which sits at the table with another account.

An agent pays for every tool that it is shown. --toolsets play,roster shows two
presets; --list-toolsets names them all.

When the daemon does not run, the first request starts it: `systemctl --user start
cozyvttd` (cozyvttd@NAME of a profile) where that unit is known, else the program `cozyvttd` next to this one or
in PATH. Such a daemon has none of this client's COZYVTT_* variables but those
that say where things are, serves every client, and leaves when it has had none for
half an hour. With --no-start you start it yourself.

Where this client expects to sit is in COZYVTT_URL, COZYVTT_EMAIL and
COZYVTT_CAMPAIGN_ID (or --campaign); an empty one counts as unset. The shim tells the
daemon on every connection, and a daemon that sits at another URL or under another
e-mail address refuses it; another campaign of the same account it serves as well.
If e-mail address, campaign and COZYVTT_PASSWORD are all there, the shim also offers
them, with the URL, to a daemon of this user that has no settings of its own: it keeps them in
memory, and has them offered again when it was restarted. If one of the three is
missing, nothing is offered and the password is not sent. Settings of the daemon's own
are never replaced. So a client that was set up for another bridge with these variables
needs only its command changed.

A daemon that is too old for --read-only, or for any of these variables, is not used:
every request is answered with both versions and the command that mends it.

When the daemon goes away, the shim stays, connects again, and sends again what was not
answered, unless that could do something twice: such a call is answered with
\"outcome unknown\". Requests wait --wait seconds at most, then are answered with an
error that says what to do; when 512 wait already, so is the next one at once.
`cozyvttctl status` tells how the daemon is.

Exit codes:
  0  stdin has ended, or the client is gone
  1  the shim could not start
  2  wrong usage";

fn main() -> ExitCode {
    let args = Args::parse();
    if args.list_toolsets {
        return match writeln!(std::io::stdout(), "{}", preset::listing()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let selection = match selection(args.toolsets.as_deref(), std::env::var_os(TOOLSETS)) {
        Ok(selection) => selection,
        Err(bad) => return wrong_usage(&bad),
    };
    let variable = |name: &str| std::env::var_os(name);
    let profile = match Profile::chosen(args.profile.as_ref(), variable(profile::VARIABLE)) {
        Ok(profile) => profile,
        Err(bad) => return wrong_usage(&bad),
    };
    let wishes = match Wishes::new(args.read_only, args.campaign.as_deref(), variable) {
        Ok(wishes) => wishes,
        Err(bad) => return wrong_usage(&bad),
    };
    if let Some(profile) = &profile {
        profile::speak_for(profile.clone());
    }
    match run(&args, selection.as_ref(), wishes, profile) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "cozyvtt-shim: cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Says what is wrong with the flags or the environment.
fn wrong_usage(bad: &dyn std::fmt::Display) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "cozyvtt-shim: {bad}");
    ExitCode::from(USAGE)
}

/// The chosen tools: the flag replaces the variable, whatever that says. `None`
/// leaves it to the daemon, which then shows all.
fn selection(
    flag: Option<&str>,
    variable: Option<OsString>,
) -> Result<Option<Selection>, BadSelection> {
    let variable = variable.map(|text| text.to_string_lossy().into_owned());
    flag.or(variable.as_deref())
        .map(Selection::parse)
        .transpose()
}

/// Where the daemon listens. A folder that the flag names from this one's point of view is
/// the same for a daemon that is started in another folder.
fn socket(flag: Option<&Path>, profile: Option<&Profile>) -> Result<PathBuf, Trouble> {
    let flag = flag
        .map(std::path::absolute)
        .transpose()
        .map_err(Trouble::nowhere)?;
    socket_dir(flag.as_deref(), profile)
        .map(|dir| dir.join(MCP_SOCKET))
        .map_err(Trouble::nowhere)
}

/// Returns at the end of stdin. The other threads end with the process.
fn run(
    args: &Args,
    selection: Option<&Selection>,
    wishes: Wishes,
    profile: Option<Profile>,
) -> std::io::Result<()> {
    let socket = socket(args.socket_dir.as_deref(), profile.as_ref());
    let introduction = Introduction::new(selection, wishes)?;
    let (stdin, client) = Client::on_stdio()?;
    let patience = Duration::from_secs(args.wait);
    let session = Arc::new(Session::new(client, introduction.client_id(), patience));

    let silent = match &socket {
        Ok(socket) => Trouble::silent(socket, SIGN_OF_LIFE.as_secs()),
        Err(trouble) => trouble.clone(),
    };
    let kept = Arc::clone(&session);
    thread::Builder::new()
        .name("keeper".into())
        .spawn(move || kept.keep(&silent))?;
    // The unit's daemon listens in the usual folder and in no other one.
    let usual_place = args.socket_dir.is_none() && std::env::var_os(SOCKET_DIR).is_none();
    let starter = (!args.no_start).then(|| Starter::new(usual_place, profile));
    let inbound = Arc::clone(&session);
    thread::Builder::new()
        .name("from-daemon".into())
        .spawn(move || carry::from_daemon(&socket, &introduction, starter, &inbound))?;
    thread::Builder::new()
        .name("watch-client".into())
        .spawn(client::leave_when_gone)?;

    carry::from_client(stdin, &session);
    session.leave(FAREWELL);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_set_06_the_flag_replaces_the_variable_even_a_wrong_one() {
        let chosen = |flag: Option<&str>, variable: Option<&str>| {
            selection(flag, variable.map(OsString::from))
                .map(|chosen| chosen.map(|chosen| chosen.names().to_vec()))
        };
        assert_eq!(chosen(None, None), Ok(None));
        assert_eq!(chosen(None, Some("docs")), Ok(Some(vec!["docs"])));
        assert_eq!(chosen(Some("play"), Some("docs")), Ok(Some(vec!["play"])));
        let all = Selection::all().names().to_vec();
        assert_eq!(chosen(Some("all"), Some("oops")), Ok(Some(all)));
        assert_eq!(chosen(Some("play"), Some("")), Ok(Some(vec!["play"])));
        assert!(chosen(None, Some("")).is_err());
    }
}
