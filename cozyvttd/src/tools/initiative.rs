//! Initiative: the order of a fight.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Number, Value, json};
use tokio::time::timeout;

use super::gate::ROLLED_INITIATIVE;
use super::receipt::receipt_after;
use super::{Context, Hints, Tool, ToolError};
use crate::session::Turn;
use crate::session::lanes::Lane;

/// How long the server may take to show the order.
const ANSWER: Duration = Duration::from_secs(2);

/// `initiative_read`
pub(super) struct Read;

/// How fresh.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadArguments {
    /// Ask the server; otherwise the newest order that is known is given.
    #[serde(default = "ReadArguments::default_refresh")]
    refresh: bool,
}

impl ReadArguments {
    fn default_refresh() -> bool {
        true
    }
}

impl Tool for Read {
    const NAME: &'static str = "initiative_read";
    const TITLE: &'static str = "Read the combat order";
    const DESCRIPTION: &'static str = "The order of the fight as the server has it: round, whose turn it \
        is, the combatants with their values. To change it use initiative_manage. Changes nothing; any \
        member may call it, but players may not see every combatant. `state` null with `stale` true \
        means unknown, not that there is no fight: an idle one says `active` false.";
    const HINTS: Hints = Hints::READS;
    type Arguments = ReadArguments;

    async fn run(arguments: ReadArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        let shown = |event: &cozyvtt_proto::event::EventRecord, stale: bool| json!({"state": event.payload, "seq": event.seq, "ts": event.ts, "stale": stale});
        if arguments.refresh {
            // Both this and a change are answered with the order, without a word for
            // whom it is: the answer to this one must not pass for a change's.
            // A table that leaves changes unanswered keeps nobody waiting for long.
            let _look = match timeout(ANSWER, session.look(Lane::Initiative)).await {
                Ok(look) => look?,
                Err(_) => return Ok(unknown()),
            };
            let since = session
                .link
                .emit("initiative.request_state", Value::Null)
                .await?;
            let generation = session.link.state().generation;
            let fresh = session
                .journal
                .find(since, ANSWER, |event| {
                    event.event == "initiative.state" && event.generation == generation
                })
                .await;
            if let Some(event) = fresh {
                return Ok(shown(&event, false));
            }
        } else {
            session.link.up().await?;
            let generation = session.link.state().generation;
            let newest = session
                .journal
                .latest("initiative.state")
                .await
                .map_err(|error| ToolError::Journal(error.to_string()))?;
            // That of an earlier connection says nothing about now.
            if let Some(event) = newest.filter(|event| event.generation == generation) {
                return Ok(shown(&event, true));
            }
        }
        if !session.link.state().authenticated() {
            return Ok(json!({
                "state": null,
                "note": "WS is not authenticated; initiative state is unavailable",
            }));
        }
        Ok(unknown())
    }
}

fn unknown() -> Value {
    json!({
        "state": null,
        "stale": true,
        "note": "Initiative state is unknown: no fresh initiative.state received. Read events_poll.",
    })
}

/// `initiative_manage`
pub(super) struct Manage;

/// What to change.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ManageArguments {
    /// What to do: `add`, `remove`, `roll`, `set`, `reorder`, `start`, `next` or `end`.
    action: String,
    /// The token: for add, remove, roll and set.
    #[serde(default)]
    token_id: String,
    /// The map it stands on: for add, roll and set.
    #[serde(default)]
    map_id: String,
    /// The value: for set.
    #[serde(default)]
    #[schemars(with = "Option<f64>")]
    value: Option<Number>,
    /// The tokens in their new order: for reorder.
    #[serde(default)]
    ordered_token_ids: Option<Vec<String>>,
    /// The dice: for roll; newer servers take them from the sheet.
    #[serde(default)]
    expression: String,
    /// Who rolls, shown with it: for roll.
    #[serde(default)]
    character_name: String,
}

/// A checked change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Add,
    Remove,
    Roll,
    Set,
    Reorder,
    Start,
    Next,
    End,
}

