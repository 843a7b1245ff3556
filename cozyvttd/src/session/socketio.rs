//! One Socket.IO connection over one WebSocket, from the handshake to its end.
//!
//! The handshake goes through the session's HTTP client, so that cookies, TLS
//! and proxies follow one rule; from then on the packets are our own.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use reqwest::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use reqwest::{StatusCode, Upgraded};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message as Frame};

use super::http::{self, network_cause};
use super::packet::{Kind, Message, Packet};
use crate::config::BaseUrl;

/// How long each step of the handshake and each send may take.
const STEP: Duration = Duration::from_secs(10);

/// Largest frame that is taken from the server: a whole map with its walls is
/// the largest thing it sends.
const MAX_FRAME: usize = 16 * 1024 * 1024;

/// Longest part of an unreadable frame that is quoted, in characters.
const QUOTE: usize = 80;

/// Why a connection did not come about or has ended.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SocketError {
    /// The HTTP request of the handshake got no answer.
    #[error("WebSocket handshake: {0}")]
    Network(String),
    /// The handshake was answered with something else than a WebSocket.
    #[error("WebSocket handshake: the server answered HTTP {status}: {text}")]
    NoUpgrade {
        /// The status.
        status: u16,
        /// The server's words.
        text: String,
    },
    /// A step of the handshake took too long.
    #[error("{0} timed out")]
    Slow(&'static str),
    /// The server refused the Socket.IO namespace.
    #[error("the server refused the Socket.IO connection: {0}")]
    Namespace(String),
    /// The server sent what no Engine.IO v4 server sends.
    #[error("the server sent an unreadable frame ({what}): {quote}")]
    Garbage {
        /// What is wrong with it.
        what: String,
        /// Its beginning.
        quote: String,
    },
    /// Nothing came for as long as the server itself allows.
    #[error("the connection is dead: nothing came for {0} s")]
    Silent(u64),
    /// The server ended the Socket.IO connection.
    #[error("the server disconnected this client")]
    Disconnected,
    /// The WebSocket was closed or broke.
    #[error("the WebSocket ended: {0}")]
    Closed(String),
    /// The event is larger than the server takes.
    #[error("the event is larger than the {0} bytes that the server accepts")]
    TooLarge(usize),
}

/// The server's parameters, from its first packet.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Open {
    ping_interval: u64,
    ping_timeout: u64,
    #[serde(default)]
    max_payload: Option<usize>,
}

/// An event of the server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerEvent {
    /// Its name.
    pub name: String,
    /// Its argument: `null` without one, an array when there are several.
    pub payload: Value,
}

/// A connection that has joined the default namespace.
#[derive(Debug)]
pub struct Connection {
    ws: WebSocketStream<Upgraded>,
    /// How long silence may last: the server's ping interval and time-out.
    silence: Duration,
    heard: Instant,
    max_payload: usize,
    /// A heartbeat that is not answered yet. It is kept here so that a receive
    /// that is abandoned half-way does not lose it.
    pong: Option<String>,
}

impl Connection {
    /// Connects to the instance at `base` and joins the default namespace.
    ///
    /// # Errors
    ///
    /// [`SocketError`].
    pub async fn open(http: &reqwest::Client, base: &BaseUrl) -> Result<Self, SocketError> {
        let ws = timeout(STEP, upgrade(http, base))
            .await
            .map_err(|_| SocketError::Slow("WebSocket handshake"))??;
        let mut connection = Self {
            ws,
            silence: STEP,
            heard: Instant::now(),
            max_payload: MAX_FRAME,
            pong: None,
        };
        timeout(STEP, connection.join())
            .await
            .map_err(|_| SocketError::Slow("Socket.IO connection"))??;
        Ok(connection)
    }

