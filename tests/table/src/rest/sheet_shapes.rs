//! The sheets of the four game systems: which keys they know, which of them
//! they need, and what each has to be.

use crate::world::GameSystem;

/// What a value on a sheet has to be.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    /// Anything.
    Any,
    /// A string, empty or not.
    Text,
    /// A string that says something.
    Word,
    Flag,
    List,
    Number,
    /// A number from the first bound to the second.
    Between(i64, i64),
    /// A number that is no less than this.
    AtLeast(i64),
    /// An object of these keys. Since 1.5 others are dropped.
    Block(Vec<Field>),
}

/// A key of a sheet or of a block of it.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) required: bool,
}

const ABILITIES: [&str; 6] = [
    "strength",
    "dexterity",
    "constitution",
    "intelligence",
    "wisdom",
    "charisma",
];

const SKILLS: [&str; 18] = [
    "acrobatics",
    "animalHandling",
    "arcana",
    "athletics",
    "deception",
    "history",
    "insight",
    "intimidation",
    "investigation",
    "medicine",
    "nature",
    "perception",
    "performance",
    "persuasion",
    "religion",
    "sleightOfHand",
    "stealth",
    "survival",
];

const CHARACTERISTICS: [&str; 8] = ["STR", "CON", "SIZ", "DEX", "APP", "INT", "POW", "EDU"];

fn needs(name: &'static str, shape: Shape) -> Field {
    Field {
        name,
        shape,
        required: true,
    }
}

fn may(name: &'static str, shape: Shape) -> Field {
    Field {
        name,
        shape,
        required: false,
    }
}

