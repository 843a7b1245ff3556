//! Characters and the hit points on their sheets.

use serde_json::{Value, json};

use super::{GameSystem, User, World, plain};

/// One character.
#[derive(Debug, Clone)]
pub(crate) struct Character {
    pub(crate) id: String,
    pub(crate) user_id: String,
    pub(crate) campaign_id: Option<String>,
    pub(crate) game_system: Option<GameSystem>,
    pub(crate) name: String,
    pub(crate) token_image_url: Option<String>,
    /// The sheet.
    pub(crate) data: Value,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
}

impl Character {
    /// The character as part of a campaign: no sheet.
    pub(crate) fn summary(&self) -> Value {
        json!({
            "id": self.id,
            "userId": self.user_id,
            "campaignId": self.campaign_id,
            "gameSystem": self.game_system.map(GameSystem::as_str),
            "name": self.name,
            "tokenImageUrl": self.token_image_url,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
        })
    }

    /// The whole row.
    pub(crate) fn row(&self) -> Value {
        let mut row = self.summary();
        row["data"] = self.data.clone();
        row
    }

    pub(crate) fn roster_entry(&self) -> Value {
        json!({
            "id": self.id,
            "name": self.name,
            "tokenImageUrl": self.token_image_url,
            "gameSystem": self.game_system.map(GameSystem::as_str),
            "userId": self.user_id,
            "hp": hit_points(self.game_system, &self.data),
        })
    }
}

/// The key under which a system's sheet holds the character's name; a flexible
/// sheet has none.
pub(crate) fn name_key(system: Option<GameSystem>) -> Option<&'static str> {
    system.map(|system| match system {
        GameSystem::CallOfCthulhu7e => "investigatorName",
        _ => "characterName",
    })
}

/// `{current, max, temp}` of a sheet; none when the system has no hit points or
/// no maximum is written down.
pub(crate) fn hit_points(system: Option<GameSystem>, data: &Value) -> Option<Value> {
    let (hp, with_temp) = match system {
        Some(GameSystem::Shadowrun6e) => return None,
        Some(GameSystem::CallOfCthulhu7e) => (&data["derivedStats"]["hp"], false),
        _ => (&data["hp"], true),
    };
    let maximum = hp["maximum"].as_f64().filter(|max| *max > 0.0)?;
    let temporary = hp["temporary"].as_f64().filter(|_| with_temp);
    Some(json!({
        "current": plain(hp["current"].as_f64().unwrap_or(0.0)),
        "max": plain(maximum),
        "temp": plain(temporary.unwrap_or(0.0)),
    }))
}

/// Writes the current hit points of a sheet that has some.
pub(crate) fn set_current_hit_points(system: Option<GameSystem>, data: &mut Value, current: f64) {
    let hp = match system {
        Some(GameSystem::CallOfCthulhu7e) => data.pointer_mut("/derivedStats/hp"),
        _ => data.pointer_mut("/hp"),
    };
    if let Some(Value::Object(hp)) = hp {
        hp.insert("current".to_owned(), plain(current));
    }
}

impl World {
    /// The character with its campaign, as lists and updates show it.
    pub(crate) fn character_row(&self, character: &Character) -> Value {
        let mut row = character.row();
        row["campaign"] = character
            .campaign_id
            .as_deref()
            .and_then(|id| self.campaign(id))
            .map_or(Value::Null, |one| json!({ "id": one.id, "name": one.name }));
        row
    }

    /// The character with its campaign and its owner.
    pub(crate) fn character_view(&self, character: &Character) -> Value {
        let mut row = self.character_row(character);
        row["user"] = json!(self.user(&character.user_id).map(User::card));
        row
    }
}
