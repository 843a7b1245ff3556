//! Engine.IO v4 and Socket.IO v5 packets, as text frames of a WebSocket.
//!
//! Payloads stay the raw text that came, so a packet that is read and written
//! again is the same to the byte. Source: the Engine.IO v4 and Socket.IO v5
//! protocol documents; checked against captured frames of a real server.

use std::borrow::Cow;
use std::fmt::Write as _;

use thiserror::Error;

/// One Engine.IO packet. Each variant holds what follows the packet's digit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet<'a> {
    /// `0`: the server's parameters, a JSON object.
    Open(Cow<'a, str>),
    /// `1`: the peer closes the transport.
    Close,
    /// `2`: heartbeat; the text (`probe` during an upgrade) is echoed.
    Ping(Cow<'a, str>),
    /// `3`: answer to a heartbeat.
    Pong(Cow<'a, str>),
    /// `4`: a Socket.IO packet.
    Message(Message<'a>),
    /// `5`: the end of an upgrade.
    Upgrade,
    /// `6`: nothing.
    Noop,
}

/// One Socket.IO packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message<'a> {
    /// What it is.
    pub kind: Kind,
    /// Count of binary attachments, for the two binary kinds.
    pub attachments: u32,
    /// The namespace; `/` is not written.
    pub namespace: Cow<'a, str>,
    /// The acknowledgement id, if one is asked for or given.
    pub ack: Option<u64>,
    /// The JSON payload as it came, empty when there is none.
    pub payload: Cow<'a, str>,
}

/// The kinds of Socket.IO packets, by their digit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `0`: join a namespace, or its confirmation.
    Connect,
    /// `1`: leave a namespace.
    Disconnect,
    /// `2`: an event.
    Event,
    /// `3`: an acknowledgement.
    Ack,
    /// `4`: the namespace was refused.
    ConnectError,
    /// `5`: an event with binary attachments.
    BinaryEvent,
    /// `6`: an acknowledgement with binary attachments.
    BinaryAck,
}

const KINDS: [Kind; 7] = [
    Kind::Connect,
    Kind::Disconnect,
    Kind::Event,
    Kind::Ack,
    Kind::ConnectError,
    Kind::BinaryEvent,
    Kind::BinaryAck,
];

/// The frame is no packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PacketError {
    /// The frame is empty.
    #[error("an empty frame")]
    Empty,
    /// The first character is no Engine.IO packet type.
    #[error("a frame that starts with no Engine.IO packet type")]
    EngineType,
    /// The second character is no Socket.IO packet type.
    #[error("a message with no Socket.IO packet type")]
    SocketType,
    /// A binary kind without its count, or a count or ack id that is too large.
    #[error("a message with a malformed number")]
    Number,
    /// A packet that cannot have text has some.
    #[error("text after a packet that has none")]
    Trailing,
}

impl<'a> Packet<'a> {
    /// Reads a text frame.
    ///
    /// # Errors
    ///
    /// [`PacketError`] when the frame is no packet; the payload is not looked at.
    pub fn decode(frame: &'a str) -> Result<Self, PacketError> {
        let mut chars = frame.chars();
        let kind = chars.next().ok_or(PacketError::Empty)?;
        let rest = chars.as_str();
        let bare = |packet| {
            if rest.is_empty() {
                Ok(packet)
            } else {
                Err(PacketError::Trailing)
            }
        };
        match kind {
            '0' => Ok(Self::Open(rest.into())),
            '1' => bare(Self::Close),
            '2' => Ok(Self::Ping(rest.into())),
            '3' => Ok(Self::Pong(rest.into())),
            '4' => Message::decode(rest).map(Self::Message),
            '5' => bare(Self::Upgrade),
            '6' => bare(Self::Noop),
            _ => Err(PacketError::EngineType),
        }
    }

    /// Writes the packet as a text frame.
    pub fn encode(&self) -> String {
        match self {
            Self::Open(text) => format!("0{text}"),
            Self::Close => "1".to_owned(),
            Self::Ping(text) => format!("2{text}"),
            Self::Pong(text) => format!("3{text}"),
            Self::Message(message) => message.encode(),
            Self::Upgrade => "5".to_owned(),
            Self::Noop => "6".to_owned(),
        }
    }
}

impl<'a> Message<'a> {
    /// A message of the default namespace.
    pub fn new(kind: Kind, payload: impl Into<Cow<'a, str>>) -> Self {
        Self {
            kind,
            attachments: 0,
            namespace: "/".into(),
            ack: None,
            payload: payload.into(),
        }
    }

