//! Campaigns and who sits at them.

use serde_json::{Map as JsonMap, Value, json};

use super::{User, World};
use crate::version::Version;

/// What a member may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Leads the game. Exactly one per campaign.
    Dm,
    /// Plays.
    Player,
    /// Watches and chats.
    Spectator,
}

impl Role {
    /// The server's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dm => "DM",
            Self::Player => "PLAYER",
            Self::Spectator => "SPECTATOR",
        }
    }
}

/// The rules a campaign is played by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GameSystem {
    /// Dungeons & Dragons, fifth edition.
    Dnd5e,
    /// Pathfinder, second edition.
    Pathfinder2e,
    /// Shadowrun, sixth edition.
    Shadowrun6e,
    /// Call of Cthulhu, seventh edition.
    CallOfCthulhu7e,
}

impl GameSystem {
    /// The server's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dnd5e => "DND_5E",
            Self::Pathfinder2e => "PATHFINDER_2E",
            Self::Shadowrun6e => "SHADOWRUN_6E",
            Self::CallOfCthulhu7e => "CALL_OF_CTHULHU_7E",
        }
    }

    /// The system of that word.
    pub(crate) fn named(word: &str) -> Option<Self> {
        [
            Self::Dnd5e,
            Self::Pathfinder2e,
            Self::Shadowrun6e,
            Self::CallOfCthulhu7e,
        ]
        .into_iter()
        .find(|one| one.as_str() == word)
    }
}

/// One member of a campaign.
#[derive(Debug, Clone)]
pub(crate) struct Membership {
    pub(crate) id: String,
    pub(crate) user_id: String,
    pub(crate) role: Role,
    pub(crate) character_ids: Vec<String>,
    pub(crate) joined_at: String,
}

/// One campaign.
#[derive(Debug, Clone)]
pub(crate) struct Campaign {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) description: String,
    /// `ACTIVE`, `PAUSED` and so on.
    pub(crate) status: String,
    pub(crate) game_system: Option<GameSystem>,
    pub(crate) owner_id: String,
    pub(crate) current_map_id: Option<String>,
    pub(crate) spirit_layer_enabled: bool,
    /// Seconds a user has to wait between two chat messages.
    pub(crate) chat_cooldown: Option<u32>,
    pub(crate) roll_history_cleared_at: Option<String>,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    pub(crate) last_played_at: Option<String>,
    pub(crate) memberships: Vec<Membership>,
}

impl Campaign {
    pub(crate) fn membership(&self, user: &str) -> Option<&Membership> {
        self.memberships.iter().find(|one| one.user_id == user)
    }

    pub(crate) fn membership_mut(&mut self, user: &str) -> Option<&mut Membership> {
        self.memberships.iter_mut().find(|one| one.user_id == user)
    }

    /// Players have to wait while the session is paused or ended (1.5).
    pub(crate) fn rests(&self) -> bool {
        matches!(self.status.as_str(), "PAUSED" | "INACTIVE")
    }

    /// The campaign's own columns.
    pub(crate) fn columns(&self, version: Version) -> Value {
        let mut row = json!({
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "status": self.status,
            "gameSystem": self.game_system.map(GameSystem::as_str),
            "ownerId": self.owner_id,
            "currentMapId": self.current_map_id,
            "vibeSettings": vibe_settings(),
            "currentVibe": null,
            "spiritLayerEnabled": self.spirit_layer_enabled,
            "spiritLayerStyle": "wispy",
            "chatCooldownEnabled": self.chat_cooldown.is_some(),
            "chatCooldownSeconds": self.chat_cooldown.unwrap_or(5),
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
            "lastPlayedAt": self.last_played_at,
        });
        if !version.is_old() {
            row["rollHistoryClearedAt"] = json!(self.roll_history_cleared_at);
        }
        row
    }
}

/// The times of day a campaign starts out with.
fn vibe_settings() -> Value {
    let period = |name: &str, hue: &str, filter: &str| json!({ "name": name, "hue": hue, "filter": filter, "audio": null });
    json!({
        "enabled": true,
        "periods": [
            period("first light", "#F2C6A0", "brightness(0.92) saturate(1.05)"),
            period("high sun", "#FFF3C4", "brightness(1.0) saturate(1.0)"),
            period("lamplight", "#E08A4F", "brightness(0.82) saturate(1.2)"),
            period("witching hour", "#20223A", "brightness(0.58) saturate(0.75)"),
        ],
    })
}

