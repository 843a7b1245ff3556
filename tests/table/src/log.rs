//! What went over the wire: every HTTP exchange and every socket frame.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::lock;

/// The oldest entries are forgotten beyond this many of a kind, so that a
/// practice table can stay up for days.
const KEEP: usize = 20_000;

/// One HTTP request and the status it was answered with.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// When the request was answered.
    pub at: Instant,
    /// The method, upper case.
    pub method: String,
    /// The path, without the table's base path.
    pub path: String,
    /// The query, without its question mark.
    pub query: Option<String>,
    /// The request's header fields, names lower case.
    pub headers: Vec<(String, String)>,
    /// Whether the request carried the session cookie.
    pub has_cookie: bool,
    /// The id of the user the session belongs to.
    pub user_id: Option<String>,
    /// The request's body as text.
    pub body: String,
    /// The status of the answer; 0 when the line was cut instead.
    pub status: u16,
}

impl Exchange {
    /// The first request header of that name (any case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The request's body as JSON; null when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }
}

/// Which way a frame went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the table.
    In,
    /// From the table to the client.
    Out,
}

/// One WebSocket frame.
#[derive(Debug, Clone)]
pub struct Frame {
    /// When it passed.
    pub at: Instant,
    /// Which way it went.
    pub direction: Direction,
    /// The number of the connection, counted from 1.
    pub line: u64,
    /// The Socket.IO id, once the client was told one.
    pub socket: Option<String>,
    /// The id of the user whose session opened the connection.
    pub user_id: Option<String>,
    /// The text as it went over the wire, such as `42["ping"]`; control frames
    /// read `close 1000` and the like.
    pub text: String,
    /// The event's name, when the frame carries one.
    pub event: Option<String>,
    /// The event's first argument, null when there is none.
    pub payload: Value,
}

#[derive(Default)]
struct Entries {
    exchanges: VecDeque<Exchange>,
    frames: VecDeque<Frame>,
}

struct Inner {
    entries: Mutex<Entries>,
    changed: watch::Sender<u64>,
}

/// The record of everything that went over the wire. Clones share it.
#[derive(Clone)]
pub struct Log(Arc<Inner>);

impl Default for Log {
    fn default() -> Self {
        Self(Arc::new(Inner {
            entries: Mutex::default(),
            changed: watch::Sender::new(0),
        }))
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let entries = lock(&self.0.entries);
        f.debug_struct("Log")
            .field("exchanges", &entries.exchanges.len())
            .field("frames", &entries.frames.len())
            .finish()
    }
}

impl Log {
    /// Every HTTP request so far, the WebSocket handshakes included, oldest first.
    pub fn requests(&self) -> Vec<Exchange> {
        lock(&self.0.entries).exchanges.iter().cloned().collect()
    }

    /// The requests of one method and path.
    pub fn requests_to(&self, method: &str, path: &str) -> Vec<Exchange> {
        let mut requests = self.requests();
        requests.retain(|one| one.method == method && one.path == path);
        requests
    }

    /// How often `method` was asked of `path`.
    pub fn count(&self, method: &str, path: &str) -> usize {
        self.requests_to(method, path).len()
    }

    /// Every WebSocket frame so far, oldest first. Frames of the polling
    /// transport are found in the requests instead.
    pub fn frames(&self) -> Vec<Frame> {
        lock(&self.0.entries).frames.iter().cloned().collect()
    }

    /// The events of that name clients sent.
    pub fn events_in(&self, event: &str) -> Vec<Frame> {
        self.events(Direction::In, event)
    }

    /// The events of that name clients were sent, once for each receiver.
    pub fn events_out(&self, event: &str) -> Vec<Frame> {
        self.events(Direction::Out, event)
    }

    fn events(&self, direction: Direction, event: &str) -> Vec<Frame> {
        let mut frames = self.frames();
        frames.retain(|one| one.direction == direction && one.event.as_deref() == Some(event));
        frames
    }

    /// Forgets everything so far.
    pub fn clear(&self) {
        *lock(&self.0.entries) = Entries::default();
    }

    /// Waits until `predicate` holds, looking again after every entry and after
    /// every change on the table, so it may ask the [`Table`](crate::Table), too.
    /// Answers false when `timeout` passed first.
    #[must_use = "false means that it never came about"]
    pub async fn wait_for(&self, predicate: impl Fn(&Self) -> bool, timeout: Duration) -> bool {
        let mut changed = self.0.changed.subscribe();
        let deadline = Instant::now() + timeout;
        loop {
            if predicate(self) {
                return true;
            }
            // The sender lives in `self`, so only the clock can end this.
            if tokio::time::timeout_at(deadline, changed.changed())
                .await
                .is_err()
            {
                return predicate(self);
            }
        }
    }

    pub(crate) fn exchange(&self, exchange: Exchange) {
        let mut entries = lock(&self.0.entries);
        if entries.exchanges.len() == KEEP {
            entries.exchanges.pop_front();
        }
        entries.exchanges.push_back(exchange);
        drop(entries);
        self.touch();
    }

    pub(crate) fn frame(&self, frame: Frame) {
        let mut entries = lock(&self.0.entries);
        if entries.frames.len() == KEEP {
            entries.frames.pop_front();
        }
        entries.frames.push_back(frame);
        drop(entries);
        self.touch();
    }

    /// Wakes those who wait for something the log only reflects, such as the
    /// state of the world.
    pub(crate) fn touch(&self) {
        self.0
            .changed
            .send_modify(|turn| *turn = turn.wrapping_add(1));
    }
}
