//! One connection: what is known about it, and what can be asked of it.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use crate::lock;
use crate::log::{Direction, Frame, Log};

/// What the server side can ask of the relay.
#[derive(Debug)]
pub(crate) enum Order {
    /// Send a text frame to the client.
    Text(String),
    /// Send a close frame to the client, then wait for its farewell. Without a
    /// code the frame is empty, as those of a real server are.
    Close(Option<u16>),
    /// Drop the connection.
    Cut,
}

pub(super) type Orders = UnboundedReceiver<Order>;

#[derive(Debug, Default)]
struct Known {
    user_id: Option<String>,
    socket: Option<String>,
}

/// One open connection.
#[derive(Debug)]
pub(crate) struct Line {
    id: u64,
    peer: SocketAddr,
    known: Mutex<Known>,
    websocket: AtomicBool,
    /// The WebSocket takes over a session that began by polling.
    upgrade: AtomicBool,
    cut_next_answer: AtomicBool,
    orders: UnboundedSender<Order>,
}

impl Line {
    pub(super) fn new(id: u64, peer: SocketAddr) -> (Self, Orders) {
        let (orders, inbox) = unbounded_channel();
        let line = Self {
            id,
            peer,
            known: Mutex::default(),
            websocket: AtomicBool::new(false),
            upgrade: AtomicBool::new(false),
            cut_next_answer: AtomicBool::new(false),
            orders,
        };
        (line, inbox)
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Whether the connection was switched to a WebSocket.
    pub(crate) fn is_websocket(&self) -> bool {
        self.websocket.load(Ordering::SeqCst)
    }

    /// The next answer is the one that switches to a WebSocket, opened with a
    /// session of `user_id`, perhaps as the `upgrade` of a polling session.
    pub(crate) fn becomes_websocket(&self, user_id: Option<String>, upgrade: bool) {
        lock(&self.known).user_id = user_id;
        self.upgrade.store(upgrade, Ordering::SeqCst);
        self.websocket.store(true, Ordering::SeqCst);
    }

    /// The user whose session opened the WebSocket.
    pub(crate) fn user_id(&self) -> Option<String> {
        lock(&self.known).user_id.clone()
    }

    /// Whether the WebSocket takes over a session that began by polling.
    pub(super) fn is_upgrade(&self) -> bool {
        self.upgrade.load(Ordering::SeqCst)
    }

    /// The client was told its Socket.IO id.
    pub(super) fn name_socket(&self, socket: Option<String>) {
        lock(&self.known).socket = socket;
    }

    /// The Socket.IO id of the WebSocket, once given.
    pub(crate) fn socket(&self) -> Option<String> {
        lock(&self.known).socket.clone()
    }

    /// The next answer stops half-way through its body, and the line with it.
    pub(crate) fn cut_next_answer(&self) {
        self.cut_next_answer.store(true, Ordering::SeqCst);
    }

    /// Whether the next answer is to be cut.
    pub(super) fn cuts_next_answer(&self) -> bool {
        self.cut_next_answer.load(Ordering::SeqCst)
    }

    /// Drops the connection.
    pub(crate) fn cut(&self) {
        self.order(Order::Cut);
    }

    pub(crate) fn order(&self, order: Order) {
        // Fails only when the connection has already ended.
        self.orders.send(order).ok();
    }

    /// Writes a frame into the log.
    pub(super) fn note(&self, log: &Log, direction: Direction, text: String) {
        let (event, payload) = event_of(&text).unzip();
        let known = lock(&self.known);
        let frame = Frame {
            at: Instant::now(),
            direction,
            line: self.id,
            socket: known.socket.clone(),
            user_id: known.user_id.clone(),
            text,
            event,
            payload: payload.unwrap_or_default(),
        };
        drop(known);
        log.frame(frame);
    }
}

/// The name and first argument of a Socket.IO event of the root namespace.
fn event_of(text: &str) -> Option<(String, Value)> {
    let packet = text.strip_prefix("42")?;
    let list = packet.trim_start_matches(|c: char| c.is_ascii_digit());
    let Ok(Value::Array(mut parts)) = serde_json::from_str(list) else {
        return None;
    };
    let payload = parts.get_mut(1).map(Value::take).unwrap_or_default();
    Some((parts.first()?.as_str()?.to_owned(), payload))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_read_with_and_without_arguments_and_ack_ids() {
        assert_eq!(
            event_of(r#"42["ping"]"#),
            Some(("ping".to_owned(), Value::Null))
        );
        assert_eq!(
            event_of(r#"4217["chat.message",{"content":"hi"}]"#),
            Some(("chat.message".to_owned(), json!({"content": "hi"})))
        );
        assert_eq!(event_of("40"), None);
        assert_eq!(event_of("42{"), None);
    }
}
