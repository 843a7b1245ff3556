//! What a test can see of the table without asking over the wire.

use serde_json::Value;

use super::Table;
use crate::world::{AssetKind, Creature, LineKind, Role, SavedRoll};

/// A line of the chat, as the server stores it.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatLine {
    /// The message's id.
    pub id: String,
    /// The author; none for lines of the system.
    pub user_id: Option<String>,
    /// `PLAYER`, `DM` or `SYSTEM`.
    pub kind: String,
    /// The text.
    pub content: String,
    /// What a line of the system is about; null otherwise.
    pub metadata: Value,
}

/// A roll, as the server stores it.
#[derive(Debug, Clone, PartialEq)]
pub struct RollLine {
    /// The roll's id.
    pub id: String,
    /// Who rolled.
    pub user_id: String,
    /// The expression as sent.
    pub expression: String,
    /// What it came to.
    pub result: i64,
    /// Whether it was rolled in secret.
    pub secret: bool,
    /// The whole event, as `dice.rolled` carries it.
    pub event: Value,
}

/// A document, as the server stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The asset's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// `USER`, `CAMPAIGN` or `GLOBAL`.
    pub scope: String,
    /// Who uploaded or wrote it.
    pub user_id: String,
    /// The campaign it belongs to, with scope `CAMPAIGN`.
    pub campaign_id: Option<String>,
    /// `text/plain`, `text/markdown` or `application/pdf`.
    pub mime_type: String,
    /// The content.
    pub bytes: Vec<u8>,
    /// The campaigns it was shared with.
    pub shared_with: Vec<String>,
}

/// What is on the table now.
impl Table {
    /// The chat of the first campaign, oldest first.
    pub fn chat(&self) -> Vec<ChatLine> {
        let world = self.hub.world();
        let lines = world
            .lines
            .iter()
            .filter(|line| line.campaign_id == self.campaign_id && line.kind != LineKind::Dice);
        lines
            .map(|line| ChatLine {
                id: line.id.clone(),
                user_id: line.user_id.clone(),
                kind: line.kind.as_str().to_owned(),
                content: line.content.clone(),
                metadata: line.metadata.clone(),
            })
            .collect()
    }

    /// The rolls of the first campaign, oldest first.
    pub fn rolls(&self) -> Vec<RollLine> {
        let world = self.hub.world();
        let lines = world
            .lines
            .iter()
            .filter(|line| line.campaign_id == self.campaign_id && line.kind == LineKind::Dice);
        lines
            .map(|line| RollLine {
                id: line.id.clone(),
                user_id: line.user_id.clone().unwrap_or_default(),
                expression: line.content.clone(),
                result: line.metadata["result"].as_i64().unwrap_or_default(),
                secret: line.metadata["secret"] == true,
                event: line.metadata.clone(),
            })
            .collect()
    }

    /// The tokens of a map, as stored; none for an unknown map.
    pub fn tokens(&self, map_id: &str) -> Vec<Value> {
        let world = self.hub.world();
        world
            .map(map_id)
            .map_or_else(Vec::new, |map| map.tokens.clone())
    }

    /// The first token of that name in the first campaign, with its map's id.
    pub fn token_named(&self, name: &str) -> Option<(String, Value)> {
        let world = self.hub.world();
        world
            .maps
            .iter()
            .filter(|map| map.campaign_id == self.campaign_id)
            .find_map(|map| {
                let token = map.tokens.iter().find(|token| token["name"] == name)?;
                Some((map.id.clone(), token.clone()))
            })
    }

    /// The id of the first campaign's map of that name.
    pub fn map_named(&self, name: &str) -> Option<String> {
        let world = self.hub.world();
        let mut maps = world.maps.iter();
        let found = maps.find(|map| map.campaign_id == self.campaign_id && map.name == name)?;
        Some(found.id.clone())
    }

