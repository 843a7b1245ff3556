//! The two directions in which lines are carried.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cozyvtt_proto::MAX_LINE_BYTES;

use crate::answer::{self, Fate, Trouble};
use crate::connection::{Connection, Introduction};
use crate::line::{Line, LineReader};
use crate::message::{Id, Message, Method};
use crate::session::Session;

/// Carries the client's lines to the daemon until stdin ends.
pub(crate) fn from_client(stdin: impl Read, session: &Session) {
    let mut lines = LineReader::new(stdin, MAX_LINE_BYTES);
    let mut outbound = Outbound {
        session,
        delivered: false,
    };
    // A stdin that cannot be read any more has ended.
    while let Ok(Some(line)) = lines.next_line() {
        match line {
            Line::Whole(line) => outbound.carry(line),
            Line::Unfinished(line) => outbound.carry(&[line, b"\n"].concat()),
            Line::TooLong(_) => session.answer(&answer::line_too_long()),
        }
    }
}

struct Outbound<'a> {
    session: &'a Session,
    /// The daemon has had a message. From then on it may hold a state for this
    /// client (the handshake) that another connection would not have.
    delivered: bool,
}

impl Outbound<'_> {
    /// Passes `line` on, or says why not.
    fn carry(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let message = Message::of(line);
        let mut may_reconnect = !self.delivered && is_worth_a_connection(&message);
        loop {
            match self.session.admit(&message) {
                Ok(stream) => {
                    if (&*stream).write_all(line).is_ok() {
                        self.delivered = true;
                        if let Some((request, trouble)) = self.session.sent() {
                            let fate = Fate::of_sent(request.method);
                            self.session.answer(&answer::failure(
                                Some(&request.id),
                                &trouble,
                                fate,
                            ));
                        }
                        return;
                    }
                    // The newline never left, so the daemon cannot have acted.
                    if !self.session.take_back(&message, &stream) {
                        return;
                    }
                }
                Err(_) if may_reconnect => {
                    may_reconnect = false;
                    self.session.want();
                }
                Err(trouble) => return self.decline(&message, &trouble),
            }
        }
    }

    /// Answers a message that was not sent, if it is one to be answered.
    fn decline(&self, message: &Message, trouble: &Trouble) {
        let id: Option<&Id> = match message {
            // Some clients drop a server that does not answer this in time.
            Message::Request {
                id,
                method: Method::Ping,
            } => {
                return self.session.answer(&answer::pong(id));
            }
            Message::Request { id, .. } => Some(id),
            Message::Unclear => None,
            Message::Answer { .. } | Message::Cancelled { .. } | Message::Notification => return,
        };
        self.session
            .answer(&answer::failure(id, trouble, Fate::NotSent));
    }
}

/// Whether `message` is a reason to look for the daemon again.
fn is_worth_a_connection(message: &Message) -> bool {
    match message {
        Message::Request { method, .. } => *method != Method::Ping,
        Message::Unclear => true,
        Message::Answer { .. } | Message::Cancelled { .. } | Message::Notification => false,
    }
}

/// Connects to `socket` whenever a connection is wanted, and carries the
/// daemon's lines to the client. Never returns.
pub(crate) fn from_daemon(
    socket: &Result<PathBuf, Trouble>,
    introduction: &Introduction,
    session: &Session,
) {
    loop {
        session.wait_until_wanted();
        let end = match socket {
            Ok(socket) => one_connection(socket, introduction, session),
            Err(trouble) => trouble.clone(),
        };
        session.down(&end);
    }
}

/// Connects, and carries the daemon's lines until the connection ends; why it
/// ended.
fn one_connection(socket: &Path, introduction: &Introduction, session: &Session) -> Trouble {
    let mut connection = match Connection::open(socket, introduction) {
        Ok(connection) => connection,
        Err(trouble) => return trouble,
    };
    session.up(Arc::clone(&connection.stream));
    let end = relay(&mut connection.lines, session);
    // Frees the other direction if it is stuck in a write.
    let _ = connection.stream.shutdown(Shutdown::Both);
    Trouble::gone(socket, end.err().as_ref())
}

/// Carries whole lines until the connection ends. What a dying daemon left
/// unfinished is dropped.
fn relay(lines: &mut LineReader<impl Read>, session: &Session) -> io::Result<()> {
    loop {
        match lines.next_line()? {
            None | Some(Line::Unfinished(_)) => return Ok(()),
            Some(Line::Whole(line)) if line.trim_ascii().is_empty() => {}
            Some(Line::Whole(line)) => match Message::of(line) {
                Message::Answer { id } => session.relay(line, Some(&id)),
                _ => session.relay(line, None),
            },
            Some(Line::TooLong(beginning)) => {
                if let Some(id) = Message::answered_by_beginning(beginning) {
                    session.relay(&answer::answer_too_long(&id), Some(&id));
                }
            }
        }
    }
}
