//! `--kind`: which events are shown.

use std::str::FromStr;

use cozyvttd::nearest::nearest;

/// The families, with the beginnings of their events' names.
const FAMILIES: [(&str, &[&str]); 9] = [
    ("dice", &["dice."]),
    ("chat", &["chat."]),
    ("turn", &["initiative."]),
    ("session", &["session."]),
    ("character", &["character.", "roster."]),
    ("token", &["token"]),
    (
        "map",
        &[
            "map",
            "fog:",
            "light",
            "wall",
            "exploration:",
            "spirit_layer.",
            "vibe.",
            "atmosphere.",
        ],
    ),
    (
        "people",
        &["user.", "member.", "presence.", "campaign.", "invitation."],
    ),
    (
        "system",
        &["system.", "connected", "authenticated", "error"],
    ),
];

/// What CozyVTT 1.1.2 to 1.5 is known to send, and what cozyvttd adds (`system.`).
const KNOWN: [&str; 52] = [
    "atmosphere.audio.updated",
    "atmosphere.effect.updated",
    "authenticated",
    "campaign.access.revoked",
    "campaign.dm.transferred",
    "campaign.role.changed",
    "character.assigned",
    "character.hp.updated",
    "character.unassigned",
    "character.updated",
    "chat.message",
    "chat.system",
    "connected",
    "dice.historyCleared",
    "dice.rolled",
    "dice.rolled.secret",
    "error",
    "exploration:state",
    "fog:updated",
    "initiative.state",
    "invitation.received",
    "light:added",
    "light:removed",
    "light:updated",
    "lights:replaced",
    "map.changed",
    "map.pinged",
    "map:lighting:updated",
    "map:settings:updated",
    "member.joined",
    "member.left",
    "member.role",
    "presence.state",
    "roster.updated",
    "session.ended",
    "session.paused",
    "session.resumed",
    "session.started",
    "spirit_layer.toggled",
    "spirit_layer.token.toggled",
    "system.disconnected",
    "system.error",
    "system.reconnected",
    "system.resync",
    "token.move.start",
    "token.moved",
    "token:appeared",
    "token:disappeared",
    "user.joined",
    "user.left",
    "vibe.updated",
    "walls:replaced",
];

/// What can be given.
const CHOICE: &str =
    "dice, chat, turn, session, character, token, map, people, system, or an event's whole name";

/// A family of events, or one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Those whose names begin so.
    Family(&'static [&'static str]),
    /// The one of this name.
    Event(String),
}

impl Kind {
    /// Whether an event of this name is of it.
    pub(super) fn has(&self, event: &str) -> bool {
        match self {
            Self::Family(beginnings) => beginnings.iter().any(|start| event.starts_with(start)),
            Self::Event(name) => event == name,
        }
    }

    /// What to tell somebody who has asked for an event that nobody is known to send.
    pub(super) fn doubt(&self) -> Option<String> {
        let Self::Event(name) = self else {
            return None;
        };
        if KNOWN.contains(&name.as_str()) {
            return None;
        }
        let meant = nearest(name, KNOWN).map(|meant| format!("; did you mean {meant}?"));
        Some(format!(
            "No event is known by the name {name}, but a newer server may send one{}",
            meant.unwrap_or_else(|| ".".to_owned())
        ))
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if let Some((_, beginnings)) = FAMILIES.iter().find(|(family, _)| *family == name) {
            return Ok(Self::Family(beginnings));
        }
        // CozyVTT's names have one of these; a newer one may send others than are known.
        if name.contains(['.', ':']) || KNOWN.contains(&name) {
            return Ok(Self::Event(name.to_owned()));
        }
        let families = FAMILIES.iter().map(|(family, _)| *family);
        let meant = nearest(name, families).map(|meant| format!("did you mean {meant}? "));
        Err(format!(
            "{}give one of {CHOICE}, such as dice.rolled",
            meant.unwrap_or_default()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_a_family_or_an_event_and_a_slip_is_told() {
        let dice: Kind = "dice".parse().unwrap();
        assert!(dice.has("dice.rolled.secret") && !dice.has("chat.message"));
        let one: Kind = "dice.rolled".parse().unwrap();
        assert!(one.has("dice.rolled") && !one.has("dice.rolled.secret"));
        assert_eq!(one.doubt(), None);
        let slip: Kind = "chat.mesage".parse().unwrap();
        let doubt = slip.doubt().unwrap();
        assert!(doubt.ends_with("did you mean chat.message?"), "{doubt}");
        let slip = Kind::from_str("dices").unwrap_err();
        assert!(slip.starts_with("did you mean dice?"), "{slip}");
        assert!(
            Kind::from_str("weather")
                .unwrap_err()
                .starts_with("give one of dice")
        );
        for (family, _) in FAMILIES {
            assert!(CHOICE.contains(family), "{family}");
        }
    }

    #[test]
    fn every_event_that_is_known_is_of_one_family() {
        for name in KNOWN {
            let families = FAMILIES
                .iter()
                .filter(|(_, beginnings)| beginnings.iter().any(|start| name.starts_with(start)));
            assert_eq!(families.count(), 1, "{name}");
        }
    }
}
