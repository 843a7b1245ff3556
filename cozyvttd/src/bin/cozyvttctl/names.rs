//! Who and what the ids in events stand for, learnt from the events themselves.
//!
//! CozyVTT names a roller and a speaker, but only gives the id of who moved
//! which token. The names come by sooner or later: with chat and dice, the
//! initiative order, the map.

use std::collections::HashMap;

use cozyvtt_proto::event::EventRecord;
use serde_json::Value;

use crate::text::{cut, plain};

/// Names kept at most; a table has a few hundred, a hostile one must not fill
/// the memory of somebody who follows it for days.
const MOST: usize = 20_000;

/// Columns of a name at most.
pub(crate) const NAME_WIDTH: usize = 60;

/// What ids stand for.
#[derive(Debug, Default)]
pub(crate) struct Names {
    by_id: HashMap<String, String>,
}

impl Names {
    /// Learns the names that an event carries.
    pub(crate) fn learn(&mut self, record: &EventRecord) {
        let payload = &record.payload;
        match record.event.as_str() {
            "chat.message" | "dice.rolled" | "dice.rolled.secret" => {
                self.keep(payload.get("userId"), payload.get("userName"));
            }
            "chat.system" => {
                // CozyVTT v1.1.2 to v1.5: the one event that names who came.
                let name = payload
                    .get("content")
                    .and_then(Value::as_str)
                    .and_then(|text| text.strip_suffix(" has joined the campaign."))
                    .map(Value::from);
                self.keep(payload.pointer("/metadata/userId"), name.as_ref());
            }
            "initiative.state" => self.keep_all(payload.get("combatants"), "tokenId"),
            "map.changed" => {
                let map = payload.get("mapData");
                self.keep_all(map.and_then(|map| map.get("tokens")), "id");
                self.keep(payload.get("mapId"), map.and_then(|map| map.get("name")));
            }
            "token:appeared" | "spirit_layer.token.toggled" => {
                self.keep(payload.pointer("/token/id"), payload.pointer("/token/name"));
            }
            "character.updated" => {
                self.keep(
                    payload.get("characterId"),
                    payload.pointer("/character/name"),
                );
            }
            _ => {}
        }
    }

    fn keep_all(&mut self, objects: Option<&Value>, id: &str) {
        for object in objects.and_then(Value::as_array).into_iter().flatten() {
            self.keep(object.get(id), object.get("name"));
        }
    }

    fn keep(&mut self, id: Option<&Value>, name: Option<&Value>) {
        let (Some(id), Some(name)) = (id.and_then(Value::as_str), name.and_then(Value::as_str))
        else {
            return;
        };
        let name = plain(name);
        let known = self.by_id.contains_key(id);
        if !name.trim().is_empty() && (known || self.by_id.len() < MOST) {
            self.by_id
                .insert(id.to_owned(), cut(&name, NAME_WIDTH, "..."));
        }
    }

    /// The name behind `id`, else its kind and the start of the id.
    pub(crate) fn of(&self, id: &str, kind: &str) -> String {
        self.by_id.get(id).cloned().unwrap_or_else(|| {
            let start: String = plain(id).chars().take(8).collect();
            format!("{kind} {start}")
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn learnt(event: &str, payload: Value) -> Names {
        let mut names = Names::default();
        names.learn(&EventRecord {
            seq: 1,
            ts: 0.0,
            event: event.into(),
            payload,
            generation: 1,
        });
        names
    }

    #[test]
    fn whoever_speaks_or_comes_is_known_afterwards() {
        let names = learnt("chat.message", json!({"userId": "u1", "userName": "Paul"}));
        assert_eq!(names.of("u1", "user"), "Paul");
        let names = learnt(
            "chat.system",
            json!({"content": "Sam has joined the campaign.", "metadata": {"userId": "u2"}}),
        );
        assert_eq!(names.of("u2", "user"), "Sam");
    }

    #[test]
    fn a_map_names_itself_and_its_tokens() {
        let names = learnt(
            "map.changed",
            json!({"mapId": "m", "mapData": {"name": "Cave", "tokens": [{"id": "t", "name": "Elara"}]}}),
        );
        assert_eq!(
            (names.of("m", "map"), names.of("t", "token")),
            ("Cave".into(), "Elara".into())
        );
    }

    #[test]
    fn an_unknown_id_is_shown_short_with_its_kind() {
        let id = "bffd9b78-55b7-4b94-92dc-22968d09897d";
        assert_eq!(Names::default().of(id, "token"), "token bffd9b78");
    }

    #[test]
    fn names_are_as_untrusted_as_chat() {
        let names = learnt(
            "chat.message",
            json!({"userId": "u", "userName": "P\u{1b}]0;x\u{7}"}),
        );
        assert_eq!(names.of("u", "user"), "P\u{fffd}]0;x\u{fffd}");
    }
}
