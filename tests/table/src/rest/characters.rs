//! Characters: the caller's own, one, and saving a sheet.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::answer::{Answer, Outcome};
use super::gate::Request;
use super::maps::asset_path;
use super::sheet_rules;
use super::token_rules::no_picture;
use crate::hub::Hub;
use crate::world::{
    Character, GameSystem, Role, World, hit_points, length, name_key, now, trimmed,
};

type Ctx = State<Arc<Hub>>;
type Req = Extension<Request>;

/// `GET /api/characters`
pub(crate) async fn list(State(hub): Ctx, Extension(request): Req) -> Outcome {
    let user = request.user()?;
    let world = hub.world();
    let characters: Vec<Value> = world
        .characters
        .iter()
        .rev()
        .filter(|one| one.user_id == user)
        .map(|one| world.character_row(one))
        .collect();
    Ok(Answer::ok(json!({ "characters": characters })))
}

pub(super) fn find<'a>(world: &'a World, id: &str) -> Result<&'a Character, Answer> {
    world
        .character(id)
        .ok_or_else(|| Answer::missing("Character not found"))
}

/// The caller's role at the campaign the character belongs to.
fn role(world: &World, character: &Character, user: &str) -> Option<Role> {
    world.role(character.campaign_id.as_deref()?, user)
}

/// `GET /api/characters/:id`
pub(crate) async fn get(
    State(hub): Ctx,
    Extension(request): Req,
    Path(id): Path<String>,
) -> Outcome {
    let user = request.user()?;
    let world = hub.world();
    let character = find(&world, &id)?;
    let shared = role(&world, character, &user).is_some()
        && (hub.version().is_old() || role(&world, character, &character.user_id).is_some());
    if character.user_id != user && !shared {
        return Err(Answer::forbidden(
            "You do not have permission to view this character",
        ));
    }
    Ok(Answer::ok(
        json!({ "character": world.character_view(character) }),
    ))
}

/// `PUT /api/characters/:id`. The sheet is replaced as a whole.
pub(crate) async fn update(
    State(hub): Ctx,
    Extension(request): Req,
    Path(id): Path<String>,
) -> Outcome {
    let user = request.user()?;
    let old = hub.version().is_old();
    let mut body = request.body.clone();
    let before = {
        let world = hub.world();
        let character = find(&world, &id)?;
        let role = role(&world, character, &user);
        if character.user_id != user && role != Some(Role::Dm) {
            return Err(Answer::forbidden(
                "You do not have permission to edit this character",
            ));
        }
        if !old && role == Some(Role::Spectator) {
            return Err(Answer::forbidden(
                "Spectators cannot edit a character in this campaign",
            ));
        }
        let picture = body["tokenImageUrl"].as_str().unwrap_or_default();
        if !old && !world.may_show(picture, &user) {
            return Err(no_picture());
        }
        character.clone()
    };
    check(&before, &body, old)?;
    if let Some(data) = body.get_mut("data").filter(|_| !old) {
        sheet_rules::prune(before.game_system, data);
    }

    tokio::time::sleep(hub.options.write_hold).await;

    let saved = save(&hub, &before, &body)?;
    hub.log.touch();
    tell(&hub, &before, &saved, &user);
    Ok(Answer::ok(json!({
        "message": "Character updated successfully",
        "character": hub.world().character_row(&saved.character),
    })))
}

/// A character as it was saved.
struct Saved {
    character: Character,
    /// The campaigns on whose maps its tokens got a new picture.
    repainted: Vec<String>,
}

fn save(hub: &Hub, before: &Character, body: &Value) -> Result<Saved, Answer> {
    let old = hub.version().is_old();
    let mut world = hub.world();
    let stored = world
        .character_mut(&before.id)
        .ok_or_else(|| Answer::missing("Character not found"))?;
    if !old {
        // Two guarded saves may both have passed the first look.
        unchanged(stored, body)?;
    }
    if let Some(data) = body.get("data") {
        stored.data = data.clone();
        let written = name_key(stored.game_system).and_then(|key| data[key].as_str());
        if let (false, None, Some(name)) = (old, body["name"].as_str(), written) {
            name.clone_into(&mut stored.name);
        }
    }
    if let Some(name) = body["name"].as_str() {
        trimmed(name).clone_into(&mut stored.name);
    }
    if let Some(url) = body.get("tokenImageUrl") {
        stored.token_image_url = url.as_str().map(|url| asset_path("tokens", url));
    }
    stored.updated_at = now();
    let character = stored.clone();
    let mut repainted = Vec::new();
    if !old && character.token_image_url != before.token_image_url {
        let picture = character.token_image_url.clone().unwrap_or_default();
        repainted = world.repaint_tokens(&character.id, &picture);
    }
    Ok(Saved {
        character,
        repainted,
    })
}

/// Tells the campaign, and since 1.5 those whose maps show the character.
fn tell(hub: &Hub, before: &Character, saved: &Saved, user: &str) {
    let old = hub.version().is_old();
    let character = &saved.character;
    let home = character.campaign_id.as_deref();
    if let Some(campaign) = home {
        let row = hub.world().character_row(character);
        let mut event = json!({ "characterId": character.id, "character": row, "userId": user });
        if !old {
            let here = saved.repainted.iter().any(|one| one == campaign);
            event["tokensChanged"] = json!(here);
        }
        hub.send_to_room(campaign, "character.updated", &event);
        let hp = hit_points(character.game_system, &character.data);
        let hp_before = hit_points(before.game_system, &before.data);
        if let Some(hp) = hp.filter(|hp| !old && Some(hp) != hp_before.as_ref()) {
            let event = json!({ "characterId": character.id, "hp": hp });
            hub.send_to_room(campaign, "character.hp.updated", &event);
        }
    }
    for campaign in &saved.repainted {
        if home != Some(campaign) {
            let event = json!({ "characterId": character.id, "tokensChanged": true });
            hub.send_to_room(campaign, "character.updated", &event);
        }
    }
}

/// A name of a character, trimmed.
pub(super) fn name(value: &Value) -> Result<&str, Answer> {
    value
        .as_str()
        .map(trimmed)
        .filter(|name| (1..=200).contains(&length(name)))
        .ok_or_else(|| Answer::invalid("Character name must be 1 to 200 characters"))
}

/// The guard of 1.5: refuses a save of what was loaded before the last change.
fn unchanged(stored: &Character, body: &Value) -> Result<(), Answer> {
    match body.get("updatedAt") {
        Some(stamp) if *stamp != stored.updated_at.as_str() => Err(Answer::conflict(
            "CHARACTER_CHANGED",
            "This character was changed by someone else since you opened it.",
        )),
        _ => Ok(()),
    }
}

/// Whether the body may be saved over `before`.
fn check(before: &Character, body: &Value, old: bool) -> Result<(), Answer> {
    let system = before.game_system.map(GameSystem::as_str);
    if let Some(sent) = body.get("gameSystem")
        && sent.as_str() != system
    {
        return Err(Answer::bad(
            "Bad Request",
            "Cannot change game system of an existing character",
        ));
    }
    if let Some(sent) = body.get("name") {
        name(sent)?;
    }
    if !old {
        unchanged(before, body)?;
    }
    match body.get("data") {
        Some(data) => sheet_rules::check(before.game_system, data),
        None => Ok(()),
    }
}
