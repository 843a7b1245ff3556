//! Characters from their making to their end, and what their sheets must hold.

use cozyvtt_table::{
    CampaignPlan, CharacterPlan, GameSystem, Role, Scene, Table, Version, plain_sheet,
};
use serde_json::{Value, json};

use crate::guest::{Guest, seat, table};

const SYSTEMS: [Option<GameSystem>; 5] = [
    Some(GameSystem::Dnd5e),
    Some(GameSystem::Pathfinder2e),
    Some(GameSystem::Shadowrun6e),
    Some(GameSystem::CallOfCthulhu7e),
    None,
];

fn of_system(system: Option<GameSystem>) -> Scene {
    Scene::new("The Locked Quay").main(|campaign| {
        campaign
            .system(system)
            .character(CharacterPlan::new("player1", "Maud Ferrier"))
    })
}

fn path_of(table: &Table, name: &str) -> String {
    format!("/api/characters/{}", table.character_named(name).unwrap())
}

fn on_roster(roster: &Value, id: &str) -> bool {
    let seats = roster["roster"].as_array().unwrap();
    seats
        .iter()
        .flat_map(|seat| seat["characters"].as_array().unwrap())
        .any(|one| one["id"] == id)
}

#[tokio::test]
async fn a_character_made_for_a_campaign_is_on_its_roster_only_since_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let old = version == Version::V1_1_2;
        let (player, mut peer) = seat(&table, "player1").await;
        let sheet = table.sheet(&table.character_named("Brannoc Thornfield").unwrap());
        let body = json!({
            "name": " Wren ", "campaignId": table.campaign_id(), "data": sheet,
            "tokenImageUrl": "51ab",
        });
        let made = player.post("/api/characters", &body).await;
        assert_eq!(made.status, 201, "{}", made.text);
        assert_eq!(made.message(), "Character created successfully");
        let character = &made.json()["character"];
        assert_eq!(character["name"], "Wren");
        assert_eq!(character["gameSystem"], "DND_5E", "taken from the campaign");
        assert_eq!(character["tokenImageUrl"], "/api/assets/tokens/51ab");
        assert!(character.get("campaign").is_none());
        let id = character["id"].as_str().unwrap();
        let roster = format!("/api/campaigns/{}/characters", table.campaign_id());
        assert_eq!(on_roster(&player.get(&roster).await.json(), id), !old);
        assert_eq!(table.character_ids().last().map(String::as_str), Some(id));

        peer.so_far().await;
        let hurt = json!({ "characterId": id, "delta": -1 });
        peer.emit("character.hp.update", &hurt).await;
        if old {
            assert_eq!(peer.error().await, "Character is not in this campaign");
            let assign = format!("/api/characters/{id}/assign");
            let body = json!({ "campaignId": table.campaign_id() });
            let answer = player.post(&assign, &body).await;
            assert_eq!(
                answer.message(),
                "Character assigned to campaign successfully"
            );
            assert_eq!(
                answer.json()["character"]["campaign"]["gameSystem"],
                "DND_5E"
            );
            let event = peer.event("roster.updated").await;
            let expected = json!({
                "action": "character.assigned", "characterId": id,
                "userId": table.account("player1").user_id, "campaignId": table.campaign_id(),
            });
            assert_eq!(event, expected);
            peer.emit("character.hp.update", &hurt).await;
        }
        let event = peer.event("character.hp.updated").await;
        assert_eq!(event["hp"]["current"], 33);
    }
}

#[tokio::test]
async fn who_is_no_member_makes_no_character_there_since_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let old = version == Version::V1_1_2;
        let outsider = Guest::signed_in(&table, "outsider").await;
        let body = |campaign: &str| json!({ "name": "Stray", "campaignId": campaign });
        let answer = outsider
            .post("/api/characters", &body(table.campaign_id()))
            .await;
        if old {
            assert_eq!(answer.status, 201);
        } else {
            assert_eq!(answer.status, 403);
            assert_eq!(
                answer.message(),
                "You must be a member of the campaign to create a character in it"
            );
        }
        let nowhere = outsider.post("/api/characters", &body("nowhere")).await;
        assert_eq!(nowhere.status, if old { 500 } else { 404 });
        if !old {
            assert_eq!(nowhere.message(), "Campaign not found");
        }
        let stranger = Guest::stranger(&table);
        assert_eq!(
            stranger.post("/api/characters", &json!({})).await.status,
            401
        );
    }
}

