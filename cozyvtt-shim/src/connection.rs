//! A connection to the daemon: connect, hello, and what the daemon says to it.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cozyvtt_proto::hello::{Hello, HelloLine, Reply, ReplyLine};
use cozyvtt_proto::preset::Selection;
use cozyvtt_proto::{MAX_LINE_BYTES, PROTOCOL};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::answer::{self, Trouble};
use crate::line::{Line, LineReader};

/// How long the daemon may take to accept, and then to answer the hello.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection that the daemon has welcomed.
#[derive(Debug)]
pub(crate) struct Connection {
    /// What the daemon says.
    pub(crate) lines: LineReader<UnixStream>,
    /// To talk to it, and to end it.
    pub(crate) stream: Arc<UnixStream>,
}

impl Connection {
    /// Connects to `socket` and says hello under the name `client_id`.
    pub(crate) fn open(socket: &Path, introduction: &Introduction) -> Result<Self, Trouble> {
        let unreachable = |error: std::io::Error| {
            if error.kind() == std::io::ErrorKind::WouldBlock {
                let seconds = PATIENCE.as_secs();
                Trouble::unreachable(socket, format_args!("no answer within {seconds} s"))
            } else {
                Trouble::unreachable(socket, error)
            }
        };
        let stream = connected(socket).map_err(unreachable)?;
        (&stream)
            .write_all(&hello(introduction))
            .map_err(unreachable)?;
        stream
            .set_read_timeout(Some(PATIENCE))
            .map_err(unreachable)?;
        let reading_end = stream.try_clone().map_err(unreachable)?;
        let mut lines = LineReader::new(reading_end, MAX_LINE_BYTES);
        let reply = match lines.next_line().map_err(unreachable)? {
            Some(Line::Whole(line)) => serde_json::from_slice::<ReplyLine>(line).ok(),
            Some(Line::TooLong(_)) => None,
            Some(Line::Unfinished(_)) | None => {
                let cause = "it closed the connection instead of answering the hello";
                return Err(Trouble::unreachable(socket, cause));
            }
        };
        match reply.map(|line| line.cozyvtt) {
            Some(Reply::Welcome(_)) => {}
            Some(Reply::Refusal(refusal)) => {
                return Err(Trouble::refused(socket, &refusal.refused));
            }
            None => {
                let cause = "what listens there does not answer as cozyvttd does";
                return Err(Trouble::unreachable(socket, cause));
            }
        }
        stream.set_read_timeout(None).map_err(unreachable)?;
        stream.set_write_timeout(None).map_err(unreachable)?;
        let stream = Arc::new(stream);
        Ok(Self { lines, stream })
    }
}

/// Connects within [`PATIENCE`]. The time limit has to be set before, which the
/// standard library has no call for: a daemon that hangs with a full queue
/// would otherwise hold the caller for ever.
fn connected(socket: &Path) -> std::io::Result<UnixStream> {
    let stream: OwnedFd = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    set_socket_timeout(&stream, Timeout::Send, Some(PATIENCE))?;
    connect(&stream, &SocketAddrUnix::new(socket)?)?;
    Ok(UnixStream::from(stream))
}

/// What the shim says of itself and its client, at every connection.
#[derive(Debug)]
pub(crate) struct Introduction {
    client_id: String,
    cwd: Option<PathBuf>,
    toolsets: Option<Vec<String>>,
}

impl Introduction {
    /// Of this process, for a client that sees the tools of `selection`.
    pub(crate) fn new(selection: Option<&Selection>) -> std::io::Result<Self> {
        Ok(Self {
            client_id: new_client_id()?,
            cwd: std::env::current_dir().ok(),
            toolsets: selection
                .map(|chosen| chosen.names().iter().map(ToString::to_string).collect()),
        })
    }
}

fn hello(introduction: &Introduction) -> Vec<u8> {
    answer::line(&HelloLine {
        cozyvtt: Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            client_id: introduction.client_id.clone(),
            cwd: introduction.cwd.clone(),
            toolsets: introduction.toolsets.clone(),
        },
    })
}

/// A random name for this process, kept over connections.
fn new_client_id() -> std::io::Result<String> {
    let mut bytes = [0_u8; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}
