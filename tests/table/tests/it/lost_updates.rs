//! Writes that overlap lose updates, as on the real server.

use std::time::Duration;

use cozyvtt_table::{Table, Version};
use serde_json::json;

use crate::guest::{seat, table};

/// Long enough for two writes to overlap on the slowest machine.
const HOLD: Duration = Duration::from_millis(150);

fn place(table: &Table, name: &str) -> (i64, i64) {
    let (_, token) = table.token_named(name).unwrap();
    let at = |axis: &str| token["position"][axis].as_i64().unwrap();
    (at("x"), at("y"))
}

#[tokio::test]
async fn of_two_drops_at_once_on_one_map_the_first_is_lost() {
    for version in Version::ALL {
        let table = table(version).write_hold(HOLD).start().await.unwrap();
        let (_dm, mut dm) = seat(&table, "dm").await;
        for (name, x) in [("Brannoc", 1), ("Sunniva", 2)] {
            let (map, token) = table.token_named(name).unwrap();
            let payload = json!({ "tokenId": token["id"], "mapId": map, "x": x, "y": 0 });
            dm.emit("token.move.end", &payload).await;
        }
        // Both are told, as if both had been kept.
        dm.event("token.moved").await;
        dm.event("token.moved").await;
        let moved = [
            place(&table, "Brannoc") == (1, 0),
            place(&table, "Sunniva") == (2, 0),
        ];
        assert_eq!(moved.iter().filter(|moved| **moved).count(), 1, "{moved:?}");
    }
}

#[tokio::test]
async fn rest_and_socket_lose_each_others_token_writes() {
    let table = table(Version::V1_1_2)
        .write_hold(HOLD)
        .start()
        .await
        .unwrap();
    let (guest, mut dm) = seat(&table, "dm").await;
    let (map, foe) = table.token_named("Reed Stalker").unwrap();
    let path = format!(
        "/api/campaigns/{}/maps/{map}/tokens/{}",
        table.campaign_id(),
        foe["id"].as_str().unwrap()
    );
    let (_, own) = table.token_named("Brannoc").unwrap();
    let drop = json!({ "tokenId": own["id"], "mapId": map, "x": 1, "y": 0 });
    dm.emit("token.move.end", &drop).await;
    let hurt = json!({ "hp": { "current": 1, "max": 18, "temp": 0 } });
    let answer = guest.put(&path, &hurt).await;
    assert_eq!(answer.status, 200);
    dm.event("token.moved").await;
    let hurt = table.token_named("Reed Stalker").unwrap().1["hp"]["current"] == 1;
    let moved = place(&table, "Brannoc") == (1, 0);
    assert!(hurt != moved, "one of the two has to be lost");
}

#[tokio::test]
async fn of_two_wounds_at_once_one_is_forgotten() {
    let table = table(Version::V1_1_2)
        .write_hold(HOLD)
        .start()
        .await
        .unwrap();
    let (_guest, mut dm) = seat(&table, "dm").await;
    let id = table.character_named("Brannoc Thornfield").unwrap();
    for delta in [-3, -5] {
        dm.emit(
            "character.hp.update",
            &json!({ "characterId": id, "delta": delta }),
        )
        .await;
    }
    dm.event("character.hp.updated").await;
    dm.event("character.hp.updated").await;
    let left = table.sheet(&id)["hp"]["current"].as_i64().unwrap();
    assert!(
        left == 31 || left == 29,
        "{left} is neither 34 - 3 nor 34 - 5"
    );
}

#[tokio::test]
async fn one_write_after_the_other_keeps_both() {
    let table = table(Version::V1_1_2).start().await.unwrap();
    let (_guest, mut dm) = seat(&table, "dm").await;
    let id = table.character_named("Brannoc Thornfield").unwrap();
    for (delta, left) in [(-3, 31), (-5, 26), (100, 34), (-100, 0)] {
        dm.emit(
            "character.hp.update",
            &json!({ "characterId": id, "delta": delta }),
        )
        .await;
        let event = dm.event("character.hp.updated").await;
        assert_eq!(
            event["hp"],
            json!({ "current": left, "max": 34, "temp": 0 })
        );
    }
}

#[tokio::test]
async fn hit_points_are_refused_in_the_known_sentences() {
    let table = table(Version::V1_1_2).start().await.unwrap();
    let (_guest, mut peer) = seat(&table, "player1").await;
    let other = table.character_named("Sunniva Ashlocke").unwrap();
    for (payload, sentence) in [
        (
            json!({ "characterId": other, "delta": -1 }),
            "You do not have permission to update this character's HP",
        ),
        (
            json!({ "tokenId": "x", "current": 5 }),
            "characterId (string) and delta (number) are required",
        ),
        (
            json!({ "characterId": "nope", "delta": 1 }),
            "Character not found",
        ),
    ] {
        peer.emit("character.hp.update", &payload).await;
        assert_eq!(peer.error().await, sentence);
    }
}
