//! Plain but complete sheets for the characters of a scene.

use serde_json::{Map as JsonMap, Value, json};

use crate::world::GameSystem;

/// The choices a fifth edition sheet follows from.
pub(super) struct Fifth<'a> {
    pub(super) name: &'a str,
    pub(super) class: &'a str,
    pub(super) race: &'a str,
    pub(super) level: i64,
    /// Strength, dexterity, constitution, intelligence, wisdom, charisma.
    pub(super) scores: [i64; 6],
    pub(super) hit_points: i64,
    pub(super) armor_class: i64,
    pub(super) hit_die: i64,
}

const ABILITIES: [&str; 6] = [
    "strength",
    "dexterity",
    "constitution",
    "intelligence",
    "wisdom",
    "charisma",
];

/// Each skill with the place of its ability.
const SKILLS: [(&str, usize); 18] = [
    ("acrobatics", 1),
    ("animalHandling", 4),
    ("arcana", 3),
    ("athletics", 0),
    ("deception", 5),
    ("history", 3),
    ("insight", 4),
    ("intimidation", 5),
    ("investigation", 3),
    ("medicine", 4),
    ("nature", 3),
    ("perception", 4),
    ("performance", 5),
    ("persuasion", 5),
    ("religion", 3),
    ("sleightOfHand", 1),
    ("stealth", 1),
    ("survival", 4),
];

/// A fifth edition sheet.
pub(super) fn fifth_edition(plan: &Fifth<'_>) -> Value {
    let modifiers = plan.scores.map(|score| (score - 10).div_euclid(2));
    let proficiency = 2 + (plan.level - 1) / 4;
    let each_ability = |entry: &dyn Fn(usize) -> Value| -> JsonMap<String, Value> {
        ABILITIES
            .iter()
            .enumerate()
            .map(|(at, name)| ((*name).to_owned(), entry(at)))
            .collect()
    };
    let stats = each_ability(&|at| json!({ "score": plan.scores[at], "modifier": modifiers[at] }));
    let saves = each_ability(&|at| json!({ "proficient": false, "bonus": modifiers[at] }));
    let skills: JsonMap<String, Value> = SKILLS
        .iter()
        .map(|(name, at)| {
            let entry = json!({ "proficient": false, "expertise": false, "bonus": modifiers[*at] });
            ((*name).to_owned(), entry)
        })
        .collect();
    json!({
        "characterName": plan.name,
        "class": plan.class,
        "level": plan.level,
        "race": plan.race,
        "background": "Folk of the valley",
        "alignment": "Neutral Good",
        "experiencePoints": 0,
        "inspiration": false,
        "proficiencyBonus": proficiency,
        "stats": stats,
        "savingThrows": saves,
        "skills": skills,
        "passivePerception": 10 + modifiers[4],
        "armorClass": plan.armor_class,
        "initiative": modifiers[1],
        "speed": 30,
        "hp": { "maximum": plan.hit_points, "current": plan.hit_points, "temporary": 0 },
        "conditions": [],
        "hitDice": [{
            "class": plan.class,
            "total": format!("{}d{}", plan.level, plan.hit_die),
            "remaining": plan.level,
        }],
        "deathSaves": { "successes": 0, "failures": 0 },
        "attacks": [],
        "currency": { "cp": 0, "sp": 0, "ep": 0, "gp": 15, "pp": 0 },
        "inventory": [],
        "proficienciesAndLanguages": ["Common"],
        "featuresAndTraits": [],
    })
}

/// A plain sheet that a system takes as it is, as a character of a scene has it
/// when nobody wrote one.
pub fn plain(system: Option<GameSystem>, name: &str) -> Value {
    match system {
        Some(GameSystem::Dnd5e) => fifth_edition(&Fifth {
            name,
            class: "Fighter",
            race: "Human",
            level: 1,
            scores: [15, 13, 14, 10, 12, 8],
            hit_points: 12,
            armor_class: 16,
            hit_die: 10,
        }),
        Some(GameSystem::Pathfinder2e) => {
            let attributes: JsonMap<String, Value> = ABILITIES
                .iter()
                .map(|ability| {
                    let entry = json!({ "score": 12, "modifier": 1 });
                    ((*ability).to_owned(), entry)
                })
                .collect();
            json!({
                "characterName": name,
                "class": "Fighter",
                "ancestry": "Human",
                "heritage": "Versatile",
                "level": 1,
                "attributes": attributes,
                "hp": {
                    "maximum": 19, "ancestryHp": 8, "classHpPerLevel": 10, "current": 19,
                    "temporary": 0, "resistances": [], "immunities": [], "weaknesses": [],
                },
            })
        }
        Some(GameSystem::Shadowrun6e) => json!({
            "characterName": name,
            "metatype": "Human",
            "archetype": "Street Samurai",
            "attributes": {
                "body": 4, "agility": 5, "reaction": 4, "strength": 4, "willpower": 3,
                "logic": 3, "intuition": 4, "charisma": 3,
            },
            "conditionMonitors": {
                "physical": { "maximum": 10, "current": 0 },
                "stun": { "maximum": 10, "current": 0 },
            },
        }),
        Some(GameSystem::CallOfCthulhu7e) => {
            let characteristics: JsonMap<String, Value> =
                ["STR", "CON", "SIZ", "DEX", "APP", "INT", "POW", "EDU"]
                    .iter()
                    .map(|one| {
                        let entry = json!({ "regular": 60, "half": 30, "fifth": 12 });
                        ((*one).to_owned(), entry)
                    })
                    .collect();
            json!({
                "investigatorName": name,
                "occupation": "Antiquarian",
                "era": "1920s",
                "characteristics": characteristics,
                "derivedStats": {
                    "hp": { "maximum": 12, "current": 12, "formula": "(CON+SIZ)/10", "majorWoundThreshold": 6 },
                    "sanity": { "maximum": 99, "current": 60, "starting": 60 },
                    "magicPoints": { "maximum": 12, "current": 12 },
                    "luck": { "score": 55 },
                    "damageBonus": "+1d4",
                    "build": 1,
                    "moveRate": 8,
                    "dodge": { "value": 30, "formula": "DEX/2", "improvementChecked": false },
                },
            })
        }
        None => {
            json!({ "concept": "A stranger", "hp": { "maximum": 10, "current": 10, "temporary": 0 } })
        }
    }
}
