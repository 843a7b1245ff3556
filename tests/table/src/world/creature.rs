//! Creature templates: the common library and what a campaign made itself.

use serde_json::{Value, json};

use super::{GameSystem, World};

/// One template.
#[derive(Debug, Clone)]
pub(crate) struct Creature {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) game_system: Option<GameSystem>,
    /// The campaign that made it; none for the library.
    pub(crate) campaign_id: Option<String>,
    pub(crate) created_by: Option<String>,
    pub(crate) image_url: Option<String>,
    pub(crate) stat_block: Value,
    /// Squares on a side.
    pub(crate) size: u32,
    pub(crate) disposition: String,
    pub(crate) created_at: String,
}

impl Creature {
    pub(crate) fn source(&self) -> &'static str {
        if self.campaign_id.is_some() {
            "custom"
        } else {
            "srd"
        }
    }

    /// The whole row.
    pub(crate) fn row(&self) -> Value {
        json!({
            "id": self.id,
            "name": self.name,
            "gameSystem": self.game_system.map(GameSystem::as_str),
            "source": self.source(),
            "challengeRating": self.stat_block["challengeRating"],
            "creatureType": self.stat_block["creatureType"],
            "alignment": self.stat_block["alignment"],
            "imageUrl": self.image_url,
            "statBlock": self.stat_block,
            "size": { "width": self.size, "height": self.size },
            "disposition": self.disposition,
            "displayMode": "pog",
            "createdById": self.created_by,
            "campaignId": self.campaign_id,
            "createdAt": self.created_at,
            "updatedAt": self.created_at,
        })
    }
}

impl World {
    /// What a campaign can place, by name.
    pub(crate) fn creatures_of(&self, campaign: &str) -> Vec<&Creature> {
        let mut found: Vec<&Creature> = self
            .creatures
            .iter()
            .filter(|one| one.campaign_id.as_deref().is_none_or(|id| id == campaign))
            .collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }
}
