//! A connection to the daemon: connect, hello, what the daemon says to it, and what
//! brings it to where the last connection was.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cozyvtt_proto::hello::{
    Hello, HelloLine, Reply, ReplyLine, Resend, Welcome, mismatch, unknown_wish,
};
use cozyvtt_proto::preset::Selection;
use cozyvtt_proto::{MAX_LINE_BYTES, PROTOCOL};
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::Uid;

use crate::answer::{self, Trouble};
use crate::line::{Line, LineReader};
use crate::memory::Replay;
use crate::message::{Message, result};
use crate::session::{Announced, Purpose, Session};
use crate::wire::Wire;
use crate::wish::Wishes;

/// How long the daemon may take to accept, and to answer the hello and the handshake.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it may take nothing of a line that is being written. It does not read while
/// the client has not read a good many answers.
const WRITING: Duration = Duration::from_secs(20);

/// This program's version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A connection that the daemon has welcomed.
#[derive(Debug)]
pub(crate) struct Connection {
    /// What the daemon says.
    pub(crate) lines: LineReader<UnixStream>,
    /// To talk to it, and to end it.
    pub(crate) wire: Arc<Wire>,
}

impl Connection {
    /// Connects to `socket`, says hello, and goes on where the last connection of the
    /// `session` broke.
    pub(crate) fn open(
        socket: &Path,
        introduction: &Introduction,
        session: &Session,
    ) -> Result<Self, Trouble> {
        let unreachable = |error: io::Error| unreachable(socket, error);
        let stream = connected(socket)?;
        // The daemon looks at whose shim it is; a password is reason to look at whose
        // daemon it is.
        let own = rustix::process::geteuid();
        if introduction.wishes.settings.is_some() && !is_of(&stream, own) {
            return Err(Trouble::foreign(socket));
        }
        let (previous_instance, announced) = session.past();
        let reader = stream.try_clone().map_err(unreachable)?;
        reader
            .set_read_timeout(Some(PATIENCE))
            .map_err(unreachable)?;
        let mut connection = Self {
            lines: LineReader::new(reader, MAX_LINE_BYTES),
            wire: Arc::new(Wire::new(stream)),
        };
        let hello = introduction.hello(previous_instance, &announced);
        let welcome = connection.greet(socket, &hello)?;
        let asks = introduction.wishes.asks();
        if let Some(sentence) = unknown_wish(VERSION, &asks, &welcome) {
            return Err(Trouble::mismatch(sentence));
        }
        let replay = session.replay(&welcome.instance);
        connection.replay(socket, &replay, session)?;
        let stream = connection.lines.source();
        stream.set_read_timeout(None).map_err(unreachable)?;
        stream
            .set_write_timeout(Some(WRITING))
            .map_err(unreachable)?;
        session.opened(
            Arc::clone(&connection.wire),
            welcome.instance,
            &replay,
            &announced,
            &welcome.resends,
            &Trouble::back(socket),
        );
        Ok(connection)
    }

    /// Says `hello` and reads the daemon's verdict.
    fn greet(&mut self, socket: &Path, hello: &[u8]) -> Result<Welcome, Trouble> {
        let failed = |error: io::Error| unreachable(socket, error);
        self.wire.write(hello).map_err(failed)?;
        let reply = match self.lines.next_line().map_err(failed)? {
            Some(Line::Whole(line)) => serde_json::from_slice::<ReplyLine>(line).ok(),
            Some(Line::TooLong(_)) => None,
            Some(Line::Unfinished(_)) | None => {
                let cause = "it closed the connection instead of answering the hello";
                return Err(Trouble::unreachable(socket, cause));
            }
        };
        let unlike = |protocol, version: &str| {
            mismatch((PROTOCOL, VERSION), (protocol, version)).map(Trouble::mismatch)
        };
        match reply.map(|line| line.cozyvtt) {
            Some(Reply::Welcome(welcome)) => match unlike(welcome.protocol, &welcome.version) {
                Some(trouble) => Err(trouble),
                None => Ok(welcome),
            },
            // Of two that do not understand each other, the newer one knows more; but
            // an older daemon's sentence names no command.
            Some(Reply::Refusal(refusal)) => Err(unlike(refusal.protocol, &refusal.version)
                .unwrap_or_else(|| Trouble::refused(socket, &refusal.refused))),
            None => {
                let cause = "what listens there does not answer as cozyvttd does";
                Err(Trouble::unreachable(socket, cause))
            }
        }
    }

