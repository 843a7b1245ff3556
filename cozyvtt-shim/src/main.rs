//! `cozyvtt-shim`: the program that an MCP client spawns. It carries lines
//! between the client's stdio and cozyvttd's socket `mcp.sock`, and stays when
//! the daemon goes, because clients do not start it again.

mod answer;
mod carry;
mod client;
mod connection;
mod line;
mod message;
mod outstanding;
mod session;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Parser;
use cozyvtt_proto::paths::{MCP_SOCKET, socket_dir};
use cozyvtt_proto::preset::{self, BadSelection, Selection};

use crate::answer::Trouble;
use crate::client::Client;
use crate::connection::Introduction;
use crate::session::Session;

/// How long outstanding answers are waited for after the end of stdin.
const FAREWELL: Duration = Duration::from_secs(2);

/// The variable that chooses tools.
const TOOLSETS: &str = "COZYVTT_MCP_TOOLSETS";

/// The exit code of wrong usage, which clap has as well.
const USAGE: u8 = 2;

/// Connects an MCP client to the CozyVTT daemon of this user.
///
/// An MCP client (Claude Code, Cursor, ...) starts this program and talks to it on
/// stdin and stdout. It carries every line to cozyvttd and back; the daemon holds
/// the login and does the work. You do not start it yourself.
#[derive(Debug, Parser)]
#[command(version, after_long_help = AFTER_HELP)]
struct Args {
    /// Folder of the daemon's sockets; without it, the environment decides
    #[arg(long, value_name = "DIR")]
    socket_dir: Option<PathBuf>,

    /// Presets of tools to show, separated by commas; wins over COZYVTT_MCP_TOOLSETS [default: all]
    #[arg(long, value_name = "NAMES")]
    toolsets: Option<String>,

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

An agent pays for every tool that it is shown. --toolsets play,roster shows two
presets; --list-toolsets names them all.

When the daemon is not there, the shim stays and answers every request with an
error that says what to do. `cozyvttctl status` tells how the daemon is.

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
        Err(bad) => {
            let _ = writeln!(std::io::stderr(), "cozyvtt-shim: {bad}");
            return ExitCode::from(USAGE);
        }
    };
    match run(&args, selection.as_ref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "cozyvtt-shim: cannot start: {error}");
            ExitCode::FAILURE
        }
    }
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

/// Returns at the end of stdin. The other threads end with the process.
fn run(args: &Args, selection: Option<&Selection>) -> std::io::Result<()> {
    let socket = socket_dir(args.socket_dir.as_deref())
        .map(|dir| dir.join(MCP_SOCKET))
        .map_err(Trouble::nowhere);
    let introduction = Introduction::new(selection)?;
    let (stdin, client) = Client::on_stdio()?;
    let session = Arc::new(Session::new(client));

    let inbound = Arc::clone(&session);
    thread::Builder::new()
        .name("from-daemon".into())
        .spawn(move || carry::from_daemon(&socket, &introduction, &inbound))?;
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
