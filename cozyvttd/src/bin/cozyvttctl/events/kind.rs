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
    ("map", &["map", "spirit_layer.", "vibe.", "atmosphere."]),
    (
        "people",
        &["user.", "presence.", "campaign.", "invitation."],
    ),
    (
        "system",
        &["system.", "connected", "authenticated", "error"],
    ),
];

/// What the server says of the link has no such sign in its name.
const LINK: [&str; 3] = ["connected", "authenticated", "error"];

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
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if let Some((_, beginnings)) = FAMILIES.iter().find(|(family, _)| *family == name) {
            return Ok(Self::Family(beginnings));
        }
        // CozyVTT's names have one of these; which there are is the server's affair.
        if name.contains(['.', ':']) || LINK.contains(&name) {
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
}
