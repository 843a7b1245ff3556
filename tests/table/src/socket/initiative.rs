//! The order of a fight: who acts, and when.

use std::sync::Arc;

use serde_json::{Value, json};

use super::From;
use super::dice::{RollPlan, within_budget};
use super::maps::viewer;
use crate::hub::Hub;
use crate::world::{Combatant, GameSystem, Order, Role, plain};

/// The events `initiative.<action>`.
pub(super) fn event(hub: &Arc<Hub>, from: From, action: &str) {
    let Some((campaign, role)) = from.seat.at.clone() else {
        if action != "request_state" {
            hub.refuse(&from, "Not authenticated to a campaign");
        }
        return;
    };
    if action == "request_state" {
        return request_state(hub, &from, &campaign);
    }
    let ceiling = "Too many initiative changes at once. Try again in a moment.";
    if !hub.under_ceiling(&from, "initiative", 50, ceiling) {
        return;
    }
    let own_roll = action == "roll" && !hub.version().is_old();
    if role != Role::Dm && !own_roll {
        if let Some(what) = reserved(action) {
            hub.refuse(&from, &format!("Only the DM can {what}"));
        }
        return;
    }
    let outcome = match action {
        "add" => add(hub, &campaign, &from),
        "remove" => remove(hub, &campaign, &from),
        "set" => set(hub, &campaign, &from),
        "reorder" => reorder(hub, &campaign, &from),
        "start" => start(hub, &campaign),
        "next" => next(hub, &campaign),
        "end" => {
            hub.world().initiative.remove(&campaign);
            Ok(())
        }
        "roll" => roll(hub, &campaign, role, &from),
        _ => return,
    };
    match outcome {
        Ok(()) => hub.send_initiative(&campaign),
        Err(sentence) if sentence.is_empty() => {}
        Err(sentence) => hub.refuse(&from, &sentence),
    }
}

/// What only the DM can do with an action.
fn reserved(action: &str) -> Option<&'static str> {
    Some(match action {
        "add" | "remove" | "set" => "modify initiative",
        "roll" => "roll initiative",
        "reorder" => "reorder initiative",
        "start" => "start combat",
        "next" => "advance the turn",
        "end" => "end combat",
        _ => return None,
    })
}

fn request_state(hub: &Hub, from: &From, campaign: &str) {
    let second = std::time::Duration::from_secs(1);
    let user = &from.seat.user_id;
    if !hub.version().is_old()
        && !hub
            .floor
            .within(user, "initiative.request_state", 5, second)
    {
        return;
    }
    let eyes = viewer(&from.seat, campaign, hub.spirits_shown(campaign));
    let state = hub.world().initiative_state(campaign, eyes, hub.version());
    hub.send(&from.seat.socket, "initiative.state", &state);
}

type Done = Result<(), String>;

/// The token an event speaks of: its id, its map, and itself.
fn token(hub: &Hub, campaign: &str, from: &From) -> Result<(String, String, Value), String> {
    let (Some(id), Some(map_id)) = (from.text("tokenId"), from.text("mapId")) else {
        return Err("tokenId and mapId required".to_owned());
    };
    let world = hub.world();
    let map = world
        .map(map_id)
        .filter(|map| map.campaign_id == campaign)
        .ok_or("Map not found")?;
    let token = map.token(id).ok_or("Token not found")?;
    Ok((id.to_owned(), map_id.to_owned(), token.clone()))
}

fn add(hub: &Hub, campaign: &str, from: &From) -> Done {
    let (id, map_id, token) = token(hub, campaign, from)?;
    let old = hub.version().is_old();
    let mut world = hub.world();
    let order = world.initiative.entry(campaign.to_owned()).or_default();
    if order.combatants.iter().any(|one| one.token_id == id) {
        return Err("Token is already in initiative".to_owned());
    }
    order.combatants.push(Combatant {
        token_id: id,
        map_id,
        // 1.1.2 starts out with what the token remembers.
        initiative: token["initiative"].as_f64().filter(|_| old),
    });
    order.sort();
    Ok(())
}

fn remove(hub: &Hub, campaign: &str, from: &From) -> Done {
    let id = from.text("tokenId").ok_or("tokenId required")?;
    hub.drop_combatant(campaign, id);
    Ok(())
}

fn set(hub: &Hub, campaign: &str, from: &From) -> Done {
    let (id, map_id, _) = token(hub, campaign, from)?;
    let value = from.field("value");
    if !value.is_null() && !value.is_number() {
        return Err("value must be a number or null".to_owned());
    }
    store(hub, campaign, &id, &map_id, value.as_f64());
    Ok(())
}

/// Writes a value into the order and onto the token.
fn store(hub: &Hub, campaign: &str, id: &str, map_id: &str, value: Option<f64>) {
    let mut world = hub.world();
    if let Some(order) = world.initiative.get_mut(campaign) {
        for one in order.combatants.iter_mut().filter(|one| one.token_id == id) {
            one.initiative = value;
        }
        order.sort();
    }
    if let Some(token) = world
        .map_mut(map_id)
        .and_then(|map| map.tokens.iter_mut().find(|token| token["id"] == id))
    {
        token["initiative"] = value.map_or(Value::Null, plain);
    }
}

fn reorder(hub: &Hub, campaign: &str, from: &From) -> Done {
    let wanted = from
        .field("orderedTokenIds")
        .as_array()
        .ok_or("orderedTokenIds must be an array")?;
    let mut world = hub.world();
    if let Some(order) = world.initiative.get_mut(campaign) {
        order.combatants.sort_by_key(|one| {
            wanted
                .iter()
                .position(|id| *id == one.token_id.as_str())
                .unwrap_or(usize::MAX)
        });
    }
    Ok(())
}

