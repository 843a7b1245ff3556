//! Whether a stat block is within the bounds of 1.5.

use serde_json::Value;

use crate::world::length;

const MOST_BYTES: usize = 64 * 1024;
/// Keys the server knows nothing about pass, up to this many.
const MOST_UNKNOWN: usize = 20;

const LISTS: [&str; 5] = [
    "traits",
    "actions",
    "bonusActions",
    "reactions",
    "legendaryActions",
];

const OTHERS: [&str; 21] = [
    "ac",
    "hpMax",
    "hitDice",
    "speed",
    "abilities",
    "savingThrows",
    "skills",
    "damageVulnerabilities",
    "damageResistances",
    "damageImmunities",
    "conditionImmunities",
    "senses",
    "languages",
    "challengeRating",
    "xp",
    "creatureType",
    "alignment",
    "gameSystem",
    "notes",
    "attributeModifiers",
    "level",
];

fn number(value: &Value, least: f64, most: f64) -> bool {
    value
        .as_f64()
        .is_some_and(|number| (least..=most).contains(&number))
}

fn text(value: &Value, most: usize) -> bool {
    value.as_str().is_some_and(|text| length(text) <= most)
}

/// Numbers under names.
fn numbers(value: &Value, least: f64, most: f64) -> bool {
    value.as_object().is_some_and(|map| {
        map.len() <= 60
            && map
                .iter()
                .all(|(key, value)| length(key) <= 50 && number(value, least, most))
    })
}

/// `[{name, description}]`
fn entries(value: &Value) -> bool {
    value.as_array().is_some_and(|list| {
        list.len() <= 50
            && list
                .iter()
                .all(|one| text(&one["name"], 200) && text(&one["description"], 5000))
    })
}

/// Whether a stat block may be stored.
pub(super) fn fits(block: &Value) -> bool {
    let Some(keys) = block.as_object() else {
        return false;
    };
    let known = |key: &str| OTHERS.contains(&key) || LISTS.contains(&key) || key == "proficiencies";
    let unknown = keys.keys().filter(|key| !known(key)).count();
    let optional = |key: &str, fits: &dyn Fn(&Value) -> bool| block.get(key).is_none_or(fits);
    let abilities = ["str", "dex", "con", "int", "wis", "cha"]
        .iter()
        .all(|one| number(&block["abilities"][one], 0.0, 30.0));
    unknown <= MOST_UNKNOWN
        && block.to_string().len() <= MOST_BYTES
        && abilities
        && number(&block["ac"], 0.0, 99.0)
        && text(&block["speed"], 200)
        && optional("hpMax", &|value| number(value, 1.0, 99_999.0))
        && optional("hitDice", &|value| text(value, 50))
        && optional("challengeRating", &|value| text(value, 10))
        && optional("level", &|value| number(value, -1.0, 30.0))
        && optional("savingThrows", &|value| numbers(value, -50.0, 50.0))
        && optional("skills", &|value| numbers(value, -50.0, 50.0))
        && optional("attributeModifiers", &|value| numbers(value, -10.0, 20.0))
        && LISTS.iter().all(|list| optional(list, &entries))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn block() -> Value {
        json!({
            "ac": 14, "hpMax": 9, "speed": "30 ft.",
            "abilities": { "str": 10, "dex": 12, "con": 10, "int": 8, "wis": 10, "cha": 7 },
            "actions": [{ "name": "Bite", "description": "1d6" }],
        })
    }

    #[test]
    fn a_block_within_its_bounds_passes() {
        assert!(fits(&block()));
    }

    #[test]
    fn each_bound_is_looked_after() {
        for (key, value) in [
            ("ac", json!(100)),
            ("hpMax", json!(0)),
            ("speed", json!(30)),
            ("abilities", json!({ "str": 31 })),
            ("challengeRating", json!("one hundred")),
            ("skills", json!({ "stealth": 51 })),
            ("actions", json!([{ "name": "Bite" }])),
            ("notes", json!("x".repeat(MOST_BYTES))),
        ] {
            let mut block = block();
            block[key] = value;
            assert!(!fits(&block), "{key}");
        }
        let mut many = block();
        for number in 0..=MOST_UNKNOWN {
            many[format!("own{number}")] = json!(number);
        }
        assert!(!fits(&many));
    }
}
