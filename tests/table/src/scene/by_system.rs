//! A small scene for each game system.

use super::{CharacterPlan, MapPlan, Scene, TokenPlan};
use crate::world::GameSystem;

/// What differs from system to system.
struct Cast {
    campaign: &'static str,
    map: &'static str,
    first: &'static str,
    second: &'static str,
    foe: &'static str,
}

fn cast(system: Option<GameSystem>) -> Cast {
    match system {
        Some(GameSystem::Dnd5e) => Cast {
            campaign: "Lanterns Under Oakmere",
            map: "Oakmere Cellars",
            first: "Hob Tallowe",
            second: "Mirel Dawnsong",
            foe: "Cellar Gnawer",
        },
        Some(GameSystem::Pathfinder2e) => Cast {
            campaign: "The Copper Stair",
            map: "First Landing",
            first: "Vessa Quillon",
            second: "Tobren Ashgate",
            foe: "Verdigris Imp",
        },
        Some(GameSystem::Shadowrun6e) => Cast {
            campaign: "Rain on Pier Nine",
            map: "Container Yard",
            first: "Static",
            second: "Mother Velvet",
            foe: "Yard Drone",
        },
        Some(GameSystem::CallOfCthulhu7e) => Cast {
            campaign: "The Tide Ledger",
            map: "Harbour Records Office",
            first: "Edith Larkham",
            second: "Prof. Amos Tull",
            foe: "Clerk in Grey",
        },
        None => Cast {
            campaign: "Nothing by the Book",
            map: "A Field",
            first: "The Baker",
            second: "The Baker's Dog",
            foe: "The Goose",
        },
    }
}

/// Two characters with plain sheets, and a map with them and a foe on it.
pub(super) fn scene(system: Option<GameSystem>) -> Scene {
    let cast = cast(system);
    let scene = Scene::new(cast.campaign).main(|campaign| {
        campaign
            .system(system)
            .character(CharacterPlan::new("player1", cast.first))
            .character(CharacterPlan::new("player2", cast.second))
            .map(
                MapPlan::new(cast.map, 20, 15)
                    .token(
                        TokenPlan::new(cast.first, 3, 3)
                            .controlled_by("player1")
                            .character(cast.first),
                    )
                    .token(
                        TokenPlan::new(cast.second, 4, 3)
                            .controlled_by("player2")
                            .character(cast.second),
                    )
                    .token(TokenPlan::new(cast.foe, 12, 9).hostile().hp(9)),
            )
    });
    if system == Some(GameSystem::Dnd5e) {
        scene.library()
    } else {
        scene
    }
}