impl Action {
    fn parse(text: &str) -> Option<Self> {
        Some(match text.trim().to_ascii_lowercase().as_str() {
            "add" => Self::Add,
            "remove" => Self::Remove,
            "roll" => Self::Roll,
            "set" => Self::Set,
            "reorder" => Self::Reorder,
            "start" => Self::Start,
            "next" => Self::Next,
            "end" => Self::End,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        &self.event()["initiative.".len()..]
    }

    fn event(self) -> &'static str {
        match self {
            Self::Add => "initiative.add",
            Self::Remove => "initiative.remove",
            Self::Roll => "initiative.roll",
            Self::Set => "initiative.set",
            Self::Reorder => "initiative.reorder",
            Self::Start => "initiative.start",
            Self::Next => "initiative.next",
            Self::End => "initiative.end",
        }
    }
}

impl ManageArguments {
    fn action(&self) -> Result<Action, String> {
        Action::parse(&self.action).ok_or_else(|| {
            "action must be one of ['add', 'end', 'next', 'remove', 'reorder', 'roll', 'set', 'start']"
                .to_owned()
        })
    }

    /// What is sent for the action, or what it lacks.
    fn payload(&self, action: Action) -> Result<Value, &'static str> {
        let placed = !self.token_id.is_empty() && !self.map_id.is_empty();
        let token = json!({"tokenId": self.token_id, "mapId": self.map_id});
        match action {
            Action::Add if placed => Ok(token),
            Action::Add => Err("add requires token_id and map_id"),
            Action::Remove if self.token_id.is_empty() => Err("remove requires token_id"),
            Action::Remove => Ok(json!({"tokenId": self.token_id})),
            Action::Roll if placed => {
                let mut roll = token;
                if !self.expression.is_empty() {
                    roll["expression"] = json!(self.expression);
                }
                if !self.character_name.is_empty() {
                    roll["characterName"] = json!(self.character_name);
                }
                Ok(roll)
            }
            Action::Roll => Err("roll requires token_id and map_id"),
            Action::Set => match &self.value {
                Some(value) if placed => {
                    let mut set = token;
                    set["value"] = json!(value);
                    Ok(set)
                }
                _ => Err("set requires token_id, map_id, and value"),
            },
            Action::Reorder => match &self.ordered_token_ids {
                Some(ids) if !ids.is_empty() => Ok(json!({"orderedTokenIds": ids})),
                _ => Err("reorder requires ordered_token_ids (a list of token IDs)"),
            },
            Action::Start | Action::Next | Action::End => Ok(json!({})),
        }
    }

    /// Whether the order `state` could be what the action has led to. Others change
    /// it as well, and not every action leaves a mark that can be told.
    fn shows_in(&self, action: Action, state: &Value) -> bool {
        let combatant = || {
            state["combatants"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|combatant| combatant["tokenId"] == self.token_id.as_str())
        };
        match action {
            Action::Add => combatant().is_some(),
            Action::Remove => combatant().is_none(),
            // A token need not be in the order to get a value.
            Action::Set => combatant().is_none_or(|combatant| {
                combatant["initiative"].as_f64() == self.value.as_ref().and_then(Number::as_f64)
            }),
            Action::Start => state["active"] == true,
            Action::End => state["active"] == false,
            Action::Roll | Action::Reorder | Action::Next => true,
        }
    }
}

impl Tool for Manage {
    const NAME: &'static str = "initiative_manage";
    const TITLE: &'static str = "Manage the combat order";
    const DESCRIPTION: &'static str = "Changes the fight: puts tokens into the order or takes them out, \
        rolls or sets their values, reorders, starts, goes to the next turn, ends. To look use \
        initiative_read. Only the DM may, except that on newer servers players roll for their own token \
        before the fight. Call of Cthulhu orders by DEX without rolling: add, then set. The receipt \
        holds no result: poll for initiative.state or a system.error after `since`, and never repeat it \
        before you have looked.";
    const HINTS: Hints = Hints::CHANGES;
    type Arguments = ManageArguments;

    fn check(arguments: &ManageArguments) -> Result<(), String> {
        let action = arguments.action()?;
        arguments
            .payload(action)
            .map(drop)
            .map_err(ToOwned::to_owned)
    }

