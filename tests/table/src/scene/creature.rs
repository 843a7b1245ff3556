//! The plan of a creature template.

use serde_json::{Value, json};

use crate::world::GameSystem;

/// A creature template to be.
#[derive(Debug, Clone)]
pub struct CreaturePlan {
    pub(crate) name: String,
    pub(crate) system: Option<GameSystem>,
    pub(crate) image: Option<String>,
    pub(crate) stat_block: Value,
    pub(crate) size: u32,
    pub(crate) disposition: String,
}

impl CreaturePlan {
    /// A hostile 5e creature of one square, without a picture.
    pub fn new(name: &str, armor_class: u32, hit_points: u32) -> Self {
        Self {
            name: name.to_owned(),
            system: Some(GameSystem::Dnd5e),
            image: None,
            stat_block: json!({
                "ac": armor_class,
                "hpMax": hit_points,
                "speed": "30 ft.",
                "abilities": { "str": 10, "dex": 10, "con": 10, "int": 10, "wis": 10, "cha": 10 },
                "gameSystem": "DND_5E",
            }),
            size: 1,
            disposition: "hostile".to_owned(),
        }
    }

    /// Belongs to these rules; to none with `None`.
    #[must_use]
    pub fn system(mut self, system: Option<GameSystem>) -> Self {
        self.system = system;
        self.stat("gameSystem", json!(system.map(GameSystem::as_str)))
    }

    /// How hard it is to beat, such as `1/4`.
    #[must_use]
    pub fn challenge(self, rating: &str) -> Self {
        self.stat("challengeRating", json!(rating))
    }

    /// What kind of creature it is, such as `Small beast`.
    #[must_use]
    pub fn kind(self, kind: &str) -> Self {
        self.stat("creatureType", json!(kind))
    }

    /// Its six scores, from strength to charisma.
    #[must_use]
    pub fn abilities(self, scores: [i32; 6]) -> Self {
        let [str, dex, con, int, wis, cha] = scores;
        let block = json!({
            "str": str, "dex": dex, "con": con, "int": int, "wis": wis, "cha": cha,
        });
        self.stat("abilities", block)
    }

    /// How fast it is, in words.
    #[must_use]
    pub fn speed(self, speed: &str) -> Self {
        self.stat("speed", json!(speed))
    }

    /// Something it can do.
    #[must_use]
    pub fn action(mut self, name: &str, description: &str) -> Self {
        let action = json!({ "name": name, "description": description });
        match self.stat_block["actions"].as_array_mut() {
            Some(actions) => actions.push(action),
            None => self.stat_block["actions"] = json!([action]),
        }
        self
    }

    /// Sets a key of the stat block by the server's name for it.
    #[must_use]
    pub fn stat(mut self, key: &str, value: Value) -> Self {
        self.stat_block[key] = value;
        self
    }

    /// Has this picture: an asset's id, or the path it is served under.
    #[must_use]
    pub fn image(mut self, url: &str) -> Self {
        self.image = Some(url.to_owned());
        self
    }

    /// Covers this many squares on a side.
    #[must_use]
    pub fn size(mut self, squares: u32) -> Self {
        self.size = squares;
        self
    }

    /// Means well, or at least no harm: `friendly`, `neutral`.
    #[must_use]
    pub fn disposition(mut self, word: &str) -> Self {
        word.clone_into(&mut self.disposition);
        self
    }
}
