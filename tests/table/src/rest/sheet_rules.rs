//! What a sheet needs to be saved: the required fields of its game system.

use serde_json::{Value, json};

use crate::world::GameSystem;

/// A required field: its path and what it has to be.
enum Needs {
    Text,
    Whole(i64, i64),
}

const ABILITIES: [&str; 6] = [
    "strength",
    "dexterity",
    "constitution",
    "intelligence",
    "wisdom",
    "charisma",
];

/// What is wrong with the sheet, as the server lists it; empty for nothing.
pub(super) fn faults(system: Option<GameSystem>, data: &Value) -> Vec<Value> {
    required(system)
        .into_iter()
        .filter_map(|(path, needs)| fault(data, &path, &needs))
        .collect()
}

fn required(system: Option<GameSystem>) -> Vec<(String, Needs)> {
    let texts = |names: &[&str]| -> Vec<(String, Needs)> {
        names
            .iter()
            .map(|name| ((*name).to_owned(), Needs::Text))
            .collect()
    };
    let level = ("level".to_owned(), Needs::Whole(1, 20));
    match system {
        Some(GameSystem::Dnd5e) => {
            let mut all = texts(&["characterName", "class", "race"]);
            all.push(level);
            all.push(("proficiencyBonus".to_owned(), Needs::Whole(2, 6)));
            for ability in ABILITIES {
                all.push((format!("stats.{ability}.score"), Needs::Whole(1, 30)));
                all.push((format!("stats.{ability}.modifier"), Needs::Whole(-5, 10)));
            }
            all
        }
        Some(GameSystem::Pathfinder2e) => {
            let mut all = texts(&["characterName", "class", "ancestry", "heritage"]);
            all.push(level);
            for ability in ABILITIES {
                all.push((format!("attributes.{ability}.score"), Needs::Whole(1, 30)));
                all.push((
                    format!("attributes.{ability}.modifier"),
                    Needs::Whole(-5, 10),
                ));
            }
            all
        }
        Some(GameSystem::Shadowrun6e) => texts(&["characterName", "metatype", "archetype"]),
        Some(GameSystem::CallOfCthulhu7e) => {
            let mut all = texts(&["investigatorName", "occupation", "era"]);
            for name in ["STR", "CON", "SIZ", "DEX", "APP", "INT", "POW", "EDU"] {
                for (part, most) in [("regular", 100), ("half", 50), ("fifth", 20)] {
                    all.push((
                        format!("characteristics.{name}.{part}"),
                        Needs::Whole(0, most),
                    ));
                }
            }
            all
        }
        None => Vec::new(),
    }
}

fn fault(data: &Value, path: &str, needs: &Needs) -> Option<Value> {
    let mut value = Some(data);
    let mut reached = Vec::new();
    for part in path.split('.') {
        let Some(inner) = value else { break };
        value = inner.get(part);
        reached.push(part);
        if value.is_none() {
            break;
        }
    }
    let deeper = reached.len() < path.split('.').count();
    let wanted = match needs {
        _ if deeper => "object",
        Needs::Text => "string",
        Needs::Whole(..) => "number",
    };
    let found = match value {
        None => "undefined",
        Some(Value::Null) => "null",
        Some(Value::Bool(_)) => "boolean",
        Some(Value::Number(_)) => "number",
        Some(Value::String(_)) => "string",
        Some(Value::Array(_)) => "array",
        Some(Value::Object(_)) => "object",
    };
    let complaint = |message: String, code: &str| {
        Some(json!({ "path": reached.join("."), "message": message, "code": code }))
    };
    if found != wanted {
        let message = format!("Invalid input: expected {wanted}, received {found}");
        return complaint(message, "invalid_type");
    }
    match needs {
        Needs::Text if value.is_some_and(|text| text == "") => complaint(
            "Too small: expected string to have >=1 characters".to_owned(),
            "too_small",
        ),
        Needs::Whole(least, most) => {
            let number = value.and_then(Value::as_f64).unwrap_or_default();
            #[allow(clippy::cast_precision_loss)] // small bounds
            let (low, high) = (*least as f64, *most as f64);
            if number < low {
                complaint(
                    format!("Too small: expected number to be >={least}"),
                    "too_small",
                )
            } else if number > high {
                complaint(
                    format!("Too big: expected number to be <={most}"),
                    "too_big",
                )
            } else {
                None
            }
        }
        Needs::Text => None,
    }
}