fn start(hub: &Hub, campaign: &str) -> Done {
    let mut world = hub.world();
    let order = world.initiative.entry(campaign.to_owned()).or_default();
    let first = order
        .combatants
        .first()
        .ok_or("Add combatants before starting combat")?;
    order.current = Some(first.token_id.clone());
    order.active = true;
    order.round = 1;
    Ok(())
}

fn next(hub: &Hub, campaign: &str) -> Done {
    let mut world = hub.world();
    let order = world
        .initiative
        .get_mut(campaign)
        .filter(|order| order.active)
        .ok_or("Combat is not active")?;
    order.next();
    Ok(())
}

fn roll(hub: &Hub, campaign: &str, role: Role, from: &From) -> Done {
    let old = hub.version().is_old();
    if role == Role::Spectator {
        return Err("Spectators cannot roll initiative".to_owned());
    }
    let (id, map_id, token) = token(hub, campaign, from)?;
    let (listed, active) = {
        let world = hub.world();
        let order = world.initiative.get(campaign);
        (
            order.is_some_and(|order| order.combatants.iter().any(|one| one.token_id == id)),
            order.is_some_and(|order| order.active),
        )
    };
    if role != Role::Dm {
        if token["controlledBy"] != from.seat.user_id.as_str() {
            return Err("You can only roll initiative for your own token".to_owned());
        }
        if !listed {
            return Err("That token is not in the initiative order yet".to_owned());
        }
        if active {
            return Err("Combat has started: ask the DM to change your initiative".to_owned());
        }
        if !within_budget(hub, from) {
            return Err(String::new());
        }
    }
    if !listed {
        let mut world = hub.world();
        let order: &mut Order = world.initiative.entry(campaign.to_owned()).or_default();
        order.combatants.push(Combatant {
            token_id: id.clone(),
            map_id: map_id.clone(),
            initiative: None,
        });
    }
    let name = token["name"].as_str().unwrap_or_default();
    let value = match decided(hub, &token, role, from, old)? {
        Decided::Value(value) => value,
        Decided::Roll(expression) => {
            let plan = RollPlan {
                campaign,
                user_id: &from.seat.user_id,
                expression: &expression,
                character_name: match from.text("characterName") {
                    Some(sent) if old => json!(sent),
                    _ => json!(name),
                },
                purpose: json!(format!("{name} Initiative")),
                secret: false,
                socket: Some(&from.seat),
                kept: false,
            };
            let rolled = hub.roll_at_table(&plan);
            #[allow(clippy::cast_precision_loss)] // small totals
            let total = rolled
                .map_err(|error| error.sentence().replace("dice expression", "expression"))?
                as f64;
            total
        }
    };
    store(hub, campaign, &id, &map_id, Some(value));
    Ok(())
}

/// How a token's initiative comes about.
enum Decided {
    Value(f64),
    Roll(String),
}

/// 1.1.2 rolls what it is told to; later the server knows better: the sheet's
/// bonus, the stat block's dexterity, and for Call of Cthulhu the plain DEX.
fn decided(
    hub: &Hub,
    token: &Value,
    role: Role,
    from: &From,
    old: bool,
) -> Result<Decided, String> {
    let sent = from.text("expression").filter(|text| !text.is_empty());
    if old {
        let expression = sent.ok_or("Invalid expression: expression required")?;
        return Ok(Decided::Roll(expression.to_owned()));
    }
    let world = hub.world();
    let character = token["characterId"]
        .as_str()
        .and_then(|id| world.character(id));
    if let Some(character) = character {
        let sheet = &character.data;
        let bonus = match character.game_system {
            Some(GameSystem::CallOfCthulhu7e) => {
                if let Some(dex) = sheet["characteristics"]["DEX"]["regular"].as_f64() {
                    return Ok(Decided::Value(dex));
                }
                None
            }
            Some(GameSystem::Dnd5e) => sheet["initiative"].as_i64(),
            _ => None,
        };
        if let Some(bonus) = bonus {
            return Ok(Decided::Roll(format!("1d20{bonus:+}")));
        }
    } else if let Some(dex) = token["statBlock"]["abilities"]["dex"].as_i64() {
        let bonus = (dex - 10).div_euclid(2);
        return Ok(Decided::Roll(format!("1d20{bonus:+}")));
    }
    let fallback = sent.filter(|_| role == Role::Dm).unwrap_or("1d20");
    Ok(Decided::Roll(fallback.to_owned()))
}

impl Hub {
    /// Sends everybody at a campaign the order as they may see it.
    pub(crate) fn send_initiative(&self, campaign: &str) {
        let spirits_shown = self.spirits_shown(campaign);
        let version = self.version();
        self.send_to(campaign, "initiative.state", |seat| {
            let eyes = viewer(seat, campaign, spirits_shown);
            Some(self.world().initiative_state(campaign, eyes, version))
        });
    }

    /// Whether a token is in the order.
    pub(crate) fn is_combatant(&self, campaign: &str, token: &str) -> bool {
        let world = self.world();
        let order = world.initiative.get(campaign);
        order.is_some_and(|order| order.combatants.iter().any(|one| one.token_id == token))
    }

    /// Takes a token out of the order; whether it was in it.
    pub(crate) fn drop_combatant(&self, campaign: &str, token: &str) -> bool {
        let mut world = self.world();
        let Some(order) = world.initiative.get_mut(campaign) else {
            return false;
        };
        let listed = order.combatants.iter().any(|one| one.token_id == token);
        order.remove(token, self.version());
        listed
    }
}
