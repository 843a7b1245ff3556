//! The state of the table: what a real server keeps in its database.

mod asset;
mod asset_use;
mod campaign;
mod chat;
mod clock;
mod creature;
mod initiative;
mod map;
mod number;
mod people;
mod saved_roll;
mod session;
mod sheet;
mod text;

use std::collections::HashMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

pub(crate) use asset::{Asset, AssetKind, Scope, Share};
pub(crate) use campaign::{Campaign, Membership};
pub use campaign::{GameSystem, Role};
pub(crate) use chat::{Line, LineKind};
pub(crate) use clock::{cookie_date, now};
pub(crate) use creature::Creature;
pub(crate) use initiative::{Combatant, Order};
pub(crate) use map::{Map, Viewer, default_token, mask};
pub(crate) use number::plain;
pub(crate) use people::{Rights, SignIn, User};
pub(crate) use saved_roll::SavedRoll;
pub(crate) use session::GameSession;
pub(crate) use sheet::Character;
pub(crate) use sheet::{hit_points, name_key, set_current_hit_points};
pub(crate) use text::{length, trimmed};

/// Everything a real server keeps in its database, and the initiative, which it
/// keeps in memory.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) users: Vec<User>,
    pub(crate) campaigns: Vec<Campaign>,
    pub(crate) maps: Vec<Map>,
    pub(crate) characters: Vec<Character>,
    /// The common library and what campaigns made themselves.
    pub(crate) creatures: Vec<Creature>,
    /// Uploaded files and documents, oldest first.
    pub(crate) assets: Vec<Asset>,
    /// Which documents were shared with which campaigns, oldest first.
    pub(crate) shares: Vec<Share>,
    /// Chat lines and dice rolls of all campaigns, oldest first.
    pub(crate) lines: Vec<Line>,
    /// The saved rolls of all users, oldest first.
    pub(crate) saved_rolls: Vec<SavedRoll>,
    /// The evenings of all campaigns, oldest first.
    pub(crate) game_sessions: Vec<GameSession>,
    /// Sessions by the value of their cookie.
    pub(crate) sign_ins: HashMap<String, SignIn>,
    /// The fights, by campaign.
    pub(crate) initiative: HashMap<String, Order>,
    rng: StdRng,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            users: Vec::new(),
            campaigns: Vec::new(),
            maps: Vec::new(),
            characters: Vec::new(),
            creatures: Vec::new(),
            assets: Vec::new(),
            shares: Vec::new(),
            lines: Vec::new(),
            saved_rolls: Vec::new(),
            game_sessions: Vec::new(),
            sign_ins: HashMap::new(),
            initiative: HashMap::new(),
            rng: StdRng::seed_from_u64(seed),
        }
    }

    /// A fresh id, a v4 UUID.
    pub(crate) fn new_id(&mut self) -> String {
        uuid::Builder::from_random_bytes(self.rng.random())
            .into_uuid()
            .to_string()
    }

    pub(crate) fn user(&self, id: &str) -> Option<&User> {
        self.users.iter().find(|user| user.id == id)
    }

    pub(crate) fn user_mut(&mut self, id: &str) -> Option<&mut User> {
        self.users.iter_mut().find(|user| user.id == id)
    }

    pub(crate) fn campaign(&self, id: &str) -> Option<&Campaign> {
        self.campaigns.iter().find(|campaign| campaign.id == id)
    }

    pub(crate) fn campaign_mut(&mut self, id: &str) -> Option<&mut Campaign> {
        self.campaigns.iter_mut().find(|campaign| campaign.id == id)
    }

    /// The role of a member.
    pub(crate) fn role(&self, campaign: &str, user: &str) -> Option<Role> {
        Some(self.campaign(campaign)?.membership(user)?.role)
    }

    pub(crate) fn map(&self, id: &str) -> Option<&Map> {
        self.maps.iter().find(|map| map.id == id)
    }

    pub(crate) fn map_mut(&mut self, id: &str) -> Option<&mut Map> {
        self.maps.iter_mut().find(|map| map.id == id)
    }

    pub(crate) fn character(&self, id: &str) -> Option<&Character> {
        self.characters.iter().find(|one| one.id == id)
    }

    pub(crate) fn character_mut(&mut self, id: &str) -> Option<&mut Character> {
        self.characters.iter_mut().find(|one| one.id == id)
    }
}
