//! Saved rolls: everybody's own, fifty at most, and rollable.

use cozyvtt_table::{Table, Version};
use serde_json::{Value, json};

use crate::guest::{Guest, table};

fn path(table: &Table) -> String {
    format!("/api/campaigns/{}/macros", table.campaign_id())
}

#[tokio::test]
async fn a_roll_is_saved_changed_and_forgotten() {
    let table = table(Version::V1_5).start().await.unwrap();
    let player = Guest::signed_in(&table, "player1").await;
    let path = path(&table);
    let body = json!({ "name": " Long bow ", "expression": " 1d8+3 " });
    let made = player.post(&path, &body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let made = &made.json()["macro"];
    assert_eq!(
        (&made["name"], &made["expression"]),
        (&json!("Long bow"), &json!("1d8+3"))
    );
    assert_eq!(made["userId"], table.account("player1").user_id);
    let second = json!({ "name": "Luck", "expression": "adv" });
    assert_eq!(player.post(&path, &second).await.status, 201);

    let listed = player.get(&path).await.json();
    assert_eq!(listed["macros"], Value::from(table.macros("player1")));
    assert_eq!(listed["macros"][0], *made, "oldest first");
    let one = format!("{path}/{}", made["id"].as_str().unwrap());
    assert_eq!(player.get(&one).await.json()["macro"], *made);
    let changed = player
        .put(&one, &json!({ "expression": "2d6" }))
        .await
        .json();
    assert_eq!(changed["macro"]["expression"], "2d6");
    assert_eq!(changed["macro"]["name"], "Long bow");
    assert_eq!(
        player.delete(&one).await.json(),
        json!({ "message": "Macro deleted" })
    );
    assert_eq!(table.macros("player1").len(), 1);
}

#[tokio::test]
async fn somebody_elses_roll_is_not_found() {
    let table = table(Version::V1_5).start().await.unwrap();
    let player = Guest::signed_in(&table, "player1").await;
    let path = path(&table);
    let body = json!({ "name": "Mine", "expression": "1d4" });
    let made = player.post(&path, &body).await.json();
    let one = format!("{path}/{}", made["macro"]["id"].as_str().unwrap());
    let dm = Guest::signed_in(&table, "dm").await;
    for answer in [
        dm.get(&one).await,
        dm.put(&one, &json!({ "name": "Ours" })).await,
        dm.delete(&one).await,
        player.get(&format!("{path}/nothing")).await,
    ] {
        assert_eq!(answer.status, 404);
        assert_eq!(answer.message(), "Macro not found");
    }
    assert_eq!(dm.get(&path).await.json(), json!({ "macros": [] }));
    let outsider = Guest::signed_in(&table, "outsider").await;
    assert_eq!(outsider.get(&path).await.status, 403);
}

#[tokio::test]
async fn what_cannot_be_named_or_rolled_is_refused() {
    let table = table(Version::V1_5).start().await.unwrap();
    let player = Guest::signed_in(&table, "player1").await;
    let path = path(&table);
    for (body, start) in [
        (json!({}), "Macro name"),
        (json!({ "name": " ", "expression": "1d4" }), "Macro name"),
        (
            json!({ "name": "x".repeat(61), "expression": "1d4" }),
            "Macro name",
        ),
        (json!({ "name": "x" }), "Macro expression"),
        (
            json!({ "name": "x", "expression": "1".repeat(201) }),
            "Macro expression",
        ),
        (
            json!({ "name": "x", "expression": "(1d6)" }),
            "CozyVTT could not read ",
        ),
        (
            json!({ "name": "x", "expression": "2d6+" }),
            "CozyVTT could not read ",
        ),
    ] {
        let answer = player.post(&path, &body).await;
        assert_eq!(answer.status, 400, "{body}");
        assert_eq!(answer.json()["error"], "Validation Error");
        assert!(answer.message().starts_with(start), "{}", answer.message());
    }
    let made = player
        .post(&path, &json!({ "name": "x", "expression": "1d4" }))
        .await
        .json();
    let one = format!("{path}/{}", made["macro"]["id"].as_str().unwrap());
    assert_eq!(player.put(&one, &json!({})).await.status, 400);
    assert_eq!(
        player
            .put(&one, &json!({ "expression": "1d0" }))
            .await
            .status,
        400
    );
}

#[tokio::test]
async fn the_fifty_first_is_one_too_many() {
    let table = table(Version::V1_5).start().await.unwrap();
    let player = Guest::signed_in(&table, "player1").await;
    let path = path(&table);
    let body = json!({ "name": "Again", "expression": "1d6" });
    for _ in 0..50 {
        assert_eq!(player.post(&path, &body).await.status, 201);
    }
    let answer = player.post(&path, &body).await;
    assert_eq!(answer.status, 400);
    assert!(
        answer
            .message()
            .starts_with("You already have 50 macros in this campaign.")
    );
    let other = Guest::signed_in(&table, "player2").await;
    assert_eq!(other.post(&path, &body).await.status, 201);
}