#[tokio::test]
async fn a_new_sheet_is_signed_with_both_names_since_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let player = Guest::signed_in(&table, "player1").await;
        let mut sheet = table.sheet(&table.character_named("Brannoc Thornfield").unwrap());
        sheet.as_object_mut().unwrap().remove("characterName");
        let body = json!({ "name": "Wren", "gameSystem": "DND_5E", "data": sheet });
        let made = player.post("/api/characters", &body).await;
        if version == Version::V1_1_2 {
            assert_eq!(made.status, 400);
            assert_eq!(made.json()["validationErrors"][0]["path"], "characterName");
        } else {
            let data = &made.json()["character"]["data"];
            assert_eq!(data["characterName"], "Wren");
            assert_eq!(data["playerName"], "Tamsin Oake");
        }
    }
}

#[tokio::test]
async fn names_and_systems_of_new_characters_are_checked() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let player = Guest::signed_in(&table, "player1").await;
        for body in [
            json!({}),
            json!({ "name": "  " }),
            json!({ "name": "x".repeat(201) }),
            json!({ "name": "x", "gameSystem": "GURPS" }),
            json!({ "name": "x", "gameSystem": "DND_5E", "data": {} }),
        ] {
            let answer = player.post("/api/characters", &body).await;
            assert_eq!(answer.status, 400, "{body}");
            assert_eq!(answer.json()["error"], "Validation Error");
        }
        let body = json!({ "name": "x", "gameSystem": null, "data": { "mood": 3 } });
        let made = player.post("/api/characters", &body).await;
        assert_eq!(made.json()["character"]["data"], json!({ "mood": 3 }));
    }
}

#[tokio::test]
async fn the_faults_of_a_sheet_are_named_as_the_server_names_them() {
    let table = table(Version::V1_1_2).start().await.unwrap();
    let player = Guest::signed_in(&table, "player1").await;
    let path = path_of(&table, "Brannoc Thornfield");
    let body = json!({ "data": { "hp": { "current": 1 } } });
    let answer = player.put(&path, &body).await;
    let paths: Vec<Value> = answer.json()["validationErrors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["path"].clone())
        .collect();
    let expected = json!([
        "characterName",
        "class",
        "level",
        "race",
        "proficiencyBonus",
        "stats",
        "hp.maximum",
        "hp.temporary",
    ]);
    assert_eq!(Value::from(paths), expected);
}

#[tokio::test]
async fn plain_sheets_of_every_system_pass_and_incomplete_blocks_do_not() {
    for (system, block, missing) in [
        (GameSystem::Dnd5e, "skills", "acrobatics"),
        (GameSystem::Pathfinder2e, "hp", "ancestryHp"),
        (GameSystem::CallOfCthulhu7e, "derivedStats", "dodge"),
    ] {
        let table = table(Version::V1_5)
            .scene(of_system(Some(system)))
            .start()
            .await
            .unwrap();
        let player = Guest::signed_in(&table, "player1").await;
        let path = path_of(&table, "Maud Ferrier");
        let checked = player.get(&format!("{path}/validate")).await;
        assert_eq!(checked.json(), json!({ "isValid": true }), "{system:?}");
        let mut sheet = table.sheet(path.rsplit('/').next().unwrap());
        sheet[block].as_object_mut().unwrap().remove(missing);
        let answer = player.put(&path, &json!({ "data": sheet })).await;
        assert_eq!(answer.status, 400);
        let faults = answer.json()["validationErrors"].take();
        assert_eq!(faults[0]["path"], format!("{block}.{missing}"));
        assert_eq!(faults[0]["code"], "invalid_type");
    }
}

#[tokio::test]
async fn keys_a_sheet_does_not_know_are_dropped_since_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let player = Guest::signed_in(&table, "player1").await;
        let path = path_of(&table, "Brannoc Thornfield");
        let id = path.rsplit('/').next().unwrap();
        let mut sheet = table.sheet(id);
        sheet["favouriteSong"] = json!("The Weir");
        sheet["hp"]["mood"] = json!("low");
        sheet["appearance"] = json!({ "scar": true });
        assert_eq!(
            player.put(&path, &json!({ "data": sheet })).await.status,
            200
        );
        let kept = version == Version::V1_1_2;
        let stored = table.sheet(id);
        assert_eq!(stored.get("favouriteSong").is_some(), kept);
        assert_eq!(stored["hp"].get("mood").is_some(), kept);
        assert_eq!(stored["appearance"]["scar"], true);
    }
}