impl World {
    /// Puts a character on the roster of a campaign.
    pub(crate) fn enlist(&mut self, campaign: &str, user: &str, character: &str) {
        if let Some(membership) = self
            .campaign_mut(campaign)
            .and_then(|one| one.membership_mut(user))
        {
            membership.character_ids.push(character.to_owned());
        }
    }

    /// The memberships of a campaign with their users.
    pub(crate) fn membership_rows(&self, campaign: &Campaign) -> Vec<Value> {
        let memberships = campaign.memberships.iter();
        memberships
            .map(|one| self.membership_row(campaign, one))
            .collect()
    }

    fn membership_row(&self, campaign: &Campaign, membership: &Membership) -> Value {
        json!({
            "id": membership.id,
            "userId": membership.user_id,
            "campaignId": campaign.id,
            "role": membership.role.as_str(),
            "characterIds": membership.character_ids,
            "joinedAt": membership.joined_at,
            "user": self.user(&membership.user_id).map(User::card),
        })
    }

    /// The part of a campaign that the list and the single view share.
    fn campaign_base(&self, campaign: &Campaign, version: Version) -> JsonMap<String, Value> {
        let Value::Object(mut row) = campaign.columns(version) else {
            return JsonMap::new();
        };
        let owner = self.user(&campaign.owner_id).map(User::card);
        row.insert("owner".to_owned(), json!(owner));
        let memberships = self.membership_rows(campaign);
        row.insert("memberships".to_owned(), json!(memberships));
        row
    }

    /// One entry of the caller's list of campaigns.
    pub(crate) fn campaign_entry(
        &self,
        campaign: &Campaign,
        membership: &Membership,
        version: Version,
    ) -> Value {
        let mut row = self.campaign_base(campaign, version);
        row.insert("userRole".to_owned(), json!(membership.role.as_str()));
        row.insert("characterIds".to_owned(), json!(membership.character_ids));
        Value::Object(row)
    }

    /// A campaign as a member with `role` sees it.
    pub(crate) fn campaign_view(&self, campaign: &Campaign, role: Role, version: Version) -> Value {
        let mut row = self.campaign_base(campaign, version);
        let maps: Vec<Value> = self
            .maps
            .iter()
            .filter(|map| map.campaign_id == campaign.id)
            .filter(|map| {
                version.is_old()
                    || role == Role::Dm
                    || campaign.current_map_id.as_ref() == Some(&map.id)
            })
            .map(|map| map.summary(role, version))
            .collect();
        row.insert("maps".to_owned(), json!(maps));
        let characters: Vec<Value> = self
            .characters
            .iter()
            .filter(|one| one.campaign_id.as_ref() == Some(&campaign.id))
            .filter(|one| version.is_old() || campaign.membership(&one.user_id).is_some())
            .map(super::Character::summary)
            .collect();
        row.insert("characters".to_owned(), json!(characters));
        let active = self
            .active_session(&campaign.id)
            .map(super::GameSession::brief);
        row.insert("activeSession".to_owned(), json!(active));
        row.insert("userRole".to_owned(), json!(role.as_str()));
        Value::Object(row)
    }

    /// Who sits at the table with which characters.
    pub(crate) fn roster(&self, campaign: &Campaign) -> Value {
        let seats: Vec<Value> = campaign
            .memberships
            .iter()
            .map(|membership| {
                let characters: Vec<Value> = membership
                    .character_ids
                    .iter()
                    .filter_map(|id| self.character(id))
                    .map(super::Character::roster_entry)
                    .collect();
                json!({
                    "userId": membership.user_id,
                    "userName": self.user(&membership.user_id).map(|user| &user.display_name),
                    "userAvatar": null,
                    "role": membership.role.as_str(),
                    "joinedAt": membership.joined_at,
                    "characters": characters,
                })
            })
            .collect();
        json!({ "roster": seats })
    }
}
