//! Dragging and dropping tokens.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::maps::viewer;
use super::{From, Seat};
use crate::hub::Hub;
use crate::rest::fit;
use crate::world::{Campaign, Map, Role, mask};

const PERMISSION: &str = "You do not have permission to move this token";
const RESTING: &str = "Players cannot move tokens while the session is paused or ended";
/// Frames of a drag closer together than this are dropped.
const FRAME: Duration = Duration::from_millis(16);

/// The map and the token an event speaks of, or the sentence that refuses it.
fn find(hub: &Hub, campaign: &str, from: &From) -> Result<(Map, Value), &'static str> {
    let world = hub.world();
    let map = from
        .text("mapId")
        .and_then(|id| world.map(id))
        .filter(|map| map.campaign_id == campaign)
        .ok_or("Map not found")?;
    let token = from
        .text("tokenId")
        .and_then(|id| map.token(id))
        .ok_or("Token not found")?;
    Ok((map.clone(), token.clone()))
}

/// Whether a socket may move a token, or the sentence that refuses it.
fn may_move(
    hub: &Hub,
    campaign: &str,
    role: Role,
    seat: &Seat,
    map: &Map,
    token: &Value,
) -> Result<(), &'static str> {
    if role == Role::Dm {
        return Ok(());
    }
    let old = hub.version().is_old();
    if role == Role::Spectator && !old {
        return Err("Spectators cannot move tokens");
    }
    if token["layer"] == "spirit" && !hub.spirits_shown(campaign) && !old {
        return Err("You cannot interact with spirit layer tokens");
    }
    if token["controlledBy"] != seat.user_id.as_str() {
        return Err(PERMISSION);
    }
    if old {
        return Ok(());
    }
    let world = hub.world();
    let campaign = world.campaign(campaign);
    if campaign.is_some_and(|one| one.current_map_id.as_ref() != Some(&map.id)) {
        return Err(PERMISSION);
    }
    if campaign.is_some_and(Campaign::rests) {
        return Err(RESTING);
    }
    Ok(())
}

/// `token.move.start {tokenId, mapId}`
pub(super) fn start(hub: &Hub, from: &From) {
    let Some((campaign, role)) = &from.seat.at else {
        return hub.refuse(from, "Not authenticated to a campaign");
    };
    let ceiling = "Too many token moves at once. Try again in a moment.";
    if !hub.under_ceiling(from, "token.move.start", 30, ceiling) {
        return;
    }
    if *role == Role::Spectator {
        return hub.refuse(from, "Spectators cannot move tokens");
    }
    if from.text("tokenId").is_none() || from.text("mapId").is_none() {
        return hub.refuse(from, "tokenId and mapId required");
    }
    let (map, token) = match find(hub, campaign, from) {
        Ok(found) => found,
        Err(sentence) => return hub.refuse(from, sentence),
    };
    if let Err(sentence) = may_move(hub, campaign, *role, &from.seat, &map, &token) {
        return hub.refuse(from, sentence);
    }
    let event = json!({
        "tokenId": token["id"],
        "mapId": map.id,
        "movedBy": from.seat.user_id,
    });
    tell_watchers(
        hub,
        campaign,
        &map,
        &token,
        "token.move.start",
        &event,
        Some(&from.seat),
    );
}

/// Tells those who may see the token: in 1.1.2 a hidden token's moves still
/// reach the players, only spirits are kept from them.
fn tell_watchers(
    hub: &Hub,
    campaign: &str,
    map: &Map,
    token: &Value,
    event: &str,
    payload: &Value,
    except: Option<&Seat>,
) {
    let old = hub.version().is_old();
    let spirits_shown = hub.spirits_shown(campaign);
    let current = hub
        .world()
        .campaign(campaign)
        .is_some_and(|one| one.current_map_id.as_ref() == Some(&map.id));
    hub.send_to(campaign, event, |seat| {
        if except.is_some_and(|one| one.is(seat)) {
            return None;
        }
        let eyes = viewer(seat, campaign, spirits_shown);
        let sees = eyes.role == Role::Dm
            || if old {
                token["layer"] != "spirit" || eyes.sees_spirits()
            } else {
                current && mask(token, eyes, hub.version()).is_some()
            };
        sees.then(|| payload.clone())
    });
}

