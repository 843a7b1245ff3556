//! Taking tokens from one map to another (not in 1.1.2).

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::answer::{Answer, Outcome};
use super::gate::Request;
use super::maps::find;
use super::token_rules::fit;
use super::tokens::MOST;
use crate::hub::Hub;
use crate::world::{Map, now};

/// The most tokens of one request.
const MOST_AT_ONCE: usize = 500;

/// `POST /api/campaigns/:campaignId/maps/:mapId/tokens/move`. Unlike the other
/// token routes it tells the table, when one of the maps is the current one.
pub(crate) async fn across(
    State(hub): State<Arc<Hub>>,
    Extension(request): Extension<Request>,
    Path((campaign, map)): Path<(String, String)>,
) -> Outcome {
    request.dm(&hub, &campaign)?;
    let ids = ids(&request.body["tokenIds"])?;
    let target = request.body["targetMapId"]
        .as_str()
        .filter(|id| uuid::Uuid::parse_str(id).is_ok())
        .ok_or_else(|| Answer::invalid("targetMapId must be a valid UUID"))?;
    if target == map {
        return Err(Answer::invalid("The tokens are already on that map"));
    }
    let (moved, current) = {
        let mut world = hub.world();
        let from = find(&world, &campaign, &map)?;
        let to = find(&world, &campaign, target)?;
        if to.tokens.len() + ids.len() > MOST {
            return Err(Answer::bad(
                "Limit Exceeded",
                "A map can hold at most 1000 tokens",
            ));
        }
        let mut moved = Vec::new();
        for id in &ids {
            let token = from
                .token(id)
                .ok_or_else(|| Answer::missing("Token not found on this map"))?;
            moved.push(settled(token, to));
        }
        if let Some(from) = world.map_mut(&map) {
            from.tokens
                .retain(|token| !ids.iter().any(|id| token["id"] == *id));
            from.updated_at = now();
        }
        if let Some(to) = world.map_mut(target) {
            to.tokens.extend(moved.iter().cloned());
            to.updated_at = now();
        }
        if let Some(order) = world.initiative.get_mut(&campaign) {
            let combatants = order.combatants.iter_mut();
            for one in combatants.filter(|one| ids.contains(&one.token_id)) {
                target.clone_into(&mut one.map_id);
            }
        }
        let current = world
            .campaign(&campaign)
            .and_then(|one| one.current_map_id.as_deref())
            .filter(|current| *current == map || *current == target)
            .and_then(|current| world.map(current))
            .cloned();
        (moved, current)
    };
    hub.log.touch();
    if let Some(current) = current {
        hub.show_map(&campaign, &current);
    }
    if ids.iter().any(|id| hub.is_combatant(&campaign, id)) {
        hub.send_initiative(&campaign);
    }
    Ok(Answer::ok(json!({
        "message": format!("{} tokens moved", moved.len()),
        "moved": moved,
    })))
}

fn ids(value: &Value) -> Result<Vec<String>, Answer> {
    let ids: Option<Vec<String>> = value.as_array().and_then(|list| {
        let ids = list.iter().map(|id| id.as_str().map(str::to_owned));
        ids.collect()
    });
    ids.filter(|ids| (1..=MOST_AT_ONCE).contains(&ids.len()))
        .ok_or_else(|| Answer::invalid("tokenIds must be a list of 1 to 500 token ids"))
}

/// A token where it will stand on another map.
fn settled(token: &Value, map: &Map) -> Value {
    let mut token = token.clone();
    let at = |axis: &str| token["position"][axis].as_f64().unwrap_or_default();
    let (x, y) = fit(map, at("x"), at("y"), &token["size"]);
    token["position"] = json!({ "x": x, "y": y });
    token
}
