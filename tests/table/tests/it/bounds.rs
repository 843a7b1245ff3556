//! What maps and tokens may hold since 1.5, and that 1.1.2 takes it all.

use cozyvtt_table::{CampaignPlan, CharacterPlan, MapPlan, Role, Scene, Table, TokenPlan, Version};
use serde_json::{Value, json};

use crate::guest::{Guest, seat, table};

fn maps(table: &Table) -> String {
    format!("/api/campaigns/{}/maps", table.campaign_id())
}

fn tokens(table: &Table) -> String {
    format!("{}/{}/tokens", maps(table), table.current_map().unwrap())
}

#[tokio::test]
async fn odd_token_fields_are_refused_since_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let dm = Guest::signed_in(&table, "dm").await;
        let spectator = table.account("spectator").user_id.clone();
        for (key, value) in [
            ("name", json!("x".repeat(201))),
            ("imageUrl", json!("x".repeat(501))),
            ("size", json!({ "width": 11, "height": 1 })),
            ("visible", json!("yes")),
            ("showHpBar", json!(1)),
            ("layer", json!("cellar")),
            ("type", json!("monster")),
            ("disposition", json!("grumpy")),
            ("displayMode", json!("flat")),
            ("controlledBy", json!(spectator)),
            ("controlledBy", json!("me")),
            ("characterId", json!("nobody")),
            ("creatureTemplateId", json!("wolf")),
            ("rotation", json!(361)),
            ("conditions", json!([""])),
            ("conditions", json!(vec!["x"; 51])),
            ("metadata", json!({ "x": "y".repeat(8000) })),
            ("hp", json!({ "current": 1, "max": 0, "temp": 0 })),
            ("hp", json!({ "current": 1, "max": 2 })),
            ("hp", json!({ "current": 1.5, "max": 2, "temp": 0 })),
            ("notes", json!("x".repeat(5001))),
            ("initiative", json!("12")),
            ("statBlock", json!({ "ac": 12 })),
            ("position", json!({ "x": 1.5, "y": 1 })),
        ] {
            let mut body = json!({ "name": "Otter", "position": { "x": 1, "y": 1 } });
            body[key] = value;
            let answer = dm.post(&tokens(&table), &body).await;
            if version == Version::V1_1_2 {
                assert_eq!(answer.status, 201, "{key}: {}", answer.text);
            } else {
                assert_eq!(answer.status, 400, "{key}");
                assert_eq!(answer.json()["error"], "Validation Error");
            }
        }
        let nameless = json!({ "position": { "x": 1, "y": 1 } });
        assert_eq!(dm.post(&tokens(&table), &nameless).await.status, 400);
        let nowhere = format!("{}/nothing/tokens", maps(&table));
        let answer = dm.post(&nowhere, &nameless).await;
        assert_eq!(
            (answer.status, answer.message()),
            (404, "Map not found".to_owned())
        );
    }
}

#[tokio::test]
async fn a_footprint_is_pulled_back_and_a_character_brings_its_player_since_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let dm = Guest::signed_in(&table, "dm").await;
        let character = table.character_named("Brannoc Thornfield").unwrap();
        let body = json!({
            "name": "Bear", "position": { "x": 23, "y": 17 },
            "size": { "width": 3, "height": 2 }, "characterId": character,
        });
        let token = dm.post(&tokens(&table), &body).await.json()["token"].take();
        assert_eq!(token["characterId"], character);
        if version == Version::V1_1_2 {
            assert_eq!(token["position"], json!({ "x": 23, "y": 17 }));
            assert_eq!(token["controlledBy"], Value::Null);
        } else {
            assert_eq!(token["position"], json!({ "x": 21, "y": 16 }));
            assert_eq!(token["controlledBy"], table.account("player1").user_id);
        }
    }
}

#[tokio::test]
async fn a_character_of_another_campaign_gets_no_token_since_1_5() {
    let scene = Scene::default().campaign(
        CampaignPlan::new("Elsewhere")
            .seats([("dm", Role::Dm), ("player1", Role::Player)])
            .character(CharacterPlan::new("player1", "Far Friend")),
    );
    let table = table(Version::V1_5).scene(scene).start().await.unwrap();
    let dm = Guest::signed_in(&table, "dm").await;
    let body = json!({
        "name": "x", "position": { "x": 1, "y": 1 },
        "characterId": table.character_named("Far Friend"),
    });
    let answer = dm.post(&tokens(&table), &body).await;
    assert_eq!(
        (answer.status, &answer.json()["error"]),
        (400, &json!("Validation Error"))
    );
}

#[tokio::test]
async fn a_map_holds_a_thousand_tokens_since_1_5() {
    for version in Version::ALL {
        let full = (0..1000).fold(MapPlan::new("Ants", 40, 40), |map, at| {
            map.token(TokenPlan::new("Ant", at % 40, at / 40))
        });
        let scene = Scene::new("The Hill").main(|campaign| campaign.map(full));
        let table = table(version).scene(scene).start().await.unwrap();
        let dm = Guest::signed_in(&table, "dm").await;
        let body = json!({ "name": "Ant", "position": { "x": 1, "y": 1 } });
        let answer = dm.post(&tokens(&table), &body).await;
        if version == Version::V1_1_2 {
            assert_eq!(answer.status, 201);
        } else {
            assert_eq!(
                (answer.status, &answer.json()["error"]),
                (400, &json!("Limit Exceeded"))
            );
        }
    }
}

