//! The common library: a dozen creatures, all of them made up for this table.

use serde_json::json;

use super::CreaturePlan;

/// The dozen. Every third has a picture.
pub(super) fn creatures() -> Vec<CreaturePlan> {
    let mut all = small();
    all.extend(large());
    all
}

fn small() -> Vec<CreaturePlan> {
    vec![
        CreaturePlan::new("Ash Moth", 12, 3)
            .challenge("0")
            .kind("Tiny beast")
            .abilities([3, 16, 9, 1, 11, 6])
            .speed("5 ft., fly 40 ft.")
            .disposition("neutral")
            .image("/api/assets/tokens/5f0c5a0e-6b1f-4d53-9d5e-0a5b8f0f1a01"),
        CreaturePlan::new("Bog Lantern", 13, 9)
            .challenge("1/8")
            .kind("Tiny spirit")
            .abilities([2, 17, 10, 8, 13, 14])
            .speed("fly 30 ft. (hover)")
            .action(
                "Lead Astray",
                "One creature that sees the light loses its way for a minute.",
            ),
        CreaturePlan::new("Cellar Gnawer", 11, 6)
            .challenge("1/8")
            .kind("Small beast")
            .abilities([7, 13, 12, 2, 10, 4])
            .action("Gnaw", "+3 to hit, reach 5 ft. Hit: 1d4 + 1 piercing."),
        CreaturePlan::new("Chapel Sentry", 16, 27)
            .challenge("1")
            .kind("Medium construct")
            .abilities([16, 9, 15, 3, 10, 5])
            .stat("senses", json!("blindsight 60 ft."))
            .action("Stone Fist", "+5 to hit, reach 5 ft. Hit: 1d8 + 3 bludgeoning.")
            .image("/api/assets/tokens/5f0c5a0e-6b1f-4d53-9d5e-0a5b8f0f1a02"),
        CreaturePlan::new("Ditch Cutpurse", 13, 13)
            .challenge("1/4")
            .kind("Medium humanoid")
            .abilities([10, 15, 11, 12, 9, 12])
            .stat("skills", json!({ "stealth": 4, "sleightOfHand": 6 }))
            .action("Hooked Knife", "+4 to hit, reach 5 ft. Hit: 1d6 + 2 slashing."),
        CreaturePlan::new("Drowned Bellringer", 12, 45)
            .challenge("3")
            .kind("Medium undead")
            .abilities([17, 8, 16, 6, 8, 11])
            .speed("20 ft., swim 40 ft.")
            .stat("damageImmunities", json!("cold, poison"))
            .action(
                "Toll",
                "Each creature within 20 ft. that can hear makes a DC 12 Wisdom save or is stunned.",
            ),
    ]
}

fn large() -> Vec<CreaturePlan> {
    vec![
        CreaturePlan::new("Fen Ox", 12, 38)
            .challenge("1/2")
            .kind("Large beast")
            .abilities([19, 9, 16, 2, 11, 5])
            .size(2)
            .disposition("neutral")
            .action("Horns", "+6 to hit, reach 5 ft. Hit: 2d6 + 4 piercing."),
        CreaturePlan::new("Glass Heron", 14, 22)
            .challenge("1")
            .kind("Medium elemental")
            .abilities([11, 18, 12, 6, 14, 10])
            .speed("20 ft., fly 60 ft.")
            .image("/api/assets/tokens/5f0c5a0e-6b1f-4d53-9d5e-0a5b8f0f1a03"),
        CreaturePlan::new("Hedge Giantling", 13, 76)
            .challenge("4")
            .kind("Large giant")
            .abilities([20, 10, 17, 8, 12, 9])
            .size(2)
            .action("Uprooted Post", "+7 to hit, reach 10 ft. Hit: 3d8 + 5 bludgeoning."),
        CreaturePlan::new("Ink Serpent", 15, 58)
            .challenge("5")
            .kind("Large monstrosity")
            .abilities([16, 18, 15, 12, 13, 14])
            .size(2)
            .action(
                "Blot",
                "A 15 ft. cone of ink: DC 14 Constitution save or blinded until the next turn.",
            ),
        CreaturePlan::new("Moss Wolf", 13, 16)
            .challenge("1/4")
            .kind("Medium plant")
            .abilities([13, 15, 13, 4, 12, 6])
            .speed("40 ft.")
            .action("Bite", "+4 to hit, reach 5 ft. Hit: 2d4 + 2 piercing."),
        CreaturePlan::new("Weir Colossus", 18, 189)
            .challenge("11")
            .kind("Huge elemental")
            .abilities([25, 7, 21, 6, 11, 8])
            .size(3)
            .stat(
                "legendaryActions",
                json!([{ "name": "Surge", "description": "A wave pushes everything within 15 ft." }]),
            )
            .image("/api/assets/tokens/5f0c5a0e-6b1f-4d53-9d5e-0a5b8f0f1a04"),
    ]
}