/// The same shape under several required keys.
fn each(names: &[&'static str], shape: &Shape) -> Shape {
    Shape::Block(
        names
            .iter()
            .map(|name| needs(name, shape.clone()))
            .collect(),
    )
}

fn scores() -> Shape {
    let score = Shape::Block(vec![
        needs("score", Shape::Between(1, 30)),
        needs("modifier", Shape::Between(-5, 10)),
    ]);
    each(&ABILITIES, &score)
}

fn known(names: &[&'static str], shape: &Shape) -> Vec<Field> {
    names.iter().map(|name| may(name, shape.clone())).collect()
}

fn fifth_edition() -> Vec<Field> {
    let skill = Shape::Block(vec![
        needs("proficient", Shape::Flag),
        needs("expertise", Shape::Flag),
        needs("bonus", Shape::Number),
    ]);
    let save = Shape::Block(vec![
        needs("proficient", Shape::Flag),
        needs("bonus", Shape::Number),
    ]);
    let mut fields = vec![
        needs("characterName", Shape::Word),
        needs("class", Shape::Word),
        needs("level", Shape::Between(1, 20)),
        needs("race", Shape::Word),
        needs("proficiencyBonus", Shape::Between(2, 6)),
        needs("stats", scores()),
        may("savingThrows", each(&ABILITIES, &save)),
        may("skills", each(&SKILLS, &skill)),
        may(
            "hp",
            Shape::Block(vec![
                needs("maximum", Shape::AtLeast(1)),
                needs("current", Shape::Number),
                needs("temporary", Shape::AtLeast(0)),
            ]),
        ),
        may(
            "deathSaves",
            Shape::Block(vec![
                needs("successes", Shape::Between(0, 3)),
                needs("failures", Shape::Between(0, 3)),
            ]),
        ),
        may("inspiration", Shape::Any),
        may("playerName", Shape::Text),
        may("background", Shape::Text),
        may("alignment", Shape::Text),
        may("backstory", Shape::Text),
    ];
    fields.extend(known(
        &[
            "attacks",
            "conditions",
            "featuresAndTraits",
            "hitDice",
            "inventory",
            "proficienciesAndLanguages",
        ],
        &Shape::List,
    ));
    fields.extend(known(
        &[
            "additionalFeaturesAndTraits",
            "alliesAndOrganizations",
            "appearance",
            "armorClass",
            "currency",
            "experiencePoints",
            "initiative",
            "passivePerception",
            "personality",
            "speed",
            "spellcasting",
            "treasure",
        ],
        &Shape::Any,
    ));
    fields
}

fn pathfinder() -> Vec<Field> {
    let mut fields = vec![
        needs("characterName", Shape::Word),
        needs("class", Shape::Word),
        needs("level", Shape::Between(1, 20)),
        needs("ancestry", Shape::Word),
        needs("heritage", Shape::Word),
        needs("attributes", scores()),
        may(
            "hp",
            Shape::Block(vec![
                needs("maximum", Shape::AtLeast(1)),
                needs("ancestryHp", Shape::Number),
                needs("classHpPerLevel", Shape::Number),
                needs("current", Shape::Number),
                needs("temporary", Shape::AtLeast(0)),
                needs("resistances", Shape::List),
                needs("immunities", Shape::List),
                needs("weaknesses", Shape::List),
            ]),
        ),
        may("playerName", Shape::Text),
    ];
    fields.extend(known(
        &[
            "alignment",
            "armorClass",
            "attacks",
            "background",
            "conditions",
            "currency",
            "deity",
            "experiencePoints",
            "feats",
            "heroPoints",
            "inventory",
            "languages",
            "notes",
            "perception",
            "savingThrows",
            "size",
            "skills",
            "speed",
            "spellcasting",
        ],
        &Shape::Any,
    ));
    fields
}

fn shadowrun() -> Vec<Field> {
    let mut fields = vec![
        needs("characterName", Shape::Word),
        needs("metatype", Shape::Word),
        needs("archetype", Shape::Word),
        // Their list is not known, so an object of any keys will do.
        needs("attributes", Shape::Block(Vec::new())),
        may("playerName", Shape::Text),
    ];
    fields.extend(known(
        &[
            "armor",
            "augmentations",
            "conditionMonitors",
            "contacts",
            "edge",
            "essence",
            "gear",
            "karma",
            "lifestyle",
            "notes",
            "nuyen",
            "qualities",
            "skills",
            "spells",
            "streetName",
            "weapons",
        ],
        &Shape::Any,
    ));
    fields
}

fn call_of_cthulhu() -> Vec<Field> {
    let characteristic = Shape::Block(vec![
        needs("regular", Shape::Between(0, 100)),
        needs("half", Shape::Between(0, 50)),
        needs("fifth", Shape::Between(0, 20)),
    ]);
    let pool = |more: &[&'static str]| {
        let mut fields = vec![
            needs("maximum", Shape::Number),
            needs("current", Shape::Number),
            may("formula", Shape::Text),
        ];
        fields.extend(more.iter().map(|name| needs(name, Shape::Number)));
        Shape::Block(fields)
    };
    let derived = Shape::Block(vec![
        needs(
            "hp",
            Shape::Block(vec![
                needs("maximum", Shape::Number),
                needs("current", Shape::Number),
                needs("formula", Shape::Text),
                needs("majorWoundThreshold", Shape::Number),
            ]),
        ),
        needs("sanity", pool(&["starting"])),
        needs("magicPoints", pool(&[])),
        needs(
            "luck",
            Shape::Block(vec![
                needs("score", Shape::Number),
                may("notes", Shape::Text),
            ]),
        ),
        needs("damageBonus", Shape::Text),
        needs("build", Shape::Number),
        needs("moveRate", Shape::Number),
        needs(
            "dodge",
            Shape::Block(vec![
                needs("value", Shape::Number),
                may("formula", Shape::Text),
                may("improvementChecked", Shape::Flag),
            ]),
        ),
    ]);
    let mut fields = vec![
        needs("investigatorName", Shape::Word),
        needs("occupation", Shape::Word),
        needs("era", Shape::Word),
        needs("characteristics", each(&CHARACTERISTICS, &characteristic)),
        may("derivedStats", derived),
        may("playerName", Shape::Text),
    ];
    fields.extend(known(
        &[
            "age",
            "appearance",
            "backstory",
            "birthplace",
            "combat",
            "conditions",
            "contacts",
            "notes",
            "possessions",
            "pulpTalents",
            "residence",
            "sex",
            "skills",
            "spellsAndMythos",
            "wealth",
        ],
        &Shape::Any,
    ));
    fields
}

/// The whole sheet of a system.
pub(super) fn sheet(system: GameSystem) -> Shape {
    Shape::Block(match system {
        GameSystem::Dnd5e => fifth_edition(),
        GameSystem::Pathfinder2e => pathfinder(),
        GameSystem::Shadowrun6e => shadowrun(),
        GameSystem::CallOfCthulhu7e => call_of_cthulhu(),
    })
}