#[tokio::test]
async fn maps_have_their_measure_since_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let old = version == Version::V1_1_2;
        let dm = Guest::signed_in(&table, "dm").await;
        let fit = json!({ "name": "Quay", "imageUrl": "0b0c", "width": 12, "height": 9 });
        for (key, value, taken) in [
            ("width", json!(501), old),
            ("height", json!(0), false),
            ("width", json!("12"), false),
            ("name", json!("x".repeat(201)), old),
            ("width", json!(500), true),
        ] {
            let mut body = fit.clone();
            body[key] = value;
            let answer = dm.post(&maps(&table), &body).await;
            assert_eq!(
                answer.status,
                if taken { 201 } else { 400 },
                "{key}: {}",
                answer.text
            );
        }
        let answer = dm.post(&maps(&table), &json!({ "name": "Quay" })).await;
        assert_eq!(answer.message(), "Map imageUrl (asset ID) is required");
        for (sent, stored) in [
            (json!(70), 70),
            (json!(5), if old { 5 } else { 50 }),
            (json!("x"), 50),
        ] {
            let mut body = fit.clone();
            body["gridSize"] = sent;
            let map = dm.post(&maps(&table), &body).await.json()["map"].take();
            assert_eq!(map["gridSize"], stored);
        }
        let mut body = fit.clone();
        body["spiritLayerUrl"] = json!("5e0e");
        body["diagonalRule"] = json!("alternating");
        body["feetPerSquare"] = json!(10);
        let map = dm.post(&maps(&table), &body).await.json()["map"].take();
        assert_eq!(map["spiritLayerUrl"], "/api/assets/maps/5e0e");
        assert_eq!(
            (&map["diagonalRule"], &map["feetPerSquare"]),
            (&json!("alternating"), &json!(10))
        );
    }
}

#[tokio::test]
async fn the_order_follows_tokens_and_maps_that_go_since_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let old = version == Version::V1_1_2;
        let (dm, mut peer) = seat(&table, "dm").await;
        let (map, foe) = table.token_named("Reed Stalker").unwrap();
        let (other, warden) = table.token_named("Bell Warden").unwrap();
        for (map, token) in [(&map, &foe), (&other, &warden)] {
            let add = json!({ "tokenId": token["id"], "mapId": map });
            peer.emit("initiative.add", &add).await;
            peer.event("initiative.state").await;
        }
        let one = format!(
            "{}/{map}/tokens/{}",
            maps(&table),
            foe["id"].as_str().unwrap()
        );
        dm.put(&one, &json!({ "name": "Reed King" })).await;
        if !old {
            let state = peer.event("initiative.state").await;
            assert_eq!(state["combatants"][0]["name"], "Reed King");
        }
        dm.delete(&one).await;
        if !old {
            let state = peer.event("initiative.state").await;
            assert_eq!(state["combatants"].as_array().unwrap().len(), 1);
        }
        assert_eq!(
            dm.delete(&format!("{}/{other}", maps(&table))).await.status,
            200
        );
        if old {
            assert!(peer.names_so_far().await.is_empty());
        } else {
            assert_eq!(
                peer.event("initiative.state").await["combatants"],
                json!([])
            );
        }
    }
}

#[tokio::test]
async fn a_switched_map_is_told_to_those_in_a_fight_alone() {
    let table = table(Version::V1_5).start().await.unwrap();
    let (dm, mut peer) = seat(&table, "dm").await;
    peer.so_far().await;
    let other = table.map_named("Sunken Belfry").unwrap();
    let switch = format!("{}/{other}/set-current", maps(&table));
    assert_eq!(dm.put(&switch, &json!({})).await.status, 200);
    assert!(peer.names_so_far().await.is_empty());
    let (map, foe) = table.token_named("Bell Warden").unwrap();
    peer.emit(
        "initiative.add",
        &json!({ "tokenId": foe["id"], "mapId": map }),
    )
    .await;
    peer.event("initiative.state").await;
    dm.put(&switch, &json!({})).await;
    assert_eq!(peer.names_so_far().await, ["initiative.state"]);
    let nowhere = format!("{}/nothing/set-current", maps(&table));
    assert_eq!(
        dm.put(&nowhere, &json!({})).await.message(),
        "Map not found"
    );
    let player = Guest::signed_in(&table, "player1").await;
    for answer in [
        player.put(&switch, &json!({})).await,
        player.delete(&format!("{}/{other}", maps(&table))).await,
    ] {
        assert_eq!(
            answer.message(),
            "This action requires Dungeon Master (DM) role"
        );
    }
}

#[tokio::test]
async fn tokens_are_taken_to_another_map_since_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let (dm, mut peer) = seat(&table, "dm").await;
        let (map, foe) = table.token_named("Reed Stalker (wounded)").unwrap();
        let belfry = table.map_named("Sunken Belfry").unwrap();
        let path = format!("{}/{map}/tokens/move", maps(&table));
        let body = json!({ "tokenIds": [foe["id"]], "targetMapId": belfry });
        peer.so_far().await;
        let answer = dm.post(&path, &body).await;
        if version == Version::V1_1_2 {
            assert_eq!(answer.message(), "The requested resource does not exist");
            continue;
        }
        assert_eq!(answer.status, 200, "{}", answer.text);
        let moved = &answer.json()["moved"][0];
        assert_eq!(
            (&moved["id"], &moved["position"]),
            (&foe["id"], &json!({ "x": 15, "y": 8 })),
            "pulled back onto the smaller map"
        );
        let shown = peer.event("map.changed").await;
        assert_eq!(shown["mapData"]["tokens"].as_array().unwrap().len(), 5);
        assert_eq!(table.tokens(&belfry).len(), 2);
        for (body, status) in [
            (body, 404),
            (json!({ "tokenIds": [], "targetMapId": belfry }), 400),
            (json!({ "tokenIds": ["x"], "targetMapId": map }), 400),
            (json!({ "tokenIds": ["x"], "targetMapId": "x" }), 400),
        ] {
            assert_eq!(dm.post(&path, &body).await.status, status, "{body}");
        }
    }
}
