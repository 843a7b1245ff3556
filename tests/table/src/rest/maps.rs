//! Maps: listing, reading, making, switching, deleting.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::answer::{Answer, Outcome};
use super::gate::{Request, Seated};
use super::token_rules::no_picture;
use crate::hub::Hub;
use crate::world::{Map, Role, Viewer, World, length, now, trimmed};

type Ctx = State<Arc<Hub>>;
type Req = Extension<Request>;

/// A map of this campaign, or the 404 that fits.
pub(super) fn find<'a>(world: &'a World, campaign: &str, map: &str) -> Result<&'a Map, Answer> {
    let map = world
        .map(map)
        .ok_or_else(|| Answer::missing("Map not found"))?;
    if map.campaign_id != campaign {
        return Err(Answer::missing("Map not found in this campaign"));
    }
    Ok(map)
}

/// The same for one who may only see the current map since 1.5.
pub(super) fn find_for<'a>(
    world: &'a World,
    campaign: &str,
    map: &str,
    seated: &Seated,
    old: bool,
) -> Result<&'a Map, Answer> {
    let found = find(world, campaign, map)?;
    let current = world
        .campaign(campaign)
        .and_then(|campaign| campaign.current_map_id.as_deref());
    if !old && seated.role != Role::Dm && current != Some(map) {
        return Err(Answer::missing("Map not found"));
    }
    Ok(found)
}

/// `GET /api/campaigns/:campaignId/maps`
pub(crate) async fn list(
    State(hub): Ctx,
    Extension(request): Req,
    Path(id): Path<String>,
) -> Outcome {
    let seated = request.member(&hub, &id)?;
    let version = hub.version();
    let world = hub.world();
    let current = world
        .campaign(&id)
        .and_then(|campaign| campaign.current_map_id.clone());
    let maps: Vec<Value> = world
        .maps
        .iter()
        .rev()
        .filter(|map| map.campaign_id == id)
        .filter(|map| {
            version.is_old() || seated.role == Role::Dm || current.as_ref() == Some(&map.id)
        })
        .map(|map| map.list_entry(version))
        .collect();
    Ok(Answer::ok(json!({ "maps": maps })))
}

/// `GET /api/campaigns/:campaignId/maps/:mapId`
pub(crate) async fn get(
    State(hub): Ctx,
    Extension(request): Req,
    Path((id, map)): Path<(String, String)>,
) -> Outcome {
    let seated = request.member(&hub, &id)?;
    let version = hub.version();
    let world = hub.world();
    let map = find_for(&world, &id, &map, &seated, version.is_old())?;
    let viewer = Viewer {
        user_id: &seated.user_id,
        role: seated.role,
        spirits_shown: world
            .campaign(&id)
            .is_some_and(|campaign| campaign.spirit_layer_enabled),
    };
    Ok(Answer::ok(json!({
        "map": map.view(viewer, version),
        "spiritVisible": viewer.sees_spirits(),
    })))
}

/// A side of the map in squares. 1.1.2 cuts off what is behind the point.
fn side(value: &Value, old: bool) -> Option<u32> {
    let number = value.as_f64()?;
    let fits = if old {
        number >= 1.0 && number <= f64::from(u32::MAX)
    } else {
        number.fract() == 0.0 && (1.0..=500.0).contains(&number)
    };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked above
    fits.then_some(number as u32)
}

/// A bare id becomes the path its picture is served under.
pub(super) fn asset_path(kind: &str, id: &str) -> String {
    if id.starts_with("/api/assets/") || id.is_empty() {
        id.to_owned()
    } else {
        format!("/api/assets/{kind}/{id}")
    }
}

