//! What happened at the table, as a line that a person reads.
//!
//! The payloads are those of CozyVTT v1.1.2 to v1.5 and the daemon's own
//! `system.…` records. All text in them is somebody else's and passes through
//! [`plain`]; nothing here trusts a payload to have the fields it should.

use std::fmt::Write;

use cozyvtt_proto::event::EventRecord;
use serde_json::Value;

use crate::dice::working;
use crate::names::{NAME_WIDTH, Names};
use crate::text::{cut, json_line, plain};

/// How a line is meant, and so how it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Somebody says something.
    Speech,
    /// Dice.
    Dice,
    /// The fight and the session move on.
    Turn,
    /// Something at the table changes.
    Change,
    /// By the way.
    Aside,
    /// Something went wrong.
    Trouble,
    /// An event without a sentence of its own: name and JSON, cut to one line.
    Raw,
}

/// A line about an event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) tone: Tone,
    pub(crate) text: String,
}

/// The line about `record`, with the `names` learnt so far.
pub(crate) fn narrate(record: &EventRecord, names: &Names) -> Line {
    let scene = Scene {
        payload: &record.payload,
        names,
    };
    match scene.sentence(&record.event) {
        Some((tone, text)) => Line { tone, text },
        None => Line {
            tone: Tone::Raw,
            text: raw(record),
        },
    }
}

fn raw(record: &EventRecord) -> String {
    let name = cut(&plain(&record.event), NAME_WIDTH, "...");
    if record.payload.is_null() {
        name
    } else {
        format!("{name} {}", json_line(&record.payload))
    }
}

struct Scene<'a> {
    payload: &'a Value,
    names: &'a Names,
}

