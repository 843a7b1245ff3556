//! The plans a scene is put together from.

use serde_json::{Value, json};

use super::{CreaturePlan, DocumentPlan};
use crate::world::{GameSystem, Role};

/// A campaign to be. People are named by their keys.
#[derive(Debug, Clone)]
pub struct CampaignPlan {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) system: Option<GameSystem>,
    pub(crate) status: String,
    pub(crate) cooldown: Option<u32>,
    pub(crate) seats: Vec<(String, Role)>,
    pub(crate) maps: Vec<MapPlan>,
    pub(crate) characters: Vec<CharacterPlan>,
    pub(crate) lines: Vec<(String, String)>,
    pub(crate) creatures: Vec<CreaturePlan>,
    pub(crate) documents: Vec<DocumentPlan>,
}

impl CampaignPlan {
    /// An active 5e campaign without members, maps or characters.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: String::new(),
            system: Some(GameSystem::Dnd5e),
            status: "ACTIVE".to_owned(),
            cooldown: None,
            seats: Vec::new(),
            maps: Vec::new(),
            characters: Vec::new(),
            lines: Vec::new(),
            creatures: Vec::new(),
            documents: Vec::new(),
        }
    }

    /// What it is about.
    #[must_use]
    pub fn description(mut self, text: &str) -> Self {
        text.clone_into(&mut self.description);
        self
    }

    /// The rules it is played by; none for a flexible one.
    #[must_use]
    pub fn system(mut self, system: Option<GameSystem>) -> Self {
        self.system = system;
        self
    }

    /// `ACTIVE`, `PAUSED`, `INACTIVE` and so on.
    #[must_use]
    pub fn status(mut self, status: &str) -> Self {
        status.clone_into(&mut self.status);
        self
    }

    /// Seconds a user has to wait between two chat messages.
    #[must_use]
    pub fn chat_cooldown(mut self, seconds: u32) -> Self {
        self.cooldown = Some(seconds);
        self
    }

    /// Seats a person. The first DM owns the campaign.
    #[must_use]
    pub fn seat(mut self, key: &str, role: Role) -> Self {
        self.seats.push((key.to_owned(), role));
        self
    }

    /// Seats several.
    #[must_use]
    pub fn seats<const N: usize>(self, seats: [(&str, Role); N]) -> Self {
        seats
            .into_iter()
            .fold(self, |plan, (key, role)| plan.seat(key, role))
    }

    /// Adds a map. The first one is the current one.
    #[must_use]
    pub fn map(mut self, map: MapPlan) -> Self {
        self.maps.push(map);
        self
    }

    /// Adds a character.
    #[must_use]
    pub fn character(mut self, character: CharacterPlan) -> Self {
        self.characters.push(character);
        self
    }

    /// Adds a creature of the campaign's own (`source` `custom`).
    #[must_use]
    pub fn creature(mut self, creature: CreaturePlan) -> Self {
        self.creatures.push(creature);
        self
    }

    /// Adds a document. 1.1.2 has none and leaves them out.
    #[must_use]
    pub fn document(mut self, document: DocumentPlan) -> Self {
        self.documents.push(document);
        self
    }

    /// Adds a line of chat by the person of that key.
    #[must_use]
    pub fn line(mut self, key: &str, text: &str) -> Self {
        self.lines.push((key.to_owned(), text.to_owned()));
        self
    }
}

/// A map to be.
#[derive(Debug, Clone)]
pub struct MapPlan {
    pub(crate) name: String,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) tokens: Vec<TokenPlan>,
}

impl MapPlan {
    /// An empty map, measured in grid squares.
    pub fn new(name: &str, width: u32, height: u32) -> Self {
        Self {
            name: name.to_owned(),
            width,
            height,
            tokens: Vec::new(),
        }
    }

    /// Adds a token.
    #[must_use]
    pub fn token(mut self, token: TokenPlan) -> Self {
        self.tokens.push(token);
        self
    }
}

/// A token to be.
#[derive(Debug, Clone)]
pub struct TokenPlan {
    pub(crate) name: String,
    /// Fields other than the defaults, as the server names them.
    pub(crate) fields: Value,
    pub(crate) controlled_by: Option<String>,
    pub(crate) character: Option<String>,
}

impl TokenPlan {
    /// A token of the DM's at a square; y = 0 is the bottom row.
    pub fn new(name: &str, x: u32, y: u32) -> Self {
        Self {
            name: name.to_owned(),
            fields: json!({ "position": { "x": x, "y": y } }),
            controlled_by: None,
            character: None,
        }
    }

    /// Sets a field by the server's name for it, such as `visible`.
    #[must_use]
    pub fn field(mut self, name: &str, value: Value) -> Self {
        self.fields[name] = value;
        self
    }

    /// Is moved by the player of that key, too.
    #[must_use]
    pub fn controlled_by(mut self, key: &str) -> Self {
        self.controlled_by = Some(key.to_owned());
        self.field("type", json!("player"))
            .field("disposition", json!("friendly"))
    }

    /// Stands for the character of that name.
    #[must_use]
    pub fn character(mut self, name: &str) -> Self {
        self.character = Some(name.to_owned());
        self
    }

    /// Is an enemy.
    #[must_use]
    pub fn hostile(self) -> Self {
        self.field("disposition", json!("hostile"))
    }

    /// Is not shown to players.
    #[must_use]
    pub fn hidden(self) -> Self {
        self.field("visible", json!(false))
    }

    /// Has hit points of its own, all of them left.
    #[must_use]
    pub fn hp(self, max: u32) -> Self {
        self.field("hp", json!({ "current": max, "max": max, "temp": 0 }))
    }
}

/// The rules a character follows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rules {
    /// The campaign's.
    Campaigns,
    Own(Option<GameSystem>),
}

/// A character to be.
#[derive(Debug, Clone)]
pub struct CharacterPlan {
    pub(crate) owner: String,
    pub(crate) name: String,
    pub(crate) sheet: Option<Value>,
    pub(crate) rules: Rules,
    /// Belongs to the campaign and is on its roster.
    pub(crate) assigned: bool,
}

impl CharacterPlan {
    /// A character of the person of that key, with a plain sheet of the
    /// campaign's game system.
    pub fn new(owner: &str, name: &str) -> Self {
        Self {
            owner: owner.to_owned(),
            name: name.to_owned(),
            sheet: None,
            rules: Rules::Campaigns,
            assigned: true,
        }
    }

    /// Follows these rules instead of the campaign's; `None` is flexible.
    #[must_use]
    pub fn system(mut self, system: Option<GameSystem>) -> Self {
        self.rules = Rules::Own(system);
        self
    }

    /// Belongs to its owner alone, to no campaign.
    #[must_use]
    pub fn unassigned(mut self) -> Self {
        self.assigned = false;
        self
    }

    /// Brings its own sheet.
    #[must_use]
    pub fn sheet(mut self, sheet: Value) -> Self {
        self.sheet = Some(sheet);
        self
    }
}
