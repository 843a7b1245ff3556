//! Tokens: adding, changing, removing. None of it is told to the sockets.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::answer::{Answer, Outcome};
use super::gate::Request;
use super::maps::{find, find_for};
use super::token_rules::{field, is_field, player_may_set, position};
use crate::hub::Hub;
use crate::world::{Map, Role, Viewer, default_token, mask};

type Ctx = State<Arc<Hub>>;
type Req = Extension<Request>;

/// The most tokens a map holds since 1.5.
pub(super) const MOST: usize = 1000;

/// `POST /api/campaigns/:campaignId/maps/:mapId/tokens`
pub(crate) async fn add(
    State(hub): Ctx,
    Extension(request): Req,
    Path((campaign, map)): Path<(String, String)>,
) -> Outcome {
    let user = request.dm(&hub, &campaign)?.user_id;
    let map = find(&hub.world(), &campaign, &map)?.clone();
    let body = &request.body;
    let old = hub.version().is_old();
    if body["name"].as_str().is_none_or(str::is_empty) {
        return Err(Answer::invalid("Token name is required"));
    }
    if !old && map.tokens.len() >= MOST {
        return Err(Answer::bad(
            "Limit Exceeded",
            "A map can hold at most 1000 tokens",
        ));
    }
    let id = hub.world().new_id();
    let mut token = default_token(&id, hub.version());
    let place = position(
        &body["position"],
        &body["size"],
        &map,
        "Token position",
        old,
    )?;
    if let Value::Object(sent) = body {
        let world = hub.world();
        for (name, value) in sent.iter().filter(|(name, _)| is_field(name, old)) {
            token.insert(
                name.clone(),
                field(&world, (&campaign, &user), name, value, old)?,
            );
        }
        let character = &body["characterId"];
        if old {
            if character.is_string() {
                token.insert("characterId".to_owned(), character.clone());
            }
        } else if let Some(character) = character.as_str() {
            let found = world
                .character(character)
                .filter(|one| one.campaign_id.as_ref() == Some(&campaign))
                .ok_or_else(|| Answer::invalid("Character is not in this campaign"))?;
            token.insert("characterId".to_owned(), json!(found.id));
            let plays = world.role(&campaign, &found.user_id) == Some(Role::Player);
            if !sent.contains_key("controlledBy") && plays {
                token.insert("controlledBy".to_owned(), json!(found.user_id));
            }
        }
    }
    token.insert("position".to_owned(), place);
    let token = Value::Object(token);
    let row = hub
        .rewrite_tokens(map, |map| -> Result<Value, Answer> {
            map.tokens.push(token.clone());
            Ok(map.row(hub.version()))
        })
        .await?;
    Ok(Answer::created(json!({
        "message": "Token added successfully",
        "token": token,
        "map": row,
    })))
}

/// `PUT /api/campaigns/:campaignId/maps/:mapId/tokens/:tokenId`
pub(crate) async fn update(
    State(hub): Ctx,
    Extension(request): Req,
    Path((campaign, map, token)): Path<(String, String, String)>,
) -> Outcome {
    let seated = request.player(&hub, &campaign)?;
    let version = hub.version();
    let old = version.is_old();
    let leads = seated.role == Role::Dm;
    let map = find_for(&hub.world(), &campaign, &map, &seated, old)?.clone();
    let stored = map
        .token(&token)
        .ok_or_else(|| Answer::missing("Token not found on this map"))?;
    let empty = serde_json::Map::new();
    let sent = request.body.as_object().unwrap_or(&empty);
    if !leads {
        if stored["controlledBy"] != seated.user_id.as_str() {
            return Err(Answer::forbidden("You can only update tokens you control"));
        }
        if let Some(name) = sent.keys().find(|name| !player_may_set(name, old)) {
            return Err(Answer::forbidden(&if name == "layer" {
                "Only DM can change token layer".to_owned()
            } else {
                format!("Only DM can update token field: {name}")
            }));
        }
        let rests = hub
            .world()
            .campaign(&campaign)
            .is_some_and(crate::world::Campaign::rests);
        if !old && rests && sent.contains_key("position") {
            return Err(Answer::forbidden(
                "Players cannot move tokens while the session is paused or ended",
            ));
        }
    }
    let by = (campaign.as_str(), seated.user_id.as_str());
    let changed = changed_token(&hub, by, &map, stored, sent)?;
    let spirits_shown = hub
        .world()
        .campaign(&campaign)
        .is_some_and(|campaign| campaign.spirit_layer_enabled);
    let viewer = Viewer {
        user_id: &seated.user_id,
        role: seated.role,
        spirits_shown,
    };
    let row = hub
        .rewrite_tokens(map, |map| -> Result<Value, Answer> {
            if let Some(one) = map.tokens.iter_mut().find(|one| one["id"] == token) {
                *one = changed.clone();
            }
            Ok(if old || leads {
                map.row(version)
            } else {
                map.view(viewer, version)
            })
        })
        .await?;
    if !old && hub.is_combatant(&campaign, &token) {
        hub.send_initiative(&campaign);
    }
    let shown = if old || leads {
        changed
    } else {
        mask(&changed, viewer, version).unwrap_or_default()
    };
    Ok(Answer::ok(json!({
        "message": "Token updated successfully",
        "token": shown,
        "map": row,
    })))
}

fn changed_token(
    hub: &Hub,
    by: (&str, &str),
    map: &Map,
    stored: &Value,
    sent: &serde_json::Map<String, Value>,
) -> Result<Value, Answer> {
    let old = hub.version().is_old();
    let world = hub.world();
    let mut token = stored.clone();
    for (name, value) in sent.iter().filter(|(name, _)| is_field(name, old)) {
        let value = field(&world, by, name, value, old)?;
        if let ("metadata", Some(kept), Value::Object(new)) =
            (name.as_str(), token["metadata"].as_object_mut(), &value)
        {
            kept.extend(new.clone());
        } else {
            token[name] = value;
        }
    }
    if let Some(place) = sent.get("position") {
        token["position"] = position(place, &token["size"], map, "Position", old)?;
    }
    Ok(token)
}

/// `DELETE /api/campaigns/:campaignId/maps/:mapId/tokens/:tokenId`
pub(crate) async fn delete(
    State(hub): Ctx,
    Extension(request): Req,
    Path((campaign, map, token)): Path<(String, String, String)>,
) -> Outcome {
    request.dm(&hub, &campaign)?;
    let map = find(&hub.world(), &campaign, &map)?.clone();
    hub.rewrite_tokens(map, |map| {
        let before = map.tokens.len();
        map.tokens.retain(|one| one["id"] != token);
        if map.tokens.len() == before {
            return Err(Answer::missing("Token not found on this map"));
        }
        Ok(())
    })
    .await?;
    if !hub.version().is_old() && hub.drop_combatant(&campaign, &token) {
        hub.send_initiative(&campaign);
    }
    Ok(Answer::ok(
        json!({ "message": "Token removed successfully" }),
    ))
}
