//! Hit points of characters.

use std::sync::Arc;

use serde_json::{Value, json};

use super::From;
use crate::hub::Hub;
use crate::world::{GameSystem, Role, hit_points, set_current_hit_points};

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
    let character = world.character(id).ok_or("Character not found")?;
    let listed = world.campaign(campaign).is_some_and(|campaign| {
        campaign
            .memberships
            .iter()
            .any(|one| one.character_ids.iter().any(|listed| listed == id))
    });
    if !listed {
        return Err("Character is not in this campaign");
    }
    if !hub.version().is_old() && role == Role::Spectator {
        return Err("Spectators cannot change a character");
    }
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