    /// The id of the map of that name in the campaign of that name.
    pub fn map_in(&self, campaign: &str, name: &str) -> Option<String> {
        let campaign = self.campaign_named(campaign)?;
        let world = self.hub.world();
        let mut maps = world.maps.iter();
        let found = maps.find(|map| map.campaign_id == campaign && map.name == name)?;
        Some(found.id.clone())
    }

    /// The id of the creature of that name, whatever campaign made it.
    pub fn creature_named(&self, name: &str) -> Option<String> {
        let world = self.hub.world();
        let found = world.creatures.iter().find(|one| one.name == name)?;
        Some(found.id.clone())
    }

    /// The id of the first campaign's session that has not ended.
    pub fn active_session(&self) -> Option<String> {
        let world = self.hub.world();
        let mut sessions = world.sessions(&self.campaign_id);
        let found = sessions.find(|one| one.ended_at.is_none())?;
        Some(found.id.clone())
    }

    /// The id of the map the first campaign is on.
    pub fn current_map(&self) -> Option<String> {
        let world = self.hub.world();
        world.campaign(&self.campaign_id)?.current_map_id.clone()
    }

    /// The id of the character of that name.
    pub fn character_named(&self, name: &str) -> Option<String> {
        let world = self.hub.world();
        let found = world.characters.iter().find(|one| one.name == name)?;
        Some(found.id.clone())
    }

    /// The ids of all characters, in the order they were made.
    pub fn character_ids(&self) -> Vec<String> {
        let world = self.hub.world();
        world.characters.iter().map(|one| one.id.clone()).collect()
    }

    /// A character's sheet, null for an unknown character.
    pub fn sheet(&self, character_id: &str) -> Value {
        let world = self.hub.world();
        world
            .character(character_id)
            .map_or(Value::Null, |one| one.data.clone())
    }

    /// The creatures the first campaign can place, by name, as their rows.
    pub fn creatures(&self) -> Vec<Value> {
        let world = self.hub.world();
        let found = world.creatures_of(&self.campaign_id);
        found.into_iter().map(Creature::row).collect()
    }

    /// All documents, in the order they were made.
    pub fn documents(&self) -> Vec<Document> {
        let world = self.hub.world();
        let documents = world
            .assets
            .iter()
            .filter(|one| one.kind == AssetKind::Document);
        documents
            .map(|one| Document {
                id: one.id.clone(),
                name: one.name.clone(),
                scope: one.scope.as_str().to_owned(),
                user_id: one.uploaded_by.clone(),
                campaign_id: one.campaign_id.clone(),
                mime_type: one.mime.clone(),
                bytes: one.bytes.clone(),
                shared_with: world
                    .shares
                    .iter()
                    .filter(|share| share.asset_id == one.id)
                    .map(|share| share.campaign_id.clone())
                    .collect(),
            })
            .collect()
    }

    /// The first document of that name.
    pub fn document_named(&self, name: &str) -> Option<Document> {
        self.documents().into_iter().find(|one| one.name == name)
    }

    /// The saved rolls (macros) of the person of that key in the first campaign,
    /// oldest first, as their rows.
    #[track_caller]
    pub fn macros(&self, key: &str) -> Vec<Value> {
        let user = &self.account(key).user_id;
        let world = self.hub.world();
        let rolls = world.saved_rolls_of(&self.campaign_id, user);
        rolls.into_iter().map(SavedRoll::row).collect()
    }

    /// The role of the person of that key in the first campaign.
    #[track_caller]
    pub fn role_of(&self, key: &str) -> Option<Role> {
        let user = &self.account(key).user_id;
        self.hub.world().role(&self.campaign_id, user)
    }

    /// How many sessions there are.
    pub fn sessions(&self) -> usize {
        self.hub.world().sign_ins.len()
    }

    /// The ids of the users whose sockets sit at the first campaign, one for
    /// each socket.
    pub fn seated(&self) -> Vec<String> {
        let seats = self.hub.floor.room(&self.campaign_id);
        seats.into_iter().map(|seat| seat.user_id).collect()
    }
}