/// `POST /api/campaigns/:campaignId/maps`
pub(crate) async fn create(
    State(hub): Ctx,
    Extension(request): Req,
    Path(id): Path<String>,
) -> Outcome {
    let user = request.dm(&hub, &id)?.user_id;
    let version = hub.version();
    let body = &request.body;
    let name = body["name"].as_str().map_or("", trimmed);
    if name.is_empty() {
        return Err(Answer::invalid("Map name is required"));
    }
    if !version.is_old() && length(name) > 200 {
        return Err(Answer::invalid("Map name can be 200 characters at most"));
    }
    let image = body["imageUrl"].as_str().unwrap_or_default();
    if image.is_empty() {
        return Err(Answer::invalid("Map imageUrl (asset ID) is required"));
    }
    let (Some(width), Some(height)) = (
        side(&body["width"], version.is_old()),
        side(&body["height"], version.is_old()),
    ) else {
        return Err(Answer::invalid(if version.is_old() {
            "Map width and height must be positive numbers"
        } else {
            "Map width and height must be whole numbers from 1 to 500"
        }));
    };
    let grid_size = body["gridSize"]
        .as_f64()
        .filter(|size| *size > 0.0 && (version.is_old() || (10.0..=500.0).contains(size)));
    let feet = body["feetPerSquare"]
        .as_u64()
        .and_then(|feet| u32::try_from(feet).ok())
        .filter(|feet| (1..=100).contains(feet));
    let diagonal = body["diagonalRule"]
        .as_str()
        .filter(|rule| *rule == "alternating");
    let spirit = body["spiritLayerUrl"]
        .as_str()
        .filter(|url| !url.is_empty());
    let mut world = hub.world();
    if !version.is_old()
        && [image, spirit.unwrap_or_default()]
            .iter()
            .any(|url| !world.may_show(url, &user))
    {
        return Err(no_picture());
    }
    let map = Map {
        id: world.new_id(),
        campaign_id: id,
        name: name.to_owned(),
        image_url: asset_path("maps", image),
        spirit_layer_url: spirit.map(|url| asset_path("maps", url)),
        width,
        height,
        grid_size: grid_size.unwrap_or(50.0),
        feet_per_square: feet.unwrap_or(5),
        diagonal_rule: diagonal.unwrap_or("flat").to_owned(),
        tokens: Vec::new(),
        created_at: now(),
        updated_at: now(),
    };
    let row = map.row(version);
    world.maps.push(map);
    drop(world);
    hub.log.touch();
    Ok(Answer::created(json!({ "map": row })))
}

/// `PUT /api/campaigns/:campaignId/maps/:mapId/set-current`. It tells nobody.
pub(crate) async fn set_current(
    State(hub): Ctx,
    Extension(request): Req,
    Path((id, map)): Path<(String, String)>,
) -> Outcome {
    request.dm(&hub, &id)?;
    let version = hub.version();
    let mut world = hub.world();
    let found = find(&world, &id, &map)?;
    let current = json!({ "id": found.id, "name": found.name, "imageUrl": found.image_url });
    let campaign = world
        .campaign_mut(&id)
        .ok_or_else(|| Answer::missing("Campaign not found"))?;
    campaign.current_map_id = Some(map);
    campaign.updated_at = now();
    let mut row = campaign.columns(version);
    row["currentMap"] = current;
    let fighting = world.initiative.contains_key(&id);
    drop(world);
    if fighting && !version.is_old() {
        // Players see only those who stand on the current map.
        hub.send_initiative(&id);
    }
    hub.log.touch();
    Ok(Answer::ok(json!({
        "message": "Current map updated successfully",
        "campaign": row,
    })))
}

/// `DELETE /api/campaigns/:campaignId/maps/:mapId`
pub(crate) async fn delete(
    State(hub): Ctx,
    Extension(request): Req,
    Path((id, map)): Path<(String, String)>,
) -> Outcome {
    request.dm(&hub, &id)?;
    let mut world = hub.world();
    find(&world, &id, &map)?;
    let current = world
        .campaign(&id)
        .and_then(|campaign| campaign.current_map_id.as_ref());
    if current == Some(&map) {
        return Err(Answer::invalid(
            "Cannot delete the current map. Set a different map as current first.",
        ));
    }
    world.maps.retain(|one| one.id != map);
    let changed = match world.initiative.get_mut(&id) {
        Some(order) => {
            let before = order.combatants.len();
            let gone: Vec<String> = order
                .combatants
                .iter()
                .filter(|one| one.map_id == map)
                .map(|one| one.token_id.clone())
                .collect();
            for token in gone {
                order.remove(&token, hub.version());
            }
            order.combatants.len() != before
        }
        None => false,
    };
    drop(world);
    if changed && !hub.version().is_old() {
        hub.send_initiative(&id);
    }
    hub.log.touch();
    Ok(Answer::ok(json!({ "message": "Map deleted successfully" })))
}
