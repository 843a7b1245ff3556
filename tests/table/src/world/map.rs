//! Maps and their tokens, and what each viewer may see of them.

use serde_json::{Map as JsonMap, Value, json};

use super::{Role, World, plain};
use crate::version::Version;

/// One map. Positions count grid squares, y = 0 is the bottom row.
#[derive(Debug, Clone)]
pub(crate) struct Map {
    pub(crate) id: String,
    pub(crate) campaign_id: String,
    pub(crate) name: String,
    pub(crate) image_url: String,
    pub(crate) spirit_layer_url: Option<String>,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) grid_size: f64,
    pub(crate) feet_per_square: u32,
    pub(crate) diagonal_rule: String,
    /// Token objects as the server stores them.
    pub(crate) tokens: Vec<Value>,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
}

/// For whose eyes something is filtered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Viewer<'a> {
    pub(crate) user_id: &'a str,
    pub(crate) role: Role,
    /// Whether the table shows the spirit layer at present.
    pub(crate) spirits_shown: bool,
}

impl Viewer<'_> {
    /// The server's `spiritVisible`.
    pub(crate) fn sees_spirits(&self) -> bool {
        self.role == Role::Dm || self.spirits_shown
    }
}

impl Map {
    /// Whether a square (or a point of one) lies on the map.
    pub(crate) fn holds(&self, x: f64, y: f64) -> bool {
        (0.0..f64::from(self.width)).contains(&x) && (0.0..f64::from(self.height)).contains(&y)
    }

    pub(crate) fn token(&self, id: &str) -> Option<&Value> {
        self.tokens.iter().find(|token| token["id"] == id)
    }

    /// An entry of the map list.
    pub(crate) fn list_entry(&self, version: Version) -> Value {
        let mut row = json!({
            "id": self.id,
            "name": self.name,
            "imageUrl": self.image_url,
            "width": self.width,
            "height": self.height,
            "gridSize": plain(self.grid_size),
            "feetPerSquare": self.feet_per_square,
            "diagonalRule": self.diagonal_rule,
            "lightingEnabled": false,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
        });
        if !version.is_old() {
            for flag in ["fogEnabled", "globalIllumination", "explorationEnabled"] {
                row[flag] = json!(false);
            }
        }
        row
    }

    /// The map as part of a campaign.
    pub(crate) fn summary(&self, role: Role, version: Version) -> Value {
        let mut row = self.list_entry(version);
        row["campaignId"] = json!(self.campaign_id);
        row["baseLayerUrl"] = json!(self.image_url);
        let hidden = !version.is_old() && role != Role::Dm;
        row["spiritLayerUrl"] = if hidden {
            Value::Null
        } else {
            json!(self.spirit_layer_url)
        };
        row
    }

    /// The whole row, as the DM sees it.
    pub(crate) fn row(&self, version: Version) -> Value {
        let mut row = self.summary(Role::Dm, version);
        row["tokens"] = json!(self.tokens);
        row["annotations"] = json!([]);
        row["wallSegments"] = json!([]);
        row["fogData"] = Value::Null;
        row["lights"] = json!([]);
        row
    }

    /// The map as `viewer` gets it.
    pub(crate) fn view(&self, viewer: Viewer<'_>, version: Version) -> Value {
        let mut row = self.row(version);
        if viewer.role != Role::Dm {
            if !viewer.sees_spirits() {
                row["spiritLayerUrl"] = Value::Null;
            }
            row["tokens"] = self
                .tokens
                .iter()
                .filter_map(|token| mask(token, viewer, version))
                .collect();
        }
        row
    }
}

impl World {
    /// Gives the tokens of a character another picture; the campaigns on whose
    /// maps they stand.
    pub(crate) fn repaint_tokens(&mut self, character: &str, picture: &str) -> Vec<String> {
        let mut campaigns = Vec::new();
        for map in &mut self.maps {
            for token in &mut map.tokens {
                if token["characterId"] == character {
                    token["imageUrl"] = json!(picture);
                    campaigns.push(map.campaign_id.clone());
                }
            }
        }
        campaigns.sort();
        campaigns.dedup();
        campaigns
    }
}

/// What a non-DM gets of a token; none when it is not for them at all.
pub(crate) fn mask(token: &Value, viewer: Viewer<'_>, version: Version) -> Option<Value> {
    let spirit = token["layer"] == "spirit";
    if token["visible"] == false || (spirit && !viewer.sees_spirits()) {
        return None;
    }
    let mut token = token.clone();
    let own = token["controlledBy"] == viewer.user_id;
    let fields = token.as_object_mut()?;
    fields.remove("notes");
    if version.is_old() {
        return Some(token);
    }
    fields.remove("statBlock");
    if !own {
        fields.remove("sightRadius");
        fields.remove("creatureTemplateId");
        if fields.get("showHpBar") != Some(&json!(true)) {
            fields.insert("hp".to_owned(), Value::Null);
        }
        if fields.get("obscured") == Some(&json!(true)) {
            for (key, blank) in [
                ("name", json!("")),
                ("imageUrl", json!("")),
                ("conditions", json!([])),
                ("characterId", Value::Null),
                ("disposition", Value::Null),
                ("hp", Value::Null),
            ] {
                fields.insert(key.to_owned(), blank);
            }
        }
    }
    Some(token)
}

/// A token with every field at its default.
pub(crate) fn default_token(id: &str, version: Version) -> JsonMap<String, Value> {
    let mut token = json!({
        "id": id,
        "characterId": null,
        "name": "",
        "imageUrl": "",
        "position": { "x": 0, "y": 0 },
        "size": { "width": 1, "height": 1 },
        "layer": "token",
        "visible": true,
        "controlledBy": null,
        "rotation": 0,
        "conditions": [],
        "metadata": {},
        "type": "npc",
        "disposition": null,
        "hp": null,
        "showHpBar": false,
        "notes": "",
        "initiative": null,
        "displayMode": "pog",
        "statBlock": null,
        "creatureTemplateId": null,
    });
    if !version.is_old() {
        token["sightRadius"] = json!(0);
        token["obscured"] = json!(false);
    }
    match token {
        Value::Object(fields) => fields,
        _ => JsonMap::new(),
    }
}