    /// Shakes hands again and asks again for what was subscribed to; the client hears
    /// none of it.
    fn replay(&mut self, socket: &Path, replay: &Replay, session: &Session) -> Result<(), Trouble> {
        let failed = |error: io::Error| unreachable(socket, error);
        let Some(handshake) = &replay.handshake else {
            return Ok(());
        };
        let id = session.own_id();
        let line = answer::request(&id, "initialize", Some(handshake));
        self.wire.write(&line).map_err(failed)?;
        loop {
            match self.lines.next_line().map_err(failed)? {
                Some(Line::Whole(line)) => match Message::of(line) {
                    Message::Answer { id: answered } if answered == id => {
                        if result(line).is_some() {
                            break;
                        }
                        let cause = "it does not shake hands a second time; reconnect this MCP \
                                     server in the client";
                        return Err(Trouble::refused(socket, cause));
                    }
                    // Nothing else is due yet.
                    _ => {}
                },
                Some(Line::TooLong(_)) => {}
                Some(Line::Unfinished(_)) | None => {
                    let cause = "it closed the connection during the handshake";
                    return Err(Trouble::unreachable(socket, cause));
                }
            }
        }
        let initialized = replay.initialized.as_deref();
        let mut lines = initialized.map(<[u8]>::to_vec).unwrap_or_default();
        for params in &replay.subscriptions {
            lines.extend(session.own_request(Purpose::Effect, |id| {
                answer::request(id, "resources/subscribe", Some(params))
            }));
        }
        if let Some(look) = &replay.catalog {
            lines.extend(session.own_request(Purpose::Catalog, |id| {
                answer::request(id, "tools/list", look.params.as_deref())
            }));
        }
        self.wire.write(&lines).map_err(failed)
    }
}

/// What it means that the connection to `socket` failed with `error`.
fn unreachable(socket: &Path, error: io::Error) -> Trouble {
    match error.kind() {
        io::ErrorKind::WouldBlock => Trouble::silent(socket, PATIENCE.as_secs()),
        _ => Trouble::unreachable(socket, error),
    }
}

/// Connects within [`PATIENCE`]. The time limit has to be set before, which the
/// standard library has no call for: a daemon that hangs with a full queue
/// would otherwise hold the caller for ever.
fn connected(socket: &Path) -> Result<UnixStream, Trouble> {
    let attempt = || -> io::Result<UnixStream> {
        let stream: OwnedFd = socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        set_socket_timeout(&stream, Timeout::Send, Some(PATIENCE))?;
        connect(&stream, &SocketAddrUnix::new(socket)?)?;
        Ok(stream.into())
    };
    // A file that nobody answers on is no daemon.
    attempt().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            Trouble::nobody(socket, &error)
        }
        _ => unreachable(socket, error),
    })
}

/// Whether the process at the other end of `stream` is one of `user`.
fn is_of(stream: &UnixStream, user: Uid) -> bool {
    socket_peercred(stream).is_ok_and(|peer| peer.uid == user)
}

/// What the shim says of itself and its client, at every connection.
#[derive(Debug)]
pub(crate) struct Introduction {
    client_id: String,
    cwd: Option<PathBuf>,
    toolsets: Option<Vec<String>>,
    wishes: Wishes,
}

impl Introduction {
    /// Of this process, for a client that sees the tools of `selection` and has these
    /// `wishes`.
    pub(crate) fn new(selection: Option<&Selection>, wishes: Wishes) -> io::Result<Self> {
        Ok(Self {
            client_id: new_client_id()?,
            cwd: std::env::current_dir().ok(),
            toolsets: selection
                .map(|chosen| chosen.names().iter().map(ToString::to_string).collect()),
            wishes,
        })
    }

    /// The random name of this process.
    pub(crate) fn client_id(&self) -> &str {
        &self.client_id
    }

    /// The hello of a process that has spoken to `previous_instance` before, and would
    /// send the `announced` requests again.
    fn hello(&self, previous_instance: Option<String>, announced: &[Announced]) -> Vec<u8> {
        let resends: Vec<Resend> = announced
            .iter()
            .map(|announced| announced.resend.clone())
            .collect();
        answer::line(&HelloLine {
            cozyvtt: Hello {
                protocol: PROTOCOL,
                version: VERSION.to_owned(),
                pid: std::process::id(),
                client_id: self.client_id.clone(),
                cwd: self.cwd.clone(),
                toolsets: self.toolsets.clone(),
                read_only: self.wishes.read_only,
                expects: self.wishes.expects.clone(),
                settings: self.wishes.settings.clone(),
                previous_instance,
                resends,
            },
        })
    }
}

/// A random name for this process, kept over connections.
fn new_client_id() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_of_another_user_is_told_apart() {
        let (one, _other) = UnixStream::pair().unwrap();
        let own = rustix::process::geteuid();
        assert!(is_of(&one, own));
        assert!(!is_of(&one, Uid::from_raw(own.as_raw() + 1)));
    }
}
