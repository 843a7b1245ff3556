//! The packet codec against every frame that was captured from a real server.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use cozyvtt_tests::captures::{Side, section, sections};
use cozyvttd::session::packet::{Kind, Packet, PacketError};
use serde_json::Value;

/// What the watched client sent to see how the server takes what is no packet.
const NO_PACKETS: [(&str, PacketError); 2] = [
    ("hello", PacketError::EngineType),
    ("9", PacketError::EngineType),
];

/// The same for packets that carry no event.
const NO_EVENTS: [&str; 3] = [r#"42{"oops""#, "42[5]", "42{}"];

#[test]
fn every_captured_frame_is_read_and_written_back_to_the_byte() {
    let mut refused = Vec::new();
    for section in sections() {
        for frame in &section.frames {
            match Packet::decode(frame.text) {
                Ok(packet) => assert_eq!(packet.encode(), frame.text, "{}", section.title),
                Err(error) => {
                    assert_eq!(
                        frame.from,
                        Side::Client,
                        "{}: {}",
                        section.title,
                        frame.text
                    );
                    refused.push((frame.text, error));
                }
            }
        }
    }
    assert_eq!(refused, NO_PACKETS);
}

#[test]
fn the_captures_hold_what_they_are_known_to_hold() {
    let mut counts = BTreeMap::new();
    for frame in sections().iter().flat_map(|section| &section.frames) {
        let kind = match Packet::decode(frame.text) {
            Ok(Packet::Open(_)) => "open",
            Ok(Packet::Close) => "close",
            Ok(Packet::Ping(_)) => "ping",
            Ok(Packet::Pong(_)) => "pong",
            Ok(Packet::Upgrade) => "upgrade",
            Ok(Packet::Noop) => "noop",
            Ok(Packet::Message(message)) => match message.kind {
                Kind::Connect => "connect",
                Kind::Disconnect => "disconnect",
                Kind::Event => "event",
                Kind::ConnectError => "refusal",
                Kind::Ack | Kind::BinaryEvent | Kind::BinaryAck => "never sent",
            },
            Err(_) => "none",
        };
        *counts.entry(kind).or_insert(0) += 1;
    }
    let expected = BTreeMap::from([
        ("open", 37),
        ("close", 1),
        ("ping", 14),
        ("pong", 12),
        ("upgrade", 1),
        ("connect", 72),
        ("disconnect", 5),
        ("refusal", 1),
        ("event", 786),
        ("none", 2),
    ]);
    assert_eq!(sections().len(), 38);
    assert_eq!(counts, expected);
}

#[test]
fn every_captured_event_has_a_name_and_its_payload_stays_the_text_it_was() {
    let mut nameless = Vec::new();
    for frame in sections().iter().flat_map(|section| &section.frames) {
        let Ok(Packet::Message(message)) = Packet::decode(frame.text) else {
            continue;
        };
        if message.kind != Kind::Event {
            continue;
        }
        assert!(frame.text.ends_with(message.payload.as_ref()));
        let arguments: Option<Vec<Value>> = serde_json::from_str(&message.payload).ok();
        let name = arguments.and_then(|arguments| arguments.first()?.as_str().map(str::len));
        match name {
            Some(length) => assert!(length > 0, "{}", frame.text),
            None => nameless.push(frame.text),
        }
    }
    assert_eq!(nameless, NO_EVENTS);
}

#[test]
fn the_rarer_parts_of_a_packet_are_found_where_they_stand() -> Result<()> {
    let asked = section("ack id on an event");
    let asked = asked.frames.iter().find(|frame| frame.text.contains("17["));
    let Packet::Message(asked) = Packet::decode(asked.context("no ack id")?.text)? else {
        anyhow::bail!("no message");
    };
    assert_eq!((asked.kind, asked.ack), (Kind::Event, Some(17)));
    let refused = section("unknown namespace");
    let refused = refused.frames.last().context("empty")?;
    let Packet::Message(refused) = Packet::decode(refused.text)? else {
        anyhow::bail!("no message");
    };
    assert_eq!(refused.kind, Kind::ConnectError);
    assert_eq!(refused.namespace, "/admin");
    assert_eq!(refused.payload, r#"{"message":"Invalid namespace"}"#);
    let probe = section("32-upgrade").frames[0].text;
    assert_eq!(Packet::decode(probe), Ok(Packet::Ping("probe".into())));
    Ok(())
}