#[tokio::test]
async fn only_the_owner_deletes_copies_assigns_and_validates() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let path = path_of(&table, "Brannoc Thornfield");
        let dm = Guest::signed_in(&table, "dm").await;
        let assign = format!("{path}/assign");
        for answer in [
            dm.delete(&path).await,
            dm.post(&format!("{path}/copy"), &json!({})).await,
            dm.post(&assign, &json!({ "campaignId": null })).await,
            dm.get(&format!("{path}/validate")).await,
        ] {
            assert_eq!(answer.status, 403);
            assert_eq!(answer.json()["error"], "Forbidden");
        }
        let owner = Guest::signed_in(&table, "player1").await;
        let copy = owner.post(&format!("{path}/copy"), &json!({})).await;
        assert_eq!(copy.status, 201);
        assert_eq!(
            copy.json()["character"]["name"],
            "Brannoc Thornfield (Copy)"
        );
        assert_eq!(copy.json()["character"]["campaignId"], Value::Null);
        assert_eq!(owner.delete(&path).await.status, 200);
        for answer in [
            owner.delete(&path).await,
            owner.get(&path).await,
            owner.get(&format!("{path}/validate")).await,
            owner.post(&assign, &json!({ "campaignId": "" })).await,
        ] {
            assert_eq!(answer.status, 404);
            assert_eq!(answer.message(), "Character not found");
        }
        let (_, token) = table.token_named("Brannoc").unwrap();
        assert!(token["characterId"].is_string(), "tokens keep the dead id");
    }
}

#[tokio::test]
async fn a_character_leaves_a_campaign_and_goes_only_where_its_system_is_played() {
    let scene = Scene::default().campaign(
        CampaignPlan::new("The Grey Ward")
            .system(Some(GameSystem::CallOfCthulhu7e))
            .seats([("dm", Role::Dm), ("player1", Role::Player)]),
    );
    let table = table(Version::V1_5).scene(scene).start().await.unwrap();
    let (owner, mut peer) = seat(&table, "player1").await;
    let path = path_of(&table, "Brannoc Thornfield");
    let assign = format!("{path}/assign");
    let ward = table.campaign_named("The Grey Ward").unwrap();
    let answer = owner.post(&assign, &json!({ "campaignId": ward })).await;
    assert_eq!(
        (answer.status, answer.json()["error"].clone()),
        (400, json!("Game System Mismatch"))
    );
    assert_eq!(
        answer.message(),
        "Cannot assign a DND_5E character to a CALL_OF_CTHULHU_7E campaign. Character and campaign game systems must match."
    );
    peer.so_far().await;
    let answer = owner.post(&assign, &json!({ "campaignId": null })).await;
    assert_eq!(
        answer.message(),
        "Character unassigned from campaign successfully"
    );
    let event = peer.event("roster.updated").await;
    assert_eq!(event["action"], "character.unassigned");
    let other = Guest::signed_in(&table, "player2").await;
    assert_eq!(other.get(&path).await.status, 403);
}

#[tokio::test]
async fn validation_tells_the_truth_since_1_5() {
    for version in Version::ALL {
        let scene = Scene::new("The Locked Quay").main(|campaign| {
            campaign
                .character(CharacterPlan::new("player1", "Half Done").sheet(json!({ "level": 99 })))
        });
        let table = table(version).scene(scene).start().await.unwrap();
        let owner = Guest::signed_in(&table, "player1").await;
        let path = path_of(&table, "Half Done");
        let answer = owner.get(&format!("{path}/validate")).await;
        assert_eq!(answer.status, 200);
        if version == Version::V1_1_2 {
            assert_eq!(answer.json(), json!({ "isValid": true }));
        } else {
            assert_eq!(answer.json()["isValid"], false);
            assert_eq!(answer.json()["errors"][2]["code"], "too_big");
        }
        let body = json!({ "name": "Free", "data": {} });
        let made = owner.post("/api/characters", &body).await.json();
        let free = format!(
            "/api/characters/{}/validate",
            made["character"]["id"].as_str().unwrap()
        );
        let answer = owner.get(&free).await;
        assert_eq!(answer.status, 400);
        assert_eq!(answer.json()["errors"][0]["code"], "no_game_system");
        assert!(answer.json().get("error").is_none());
    }
}