    async fn run(arguments: ManageArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        // `check` has refused what does not fit.
        let action = arguments.action().map_err(ToolError::Refused)?;
        let payload = arguments
            .payload(action)
            .map_err(|sentence| ToolError::Refused(sentence.to_owned()))?;
        if action == Action::Roll {
            ROLLED_INITIATIVE.pass(session).await?;
        }
        if action == Action::Roll {
            // A roll that cannot be sent takes nobody's turn.
            session.link.up().await?;
        }
        // The values are stored with the tokens of a map, so they share its lane. When
        // it cannot be told which, the order's own lane has to do.
        let map = if arguments.map_id.is_empty() {
            session.current_map().await.ok().flatten()
        } else {
            Some(arguments.map_id.clone())
        };
        let mut lanes = vec![Lane::Initiative];
        lanes.extend(map.map(Lane::Map));
        // The dice first: whoever waits for them must not keep the lanes.
        let turn = if action == Action::Roll {
            Some(session.roll_turn().await?)
        } else {
            None
        };
        let rights = session.lanes(lanes).await?;
        let waited = turn.map(Turn::used).unwrap_or_default();
        let since = session
            .emit_in(rights, action.event(), payload.clone(), move |event| {
                event.event == "initiative.state" && arguments.shows_in(action, &event.payload)
            })
            .await?;
        Ok(receipt_after(
            waited,
            since,
            json!({"action": action.name(), "payload": payload}),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(value: Value) -> ManageArguments {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn t_int_01_an_action_is_read_in_any_case_and_an_unknown_one_lists_all() {
        assert_eq!(
            arguments(json!({"action": " NEXT "})).action(),
            Ok(Action::Next)
        );
        let refusal = arguments(json!({"action": "fly"})).action().unwrap_err();
        assert!(
            refusal.starts_with("action must be one of ['add', 'end', "),
            "{refusal}"
        );
        for action in [
            "add", "remove", "roll", "set", "reorder", "start", "next", "end",
        ] {
            assert_eq!(Action::parse(action).unwrap().name(), action);
        }
    }

    #[test]
    fn an_order_that_cannot_come_from_the_action_is_not_taken_for_its_effect() {
        let shows = |asked: Value, state: Value| {
            let arguments = arguments(asked);
            arguments.shows_in(arguments.action().unwrap(), &state)
        };
        let state = json!({"active": false, "combatants": [{"tokenId": "t", "initiative": 7}]});
        for (asked, wanted) in [
            (json!({"action": "add", "token_id": "t"}), true),
            (json!({"action": "add", "token_id": "u"}), false),
            (json!({"action": "remove", "token_id": "t"}), false),
            (
                json!({"action": "set", "token_id": "t", "value": 7.0}),
                true,
            ),
            (json!({"action": "set", "token_id": "t", "value": 8}), false),
            (json!({"action": "set", "token_id": "u", "value": 8}), true),
            (json!({"action": "start"}), false),
            (json!({"action": "end"}), true),
            (json!({"action": "next"}), true),
        ] {
            assert_eq!(shows(asked.clone(), state.clone()), wanted, "{asked}");
        }
    }

    #[test]
    fn t_int_03_each_action_says_what_it_lacks_and_sends_no_more_than_it_needs() {
        let payload = |value: Value| {
            let arguments = arguments(value);
            arguments.payload(arguments.action().unwrap())
        };
        assert_eq!(
            payload(json!({"action": "add"})),
            Err("add requires token_id and map_id")
        );
        assert_eq!(
            payload(json!({"action": "remove"})),
            Err("remove requires token_id")
        );
        assert_eq!(
            payload(json!({"action": "set", "token_id": "t", "map_id": "m"})),
            Err("set requires token_id, map_id, and value")
        );
        assert_eq!(
            payload(json!({"action": "set", "token_id": "t", "map_id": "m", "value": 0})),
            Ok(json!({"tokenId": "t", "mapId": "m", "value": 0}))
        );
        assert_eq!(
            payload(json!({"action": "reorder", "ordered_token_ids": []})),
            Err("reorder requires ordered_token_ids (a list of token IDs)")
        );
        assert_eq!(
            payload(json!({"action": "next", "token_id": "ignored"})),
            Ok(json!({}))
        );
        assert_eq!(
            payload(
                json!({"action": "roll", "token_id": "t", "map_id": "m", "expression": "1d20"})
            ),
            Ok(json!({"tokenId": "t", "mapId": "m", "expression": "1d20"}))
        );
    }
}
