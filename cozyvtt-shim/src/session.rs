//! What the two directions share: how the link to the daemon is, and which
//! requests are due an answer. One lock guards both, so that no request can
//! slip in between "the daemon is gone" and "everything due is answered".

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::answer::{self, Fate, Trouble};
use crate::client::Client;
use crate::message::{Id, Message};
use crate::outstanding::{Outstanding, Request};

/// The way to the daemon.
#[derive(Debug, Clone)]
enum Link {
    /// A connection is wanted, and being made.
    Wanted,
    /// Lines can be passed on.
    Up(Arc<UnixStream>),
    /// They cannot.
    Down(Trouble),
}

#[derive(Debug)]
struct State {
    link: Link,
    outstanding: Outstanding,
    /// The daemon's direction is writing to the client just now.
    speaking: bool,
    /// The client has closed stdin.
    leaving: bool,
    /// The one line for the log is out.
    logged: bool,
}

/// One client's session.
#[derive(Debug)]
pub(crate) struct Session {
    client: Client,
    state: Mutex<State>,
    changed: Condvar,
}

impl Session {
    /// A session that wants a connection.
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            state: Mutex::new(State {
                link: Link::Wanted,
                outstanding: Outstanding::default(),
                speaking: false,
                leaving: false,
                logged: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // For the direction from the client to the daemon.

    /// Says a line of the shim's own to the client.
    pub(crate) fn answer(&self, line: &[u8]) {
        self.client.say(line);
    }

    /// Where to send `message` to. Waits while a connection is being made, and
    /// notes a request as due before anyone can answer it. The caller sends it,
    /// and then says [`Session::sent`] or [`Session::take_back`].
    pub(crate) fn admit(&self, message: &Message) -> Result<Arc<UnixStream>, Trouble> {
        let mut state = self.state();
        let stream = loop {
            match &state.link {
                Link::Up(stream) => break Arc::clone(stream),
                Link::Down(trouble) => return Err(trouble.clone()),
                Link::Wanted => {
                    let changed = self.changed.wait(state);
                    state = changed.unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        match message {
            Message::Request { id, method } => {
                state.outstanding.begin(id.clone(), *method);
            }
            Message::Cancelled { id } => {
                state.outstanding.take(id);
            }
            Message::Answer { .. } | Message::Notification | Message::Unclear => {}
        }
        Ok(stream)
    }

    /// The admitted message was sent. If the link has broken since, its answer
    /// will never come; the caller then has to say so.
    pub(crate) fn sent(&self) -> Option<(Request, Trouble)> {
        let mut state = self.state();
        if let Link::Down(trouble) = &state.link {
            let trouble = trouble.clone();
            return Some((state.outstanding.take_sending()?, trouble));
        }
        state.outstanding.sent();
        None
    }

    /// The admitted `message` could not be sent to `stream`. Returns when the
    /// link is down, and says whether the message still wants its answer.
    pub(crate) fn take_back(&self, message: &Message, stream: &UnixStream) -> bool {
        let taken = self.state().outstanding.take_sending();
        // Lets the other direction find the end, whatever the reason was. What
        // the daemon said before is still read.
        let _ = stream.shutdown(Shutdown::Both);
        let up = |state: &mut State| matches!(state.link, Link::Up(_));
        drop(self.changed.wait_while(self.state(), up));
        taken.is_some() || !matches!(message, Message::Request { .. })
    }

    /// Asks for another attempt to connect, if the link is down.
    pub(crate) fn want(&self) {
        let mut state = self.state();
        if matches!(state.link, Link::Down(_)) {
            state.link = Link::Wanted;
            self.changed.notify_all();
        }
    }

    /// The client has closed stdin: tells the daemon, and waits until all that
    /// is due has been delivered, but no longer than `patience`.
    pub(crate) fn leave(&self, patience: Duration) {
        let mut state = self.state();
        state.leaving = true;
        if let Link::Up(stream) = &state.link {
            // If the daemon is gone already, the other direction is about to
            // answer what is due.
            let _ = stream.shutdown(Shutdown::Write);
        }
        let due = |state: &mut State| state.speaking || !state.outstanding.is_empty();
        drop(self.changed.wait_timeout_while(state, patience, due));
    }

    // For the direction from the daemon to the client.

    /// Waits until a connection is wanted.
    pub(crate) fn wait_until_wanted(&self) {
        let idle = |state: &mut State| !matches!(state.link, Link::Wanted);
        drop(self.changed.wait_while(self.state(), idle));
    }

    /// A connection is there.
    pub(crate) fn up(&self, stream: Arc<UnixStream>) {
        self.state().link = Link::Up(stream);
        self.changed.notify_all();
    }

    /// There is no connection, or no more; answers everything that was sent.
    pub(crate) fn down(&self, trouble: &Trouble) {
        let mut state = self.state();
        state.link = Link::Down(trouble.clone());
        state.speaking = true;
        let due = state.outstanding.take_sent();
        let expected = state.leaving && due.is_empty();
        let log = !(expected || state.logged);
        state.logged |= log;
        drop(state);
        self.changed.notify_all();
        if log {
            // Nothing can be done about a stderr that does not take it.
            let _ = writeln!(std::io::stderr(), "cozyvtt-shim: {}", trouble.what());
        }
        for request in due {
            let fate = Fate::of_sent(request.method);
            self.client
                .say(&answer::failure(Some(&request.id), trouble, fate));
        }
        self.state().speaking = false;
        self.changed.notify_all();
    }

    /// Says a line of the daemon to the client; it may be what `request` was
    /// waiting for.
    pub(crate) fn relay(&self, line: &[u8], request: Option<&Id>) {
        self.state().speaking = true;
        self.client.say(line);
        let mut state = self.state();
        state.speaking = false;
        if let Some(id) = request {
            state.outstanding.take(id);
        }
        drop(state);
        self.changed.notify_all();
    }
}
