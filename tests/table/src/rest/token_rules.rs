//! What the fields of a token may hold.

use serde_json::{Value, json};

use super::answer::Answer;
use super::maps::asset_path;
use super::stat_block;
use crate::world::{Map, Role, World, length};

/// The fields a client may set, both at creation and later.
const FIELDS: [&str; 19] = [
    "name",
    "imageUrl",
    "position",
    "size",
    "layer",
    "visible",
    "controlledBy",
    "rotation",
    "conditions",
    "metadata",
    "type",
    "disposition",
    "hp",
    "showHpBar",
    "notes",
    "initiative",
    "displayMode",
    "statBlock",
    "creatureTemplateId",
];

/// Those 1.5 adds.
const NEW_FIELDS: [&str; 2] = ["sightRadius", "obscured"];

/// Whether the server looks at this field at all.
pub(super) fn is_field(name: &str, old: bool) -> bool {
    FIELDS.contains(&name) || (!old && NEW_FIELDS.contains(&name))
}

/// What a player may change on a token of theirs.
pub(super) fn player_may_set(name: &str, old: bool) -> bool {
    matches!(name, "position" | "rotation" | "conditions")
        || (old && matches!(name, "size" | "metadata"))
}

/// A position on the map, `what` naming it in the refusal. Since 1.5 only whole
/// squares count, and the whole footprint has to fit.
pub(super) fn position(
    value: &Value,
    size: &Value,
    map: &Map,
    what: &str,
    old: bool,
) -> Result<Value, Answer> {
    let (Some(x), Some(y)) = (value["x"].as_f64(), value["y"].as_f64()) else {
        return Err(Answer::invalid(&format!(
            "{what} must have numeric x and y"
        )));
    };
    if !map.holds(x, y) {
        return Err(Answer::invalid(&format!(
            "{what} must be within map bounds (0-{}, 0-{})",
            map.width.saturating_sub(1),
            map.height.saturating_sub(1),
        )));
    }
    if old {
        return Ok(json!({ "x": value["x"], "y": value["y"] }));
    }
    if x.fract() != 0.0 || y.fract() != 0.0 {
        return Err(Answer::invalid(&format!("{what} must be a whole square")));
    }
    let (x, y) = fit(map, x, y, size);
    Ok(json!({ "x": x, "y": y }))
}

/// Pulls a square back so that the whole token stands on the map.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // squares of the map
pub(crate) fn fit(map: &Map, x: f64, y: f64, size: &Value) -> (u64, u64) {
    let along = |at: f64, side: u32, extent: &Value| {
        let extent = extent.as_u64().unwrap_or(1).max(1);
        (at as u64).min(u64::from(side).saturating_sub(extent))
    };
    (
        along(x, map.width, &size["width"]),
        along(y, map.height, &size["height"]),
    )
}

/// One field as `user` may store it, or why it is refused. Only 1.5 really looks.
pub(super) fn field(
    world: &World,
    (campaign, user): (&str, &str),
    name: &str,
    value: &Value,
    old: bool,
) -> Result<Value, Answer> {
    if !old && name == "imageUrl" && !world.may_show(value.as_str().unwrap_or_default(), user) {
        return Err(no_picture());
    }
    if !old && !fits(world, campaign, name, value) {
        return Err(Answer::invalid(&format!("Invalid value for {name}")));
    }
    if name == "imageUrl" {
        let id = value.as_str().unwrap_or_default();
        return Ok(json!(asset_path("tokens", id)));
    }
    Ok(value.clone())
}

/// The 403 of a picture that is not the user's to show.
pub(super) fn no_picture() -> Answer {
    Answer::forbidden("You do not have access to that image")
}

fn fits(world: &World, campaign: &str, name: &str, value: &Value) -> bool {
    let one_of = |words: &[&str]| value.as_str().is_some_and(|word| words.contains(&word));
    let number = |value: &Value, least: f64, most: f64| {
        value
            .as_f64()
            .is_some_and(|number| (least..=most).contains(&number))
    };
    let whole = |value: &Value, least: i64, most: i64| {
        value
            .as_i64()
            .is_some_and(|number| (least..=most).contains(&number))
    };
    match name {
        "name" => value
            .as_str()
            .is_some_and(|text| !text.trim().is_empty() && length(text) <= 200),
        "imageUrl" => value.is_null() || value.as_str().is_some_and(|url| url.len() <= 500),
        "size" => whole(&value["width"], 1, 10) && whole(&value["height"], 1, 10),
        "layer" => one_of(&["token", "spirit"]),
        "type" => one_of(&["player", "npc", "object"]),
        "disposition" => value.is_null() || one_of(&["friendly", "neutral", "hostile"]),
        "displayMode" => one_of(&["pog", "top-down", "full-art"]),
        "visible" | "showHpBar" | "obscured" => value.is_boolean(),
        "controlledBy" => {
            value.is_null()
                || value
                    .as_str()
                    .is_some_and(|user| world.role(campaign, user) == Some(Role::Player))
        }
        "creatureTemplateId" => {
            value.is_null()
                || value
                    .as_str()
                    .is_some_and(|id| uuid::Uuid::parse_str(id).is_ok())
        }
        "rotation" => number(value, 0.0, 360.0),
        "sightRadius" => number(value, 0.0, 200.0),
        "conditions" => value.as_array().is_some_and(|list| {
            list.len() <= 50
                && list.iter().all(|one| {
                    one.as_str()
                        .is_some_and(|text| (1..=60).contains(&length(text)))
                })
        }),
        "metadata" => value.is_object() && value.to_string().len() <= 8000,
        "hp" => {
            value.is_null()
                || (whole(&value["current"], 0, 99_999)
                    && whole(&value["max"], 1, 99_999)
                    && whole(&value["temp"], 0, 99_999))
        }
        "notes" => value.as_str().is_some_and(|text| length(text) <= 5000),
        "initiative" => value.is_null() || value.is_number(),
        "statBlock" => value.is_null() || stat_block::fits(value),
        _ => true,
    }
}
