//! Characters: making, copying, deleting, giving to a campaign, validating.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::answer::{Answer, Outcome};
use super::characters::{find, name};
use super::gate::Request;
use super::maps::asset_path;
use super::sheet_rules;
use super::token_rules::no_picture;
use crate::hub::Hub;
use crate::world::{Character, GameSystem, World, now};

type Ctx = State<Arc<Hub>>;
type Req = Extension<Request>;

/// `POST /api/characters`
pub(crate) async fn create(State(hub): Ctx, Extension(request): Req) -> Outcome {
    let user = request.user()?;
    let old = hub.version().is_old();
    let body = &request.body;
    let name = name(&body["name"])?;
    let mut world = hub.world();
    let campaign = match body["campaignId"].as_str().filter(|id| !id.is_empty()) {
        Some(id) => Some(home(&world, id, &user, old)?),
        None => None,
    };
    let system = match body.get("gameSystem") {
        None => campaign
            .as_deref()
            .and_then(|id| world.campaign(id)?.game_system),
        Some(Value::Null) => None,
        Some(sent) => Some(system(sent)?),
    };
    let mut data = body.get("data").cloned().unwrap_or_else(|| json!({}));
    if body.get("data").is_some() {
        if let (false, Some(player)) = (old, world.user(&user)) {
            sheet_rules::sign(system, &mut data, name, player);
        }
        sheet_rules::check(system, &data)?;
        if !old {
            sheet_rules::prune(system, &mut data);
        }
    }
    let picture = body["tokenImageUrl"]
        .as_str()
        .filter(|url| !url.is_empty())
        .map(|url| asset_path("tokens", url));
    if !old
        && picture
            .as_deref()
            .is_some_and(|url| !world.may_show(url, &user))
    {
        return Err(no_picture());
    }
    let character = Character {
        id: world.new_id(),
        user_id: user.clone(),
        campaign_id: campaign.clone(),
        game_system: system,
        name: name.to_owned(),
        token_image_url: picture,
        data,
        created_at: now(),
        updated_at: now(),
    };
    let row = character.row();
    // 1.1.2 forgets the roster.
    if let Some(campaign) = campaign.filter(|_| !old) {
        world.enlist(&campaign, &user, &character.id);
    }
    world.characters.push(character);
    drop(world);
    hub.log.touch();
    Ok(Answer::created(json!({
        "message": "Character created successfully",
        "character": row,
    })))
}

/// The campaign a new character is to belong to. 1.1.2 takes any there is.
fn home(world: &World, id: &str, user: &str, old: bool) -> Result<String, Answer> {
    let campaign = world.campaign(id).ok_or_else(|| {
        if old {
            Answer::failed("Failed to create character")
        } else {
            Answer::missing("Campaign not found")
        }
    })?;
    if !old && campaign.membership(user).is_none() {
        return Err(Answer::forbidden(
            "You must be a member of the campaign to create a character in it",
        ));
    }
    Ok(campaign.id.clone())
}

fn system(sent: &Value) -> Result<GameSystem, Answer> {
    sent.as_str().and_then(GameSystem::named).ok_or_else(|| {
        Answer::invalid(
            "Invalid option: expected one of \"DND_5E\"|\"PATHFINDER_2E\"|\"SHADOWRUN_6E\"|\"CALL_OF_CTHULHU_7E\"",
        )
    })
}

/// A character of the caller's own.
fn own<'a>(world: &'a World, id: &str, user: &str, what: &str) -> Result<&'a Character, Answer> {
    let character = find(world, id)?;
    if character.user_id != user {
        return Err(Answer::forbidden(&format!(
            "You do not have permission to {what} this character"
        )));
    }
    Ok(character)
}

/// `POST /api/characters/:id/copy`
pub(crate) async fn copy(
    State(hub): Ctx,
    Extension(request): Req,
    Path(id): Path<String>,
) -> Outcome {
    let user = request.user()?;
    let mut world = hub.world();
    let mut copy = own(&world, &id, &user, "copy")?.clone();
    copy.id = world.new_id();
    copy.name.push_str(" (Copy)");
    copy.campaign_id = None;
    copy.created_at = now();
    copy.updated_at = now();
    let row = copy.row();
    world.characters.push(copy);
    drop(world);
    hub.log.touch();
    Ok(Answer::created(json!({
        "message": "Character copied successfully",
        "character": row,
    })))
}

