//! Moving tokens, and who may.

use cozyvtt_table::{Table, Version};
use serde_json::{Value, json};

use crate::guest::{Guest, seat, table};

fn token(table: &Table, name: &str) -> (Value, String, String) {
    let (map, token) = table.token_named(name).unwrap();
    let id = token["id"].as_str().unwrap().to_owned();
    (token, map, id)
}

fn drop_at(map: &str, id: &str, x: impl Into<Value>, y: impl Into<Value>) -> Value {
    json!({ "tokenId": id, "mapId": map, "x": x.into(), "y": y.into() })
}

#[tokio::test]
async fn a_drag_is_told_to_others_and_the_drop_to_all() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let (_dm, mut dm) = seat(&table, "dm").await;
        let (_player, mut player) = seat(&table, "player1").await;
        let (_, map, id) = token(&table, "Brannoc");
        dm.so_far().await;
        player.so_far().await;
        player
            .emit("token.move.start", &json!({ "tokenId": id, "mapId": map }))
            .await;
        player.emit("token.move", &drop_at(&map, &id, 6, 4)).await;
        player
            .emit("token.move.end", &drop_at(&map, &id, 7, 5))
            .await;

        let start = dm.event("token.move.start").await;
        assert_eq!(start["movedBy"], table.account("player1").user_id);
        let frame = dm.event("token.moved").await;
        assert_eq!(frame["x"], 6);
        assert_eq!(frame.get("dragging").is_some(), version == Version::V1_5);
        for peer in [&mut dm, &mut player] {
            let moved = peer.event("token.moved").await;
            assert_eq!((&moved["x"], &moved["y"]), (&json!(7), &json!(5)));
            assert!(moved.get("dragging").is_none());
        }
        let (stored, ..) = token(&table, "Brannoc");
        assert_eq!(stored["position"], json!({ "x": 7, "y": 5 }));
    }
}

#[tokio::test]
async fn refused_drops_name_their_reason() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let old = version == Version::V1_1_2;
        let (_guest, mut player) = seat(&table, "player1").await;
        let (_, map, own) = token(&table, "Brannoc");
        let (_, _, foe) = token(&table, "Reed Stalker");
        for (payload, sentence) in [
            (
                drop_at(&map, &foe, 1, 1),
                "You do not have permission to move this token",
            ),
            (drop_at(&map, &own, 24, 4), "Token position out of bounds"),
            (drop_at(&map, &own, -1, 4), "Token position out of bounds"),
            (drop_at(&map, &own, "4", 4), "Invalid token move data"),
            (drop_at("nope", &own, 1, 4), "Map not found"),
            (drop_at(&map, "nope", 1, 4), "Token not found"),
        ] {
            player.emit("token.move.end", &payload).await;
            assert_eq!(player.error().await, sentence, "{payload}");
        }
        player.so_far().await;
        player
            .emit("token.move.end", &drop_at(&map, &own, 4.25, 4))
            .await;
        if old {
            assert_eq!(player.event("token.moved").await["x"], 4.25);
        } else {
            assert_eq!(player.error().await, "Invalid token move data");
            player
                .emit("token.move.end", &drop_at(&map, &foe, 1, 1))
                .await;
            let back = player.event("token.moved").await;
            assert_eq!((&back["x"], &back["movedBy"]), (&json!(14), &Value::Null));
        }
        let (_spectator, mut spectator) = seat(&table, "spectator").await;
        spectator
            .emit("token.move.end", &drop_at(&map, &own, 1, 1))
            .await;
        let sentence = spectator.error().await;
        assert_eq!(sentence == "Spectators cannot move tokens", !old);
    }
}

#[tokio::test]
async fn players_rest_while_the_session_is_paused_since_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let (_guest, mut player) = seat(&table, "player1").await;
        let (_, map, own) = token(&table, "Brannoc");
        player.so_far().await;
        table.set_status("PAUSED");
        player
            .emit("token.move.end", &drop_at(&map, &own, 1, 1))
            .await;
        if version == Version::V1_1_2 {
            player.event("token.moved").await;
        } else {
            assert_eq!(
                player.error().await,
                "Players cannot move tokens while the session is paused or ended"
            );
        }
    }
}

#[tokio::test]
async fn a_hidden_token_moves_unseen_since_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let (_dm, mut dm) = seat(&table, "dm").await;
        let (_player, mut player) = seat(&table, "player1").await;
        let (_, map, hidden) = token(&table, "Thing in the Weir");
        player.so_far().await;
        dm.emit("token.move.end", &drop_at(&map, &hidden, 13, 3))
            .await;
        dm.event("token.moved").await;
        let heard = player.names_so_far().await;
        assert_eq!(heard == ["token.moved"], version == Version::V1_1_2);
    }
}

