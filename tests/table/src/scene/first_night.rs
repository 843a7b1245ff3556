//! The default scene.

use serde_json::json;

use super::sheets::{Fifth, fifth_edition};
use super::{CharacterPlan, CreaturePlan, DocumentPlan, MapPlan, Person, Scene, TokenPlan};

/// The five accounts of every scene.
pub(super) fn people() -> Vec<Person> {
    vec![
        Person::new("dm", "Isolde Marrow"),
        Person::new("player1", "Tamsin Oake"),
        Person::new("player2", "Ruben Vale"),
        Person::new("spectator", "Old Fenwick"),
        Person::new("outsider", "Nerys Hollow"),
    ]
}

/// A campaign on its second evening.
pub(super) fn scene() -> Scene {
    let brannoc = fifth_edition(&Fifth {
        name: "Brannoc Thornfield",
        class: "Ranger",
        race: "Wood Elf",
        level: 4,
        scores: [12, 17, 14, 10, 15, 8],
        hit_points: 34,
        armor_class: 15,
        hit_die: 10,
    });
    let sunniva = fifth_edition(&Fifth {
        name: "Sunniva Ashlocke",
        class: "Cleric",
        race: "Dwarf",
        level: 4,
        scores: [14, 10, 16, 11, 17, 12],
        hit_points: 35,
        armor_class: 18,
        hit_die: 8,
    });
    Scene::new("The Hollow Bell").library().main(|campaign| {
        campaign
            .creature(
                CreaturePlan::new("Reed Stalker", 14, 18)
                    .challenge("1/2")
                    .kind("Medium monstrosity")
                    .action(
                        "Barbed Reed",
                        "+4 to hit, reach 10 ft. Hit: 1d8 + 2 piercing.",
                    )
                    .image("/api/assets/tokens/5f0c5a0e-6b1f-4d53-9d5e-0a5b8f0f1a05"),
            )
            .creature(CreaturePlan::new("Bell Warden", 16, 40).challenge("2"))
            .description("A drowned valley, and a bell that rings below the water.")
            .character(CharacterPlan::new("player1", "Brannoc Thornfield").sheet(brannoc))
            .character(CharacterPlan::new("player2", "Sunniva Ashlocke").sheet(sunniva))
            .map(
                MapPlan::new("Millrace Crossing", 24, 18)
                    .token(
                        TokenPlan::new("Brannoc", 5, 4)
                            .controlled_by("player1")
                            .character("Brannoc Thornfield"),
                    )
                    .token(
                        TokenPlan::new("Sunniva", 6, 4)
                            .controlled_by("player2")
                            .character("Sunniva Ashlocke"),
                    )
                    .token(TokenPlan::new("Reed Stalker", 14, 9).hostile().hp(18))
                    .token(
                        TokenPlan::new("Reed Stalker (wounded)", 16, 8)
                            .hostile()
                            .hp(18),
                    )
                    .token(
                        TokenPlan::new("Thing in the Weir", 12, 2)
                            .hostile()
                            .hidden()
                            .hp(52)
                            .field("notes", json!("Rises when the sluice is opened.")),
                    )
                    .token(
                        TokenPlan::new("Ferry Chest", 7, 11)
                            .field("type", json!("object"))
                            .field("displayMode", json!("full-art")),
                    ),
            )
            .map(
                MapPlan::new("Sunken Belfry", 16, 16)
                    .token(TokenPlan::new("Bell Warden", 8, 8).hostile().hp(40)),
            )
            .document(
                DocumentPlan::markdown(
                    "dm",
                    "House rules",
                    "# House rules\n\n- A bell heard twice is a bell answered.\n- Lanterns burn for one hour.\n",
                )
                .description("Read before the first night."),
            )
            .document(
                DocumentPlan::text("dm", "Tide table", "low 04:12\nhigh 10:31\nlow 16:50\n")
                    .personal()
                    .shared(),
            )
            .line("dm", "The mill wheel has stopped. Nobody stopped it.")
            .line("player1", "I string my bow and watch the reeds.")
            .line("player2", "I keep the lantern low.")
    })
}
