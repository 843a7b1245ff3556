//! The two directions in which lines are carried, and how the daemon is found again.

use std::io::{self, Read};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cozyvtt_proto::MAX_LINE_BYTES;

use crate::answer::{self, Trouble};
use crate::connection::{Connection, Introduction};
use crate::line::{Line, LineReader};
use crate::message::Message;
use crate::session::Session;
use crate::start::{Progress, Starter};

/// How long to wait before the first attempts to connect again: while a request
/// waits, and while none does. Both double with every attempt.
const FIRST: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(250));

/// How long at most.
const LAST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// How often to look whether a daemon that is being started is there.
const STARTING: Duration = Duration::from_millis(10);

/// A connection that lived for as long shows that all was well.
const HEALTHY: Duration = Duration::from_secs(1);

/// Carries the client's lines to the daemon until stdin ends.
pub(crate) fn from_client(stdin: impl Read, session: &Session) {
    let mut lines = LineReader::new(stdin, MAX_LINE_BYTES);
    // A stdin that cannot be read any more has ended.
    while let Ok(Some(line)) = lines.next_line() {
        match line {
            Line::Whole(line) if line.trim_ascii().is_empty() => {}
            Line::Whole(line) => session.pass(line),
            Line::Unfinished(line) if line.trim_ascii().is_empty() => {}
            Line::Unfinished(line) => session.pass(&[line, b"\n"].concat()),
            Line::TooLong(_) => session.answer(&answer::line_too_long()),
        }
    }
}

/// Connects to `socket`, again and again, and carries the daemon's lines to the
/// client. Starts the daemon with `starter` when a request waits and nobody listens.
/// Never returns.
pub(crate) fn from_daemon(
    socket: &Result<PathBuf, Trouble>,
    introduction: &Introduction,
    mut starter: Option<Starter>,
    session: &Session,
) {
    let (mut busy, mut idle) = FIRST;
    loop {
        if let Some(starter) = &mut starter {
            starter.reap();
        }
        let mut starting = false;
        let begun = Instant::now();
        let connection = match socket {
            Ok(socket) => Connection::open(socket, introduction, session),
            Err(trouble) => Err(trouble.clone()),
        };
        match (connection, socket) {
            (Ok(mut connection), Ok(socket)) => {
                if let Some(starter) = &mut starter {
                    starter.succeeded();
                }
                let end = relay(&mut connection.lines, session);
                // Frees whoever is stuck in a write.
                connection.wire.end();
                session.down(Trouble::gone(socket, end.err().as_ref()));
                if begun.elapsed() >= HEALTHY {
                    (busy, idle) = FIRST;
                }
            }
            (Err(trouble), Ok(socket)) if trouble.nobody_listens() && session.is_awaited() => {
                match starter.as_mut().map(|starter| starter.look(socket)) {
                    Some(Progress::Starting) => starting = true,
                    Some(Progress::Elsewhere(trouble) | Progress::Failed(trouble)) => {
                        session.failed(&trouble);
                    }
                    None => session.failed(&trouble),
                }
            }
            (Err(trouble), _) if trouble.nobody_listens() && starter.is_some() => {
                session.not_needed_yet(&trouble);
            }
            (Err(trouble), _) => session.failed(&trouble),
            // There is no connection without a socket.
            (Ok(_), Err(trouble)) => session.failed(trouble),
        }
        if starting {
            session.pause(STARTING, STARTING);
        } else if session.pause(busy, idle) {
            busy = LAST.0.min(busy * 2);
        } else {
            // A request that comes now is no part of a row of failures.
            busy = FIRST.0;
            idle = LAST.1.min(idle * 2);
        }
    }
}

/// Carries whole lines until the connection ends. What a dying daemon left
/// unfinished is dropped.
fn relay(lines: &mut LineReader<impl Read>, session: &Session) -> io::Result<()> {
    loop {
        match lines.next_line()? {
            None | Some(Line::Unfinished(_)) => return Ok(()),
            Some(Line::Whole(line)) if line.trim_ascii().is_empty() => {}
            Some(Line::Whole(line)) => session.relay(line),
            Some(Line::TooLong(beginning)) => {
                if let Some(id) = Message::answered_by_beginning(beginning) {
                    session.relay_as(beginning, Some(&id), &answer::answer_too_long(&id));
                }
            }
        }
    }
}