    async fn join(&mut self) -> Result<(), SocketError> {
        let frame = self.frame().await?;
        let Ok(Packet::Open(parameters)) = Packet::decode(&frame) else {
            return Err(garbage("no Engine.IO open packet", &frame));
        };
        let open: Open = serde_json::from_str(&parameters)
            .map_err(|error| garbage(&error.to_string(), &frame))?;
        self.silence = Duration::from_millis(open.ping_interval.saturating_add(open.ping_timeout));
        self.max_payload = open.max_payload.unwrap_or(MAX_FRAME);
        self.send(&Packet::Message(Message::new(Kind::Connect, "")))
            .await?;
        loop {
            let message = self.message().await?;
            match message.kind {
                Kind::Connect => return Ok(()),
                Kind::ConnectError => {
                    return Err(SocketError::Namespace(message.payload.into_owned()));
                }
                Kind::Disconnect => return Err(SocketError::Disconnected),
                _ => {}
            }
        }
    }

    /// The next event. Heartbeats are answered on the way. May be abandoned and
    /// called again without losing anything.
    ///
    /// # Errors
    ///
    /// [`SocketError`] when the connection has ended.
    pub async fn next(&mut self) -> Result<ServerEvent, SocketError> {
        loop {
            let message = self.message().await?;
            match message.kind {
                Kind::Event => return event(&message.payload),
                Kind::Disconnect => return Err(SocketError::Disconnected),
                // CozyVTT acknowledges nothing and sends nothing binary.
                Kind::Connect
                | Kind::Ack
                | Kind::ConnectError
                | Kind::BinaryEvent
                | Kind::BinaryAck => {
                    tracing::warn!(kind = ?message.kind, "ignoring a Socket.IO packet of a kind CozyVTT does not send");
                }
            }
        }
    }

    /// Sends an event; without a payload when `payload` is `null`.
    ///
    /// # Errors
    ///
    /// [`SocketError::TooLarge`] before anything is sent; any other error means
    /// that the event may or may not have arrived.
    pub async fn emit(&mut self, name: &str, payload: &Value) -> Result<(), SocketError> {
        let arguments = if payload.is_null() {
            serde_json::json!([name])
        } else {
            serde_json::json!([name, payload])
        };
        self.send(&Packet::Message(Message::new(
            Kind::Event,
            arguments.to_string(),
        )))
        .await
    }

    /// Says goodbye; errors no longer matter.
    pub async fn close(mut self) {
        let goodbye = async {
            let leave = Packet::Message(Message::new(Kind::Disconnect, ""));
            let _ = self.ws.send(Frame::text(leave.encode())).await;
            let _ = self.ws.close(None).await;
        };
        let _ = timeout(STEP, goodbye).await;
    }

    async fn message(&mut self) -> Result<Message<'static>, SocketError> {
        loop {
            if let Some(text) = &self.pong {
                let pong = Packet::Pong(text.into()).encode();
                self.write(pong).await?;
                self.pong = None;
            }
            let frame = self.frame().await?;
            match Packet::decode(&frame) {
                Ok(Packet::Ping(text)) => self.pong = Some(text.into_owned()),
                Ok(Packet::Message(message)) => {
                    // Other namespaces are not ours; CozyVTT has none.
                    if message.namespace == "/" {
                        return Ok(Message {
                            namespace: "/".into(),
                            payload: message.payload.into_owned().into(),
                            ..message
                        });
                    }
                    tracing::warn!(namespace = %message.namespace, "ignoring a packet of a foreign namespace");
                }
                Ok(Packet::Close) => return Err(SocketError::Closed("by the server".to_owned())),
                Ok(Packet::Open(_) | Packet::Pong(_) | Packet::Upgrade | Packet::Noop) => {}
                Err(error) => return Err(garbage(&error.to_string(), &frame)),
            }
        }
    }

    async fn frame(&mut self) -> Result<String, SocketError> {
        loop {
            let frame = timeout_at(self.heard + self.silence, self.ws.next())
                .await
                .map_err(|_| SocketError::Silent(self.silence.as_secs()))?
                .ok_or_else(|| SocketError::Closed("without a word".to_owned()))?
                .map_err(|error| broken(&error))?;
            self.heard = Instant::now();
            match frame {
                Frame::Text(text) => return Ok(text.as_str().to_owned()),
                Frame::Close(frame) => return Err(closed(frame)),
                Frame::Binary(bytes) => {
                    tracing::warn!(
                        bytes = bytes.len(),
                        "ignoring a binary frame; CozyVTT sends none"
                    );
                }
                Frame::Ping(_) | Frame::Pong(_) | Frame::Frame(_) => {}
            }
        }
    }

    async fn send(&mut self, packet: &Packet<'_>) -> Result<(), SocketError> {
        let text = packet.encode();
        if text.len() > self.max_payload {
            return Err(SocketError::TooLarge(self.max_payload));
        }
        self.write(text).await
    }

    async fn write(&mut self, text: String) -> Result<(), SocketError> {
        timeout(STEP, self.ws.send(Frame::text(text)))
            .await
            .map_err(|_| SocketError::Slow("sending to the server"))?
            .map_err(|error| broken(&error))
    }
}

