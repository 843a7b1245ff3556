//! Hit points and hit dice of characters.

use std::sync::Arc;

use serde_json::{Value, json};

use super::From;
use crate::hub::Hub;
use crate::world::{Character, GameSystem, Role, World, hit_points, set_current_hit_points};

/// `character.hp.update {characterId, delta}`
pub(super) async fn change_hp(hub: &Arc<Hub>, from: &From) {
    let Some((campaign, role)) = from.seat.at.clone() else {
        return hub.refuse(from, "Not authenticated to a campaign");
    };
    let ceiling = "Too many hit point changes at once. Try again in a moment.";
    if !hub.under_ceiling(from, "character.hp.update", 50, ceiling) {
        return;
    }
    let (Some(id), Some(delta)) = (from.text("characterId"), from.field("delta").as_f64()) else {
        let sentence = "characterId (string) and delta (number) are required";
        return hub.refuse(from, sentence);
    };
    let sheet = match new_sheet(hub, &campaign, role, &from.seat.user_id, id, delta) {
        Ok(sheet) => sheet,
        Err(sentence) => return hub.refuse(from, sentence),
    };
    let system = hub.world().character(id).and_then(|one| one.game_system);
    let hp = hit_points(system, &sheet);
    hub.rewrite_sheet(id, sheet).await;
    let event = json!({ "characterId": id, "hp": hp });
    hub.send_to_room(&campaign, "character.hp.updated", &event);
}

/// `character.hitdice.spend {characterId, index}` (not in 1.1.2). It rolls
/// nothing and heals nothing.
pub(super) async fn spend_hit_die(hub: &Arc<Hub>, from: &From) {
    let Some((campaign, role)) = from.seat.at.clone() else {
        return hub.refuse(from, "Not authenticated to a campaign");
    };
    let ceiling = "Too many hit dice spent at once. Try again in a moment.";
    if !hub.under_ceiling(from, "character.hitdice.spend", 50, ceiling) {
        return;
    }
    let (Some(id), Some(index)) = (from.text("characterId"), from.field("index").as_i64()) else {
        let sentence = "characterId (string) and index (integer) are required";
        return hub.refuse(from, sentence);
    };
    let sheet = match sheet_after_die(hub, &campaign, role, &from.seat.user_id, id, index) {
        Ok(sheet) => sheet,
        Err(sentence) => return hub.refuse(from, sentence),
    };
    hub.rewrite_sheet(id, sheet).await;
    let row = {
        let world = hub.world();
        world.character(id).map(|one| world.character_row(one))
    };
    let event = json!({
        "characterId": id, "character": row, "userId": from.seat.user_id, "tokensChanged": false,
    });
    hub.send_to_room(&campaign, "character.updated", &event);
}

/// The whole sheet with one hit die less, or the sentence that refuses it.
fn sheet_after_die(
    hub: &Hub,
    campaign: &str,
    role: Role,
    user_id: &str,
    id: &str,
    index: i64,
) -> Result<Value, &'static str> {
    let world = hub.world();
    let character = in_campaign(hub, &world, campaign, role, id)?;
    if character.user_id != user_id && role != Role::Dm {
        return Err("You do not have permission to spend this character's hit dice");
    }
    if character.game_system != Some(GameSystem::Dnd5e) {
        return Err("Hit dice are not tracked for this game system");
    }
    let mut sheet = character.data.clone();
    let pool = usize::try_from(index)
        .ok()
        .and_then(|index| sheet.get_mut("hitDice")?.get_mut(index))
        .ok_or("No hit dice pool at that position")?;
    let left = pool["remaining"].as_i64().unwrap_or_default();
    if left <= 0 {
        return Err("No hit dice remaining to spend");
    }
    pool["remaining"] = json!(left - 1);
    Ok(sheet)
}

/// A character on the campaign's roster, for one who may change characters.
fn in_campaign<'a>(
    hub: &Hub,
    world: &'a World,
    campaign: &str,
    role: Role,
    id: &str,
) -> Result<&'a Character, &'static str> {
    let character = world.character(id).ok_or("Character not found")?;
    let listed = world.campaign(campaign).is_some_and(|campaign| {
        let mut memberships = campaign.memberships.iter();
        memberships.any(|one| one.character_ids.iter().any(|listed| listed == id))
    });
    if !listed {
        return Err("Character is not in this campaign");
    }
    if !hub.version().is_old() && role == Role::Spectator {
        return Err("Spectators cannot change a character");
    }
    Ok(character)
}

/// The whole sheet with its hit points changed, or the sentence that refuses it.
fn new_sheet(
    hub: &Hub,
    campaign: &str,
    role: Role,
    user_id: &str,
    id: &str,
    delta: f64,
) -> Result<Value, &'static str> {
    let world = hub.world();
    let character = in_campaign(hub, &world, campaign, role, id)?;
    if character.user_id != user_id && role != Role::Dm {
        return Err("You do not have permission to update this character's HP");
    }
    if matches!(character.game_system, None | Some(GameSystem::Shadowrun6e)) {
        return Err("HP tracking not supported for this game system");
    }
    let hp = hit_points(character.game_system, &character.data)
        .ok_or("Character does not have HP tracking")?;
    let number = |key: &str| hp[key].as_f64().unwrap_or_default();
    let current = (number("current") + delta).clamp(0.0, number("max"));
    let mut sheet = character.data.clone();
    set_current_hit_points(character.game_system, &mut sheet, current);
    Ok(sheet)
}
