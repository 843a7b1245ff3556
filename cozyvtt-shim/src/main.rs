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

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Parser;
use cozyvtt_proto::paths::{MCP_SOCKET, socket_dir};

use crate::answer::Trouble;
use crate::client::Client;
use crate::session::Session;

/// How long outstanding answers are waited for after the end of stdin.
const FAREWELL: Duration = Duration::from_secs(2);

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
}

const AFTER_HELP: &str = "\
In an MCP client's configuration:
  {\"mcpServers\": {\"cozyvtt\": {\"command\": \"cozyvtt-shim\"}}}
With Claude Code:
  claude mcp add cozyvtt -- cozyvtt-shim

The socket is mcp.sock in the first of these folders that is given:
  --socket-dir, $COZYVTT_SOCKET_DIR, $XDG_RUNTIME_DIR/cozyvtt,
  /run/user/UID/cozyvtt, ~/.local/state/cozyvtt/run

When the daemon is not there, the shim stays and answers every request with an
error that says what to do. `cozyvttctl status` tells how the daemon is.

Exit codes:
  0  stdin has ended, or the client is gone
  1  the shim could not start
  2  wrong usage";

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "cozyvtt-shim: cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns at the end of stdin. The other threads end with the process.
fn run(args: &Args) -> std::io::Result<()> {
    let socket = socket_dir(args.socket_dir.as_deref())
        .map(|dir| dir.join(MCP_SOCKET))
        .map_err(Trouble::nowhere);
    let client_id = connection::new_client_id()?;
    let (stdin, client) = Client::on_stdio()?;
    let session = Arc::new(Session::new(client));

    let inbound = Arc::clone(&session);
    thread::Builder::new()
        .name("from-daemon".into())
        .spawn(move || carry::from_daemon(&socket, &client_id, &inbound))?;
    thread::Builder::new()
        .name("watch-client".into())
        .spawn(client::leave_when_gone)?;

    carry::from_client(stdin, &session);
    session.leave(FAREWELL);
    Ok(())
}
