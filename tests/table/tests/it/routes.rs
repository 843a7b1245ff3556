//! Gates, refusals, paging, and the routes that change things.

use cozyvtt_table::{CampaignPlan, Role, Scene, Table, Version};
use serde_json::{Value, json};

use crate::guest::{Guest, table};

#[tokio::test]
async fn a_route_that_does_not_exist_says_so_in_the_known_words() {
    let table = table(Version::V1_1_2).start().await.unwrap();
    let dm = Guest::signed_in(&table, "dm").await;
    let campaign = format!("/api/campaigns/{}", table.campaign_id());
    for path in [
        "/api/nope".to_owned(),
        "/nope".to_owned(),
        format!("{campaign}/macros"),
        format!("{campaign}/dice-rolls"),
    ] {
        let answer = dm.get(&path).await;
        assert_eq!(answer.status, 404);
        let body = json!({
            "error": "Not Found", "message": "The requested resource does not exist",
        });
        assert_eq!(answer.json(), body);
        assert!(
            answer.header("set-cookie").is_some(),
            "{path} renews no cookie"
        );
    }
    assert_eq!(dm.put("/api/nope", &json!({})).await.status, 404);
}

#[tokio::test]
async fn the_gates_stand_in_their_order() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let maps = format!("/api/campaigns/{}/maps", table.campaign_id());
        let nowhere = "/api/campaigns/00000000-0000-0000-0000-000000000000";

        let stranger = Guest::stranger(&table);
        let answer = stranger.post(&maps, &json!({ "name": "x" })).await;
        assert_eq!(answer.status, 401);
        assert_eq!(
            answer.message(),
            "You must be logged in to access this resource"
        );
        assert!(answer.header("set-cookie").is_none());
        let answer = stranger.get("/api/auth/me").await;
        assert_eq!(
            (answer.status, answer.message()),
            (401, "Not authenticated".to_owned())
        );

        let outsider = Guest::signed_in(&table, "outsider").await;
        for path in [&maps, nowhere] {
            let answer = outsider.get(path).await;
            assert_eq!(answer.status, 403);
            assert_eq!(answer.message(), "You are not a member of this campaign");
        }

        let player = Guest::signed_in(&table, "player1").await;
        let answer = player.post(&maps, &json!({ "name": "x" })).await;
        assert_eq!(answer.status, 403);
        assert_eq!(
            answer.message(),
            "This action requires Dungeon Master (DM) role"
        );

        let dm = Guest::signed_in(&table, "dm").await;
        let answer = dm.post(&maps, &json!({ "name": "" })).await;
        assert_eq!(
            (answer.status, answer.message()),
            (400, "Map name is required".to_owned())
        );
    }
}

#[tokio::test]
async fn broken_and_oversized_bodies_are_refused_as_each_release_does() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let dm = Guest::signed_in(&table, "dm").await;
        let raw = |body: String| {
            Guest::send(
                dm.request(reqwest::Method::POST, "/api/auth/login")
                    .header("Content-Type", "application/json")
                    .body(body),
            )
        };
        let broken = raw("{bad json".to_owned()).await.unwrap();
        let big = raw(json!({ "x": "y".repeat(1_100_000) }).to_string())
            .await
            .unwrap();
        if version == Version::V1_1_2 {
            assert_eq!((broken.status, big.status), (500, 500));
            assert_eq!(broken.message(), "An unexpected error occurred");
        } else {
            assert_eq!((broken.status, big.status), (400, 413));
            assert_eq!(broken.message(), "The request body was not valid JSON.");
        }
    }
}

fn lines(count: usize) -> Scene {
    Scene::new("The Long Talk").main(|campaign| {
        (1..=count).fold(campaign, |campaign, at| {
            campaign.line("player1", &format!("line {at}"))
        })
    })
}

