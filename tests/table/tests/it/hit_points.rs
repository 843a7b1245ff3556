//! Hit points and hit dice, by the rules of each system.

use cozyvtt_table::{GameSystem, Scene, Version};
use serde_json::json;

use crate::guest::{seat, table};

const SYSTEMS: [Option<GameSystem>; 5] = [
    Some(GameSystem::Dnd5e),
    Some(GameSystem::Pathfinder2e),
    Some(GameSystem::Shadowrun6e),
    Some(GameSystem::CallOfCthulhu7e),
    None,
];

#[tokio::test]
async fn hit_points_change_by_the_rules_of_each_system() {
    for system in SYSTEMS {
        let table = table(Version::V1_5)
            .scene(Scene::of_system(system))
            .start()
            .await
            .unwrap();
        let (_guest, mut peer) = seat(&table, "player1").await;
        let id = table.character_ids().remove(0);
        let hurt = json!({ "characterId": id, "delta": -3 });
        peer.emit("character.hp.update", &hurt).await;
        let max = match system {
            None | Some(GameSystem::Shadowrun6e) => {
                assert_eq!(
                    peer.error().await,
                    "HP tracking not supported for this game system"
                );
                continue;
            }
            Some(GameSystem::Pathfinder2e) => 19,
            _ => 12,
        };
        let event = peer.event("character.hp.updated").await;
        let expected = json!({ "current": max - 3, "max": max, "temp": 0 });
        assert_eq!(event["hp"], expected, "{system:?}");
        let healed = json!({ "characterId": id, "delta": 100 });
        peer.emit("character.hp.update", &healed).await;
        let event = peer.event("character.hp.updated").await;
        assert_eq!(event["hp"]["current"], max, "{system:?}");
    }
}

#[tokio::test]
async fn a_hit_die_is_spent_until_none_is_left() {
    let table = table(Version::V1_5).start().await.unwrap();
    let (_dm, mut dm) = seat(&table, "dm").await;
    let (_player, mut player) = seat(&table, "player1").await;
    let id = table.character_named("Brannoc Thornfield").unwrap();
    let spend = json!({ "characterId": id, "index": 0 });
    for left in (0..4).rev() {
        player.emit("character.hitdice.spend", &spend).await;
        let event = dm.event("character.updated").await;
        assert_eq!(event["character"]["data"]["hitDice"][0]["remaining"], left);
        assert_eq!(event["userId"], table.account("player1").user_id);
        assert_eq!(event["tokensChanged"], false);
        assert_eq!(player.event("character.updated").await["characterId"], id);
    }
    player.emit("character.hitdice.spend", &spend).await;
    assert_eq!(player.error().await, "No hit dice remaining to spend");
}

#[tokio::test]
async fn refused_hit_dice_name_their_reason_and_1_1_2_says_nothing() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let id = table.character_named("Brannoc Thornfield").unwrap();
        let spend = json!({ "characterId": id, "index": 0 });
        let (_player, mut player) = seat(&table, "player2").await;
        player.so_far().await;
        if version == Version::V1_1_2 {
            player.emit("character.hitdice.spend", &spend).await;
            assert!(player.names_so_far().await.is_empty());
            continue;
        }
        for (payload, sentence) in [
            (
                json!({ "characterId": id }),
                "characterId (string) and index (integer) are required",
            ),
            (
                json!({ "characterId": id, "index": 0.5 }),
                "characterId (string) and index (integer) are required",
            ),
            (
                json!({ "characterId": "nobody", "index": 0 }),
                "Character not found",
            ),
            (
                spend.clone(),
                "You do not have permission to spend this character's hit dice",
            ),
        ] {
            player.emit("character.hitdice.spend", &payload).await;
            assert_eq!(player.error().await, sentence);
        }
        let (_dm, mut dm) = seat(&table, "dm").await;
        dm.emit(
            "character.hitdice.spend",
            &json!({ "characterId": id, "index": 7 }),
        )
        .await;
        assert_eq!(dm.error().await, "No hit dice pool at that position");
        let (_spectator, mut spectator) = seat(&table, "spectator").await;
        spectator.emit("character.hitdice.spend", &spend).await;
        assert_eq!(
            spectator.error().await,
            "Spectators cannot change a character"
        );
    }
    let scene = Scene::of_system(Some(GameSystem::CallOfCthulhu7e));
    let table = table(Version::V1_5).scene(scene).start().await.unwrap();
    let (_guest, mut peer) = seat(&table, "player1").await;
    let id = table.character_ids().remove(0);
    peer.emit(
        "character.hitdice.spend",
        &json!({ "characterId": id, "index": 0 }),
    )
    .await;
    assert_eq!(
        peer.error().await,
        "Hit dice are not tracked for this game system"
    );
}