impl Scene<'_> {
    /// The sentence for the event called `event`; `None` for an unknown name or a
    /// payload without what the sentence is about.
    fn sentence(&self, event: &str) -> Option<(Tone, String)> {
        Some(match event {
            "chat.message" => (Tone::Speech, self.chat()?),
            "chat.system" => (Tone::Aside, self.text("content")?),
            "dice.rolled" | "dice.rolled.secret" => (Tone::Dice, self.roll(event)?),
            "dice.historyCleared" => (Tone::Aside, "the dice history was cleared".into()),
            "initiative.state" => (Tone::Turn, self.initiative()?),
            "character.hp.updated" => (Tone::Change, self.hit_points()?),
            "character.updated" => (Tone::Change, self.sheet()?),
            "roster.updated" => (Tone::Change, self.roster()?),
            "session.started" | "session.paused" | "session.ended" | "session.resumed" => {
                (Tone::Turn, self.session(event)?)
            }
            "map.changed" => (Tone::Change, self.map()?),
            "map.pinged" => (
                Tone::Change,
                format!(
                    "{} points at {} on the map",
                    self.user("userId")?,
                    self.place()?
                ),
            ),
            "token.move.start" => (
                Tone::Aside,
                format!("{} is picked up{}", self.token()?, self.by("movedBy")),
            ),
            "token.moved" => self.moved()?,
            "token:appeared" => (
                Tone::Change,
                format!("{} comes into view", self.appeared()?),
            ),
            "token:disappeared" => (Tone::Change, format!("{} goes out of view", self.token()?)),
            "spirit_layer.toggled" => (
                Tone::Change,
                format!(
                    "the spirit layer is {}{}",
                    if self.flag("visible")? {
                        "shown"
                    } else {
                        "hidden"
                    },
                    self.by("toggledBy")
                ),
            ),
            "spirit_layer.token.toggled" => (
                Tone::Change,
                format!(
                    "{} is {}{}",
                    self.token()?,
                    if self.flag("visible")? {
                        "shown"
                    } else {
                        "hidden"
                    },
                    self.by("toggledBy")
                ),
            ),
            "vibe.updated" => (
                Tone::Change,
                format!(
                    "the time of day is {}{}",
                    self.text("period")?,
                    self.by("updatedBy")
                ),
            ),
            "atmosphere.effect.updated" => (Tone::Change, self.effect()),
            "atmosphere.audio.updated" => (Tone::Change, self.music()),
            _ => return self.people(event).or_else(|| self.link(event)),
        })
    }

    /// Who is there, and as what.
    fn people(&self, event: &str) -> Option<(Tone, String)> {
        Some(match event {
            "user.joined" => (Tone::Aside, format!("{} is online", self.user("userId")?)),
            "user.left" => (Tone::Aside, format!("{} has gone", self.user("userId")?)),
            "presence.state" => (Tone::Aside, self.presence()?),
            "invitation.received" => (
                Tone::Change,
                format!(
                    "an invitation to {}{}",
                    self.text("campaignName")?,
                    self.by("invitedBy")
                ),
            ),
            "campaign.dm.transferred" => {
                let before = self
                    .id("previousDmId")
                    .map(|id| format!(", no longer {}", self.names.of(id, "user")))
                    .unwrap_or_default();
                (
                    Tone::Turn,
                    format!("{} is the DM now{before}", self.user("newDmId")?),
                )
            }
            "campaign.role.changed" => (
                Tone::Change,
                format!("{} is {} now", self.user("userId")?, self.text("role")?),
            ),
            "campaign.access.revoked" => (
                Tone::Trouble,
                "this account has lost its access to the campaign".into(),
            ),
            _ => return None,
        })
    }

    /// What the daemon and the server say about the link itself.
    fn link(&self, event: &str) -> Option<(Tone, String)> {
        Some(match event {
            "connected" => (Tone::Aside, "the server accepted the connection".into()),
            "authenticated" => (
                Tone::Aside,
                format!("the daemon sits at the table as {}", self.text("role")?),
            ),
            "error" => (
                Tone::Trouble,
                format!("the server says: {}", self.text("message")?),
            ),
            "system.error" => {
                let phase = match self.text("phase").as_deref() {
                    Some("connect") => "cannot reach the table".to_owned(),
                    Some("rest-auth") => "the login has lapsed".to_owned(),
                    Some(phase) => format!("error ({phase})"),
                    None => "the server says".to_owned(),
                };
                (
                    Tone::Trouble,
                    format!("{phase}: {}", self.detail("detail")?),
                )
            }
            "system.disconnected" => {
                let reason = self.detail("reason");
                let reason = reason
                    .map(|reason| format!(": {reason}"))
                    .unwrap_or_default();
                (
                    Tone::Trouble,
                    format!("the link to the table is down{reason}"),
                )
            }
            "system.reconnected" => (Tone::Change, "the link to the table is up again".into()),
            "system.resync" => {
                let details = match self.payload {
                    Value::Object(fields) if !fields.is_empty() => {
                        format!(" {}", json_line(self.payload))
                    }
                    _ => String::new(),
                };
                (
                    Tone::Aside,
                    format!("what was missed has been read again{details}"),
                )
            }
            _ => return None,
        })
    }

    fn chat(&self) -> Option<String> {
        let name = self.name("userName").or_else(|| self.user("userId"))?;
        // Any player can send type DM (CozyVTT v1.1.2 to v1.5): it is a claim.
        let claim = if self.text("type")? == "DM" {
            " (as DM)"
        } else {
            ""
        };
        Some(format!("{name}{claim}: {}", self.text("content")?))
    }

    fn roll(&self, event: &str) -> Option<String> {
        let mut line = self.name("userName").or_else(|| self.user("userId"))?;
        if let Some(character) = self.name("characterName") {
            let _ = write!(line, " as {character}");
        }
        let secret = event == "dice.rolled.secret" || self.flag("secret") == Some(true);
        let manner = if secret { "secretly rolled" } else { "rolled" };
        let _ = write!(
            line,
            " {manner} {} = {}",
            self.text("expression")?,
            number(self.payload.get("result")?)?
        );
        if let Some(working) = self.payload.get("breakdown").and_then(working) {
            let _ = write!(line, " ({working})");
        }
        if let Some(purpose) = self.text("purpose").filter(|purpose| !purpose.is_empty()) {
            let _ = write!(line, " for {purpose}");
        }
        Some(line)
    }

    fn initiative(&self) -> Option<String> {
        let combatants = self.payload.get("combatants")?.as_array()?;
        let order: Vec<String> = combatants
            .iter()
            .filter_map(|combatant| {
                let name = combatant.get("name").and_then(Value::as_str)?;
                let name = cut(&plain(name), NAME_WIDTH, "...");
                let value = combatant.get("initiative").and_then(number);
                Some(value.map_or_else(|| name.clone(), |value| format!("{name} {value}")))
            })
            .collect();
        let order = order.join(", ");
        if self.flag("active")? {
            let round = self.payload.get("round").and_then(number)?;
            let turn = match self.id("currentTokenId") {
                Some(id) => format!("{}'s turn", self.names.of(id, "token")),
                None => "a hidden combatant's turn".into(),
            };
            Some(format!("round {round}, {turn}; order: {order}"))
        } else if combatants.is_empty() {
            Some("no fight: the initiative order is empty".into())
        } else {
            Some(format!("the fight has not begun; order: {order}"))
        }
    }

    fn hit_points(&self) -> Option<String> {
        let value = |key: &str| self.payload.pointer(&format!("/hp/{key}")).and_then(number);
        let mut line = format!("{} has {}", self.character()?, value("current")?);
        if let Some(most) = value("max") {
            let _ = write!(line, " of {most}");
        }
        line.push_str(" hit points");
        if let Some(extra) = value("temp").filter(|extra| extra != "0") {
            let _ = write!(line, " and {extra} temporary");
        }
        Some(line)
    }

    fn sheet(&self) -> Option<String> {
        let what = if self.payload.get("character").is_some() {
            "sheet"
        } else {
            "token"
        };
        Some(format!(
            "{}'s {what} has changed{}",
            self.character()?,
            self.by("userId")
        ))
    }

    fn roster(&self) -> Option<String> {
        let user = self.user("userId")?;
        Some(match self.text("action")?.as_str() {
            "character.assigned" => format!("{} joins the campaign with {user}", self.character()?),
            "character.unassigned" => format!("{} leaves the campaign ({user})", self.character()?),
            "member.joined" => format!("{user} is a member of the campaign now"),
            "member.left" => format!("{user} is no longer a member of the campaign"),
            "member.role" => format!("{user} has another role in the campaign"),
            _ => return None,
        })
    }

    fn session(&self, event: &str) -> Option<String> {
        let number = self.payload.get("sessionNumber").and_then(number);
        let session = number.map_or_else(|| "the session".into(), |n| format!("session {n}"));
        let what = match event.strip_prefix("session.")? {
            "started" => "begins",
            "paused" => "pauses",
            "resumed" => "goes on",
            _ => "is over",
        };
        Some(format!("{session} {what}"))
    }

    fn map(&self) -> Option<String> {
        let name = self.names.of(self.id("mapId")?, "map");
        let tokens = self
            .payload
            .pointer("/mapData/tokens")
            .and_then(Value::as_array);
        let tokens = match tokens.map(Vec::len) {
            Some(1) => " with one token".into(),
            Some(many) => format!(" with {many} tokens"),
            None => String::new(),
        };
        Some(format!("the table sees the map {name}{tokens}"))
    }

    fn moved(&self) -> Option<(Tone, String)> {
        let (token, place, by) = (self.token()?, self.place()?, self.by("movedBy"));
        Some(if self.flag("dragging") == Some(true) {
            (Tone::Aside, format!("{token} is dragged over {place}{by}"))
        } else {
            (Tone::Change, format!("{token} moves to {place}{by}"))
        })
    }

    fn appeared(&self) -> Option<String> {
        let id = self.payload.pointer("/token/id").and_then(Value::as_str)?;
        Some(self.names.of(id, "token"))
    }

    fn effect(&self) -> String {
        let by = self.by("setBy");
        match self.text("effect") {
            Some(effect) => format!("the weather shows {effect}{by}"),
            None => format!("the weather clears{by}"),
        }
    }

    fn music(&self) -> String {
        let by = self.by("setBy");
        if self.id("assetId").is_some() {
            format!("music plays{by}")
        } else {
            format!("the music stops{by}")
        }
    }

    fn presence(&self) -> Option<String> {
        let online = self.payload.get("onlineUserIds")?.as_array()?;
        let names: Vec<String> = online
            .iter()
            .filter_map(Value::as_str)
            .map(|id| self.names.of(id, "user"))
            .collect();
        Some(if names.is_empty() {
            "nobody is online".into()
        } else {
            format!("online: {}", names.join(", "))
        })
    }

    fn id(&self, key: &str) -> Option<&str> {
        self.payload.get(key).and_then(Value::as_str)
    }

    fn text(&self, key: &str) -> Option<String> {
        self.id(key).map(plain)
    }

    fn name(&self, key: &str) -> Option<String> {
        self.text(key)
            .filter(|name| !name.trim().is_empty())
            .map(|name| cut(&name, NAME_WIDTH, "..."))
    }

    fn flag(&self, key: &str) -> Option<bool> {
        self.payload.get(key).and_then(Value::as_bool)
    }

    fn user(&self, key: &str) -> Option<String> {
        self.id(key).map(|id| self.names.of(id, "user"))
    }

    fn token(&self) -> Option<String> {
        self.id("tokenId").map(|id| self.names.of(id, "token"))
    }

    fn character(&self) -> Option<String> {
        self.id("characterId")
            .map(|id| self.names.of(id, "character"))
    }

    /// ` (Paul)`, when the payload tells who did it.
    fn by(&self, key: &str) -> String {
        self.user(key)
            .map(|user| format!(" ({user})"))
            .unwrap_or_default()
    }

    fn place(&self) -> Option<String> {
        let coordinate = |key: &str| self.payload.get(key).and_then(number);
        Some(format!("{}, {}", coordinate("x")?, coordinate("y")?))
    }

    /// A field that holds a sentence, an object with a `message`, or anything.
    fn detail(&self, key: &str) -> Option<String> {
        let detail = self.payload.get(key)?;
        Some(
            match detail.as_str().or_else(|| detail.get("message")?.as_str()) {
                Some(text) => plain(text),
                None => json_line(detail),
            },
        )
    }
}

/// A number with two decimals at most, as people write it.
fn number(value: &Value) -> Option<String> {
    if let Some(whole) = value.as_i64() {
        return Some(whole.to_string());
    }
    let rounded = (value.as_f64()? * 100.0).round() / 100.0;
    Some(rounded.to_string())
}

#[cfg(test)]
mod tests;