#[tokio::test]
async fn the_old_paging_takes_rolls_out_after_the_page_was_cut() {
    let table = table(Version::V1_1_2)
        .scene(lines(3))
        .start()
        .await
        .unwrap();
    for _ in 0..4 {
        table.roll("player1", "1d6", false).unwrap();
    }
    table.say("player2", "last");
    let guest = Guest::signed_in(&table, "spectator").await;
    let path = format!("/api/campaigns/{}/messages", table.campaign_id());

    let page = guest.get(&format!("{path}?limit=3")).await.json();
    assert_eq!(page["messages"].as_array().unwrap().len(), 1);
    assert_eq!(
        page["pagination"],
        json!({ "total": 8, "limit": 3, "offset": 0, "hasMore": true })
    );
    let page = guest.get(&format!("{path}?limit=2&offset=2")).await.json();
    assert_eq!(page["messages"], json!([]));
    assert_eq!(page["pagination"]["hasMore"], true);
    let page = guest
        .get(&format!("{path}?limit=100&offset=5"))
        .await
        .json();
    assert_eq!(page["messages"].as_array().unwrap().len(), 3);
    assert_eq!(page["pagination"]["hasMore"], false);

    for (query, message) in [
        ("limit=101", "Limit must be between 1 and 100"),
        ("limit=0", "Limit must be between 1 and 100"),
        ("limit=x", "Limit must be between 1 and 100"),
        ("offset=-1", "Offset must be a non-negative number"),
    ] {
        let answer = guest.get(&format!("{path}?{query}")).await;
        assert_eq!((answer.status, answer.message()), (400, message.to_owned()));
    }
}

#[tokio::test]
async fn the_new_paging_walks_by_cursor_over_full_pages() {
    let table = table(Version::V1_5).scene(lines(5)).start().await.unwrap();
    table.roll("player1", "1d6", false).unwrap();
    table.say("player2", "line 6");
    let guest = Guest::signed_in(&table, "player2").await;
    let path = format!("/api/campaigns/{}/messages", table.campaign_id());

    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = guest
            .get(&format!("{path}?limit=4&cursor={cursor}"))
            .await
            .json();
        for message in page["messages"].as_array().unwrap() {
            seen.push(message["content"].as_str().unwrap().to_owned());
        }
        let pagination = &page["pagination"];
        assert!(pagination.get("total").is_none() && pagination.get("offset").is_none());
        match pagination["nextCursor"].as_str() {
            Some(next) => {
                assert_eq!(pagination["hasMore"], true);
                next.clone_into(&mut cursor);
            }
            None => break,
        }
    }
    let all: Vec<String> = (1..=6).rev().map(|at| format!("line {at}")).collect();
    assert_eq!(seen, all);

    let answer = guest.get(&format!("{path}?cursor=nonsense")).await;
    assert_eq!(
        (answer.status, answer.message()),
        (400, "Invalid cursor".to_owned())
    );
    let again = guest.get(&format!("{path}?limit=1&offset=3")).await.json();
    assert_eq!(
        again["messages"][0]["content"], "line 6",
        "offset is ignored"
    );
}

#[tokio::test]
async fn the_history_of_rolls_keeps_secrets() {
    let table = table(Version::V1_5).start().await.unwrap();
    table.roll("player1", "1d4", false).unwrap();
    table.roll("player1", "1d6", true).unwrap();
    let path = format!("/api/campaigns/{}/dice-rolls", table.campaign_id());
    for (key, expected) in [("dm", 2), ("player1", 2), ("player2", 1), ("spectator", 1)] {
        let guest = Guest::signed_in(&table, key).await;
        let body = guest.get(&path).await.json();
        assert_eq!(body["rolls"].as_array().unwrap().len(), expected, "{key}");
        assert_eq!(body["pagination"]["total"], expected);
    }
}

#[tokio::test]
async fn prepared_maps_are_hidden_from_players_since_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let maps = format!("/api/campaigns/{}/maps", table.campaign_id());
        let prepared = format!("{maps}/{}", table.map_named("Sunken Belfry").unwrap());
        let old = version == Version::V1_1_2;
        let player = Guest::signed_in(&table, "player1").await;
        let listed = player.get(&maps).await.json()["maps"]
            .as_array()
            .unwrap()
            .len();
        assert_eq!(listed, if old { 2 } else { 1 });
        assert_eq!(
            player.get(&prepared).await.status,
            if old { 200 } else { 404 }
        );
        let dm = Guest::signed_in(&table, "dm").await;
        assert_eq!(dm.get(&prepared).await.status, 200);
    }
}

