//! Saved rolls, which the server calls macros.

use serde_json::{Value, json};

use super::World;

/// One saved roll. Only its owner sees it.
#[derive(Debug, Clone)]
pub(crate) struct SavedRoll {
    pub(crate) id: String,
    pub(crate) campaign_id: String,
    pub(crate) user_id: String,
    pub(crate) name: String,
    pub(crate) expression: String,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
}

impl SavedRoll {
    /// The whole row.
    pub(crate) fn row(&self) -> Value {
        json!({
            "id": self.id,
            "campaignId": self.campaign_id,
            "userId": self.user_id,
            "name": self.name,
            "expression": self.expression,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
        })
    }

    fn belongs(&self, campaign: &str, user: &str) -> bool {
        self.campaign_id == campaign && self.user_id == user
    }
}

impl World {
    /// A user's saved rolls in a campaign, oldest first.
    pub(crate) fn saved_rolls_of(&self, campaign: &str, user: &str) -> Vec<&SavedRoll> {
        let rolls = self.saved_rolls.iter();
        rolls.filter(|one| one.belongs(campaign, user)).collect()
    }

    /// Where one of them stands in the list of all.
    pub(crate) fn saved_roll_at(&self, campaign: &str, user: &str, id: &str) -> Option<usize> {
        let mut rolls = self.saved_rolls.iter();
        rolls.position(|one| one.id == id && one.belongs(campaign, user))
    }
}
