//! Characters: the caller's own, one, and saving a sheet.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::answer::{Answer, Outcome};
use super::gate::Request;
use super::maps::asset_path;
use super::sheet_rules;
use crate::hub::Hub;
use crate::world::{Character, GameSystem, Role, World, hit_points, now};

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

fn find<'a>(world: &'a World, id: &str) -> Result<&'a Character, Answer> {
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
    let body = &request.body;
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
        character.clone()
    };
    check(&before, body, old)?;

    tokio::time::sleep(hub.options.write_hold).await;

    let (row, campaign, hp_changed) = {
        let mut world = hub.world();
        let stored = world
            .character_mut(&id)
            .ok_or_else(|| Answer::missing("Character not found"))?;
        if let Some(data) = body.get("data") {
            stored.data = data.clone();
            if let (false, None, Some(name)) =
                (old, body["name"].as_str(), data["characterName"].as_str())
            {
                name.clone_into(&mut stored.name);
            }
        }
        if let Some(name) = body["name"].as_str() {
            name.trim().clone_into(&mut stored.name);
        }
        if let Some(url) = body.get("tokenImageUrl") {
            stored.token_image_url = url.as_str().map(|url| asset_path("tokens", url));
        }
        stored.updated_at = now();
        let hp = hit_points(stored.game_system, &stored.data);
        let hp_changed =
            hp.filter(|hp| Some(hp) != hit_points(before.game_system, &before.data).as_ref());
        let stored = stored.clone();
        (
            world.character_row(&stored),
            stored.campaign_id.clone(),
            hp_changed,
        )
    };
    hub.log.touch();
    if let Some(campaign) = campaign {
        let mut event = json!({ "characterId": id, "character": row, "userId": user });
        if !old {
            event["tokensChanged"] = json!(false);
        }
        hub.send_to_room(&campaign, "character.updated", &event);
        if let Some(hp) = hp_changed.filter(|_| !old) {
            let event = json!({ "characterId": id, "hp": hp });
            hub.send_to_room(&campaign, "character.hp.updated", &event);
        }
    }
    Ok(Answer::ok(json!({
        "message": "Character updated successfully",
        "character": row,
    })))
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
    if let Some(name) = body.get("name") {
        let length = name.as_str().map_or(0, |name| name.trim().chars().count());
        if !(1..=200).contains(&length) {
            return Err(Answer::invalid(
                "Character name must be 1 to 200 characters",
            ));
        }
    }
    if let Some(stamp) = body.get("updatedAt")
        && !old
        && *stamp != before.updated_at.as_str()
    {
        return Err(Answer::conflict(
            "CHARACTER_CHANGED",
            "This character was changed by someone else since you opened it.",
        ));
    }
    if let Some(data) = body.get("data") {
        let faults = sheet_rules::faults(before.game_system, data);
        if !faults.is_empty() {
            return Err(
                Answer::invalid("Character data does not match game system schema")
                    .with("validationErrors", Value::Array(faults)),
            );
        }
    }
    Ok(())
}