/// `DELETE /api/characters/:id`. Tokens and rosters keep the dead id.
pub(crate) async fn delete(
    State(hub): Ctx,
    Extension(request): Req,
    Path(id): Path<String>,
) -> Outcome {
    let user = request.user()?;
    let mut world = hub.world();
    own(&world, &id, &user, "delete")?;
    world.characters.retain(|one| one.id != id);
    drop(world);
    hub.log.touch();
    Ok(Answer::ok(
        json!({ "message": "Character deleted successfully" }),
    ))
}

/// `POST /api/characters/:id/assign`
pub(crate) async fn assign(
    State(hub): Ctx,
    Extension(request): Req,
    Path(id): Path<String>,
) -> Outcome {
    let user = request.user()?;
    let target = request.body["campaignId"]
        .as_str()
        .filter(|id| !id.is_empty());
    let (before, row) = {
        let mut world = hub.world();
        let character = own(&world, &id, &user, "assign")?;
        if let Some(campaign) = target {
            may_join(&world, character, campaign, &user)?;
        }
        let before = character.campaign_id.clone();
        for campaign in &mut world.campaigns {
            for membership in &mut campaign.memberships {
                membership.character_ids.retain(|one| *one != id);
            }
        }
        if let Some(campaign) = target {
            world.enlist(campaign, &user, &id);
        }
        let stored = world.character_mut(&id).ok_or_else(Answer::broken)?;
        stored.campaign_id = target.map(str::to_owned);
        stored.updated_at = now();
        let stored = stored.clone();
        let mut row = world.character_row(&stored);
        if let Some(campaign) = target.and_then(|id| world.campaign(id)) {
            row["campaign"]["gameSystem"] = json!(campaign.game_system.map(GameSystem::as_str));
        }
        (before, row)
    };
    hub.log.touch();
    if let Some(left) = before.filter(|left| Some(left.as_str()) != target) {
        let event = json!({ "action": "character.unassigned", "characterId": id, "userId": user });
        hub.send_to_room(&left, "roster.updated", &event);
    }
    let what = if let Some(campaign) = target {
        let event = json!({
            "action": "character.assigned", "characterId": id, "userId": user,
            "campaignId": campaign,
        });
        hub.send_to_room(campaign, "roster.updated", &event);
        "assigned to"
    } else {
        "unassigned from"
    };
    Ok(Answer::ok(json!({
        "message": format!("Character {what} campaign successfully"),
        "character": row,
    })))
}

/// Whether a character may be given to a campaign.
fn may_join(
    world: &World,
    character: &Character,
    campaign: &str,
    user: &str,
) -> Result<(), Answer> {
    let campaign = world
        .campaign(campaign)
        .ok_or_else(|| Answer::missing("Campaign not found"))?;
    if campaign.membership(user).is_none() {
        return Err(Answer::forbidden("You are not a member of this campaign"));
    }
    if campaign.game_system != character.game_system {
        let called = |system: Option<GameSystem>| system.map_or("flexible", GameSystem::as_str);
        return Err(Answer::bad(
            "Game System Mismatch",
            &format!(
                "Cannot assign a {} character to a {} campaign. Character and campaign game systems must match.",
                called(character.game_system),
                called(campaign.game_system),
            ),
        ));
    }
    Ok(())
}

/// `GET /api/characters/:id/validate`. Before 1.5 it finds nothing wrong, ever.
pub(crate) async fn validate(
    State(hub): Ctx,
    Extension(request): Req,
    Path(id): Path<String>,
) -> Outcome {
    let user = request.user()?;
    let world = hub.world();
    let character = own(&world, &id, &user, "validate")?;
    if character.game_system.is_none() {
        return Err(Answer::odd(json!({
            "isValid": false,
            "errors": [{
                "path": "gameSystem",
                "message": "This character has no game system to be checked against",
                "code": "no_game_system",
            }],
        })));
    }
    let faults = sheet_rules::faults(character.game_system, &character.data);
    Ok(Answer::ok(if hub.version().is_old() || faults.is_empty() {
        json!({ "isValid": true })
    } else {
        json!({ "isValid": false, "errors": faults })
    }))
}