#[tokio::test]
async fn the_name_follows_the_sheet_and_the_picture_reaches_the_tokens_since_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let old = version == Version::V1_1_2;
        let (owner, mut peer) = seat(&table, "player1").await;
        let path = path_of(&table, "Brannoc Thornfield");
        let mut sheet = table.sheet(path.rsplit('/').next().unwrap());
        sheet["characterName"] = json!("Brannoc the Grey");
        let body = json!({ "data": sheet, "tokenImageUrl": "77cc" });
        let answer = owner.put(&path, &body).await.json();
        assert_eq!(answer["character"]["name"] == "Brannoc the Grey", !old);
        let event = peer.event("character.updated").await;
        let told = event.get("tokensChanged").cloned();
        assert_eq!(told == Some(json!(true)), !old);
        assert_eq!(told.is_none(), old);
        let (_, token) = table.token_named("Brannoc").unwrap();
        assert_eq!(token["imageUrl"] == "/api/assets/tokens/77cc", !old);
    }
}

#[tokio::test]
async fn spectators_edit_no_character_of_the_campaign_since_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let player = Guest::signed_in(&table, "player1").await;
        let path = path_of(&table, "Brannoc Thornfield");
        table.set_role("player1", Role::Spectator);
        let answer = player.put(&path, &json!({ "name": "Mine" })).await;
        if version == Version::V1_1_2 {
            assert_eq!(answer.status, 200);
        } else {
            assert_eq!(
                answer.message(),
                "Spectators cannot edit a character in this campaign"
            );
        }
    }
}

#[tokio::test]
async fn every_system_has_a_scene_whose_sheets_pass_on_every_release() {
    for version in Version::ALL {
        for system in SYSTEMS {
            let table = table(version)
                .scene(Scene::of_system(system))
                .start()
                .await
                .unwrap();
            let player = Guest::signed_in(&table, "player1").await;
            let ids = table.character_ids();
            assert_eq!(ids.len(), 2);
            let path = format!("/api/characters/{}", ids[0]);
            let body = json!({ "data": table.sheet(&ids[0]) });
            let answer = player.put(&path, &body).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            assert_eq!(table.sheet(&ids[0]), body["data"], "nothing is dropped");
            let body = json!({
                "name": "Third", "campaignId": table.campaign_id(),
                "data": plain_sheet(system, "Third"),
            });
            let answer = player.post("/api/characters", &body).await;
            assert_eq!(answer.status, 201, "{}", answer.text);
        }
    }
}

#[tokio::test]
async fn of_two_guarded_saves_at_once_only_one_comes_through() {
    let table = table(Version::V1_5).start().await.unwrap();
    let owner = Guest::signed_in(&table, "player1").await;
    let path = path_of(&table, "Brannoc Thornfield");
    let stamp = owner.get(&path).await.json()["character"]["updatedAt"].take();
    let body = json!({ "name": "Bran", "updatedAt": stamp });
    let (first, second) = tokio::join!(owner.put(&path, &body), owner.put(&path, &body));
    let mut statuses = [first.status, second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
}

#[tokio::test]
async fn a_character_without_a_campaign_belongs_to_its_owner_alone() {
    let scene = Scene::new("The Locked Quay").main(|campaign| {
        campaign.character(
            CharacterPlan::new("player1", "Loner")
                .system(None)
                .unassigned(),
        )
    });
    let table = table(Version::V1_5).scene(scene).start().await.unwrap();
    let path = path_of(&table, "Loner");
    let dm = Guest::signed_in(&table, "dm").await;
    assert_eq!(dm.get(&path).await.status, 403);
    let owner = Guest::signed_in(&table, "player1").await;
    let listed = owner.get("/api/characters").await.json();
    assert_eq!(listed["characters"][0]["gameSystem"], Value::Null);
    let assign = format!("{path}/assign");
    let body = json!({ "campaignId": table.campaign_id() });
    let answer = owner.post(&assign, &body).await;
    assert_eq!(answer.json()["error"], "Game System Mismatch");
}