#[tokio::test]
async fn a_map_is_sent_to_each_as_they_may_see_it() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let old = version == Version::V1_1_2;
        let (_dm, mut dm) = seat(&table, "dm").await;
        let (_player, mut player) = seat(&table, "player1").await;
        let current = table.current_map().unwrap();
        player
            .emit("map.change", &json!({ "mapId": current }))
            .await;
        assert_eq!(player.error().await, "Only DMs can change the map");
        dm.emit("map.change", &json!({})).await;
        assert_eq!(dm.error().await, "mapId required");
        dm.emit("map.change", &json!({ "mapId": "nope" })).await;
        assert_eq!(dm.error().await, "Map not found");

        dm.emit("map.change", &json!({ "mapId": current })).await;
        let whole = dm.event("map.changed").await;
        assert_eq!(whole["mapData"]["tokens"].as_array().unwrap().len(), 6);
        assert_eq!(whole["spiritVisible"], true);
        let part = player.event("map.changed").await;
        let tokens = part["mapData"]["tokens"].as_array().unwrap();
        assert_eq!(tokens.len(), 5);
        assert!(tokens.iter().all(|token| token.get("notes").is_none()));
        let foe = tokens
            .iter()
            .find(|token| token["name"] == "Reed Stalker")
            .unwrap();
        assert_eq!(foe["hp"].is_null(), !old);
        assert_eq!(foe.get("statBlock").is_some(), old);

        let other = table.map_named("Sunken Belfry").unwrap();
        dm.emit("map.change", &json!({ "mapId": other })).await;
        if old {
            assert_eq!(player.event("map.changed").await["mapId"], other.as_str());
            assert_eq!(
                table.current_map().unwrap(),
                current,
                "the event stores nothing"
            );
        } else {
            assert_eq!(
                dm.error().await,
                "Only the current map can be sent to the table; set it current first"
            );
            table.switch_map(&other).unwrap();
            assert_eq!(player.event("map.changed").await["mapId"], other.as_str());
        }
    }
}

#[tokio::test]
async fn tokens_over_rest_come_and_go_without_an_event() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let old = version == Version::V1_1_2;
        let (dm, mut peer) = seat(&table, "dm").await;
        peer.so_far().await;
        let map = table.current_map().unwrap();
        let tokens = format!("/api/campaigns/{}/maps/{map}/tokens", table.campaign_id());
        let body = json!({
            "name": "Otter", "position": { "x": 2, "y": 3 }, "imageUrl": "77aa",
            "disposition": "neutral", "hp": { "current": 3, "max": 3, "temp": 0 },
        });
        let added = dm.post(&tokens, &body).await;
        assert_eq!(added.status, 201, "{}", added.text);
        let otter = &added.json()["token"];
        assert_eq!(otter["imageUrl"], "/api/assets/tokens/77aa");
        assert_eq!(otter["type"], "npc");
        assert_eq!(otter.get("sightRadius").is_some(), !old);
        assert_eq!(added.json()["map"]["tokens"].as_array().unwrap().len(), 7);
        let path = format!("{tokens}/{}", otter["id"].as_str().unwrap());

        let hurt = json!({ "hp": { "current": 1, "max": 3, "temp": 0 } });
        assert_eq!(
            dm.put(&path, &hurt).await.json()["token"]["hp"]["current"],
            1
        );
        let answer = dm
            .put(&path, &json!({ "position": { "x": 99, "y": 1 } }))
            .await;
        assert_eq!(answer.status, 400);
        assert_eq!(
            answer.message(),
            "Position must be within map bounds (0-23, 0-17)"
        );
        let outside = json!({ "name": "x", "position": { "x": 0, "y": 18 } });
        assert_eq!(
            dm.post(&tokens, &outside).await.message(),
            "Token position must be within map bounds (0-23, 0-17)"
        );
        let odd = json!({ "hp": { "current": 1 } });
        assert_eq!(
            dm.put(&path, &odd).await.status,
            if old { 200 } else { 400 }
        );

        assert_eq!(
            dm.delete(&path).await.message(),
            "Token removed successfully"
        );
        let gone = dm.delete(&path).await;
        assert_eq!(gone.message(), "Token not found on this map");
        assert!(peer.names_so_far().await.is_empty());
    }
}

#[tokio::test]
async fn players_change_only_some_fields_of_their_own_tokens() {
    let table = table(Version::V1_1_2).start().await.unwrap();
    let player = Guest::signed_in(&table, "player1").await;
    let (_, map, own) = token(&table, "Brannoc");
    let (_, _, foe) = token(&table, "Reed Stalker");
    let tokens = format!("/api/campaigns/{}/maps/{map}/tokens", table.campaign_id());
    for (id, body, status, message) in [
        (
            &foe,
            json!({ "rotation": 9 }),
            403,
            "You can only update tokens you control",
        ),
        (
            &own,
            json!({ "hp": { "current": 1, "max": 2, "temp": 0 } }),
            403,
            "Only DM can update token field: hp",
        ),
        (
            &own,
            json!({ "layer": "spirit" }),
            403,
            "Only DM can change token layer",
        ),
        (
            &own,
            json!({ "rotation": 90 }),
            200,
            "Token updated successfully",
        ),
    ] {
        let answer = player.put(&format!("{tokens}/{id}"), &body).await;
        assert_eq!(
            (answer.status, answer.message().as_str()),
            (status, message)
        );
    }
}
