//! The relay between the network and the HTTP server: it sees what really goes
//! over the wire, so it writes the socket log, plays the faults that break
//! lines, and evens out where socketioxide differs from the real server.
//!
//! These differences are evened out here: socketioxide pings at once after the
//! handshake (the real server waits one interval), it keeps the WebSocket open
//! after it sent `41`, it does not close with 1009 for an overlong message, and
//! it has other ideas of which odd frames end a connection.

mod carry;
mod frame;
mod line;
mod manners;

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum_server::accept::Accept;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::TcpStream;

use carry::carry;
pub(crate) use line::Line;
use line::Order;

use crate::lock;
use crate::log::Log;

/// How much a direction of a connection holds before its writer has to wait.
const BUFFER: usize = 64 * 1024;

/// All open connections.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    open: Mutex<HashMap<u64, Arc<Line>>>,
    next: AtomicU64,
}

impl Lines {
    fn open(&self, peer: SocketAddr) -> (Arc<Line>, line::Orders) {
        let id = self.next.fetch_add(1, Ordering::SeqCst) + 1;
        let (line, orders) = Line::new(id, peer);
        let line = Arc::new(line);
        lock(&self.open).insert(id, line.clone());
        (line, orders)
    }

    fn close(&self, id: u64) {
        lock(&self.open).remove(&id);
    }

    fn all(&self) -> Vec<Arc<Line>> {
        lock(&self.open).values().cloned().collect()
    }

    /// The open connection from `peer`.
    pub(crate) fn of_peer(&self, peer: SocketAddr) -> Option<Arc<Line>> {
        lock(&self.open)
            .values()
            .find(|line| line.peer() == peer)
            .cloned()
    }

    /// Cuts every connection.
    pub(crate) fn cut_all(&self) {
        for line in self.all() {
            line.cut();
        }
    }

    /// Cuts every WebSocket.
    pub(crate) fn cut_websockets(&self) {
        for line in self.all() {
            if line.is_websocket() {
                line.cut();
            }
        }
    }

    /// Sends a text frame on every WebSocket.
    pub(crate) fn send_all(&self, text: &str) {
        for line in self.all() {
            if line.is_websocket() {
                line.order(Order::Text(text.to_owned()));
            }
        }
    }

    /// Sends a text frame on the WebSocket of one socket.
    pub(crate) fn send_to(&self, socket: &str, text: &str) {
        for line in self.all() {
            if line.socket().as_deref() == Some(socket) {
                line.order(Order::Text(text.to_owned()));
            }
        }
    }

    /// Closes the WebSockets of the connections `pick` takes, politely.
    pub(crate) fn close_websockets(&self, pick: impl Fn(&Line) -> bool) {
        for line in self.all() {
            if line.is_websocket() && pick(&line) {
                line.order(Order::Close(None));
            }
        }
    }
}

/// Decides whether a new connection is taken at all.
pub(crate) type Gate = Arc<dyn Fn() -> bool + Send + Sync>;

/// Puts the relay between an accepted connection and the HTTP server.
#[derive(Clone)]
pub(crate) struct RelayAcceptor<A> {
    pub(crate) inner: A,
    pub(crate) lines: Arc<Lines>,
    pub(crate) log: Log,
    pub(crate) refuses: Gate,
    /// The longest message a client may send, in bytes.
    pub(crate) max_payload: u64,
}

impl<A> RelayAcceptor<A> {
    /// The same relay around another acceptor.
    pub(crate) fn around<B>(self, inner: B) -> RelayAcceptor<B> {
        RelayAcceptor {
            inner,
            lines: self.lines,
            log: self.log,
            refuses: self.refuses,
            max_payload: self.max_payload,
        }
    }
}

impl<A, S> Accept<TcpStream, S> for RelayAcceptor<A>
where
    A: Accept<TcpStream, S>,
    A::Stream: AsyncRead + AsyncWrite + Send + 'static,
    A::Service: Send + 'static,
    A::Future: Send + 'static,
{
    type Stream = DuplexStream;
    type Service = A::Service;
    type Future = Pin<Box<dyn Future<Output = io::Result<(Self::Stream, Self::Service)>> + Send>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        if (self.refuses)() {
            drop(stream);
            return Box::pin(std::future::ready(Err(
                io::ErrorKind::ConnectionAborted.into()
            )));
        }
        let peer = stream.peer_addr();
        let accepted = self.inner.accept(stream, service);
        let lines = self.lines.clone();
        let log = self.log.clone();
        let max_payload = self.max_payload;
        Box::pin(async move {
            let (outside, service) = accepted.await?;
            let (inside, server_side) = tokio::io::duplex(BUFFER);
            let (line, orders) = lines.open(peer?);
            tokio::spawn(async move {
                carry(outside, inside, &line, orders, &log, max_payload).await;
                lines.close(line.id());
            });
            Ok((server_side, service))
        })
    }
}