fn moved(token: &Value, map: &Map, x: &Value, y: &Value, by: &Value) -> Value {
    json!({ "tokenId": token["id"], "mapId": map.id, "x": x, "y": y, "movedBy": by })
}

/// `token.move {tokenId, mapId, x, y}`: a frame of a drag. It writes nothing.
pub(super) fn frame(hub: &Hub, from: &From) {
    let Some((campaign, role)) = &from.seat.at else {
        return;
    };
    if !hub
        .floor
        .within(from.seat.socket.id.as_str(), "token.move", 1, FRAME)
    {
        return;
    }
    let (x, y) = (from.field("x"), from.field("y"));
    let (Some(across), Some(up)) = (x.as_f64(), y.as_f64()) else {
        return;
    };
    let old = hub.version().is_old();
    let Ok((map, token)) = find(hub, campaign, from) else {
        return;
    };
    if !map.holds(across, up) {
        if old {
            hub.refuse(from, "Token position out of bounds");
        }
        return;
    }
    // 1.1.2 lets anybody's frames through.
    if !old && may_move(hub, campaign, *role, &from.seat, &map, &token).is_err() {
        return;
    }
    let mut event = moved(&token, &map, x, y, &json!(from.seat.user_id));
    if !old {
        event["dragging"] = json!(true);
    }
    tell_watchers(
        hub,
        campaign,
        &map,
        &token,
        "token.moved",
        &event,
        Some(&from.seat),
    );
}

/// `token.move.end {tokenId, mapId, x, y}`: the drop, which is stored.
pub(super) async fn end(hub: &Arc<Hub>, from: &From) {
    let Some((campaign, role)) = &from.seat.at else {
        return hub.refuse(from, "Not authenticated to a campaign");
    };
    let ceiling = "Too many token moves at once. Try again in a moment.";
    if !hub.under_ceiling(from, "token.move.end", 30, ceiling) {
        return;
    }
    let old = hub.version().is_old();
    let (x, y) = (from.field("x"), from.field("y"));
    let number = |value: &Value| value.as_f64().filter(|at| old || at.fract() == 0.0);
    let named = from.text("tokenId").is_some() && from.text("mapId").is_some();
    let (Some(across), Some(up), true) = (number(x), number(y), named) else {
        return hub.refuse(from, "Invalid token move data");
    };
    let (map, token) = match find(hub, campaign, from) {
        Ok(found) => found,
        Err(sentence) => return hub.refuse(from, sentence),
    };
    if let Err(sentence) = may_move(hub, campaign, *role, &from.seat, &map, &token) {
        return send_back(hub, from, &map, &token, sentence);
    }
    if !map.holds(across, up) {
        return send_back(hub, from, &map, &token, "Token position out of bounds");
    }
    let (x, y) = if old {
        (x.clone(), y.clone())
    } else {
        let (x, y) = fit(&map, across, up, &token["size"]);
        (json!(x), json!(y))
    };
    let event = moved(&token, &map, &x, &y, &json!(from.seat.user_id));
    let written = hub.rewrite_tokens(map.clone(), |map| {
        let stored = map
            .tokens
            .iter_mut()
            .find(|one| one["id"] == token["id"])
            .ok_or(())?;
        stored["position"] = json!({ "x": x, "y": y });
        Ok(())
    });
    if written.await == Err::<(), ()>(()) {
        return hub.refuse(from, "Token not found");
    }
    tell_watchers(hub, campaign, &map, &token, "token.moved", &event, None);
}

/// A refused drop: since 1.5 the client also hears where the token really is.
fn send_back(hub: &Hub, from: &From, map: &Map, token: &Value, sentence: &str) {
    hub.refuse(from, sentence);
    if !hub.version().is_old() {
        let place = &token["position"];
        let event = moved(token, map, &place["x"], &place["y"], &Value::Null);
        hub.send(&from.seat.socket, "token.moved", &event);
    }
}