    fn decode(text: &'a str) -> Result<Self, PacketError> {
        let mut chars = text.chars();
        let kind = chars
            .next()
            .and_then(|digit| digit.to_digit(10))
            .and_then(|digit| KINDS.get(digit as usize))
            .copied()
            .ok_or(PacketError::SocketType)?;
        let mut rest = chars.as_str();
        let mut attachments = 0;
        if matches!(kind, Kind::BinaryEvent | Kind::BinaryAck) {
            let (count, after) = rest.split_once('-').ok_or(PacketError::Number)?;
            attachments = number(count)?;
            rest = after;
        }
        let mut namespace = "/";
        if rest.starts_with('/') {
            // The comma may be missing when nothing follows.
            (namespace, rest) = rest.split_once(',').unwrap_or((rest, ""));
        }
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (ack, payload) = rest.split_at(digits);
        let ack = if ack.is_empty() {
            None
        } else {
            Some(number(ack)?)
        };
        Ok(Self {
            kind,
            attachments,
            namespace: namespace.into(),
            ack,
            payload: payload.into(),
        })
    }

    fn encode(&self) -> String {
        let mut frame = String::with_capacity(self.payload.len() + 8);
        let digit = KINDS.iter().position(|kind| *kind == self.kind);
        // Writing to a String cannot fail.
        let _ = write!(frame, "4{}", digit.unwrap_or_default());
        if matches!(self.kind, Kind::BinaryEvent | Kind::BinaryAck) {
            let _ = write!(frame, "{}-", self.attachments);
        }
        if self.namespace != "/" {
            frame.push_str(&self.namespace);
            frame.push(',');
        }
        if let Some(ack) = self.ack {
            let _ = write!(frame, "{ack}");
        }
        frame.push_str(&self.payload);
        frame
    }
}

/// A decimal number without leading zeros, so that writing it gives the same text.
fn number<T: std::str::FromStr>(text: &str) -> Result<T, PacketError> {
    if text.len() > 1 && text.starts_with('0') {
        return Err(PacketError::Number);
    }
    text.parse().map_err(|_| PacketError::Number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_parts_of_a_message_are_told_apart() {
        let frame = r#"451-/admin,17["a",{"_placeholder":true,"num":0}]"#;
        let Ok(Packet::Message(message)) = Packet::decode(frame) else {
            panic!("no message");
        };
        assert_eq!(message.kind, Kind::BinaryEvent);
        assert_eq!(message.attachments, 1);
        assert_eq!(message.namespace, "/admin");
        assert_eq!(message.ack, Some(17));
        assert_eq!(message.payload, r#"["a",{"_placeholder":true,"num":0}]"#);
        assert_eq!(Packet::Message(message).encode(), frame);
    }

    #[test]
    fn what_a_real_server_hangs_up_on_is_no_packet() {
        assert_eq!(Packet::decode(""), Err(PacketError::Empty));
        assert_eq!(Packet::decode("hello"), Err(PacketError::EngineType));
        assert_eq!(Packet::decode("9"), Err(PacketError::EngineType));
        assert_eq!(Packet::decode("4"), Err(PacketError::SocketType));
        assert_eq!(Packet::decode("48"), Err(PacketError::SocketType));
        assert_eq!(Packet::decode("45[]"), Err(PacketError::Number));
        assert_eq!(
            Packet::decode("4299999999999999999999[]"),
            Err(PacketError::Number)
        );
        assert_eq!(Packet::decode("1x"), Err(PacketError::Trailing));
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics_and_what_is_read_is_written_back(frame in ".{0,200}") {
            if let Ok(packet) = Packet::decode(&frame) {
                let written = packet.encode();
                let again = Packet::decode(&written);
                prop_assert_eq!(again.as_ref(), Ok(&packet));
            }
        }

        #[test]
        fn text_that_looks_like_a_packet_never_panics(
            frame in "[0-6][0-6]?([0-9]{0,22}-)?(/[a-z]{0,5},?)?[0-9]{0,22}[\\[{\"]?.{0,20}"
        ) {
            if let Ok(packet) = Packet::decode(&frame) {
                let written = packet.encode();
                let again = Packet::decode(&written);
                prop_assert_eq!(again.as_ref(), Ok(&packet));
            }
        }

        #[test]
        fn an_event_of_any_payload_survives(payload in "\\[.{0,100}\\]", ack in proptest::option::of(any::<u64>())) {
            let mut message = Message::new(Kind::Event, payload);
            message.ack = ack;
            let packet = Packet::Message(message);
            let written = packet.encode();
            let again = Packet::decode(&written);
            prop_assert_eq!(again.as_ref(), Ok(&packet));
        }
    }
}