#[tokio::test]
async fn a_map_is_made_switched_to_and_its_predecessor_deleted() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let dm = Guest::signed_in(&table, "dm").await;
        let maps = format!("/api/campaigns/{}/maps", table.campaign_id());
        let before = table.current_map().unwrap();

        let body = json!({ "name": " Quay ", "imageUrl": "0b0c", "width": 12, "height": 9 });
        let made = dm.post(&maps, &body).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let map = &made.json()["map"];
        assert_eq!(map["name"], "Quay");
        assert_eq!(map["imageUrl"], "/api/assets/maps/0b0c");
        let id = map["id"].as_str().unwrap();

        let answer = dm.delete(&format!("{maps}/{before}")).await;
        assert_eq!(answer.status, 400);
        assert_eq!(
            answer.message(),
            "Cannot delete the current map. Set a different map as current first."
        );
        let answer = dm
            .put(&format!("{maps}/{id}/set-current"), &json!({}))
            .await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json()["campaign"]["currentMap"]["name"], "Quay");
        assert_eq!(table.current_map().as_deref(), Some(id));
        assert_eq!(dm.delete(&format!("{maps}/{before}")).await.status, 200);
        assert_eq!(
            dm.get(&format!("{maps}/{before}")).await.message(),
            "Map not found"
        );

        let odd = json!({ "name": "f", "imageUrl": "0b0c", "width": 20.5, "height": 3 });
        let answer = dm.post(&maps, &odd).await;
        if version == Version::V1_1_2 {
            assert_eq!(answer.json()["map"]["width"], 20);
        } else {
            assert_eq!(answer.status, 400);
        }
    }
}

#[tokio::test]
async fn a_map_of_another_campaign_is_not_found_here() {
    let scene = Scene::default().campaign(
        CampaignPlan::new("Elsewhere")
            .seat("dm", Role::Dm)
            .map(cozyvtt_table::MapPlan::new("Far Shore", 5, 5)),
    );
    let table = table(Version::V1_5).scene(scene).start().await.unwrap();
    let dm = Guest::signed_in(&table, "dm").await;
    let elsewhere = table.campaign_named("Elsewhere").unwrap();
    let map = dm
        .get(&format!("/api/campaigns/{elsewhere}/maps"))
        .await
        .json()["maps"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let answer = dm
        .get(&format!(
            "/api/campaigns/{}/maps/{map}",
            table.campaign_id()
        ))
        .await;
    assert_eq!(answer.status, 404);
    assert_eq!(answer.message(), "Map not found in this campaign");
}

async fn sheet(table: &Table, guest: &Guest, name: &str) -> (String, Value) {
    let path = format!("/api/characters/{}", table.character_named(name).unwrap());
    let character = guest.get(&path).await.json()["character"].take();
    (path, character)
}

#[tokio::test]
async fn a_sheet_is_replaced_as_a_whole_and_checked() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let owner = Guest::signed_in(&table, "player1").await;
        let (path, character) = sheet(&table, &owner, "Brannoc Thornfield").await;

        let partial = owner
            .put(&path, &json!({ "data": { "hp": { "current": 1 } } }))
            .await;
        assert_eq!(partial.status, 400);
        assert_eq!(
            partial.message(),
            "Character data does not match game system schema"
        );
        assert_eq!(
            partial.json()["validationErrors"][0]["path"],
            "characterName"
        );

        let mut data = character["data"].clone();
        data["hp"]["current"] = json!(7);
        let body = json!({ "data": data, "updatedAt": character["updatedAt"] });
        assert_eq!(owner.put(&path, &body).await.status, 200);
        let stale = owner.put(&path, &body).await;
        if version == Version::V1_1_2 {
            assert_eq!(stale.status, 200, "1.1.2 does not look at updatedAt");
        } else {
            assert_eq!(stale.status, 409);
            assert_eq!(stale.json()["code"], "CHARACTER_CHANGED");
        }

        let other = Guest::signed_in(&table, "player2").await;
        assert_eq!(other.get(&path).await.status, 200);
        let answer = other.put(&path, &json!({ "name": "Mine" })).await;
        assert_eq!(answer.status, 403);
        assert_eq!(
            answer.message(),
            "You do not have permission to edit this character"
        );
        let outsider = Guest::signed_in(&table, "outsider").await;
        assert_eq!(
            outsider.get(&path).await.message(),
            "You do not have permission to view this character"
        );
        let dm = Guest::signed_in(&table, "dm").await;
        assert_eq!(
            dm.put(&path, &json!({ "name": "Brannoc" })).await.status,
            200
        );
        assert!(table.character_named("Brannoc").is_some());
    }
}

#[tokio::test]
async fn the_roster_shows_hit_points_by_membership() {
    let table = table(Version::V1_1_2).start().await.unwrap();
    let guest = Guest::signed_in(&table, "spectator").await;
    let body = guest
        .get(&format!(
            "/api/campaigns/{}/characters",
            table.campaign_id()
        ))
        .await
        .json();
    let seats = body["roster"].as_array().unwrap();
    assert_eq!(seats.len(), 4);
    let tamsin = seats
        .iter()
        .find(|seat| seat["userName"] == "Tamsin Oake")
        .unwrap();
    assert_eq!(
        tamsin["characters"][0]["hp"],
        json!({ "current": 34, "max": 34, "temp": 0 })
    );
}