async fn upgrade(
    http: &reqwest::Client,
    base: &BaseUrl,
) -> Result<WebSocketStream<Upgraded>, SocketError> {
    let key = generate_key();
    let response = http
        .get(base.under(["socket.io", ""]))
        .query(&[("EIO", "4"), ("transport", "websocket")])
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "websocket")
        .header(SEC_WEBSOCKET_VERSION, "13")
        .header(SEC_WEBSOCKET_KEY, &key)
        .send()
        .await
        .map_err(|error| SocketError::Network(network_cause(&error)))?;
    let status = response.status();
    if status != StatusCode::SWITCHING_PROTOCOLS {
        let body = http::body(response, http::MAX_BODY)
            .await
            .unwrap_or_default();
        let json = serde_json::from_slice(&body).ok();
        return Err(SocketError::NoUpgrade {
            status: status.as_u16(),
            text: http::message(json.as_ref(), &body, status),
        });
    }
    let accept = response.headers().get(SEC_WEBSOCKET_ACCEPT);
    if accept.is_none_or(|accept| accept.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes())
    {
        return Err(SocketError::NoUpgrade {
            status: status.as_u16(),
            text: "the Sec-WebSocket-Accept header is missing or wrong".to_owned(),
        });
    }
    let stream = response
        .upgrade()
        .await
        .map_err(|error| SocketError::Network(network_cause(&error)))?;
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_FRAME))
        .max_frame_size(Some(MAX_FRAME));
    Ok(WebSocketStream::from_raw_socket(stream, Role::Client, Some(config)).await)
}

fn event(payload: &str) -> Result<ServerEvent, SocketError> {
    let arguments: Vec<Value> =
        serde_json::from_str(payload).map_err(|error| garbage(&error.to_string(), payload))?;
    let mut arguments = arguments.into_iter();
    let Some(Value::String(name)) = arguments.next() else {
        return Err(garbage("an event without a name", payload));
    };
    let mut rest: Vec<Value> = arguments.collect();
    let payload = match rest.len() {
        0 => Value::Null,
        1 => rest.remove(0),
        _ => Value::Array(rest),
    };
    Ok(ServerEvent { name, payload })
}

fn garbage(what: &str, frame: &str) -> SocketError {
    SocketError::Garbage {
        what: what.to_owned(),
        quote: frame.chars().take(QUOTE).collect(),
    }
}

fn broken(error: &tungstenite::Error) -> SocketError {
    SocketError::Closed(error.to_string())
}

fn closed(frame: Option<CloseFrame>) -> SocketError {
    SocketError::Closed(frame.map_or_else(
        || "closed by the server".to_owned(),
        |frame| format!("closed by the server, code {}", u16::from(frame.code)),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_has_a_name_and_what_came_with_it() {
        let read = |text| event(text).map(|event| (event.name, event.payload));
        assert_eq!(
            read(r#"["dice.historyCleared"]"#),
            Ok(("dice.historyCleared".into(), Value::Null))
        );
        assert_eq!(read(r#"["a",{"b":1}]"#), Ok(("a".into(), json!({"b": 1}))));
        assert_eq!(read(r#"["a",1,2]"#), Ok(("a".into(), json!([1, 2]))));
    }

    #[test]
    fn an_event_without_a_name_or_without_json_is_garbage() {
        for text in ["[5]", "[]", "{}", r#"{"oops""#, ""] {
            assert!(
                matches!(event(text), Err(SocketError::Garbage { .. })),
                "{text}"
            );
        }
    }
}
