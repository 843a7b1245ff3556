//! The tools of maps and tokens against the contract, at both releases: what goes over the wire,
//! what comes back, and what is refused. A test that covers an acceptance case of the contract
//! names it.

use anyhow::{Context as _, Result};
use cozyvtt_table::{
    CharacterPlan, CreaturePlan, Fault, Reply, Scene, SocketFault, Table, Version,
};
use cozyvtt_tests::asked::{asked, campaign_path, token};
use cozyvtt_tests::calls::{data, event, events, failure, high_water, http, refusal};
use cozyvtt_tests::seat::{fence, nothing_said_since, said, sit_settled};
use cozyvtt_tests::until;
use serde_json::{Value, json};

const NOTE: &str =
    "Dispatch only; poll for business results and system.error. Do not blindly retry writes.";
const BAD_ID: &str = "Resource ID must not be empty or a relative path";
/// What an id might hold that tries to leave its segment, and how it has to travel.
const WILD: (&str, &str) = ("a/b?c#d%", "a%2Fb%3Fc%23d%25");
const NEAR: &str = "Millrace Crossing";
const FAR: &str = "Sunken Belfry";

async fn table(version: Version) -> Result<Table> {
    Table::builder().version(version).start().await
}

fn map(table: &Table, name: &str) -> Result<String> {
    table
        .map_named(name)
        .with_context(|| format!("no map {name}"))
}

// ---- map_switch ------------------------------------------------------------

/// T-MAP-01
#[tokio::test]
async fn t_map_01_a_switch_is_stored_and_then_told() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit_settled(&table, "dm").await?;
        let far = map(&table, FAR)?;
        let path = format!("{}/maps/{far}/set-current", campaign_path(&table));
        let since = high_water(home).await?;
        let answer = data(home, "map_switch", json!({"map_id": far})).await?;
        assert_eq!(
            answer,
            json!({
                "persisted": true,
                "response": answer["response"],
                "broadcast_pending": true,
                "confirmed": false,
                "broadcast": {
                    "sent": true,
                    "confirmed": false,
                    "status": "pending",
                    "since": answer["broadcast"]["since"],
                    "note": NOTE,
                },
            }),
            "{version}"
        );
        let message = "Current map updated successfully";
        assert_eq!(answer["response"]["message"], message);
        assert!(answer["broadcast"]["since"].as_u64() >= Some(since));
        assert_eq!(asked(&table, "PUT", &path), [json!({})]);
        let told = event(home, since, "map.changed").await;
        assert_eq!(told["payload"]["mapId"], *far);
        assert!(told["seq"].as_u64() > answer["broadcast"]["since"].as_u64());
        assert_eq!(table.current_map().as_ref(), Some(&far));
        // Doing it again sends the news again.
        let since = high_water(home).await?;
        data(home, "map_switch", json!({"map_id": far})).await?;
        event(home, since, "map.changed").await;
        let frames = table.log().events_in("map.change");
        let payloads: Vec<_> = frames.iter().map(|one| one.payload.clone()).collect();
        let expected = json!({"mapId": far});
        assert_eq!(payloads, [expected.clone(), expected], "{version}");
    }
    Ok(())
}

#[tokio::test]
async fn t_map_01_without_a_link_the_switch_is_kept_and_said_to_be_untold() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit_settled(&table, "dm").await?;
        let far = map(&table, FAR)?;
        let path = format!("{}/maps/{far}/set-current", campaign_path(&table));
        let _armed = table.faults().socket(SocketFault::RefuseHandshake(503));
        table.close_sockets();
        until("the link is down", || async {
            let page = data(home, "events_poll", json!({})).await.ok()?;
            (page["connected"] == false).then_some(())
        })
        .await;
        let envelope = failure(home, "map_switch", json!({"map_id": far})).await?;
        let sentence = "Current map saved, but broadcast dispatch failed; \
                        do not replay the REST write: ";
        let error = envelope["error"].as_str().context("no sentence")?;
        assert!(error.starts_with(sentence) && error.len() > sentence.len());
        let answer = &envelope["data"];
        assert_eq!(
            *answer,
            json!({
                "persisted": true,
                "response": answer["response"],
                "broadcast_pending": false,
                "confirmed": false,
            }),
            "{version}"
        );
        assert_eq!(
            answer["response"]["message"],
            "Current map updated successfully"
        );
        assert_eq!(table.log().count("PUT", &path), 1, "{version}");
        assert_eq!(table.log().events_in("map.change").len(), 0, "{version}");
        assert_eq!(table.current_map().as_ref(), Some(&far));
    }
    Ok(())
}

/// T-MAP-02
#[tokio::test]
async fn t_map_02_an_answer_that_is_none_stops_before_the_table_is_told() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "dm").await?;
    let far = map(&table, FAR)?;
    let path = format!("{}/maps/{far}/set-current", campaign_path(&table));
    let kind = "application/json";
    let faults = [
        Fault::Html,
        Fault::TruncatedJson,
        Fault::Answer(Reply::text(200, kind, "[1]")),
        Fault::Answer(Reply::text(200, kind, "true")),
    ];
    for (at, fault) in faults.into_iter().enumerate() {
        let case = format!("{fault:?}");
        let armed = table.faults().route("PUT", &path, fault);
        let envelope = failure(home, "map_switch", json!({"map_id": far})).await?;
        let error = envelope["error"].as_str().context("no sentence")?;
        assert!(error.contains("INVALID_RESPONSE"), "{case}: {error}");
        assert!(error.contains("HTTP 200"), "{case}: {error}");
        assert_eq!(envelope["data"]["status"], 200, "{case}");
        assert_eq!(
            envelope["data"]["upstream"]["code"], "INVALID_RESPONSE",
            "{case}"
        );
        assert_eq!(table.log().count("PUT", &path), at + 1, "{case}");
        armed.off();
    }
    fence(&table, home).await?;
    assert_eq!(table.log().events_in("map.change").len(), 0);
    Ok(())
}

#[tokio::test]
async fn a_switch_that_fails_or_may_have_failed_is_not_told() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "dm").await?;
    let far = map(&table, FAR)?;
    let path = format!("{}/maps/{far}/set-current", campaign_path(&table));
    for (at, fault) in [Fault::HangUpAfter, Fault::CutMidAnswer]
        .into_iter()
        .enumerate()
    {
        let case = format!("{fault:?}");
        let armed = table.faults().route("PUT", &path, fault);
        let envelope = failure(home, "map_switch", json!({"map_id": far})).await?;
        assert_eq!(table.log().count("PUT", &path), at + 1, "{case}");
        assert_ne!(envelope["data"]["persisted"], true, "{case}");
        armed.off();
    }
    let body = json!({"error": "Internal Server Error", "message": "boom", "extra": [1]});
    let fault = Fault::Answer(Reply::json(500, &body));
    let armed = table.faults().route("PUT", &path, fault);
    let envelope = failure(home, "map_switch", json!({"map_id": far})).await?;
    assert_eq!(envelope, http(500, &body));
    armed.off();
    fence(&table, home).await?;
    assert_eq!(table.log().events_in("map.change").len(), 0);
    Ok(())
}

// ---- map_create ------------------------------------------------------------

/// T-MAP-03
#[tokio::test]
async fn t_map_03_a_map_is_created_with_exactly_what_was_given() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "dm").await?;
    let path = format!("{}/maps", campaign_path(&table));
    let body = json!({"map": {"id": "m", "name": "Weir", "of": {"later": [1, null]}}, "x": 1.5});
    let armed = table
        .faults()
        .route("POST", &path, Fault::Answer(Reply::json(201, &body)));
    let before = said(&table);
    let plain = json!({"name": " Weir ", "image_url": "pic", "width": 30, "height": 1});
    assert_eq!(data(home, "map_create", plain).await?, body);
    let full = json!({
        "name": "Weir", "image_url": "/api/assets/maps/p", "width": 500, "height": 20,
        "grid_size": 70, "spirit_layer_url": "ghosts",
    });
    assert_eq!(data(home, "map_create", full).await?, body);
    assert_eq!(
        asked(&table, "POST", &path),
        [
            json!({"name": " Weir ", "imageUrl": "pic", "width": 30, "height": 1, "gridSize": 50}),
            json!({
                "name": "Weir", "imageUrl": "/api/assets/maps/p", "width": 500, "height": 20,
                "gridSize": 70, "spiritLayerUrl": "ghosts",
            }),
        ]
    );
    let without = json!({
        "name": "Weir", "image_url": "pic", "width": 2, "height": 1, "spirit_layer_url": null,
    });
    data(home, "map_create", without).await?;
    assert_eq!(
        asked(&table, "POST", &path)[2],
        json!({"name": "Weir", "imageUrl": "pic", "width": 2, "height": 1, "gridSize": 50})
    );
    armed.off();
    fence(&table, home).await?;
    assert_eq!(said(&table), (before.0 + 3, before.1 + 1));
    Ok(())
}

#[tokio::test]
async fn a_created_map_is_on_the_list_and_nobody_is_taken_to_it() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit_settled(&table, "dm").await?;
        let near = map(&table, NEAR)?;
        let new = json!({"name": "Weir", "image_url": "pic", "width": 30, "height": 20});
        let first = data(home, "map_create", new.clone()).await?;
        let second = data(home, "map_create", new).await?;
        assert_eq!(first["map"]["gridSize"], 50, "{version}");
        assert_eq!(first["map"]["width"], 30, "{version}");
        assert_ne!(first["map"]["id"], second["map"]["id"], "{version}");
        let maps = data(home, "map_list", json!({})).await?;
        assert_eq!(maps["maps"][0]["id"], second["map"]["id"], "{version}");
        assert_eq!(maps["maps"][1]["id"], first["map"]["id"], "{version}");
        assert_eq!(table.current_map().as_ref(), Some(&near), "{version}");
    }
    Ok(())
}

/// T-MAP-04
#[tokio::test]
async fn t_map_04_what_the_server_finds_wrong_with_a_map_is_passed_on() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "dm").await?;
    let path = format!("{}/maps", campaign_path(&table));
    for (at, status) in [400, 403].into_iter().enumerate() {
        let body = json!({
            "error": "Validation Error", "message": "no such picture", "code": "IMAGE",
            "validationErrors": [{"path": "imageUrl", "message": "unknown"}],
        });
        let fault = Fault::Answer(Reply::json(status, &body));
        let armed = table.faults().route("POST", &path, fault);
        let new = json!({"name": "Weir", "image_url": "pic", "width": 30, "height": 20});
        let envelope = failure(home, "map_create", new).await?;
        assert_eq!(envelope, http(status, &body));
        assert_eq!(table.log().count("POST", &path), at + 1, "{status}");
        armed.off();
    }
    Ok(())
}

/// T-MAP-05
#[tokio::test]
async fn t_map_05_a_map_without_name_picture_or_size_is_not_asked_for() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "dm").await?;
    let blank = "name must be nonblank and image_url must not be empty";
    let cases = [
        ("name", json!(""), blank),
        ("name", json!(" \n\t"), blank),
        ("name", json!(null), "name"),
        ("image_url", json!(""), blank),
        ("image_url", json!(7), "image_url"),
        ("width", json!(0), "width must be a positive integer"),
        ("height", json!(-1), "height must be a positive integer"),
        (
            "grid_size",
            json!(0),
            "grid_size must be a positive integer",
        ),
        (
            "grid_size",
            json!(-50),
            "grid_size must be a positive integer",
        ),
        ("width", json!(1.5), "width"),
        ("width", json!("3"), "width"),
        ("height", json!(true), "height"),
        ("spirit_layer_url", json!(1), "spirit_layer_url"),
        ("feetPerSquare", json!(5), "feetPerSquare"),
    ];
    let before = said(&table);
    for (field, value, words) in cases {
        let mut new = json!({"name": "Weir", "image_url": "pic", "width": 30, "height": 20});
        new[field] = value;
        let sentence = refusal(home, "map_create", new.clone()).await?;
        if words.contains(" must be ") {
            assert_eq!(sentence, words, "{new}");
        } else {
            assert!(sentence.contains(words), "{new}: {sentence}");
        }
    }
    nothing_said_since(before, &table, home).await?;
    Ok(())
}

// ---- Deleting --------------------------------------------------------------

/// T-MAP-06
#[tokio::test]
async fn t_map_06_each_deletion_is_one_bare_request() -> Result<()> {
    for version in Version::ALL {
        let scene =
            Scene::default().main(|one| one.character(CharacterPlan::new("dm", "The Ferryman")));
        let table = Table::builder()
            .version(version)
            .scene(scene)
            .start()
            .await?;
        let home = &sit_settled(&table, "dm").await?;
        let campaign = campaign_path(&table);
        let (near, chest) = token(&table, "Ferry Chest")?;
        let far = map(&table, FAR)?;
        let character = table
            .character_named("The Ferryman")
            .context("no character")?;
        let cases = [
            (
                "token_delete",
                json!({"map_id": near, "token_id": chest}),
                format!("{campaign}/maps/{near}/tokens/{chest}"),
                "Token removed successfully",
            ),
            (
                "map_delete",
                json!({"map_id": far}),
                format!("{campaign}/maps/{far}"),
                "Map deleted successfully",
            ),
            (
                "character_delete",
                json!({"character_id": character}),
                format!("/api/characters/{character}"),
                "Character deleted successfully",
            ),
        ];
        let before = said(&table);
        for (tool, arguments, path, message) in &cases {
            let answer = data(home, tool, arguments.clone()).await?;
            assert_eq!(answer, json!({"message": message}), "{version}, {tool}");
            let requests = table.log().requests_to("DELETE", path);
            assert_eq!(requests.len(), 1, "{version}, {tool}");
            assert_eq!(requests[0].body, "", "{version}, {tool}");
        }
        fence(&table, home).await?;
        assert_eq!(said(&table), (before.0 + 3, before.1 + 1), "{version}");
        assert!(table.token_named("Ferry Chest").is_none());
        assert!(table.map_named(FAR).is_none());
        assert!(table.character_named("The Ferryman").is_none());
        // Once more there is nothing to be found.
        let missing = [
            "Token not found on this map",
            "Map not found",
            "Character not found",
        ];
        for ((tool, arguments, path, _), message) in cases.iter().zip(missing) {
            let envelope = failure(home, tool, arguments.clone()).await?;
            let body = json!({"error": "Not Found", "message": message});
            assert_eq!(envelope, http(404, &body), "{version}, {tool}");
            assert_eq!(table.log().count("DELETE", path), 2, "{version}, {tool}");
        }
    }
    Ok(())
}

/// T-MAP-07
#[tokio::test]
async fn t_map_07_a_refused_deletion_is_told_with_the_servers_answer() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "dm").await?;
    let campaign = campaign_path(&table);
    let cases = [
        (
            "token_delete",
            json!({"map_id": "m", "token_id": "t"}),
            format!("{campaign}/maps/m/tokens/t"),
        ),
        (
            "map_delete",
            json!({"map_id": "m"}),
            format!("{campaign}/maps/m"),
        ),
        (
            "character_delete",
            json!({"character_id": "c"}),
            "/api/characters/c".to_owned(),
        ),
    ];
    for (tool, arguments, path) in &cases {
        for (at, status) in [403, 404].into_iter().enumerate() {
            let body = json!({"error": "No", "message": "not this one", "code": "X", "of": [1]});
            let fault = Fault::Answer(Reply::json(status, &body));
            let armed = table.faults().route("DELETE", path, fault);
            let envelope = failure(home, tool, arguments.clone()).await?;
            assert_eq!(envelope, http(status, &body), "{tool}");
            let count = table.log().count("DELETE", path);
            assert_eq!(count, at + 1, "{tool}, {status}");
            armed.off();
        }
    }
    Ok(())
}

/// T-MAP-08
#[tokio::test]
async fn t_map_08_the_current_map_stays_and_is_not_switched_away_from() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit_settled(&table, "dm").await?;
        let near = map(&table, NEAR)?;
        let before = said(&table);
        let envelope = failure(home, "map_delete", json!({"map_id": near})).await?;
        let body = json!({
            "error": "Validation Error",
            "message": "Cannot delete the current map. Set a different map as current first.",
        });
        assert_eq!(envelope, http(400, &body), "{version}");
        fence(&table, home).await?;
        assert_eq!(said(&table), (before.0 + 1, before.1 + 1), "{version}");
        assert_eq!(table.current_map().as_ref(), Some(&near), "{version}");
    }
    Ok(())
}

// ---- Tokens ----------------------------------------------------------------

/// T-TOK-01
#[tokio::test]
async fn t_tok_01_a_move_sends_the_position_and_nothing_else() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit_settled(&table, "dm").await?;
        let (near, chest) = token(&table, "Ferry Chest")?;
        let path = format!("{}/maps/{near}/tokens/{chest}", campaign_path(&table));
        let place = json!({"map_id": near, "token_id": chest, "x": 3, "y": 0});
        let answer = data(home, "token_move", place).await?;
        assert_eq!(
            asked(&table, "PUT", &path),
            [json!({"position": {"x": 3, "y": 0}})],
            "{version}"
        );
        assert_eq!(answer["token"]["position"], json!({"x": 3, "y": 0}));
        let (_, stored) = table.token_named("Ferry Chest").context("no token")?;
        assert_eq!(stored["position"], json!({"x": 3, "y": 0}), "{version}");
        // Parts of a square are sent as they are: the server decides.
        let place = json!({"map_id": near, "token_id": chest, "x": 2.5, "y": 1.25});
        let result = home.call("token_move", place).await?;
        assert_eq!(result.envelope["ok"], version == Version::V1_1_2);
        let bodies = asked(&table, "PUT", &path);
        assert_eq!(bodies[1], json!({"position": {"x": 2.5, "y": 1.25}}));
        if version == Version::V1_5 {
            let message = "Position must be a whole square";
            let body = json!({"error": "Validation Error", "message": message});
            assert_eq!(result.envelope, http(400, &body));
        }
    }
    Ok(())
}

/// T-TOK-02
#[tokio::test]
async fn t_tok_02_the_dm_and_players_move_tokens_and_others_are_stopped_before() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let campaign = campaign_path(&table);
        let (near, brannoc) = token(&table, "Brannoc")?;
        let path = format!("{campaign}/maps/{near}/tokens/{brannoc}");
        let place = json!({"map_id": near, "token_id": brannoc, "x": 4, "y": 4});
        for account in ["dm", "player1"] {
            let home = &sit_settled(&table, account).await?;
            let (reads, writes) = (
                table.log().count("GET", &campaign),
                table.log().count("PUT", &path),
            );
            let answer = data(home, "token_move", place.clone()).await?;
            assert_eq!(answer["message"], "Token updated successfully");
            assert_eq!(answer["persisted"], true, "{version}, {account}");
            assert_eq!(answer["broadcast_confirmed"], false);
            assert_eq!(
                answer["note"],
                "Persisted; broadcast not confirmed. REST updates do not automatically emit \
                 map.changed."
            );
            assert_eq!(table.log().count("GET", &campaign), reads + 1);
            assert_eq!(table.log().count("PUT", &path), writes + 1);
        }
        let home = &sit_settled(&table, "spectator").await?;
        let writes = table.log().count("PUT", &path);
        let nobody = json!({"campaign": {"id": table.campaign_id(), "name": "The Hollow Bell"}});
        let unknown = Fault::Answer(Reply::json(200, &nobody));
        for (role, fault) in [("SPECTATOR", None), ("unknown", Some(unknown))] {
            let armed = fault.map(|fault| table.faults().route("GET", &campaign, fault));
            let before = said(&table).0;
            let envelope = failure(home, "token_move", place.clone()).await?;
            let sentence = format!(
                "token_move requires DM/PLAYER; current role: {role}. SPECTATOR cannot move tokens"
            );
            assert_eq!(
                envelope,
                json!({"ok": false, "error": sentence}),
                "{version}"
            );
            assert_eq!(said(&table).0, before + 1, "{version}, {role}");
            if let Some(armed) = armed {
                armed.off();
            }
        }
        assert_eq!(table.log().count("PUT", &path), writes, "{version}");
    }
    Ok(())
}

/// T-TOK-03, T-ENV-05
#[tokio::test]
async fn t_env_05_t_tok_03_a_token_of_no_size_is_not_asked_for() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "dm").await?;
    let near = map(&table, NEAR)?;
    let sides = "width/height must be integers in 1..10";
    let cases = [
        ("width", json!(0), sides),
        ("width", json!(11), sides),
        ("height", json!(0), sides),
        ("height", json!(11), sides),
        ("width", json!(-1), sides),
        ("width", json!(1.5), "1..10"),
        ("height", json!(true), "1..10"),
        ("x", json!("bad"), "x"),
        ("y", json!(null), "y"),
        ("visible", json!("yes"), "visible"),
        ("layer", json!(3), "layer"),
        ("controlled_by", json!(3), "controlled_by"),
        ("name", json!(3), "name"),
        ("rotation", json!(90), "rotation"),
    ];
    let before = said(&table);
    for (field, value, words) in cases {
        let mut new = json!({"map_id": near, "name": "T", "image_url": "", "x": 1, "y": 1});
        new[field] = value;
        let sentence = refusal(home, "token_add", new.clone()).await?;
        if words == sides {
            assert_eq!(sentence, sides, "{new}");
        } else {
            assert!(sentence.contains(words), "{new}: {sentence}");
        }
    }
    for field in ["x", "y"] {
        let mut place = json!({"map_id": near, "token_id": "t", "x": 1, "y": 1});
        place[field] = json!("bad");
        let sentence = refusal(home, "token_move", place).await?;
        assert!(sentence.contains(field), "{sentence}");
    }
    nothing_said_since(before, &table, home).await?;
    Ok(())
}

/// T-TOK-04
#[tokio::test]
async fn t_tok_04_a_token_is_placed_as_it_was_described() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit_settled(&table, "dm").await?;
        let near = map(&table, NEAR)?;
        let player = &table.account("player2").user_id;
        let sheet = table
            .character_named("Sunniva Ashlocke")
            .context("no character")?;
        let path = format!("{}/maps/{near}/tokens", campaign_path(&table));
        let barge = json!({
            "map_id": near, "name": "Barge", "image_url": "pic", "x": 2, "y": 3, "width": 10,
            "layer": "spirit", "visible": false, "controlled_by": player, "character_id": sheet,
        });
        let answer = data(home, "token_add", barge).await?;
        assert_eq!(answer["persisted"], true, "{version}");
        assert_eq!(answer["broadcast_confirmed"], false, "{version}");
        assert_eq!(answer["message"], "Token added successfully");
        let (_, stored) = table.token_named("Barge").context("no token")?;
        assert_eq!(answer["token"], stored, "{version}");
        let plain = json!({"map_id": near, "name": "Oar", "image_url": "", "x": 2, "y": 3});
        data(home, "token_add", plain).await?;
        assert_eq!(
            asked(&table, "POST", &path),
            [
                json!({
                    "name": "Barge", "imageUrl": "pic", "position": {"x": 2, "y": 3},
                    "size": {"width": 10, "height": 1}, "layer": "spirit", "visible": false,
                    "characterId": sheet, "controlledBy": player,
                }),
                json!({
                    "name": "Oar", "imageUrl": "", "position": {"x": 2, "y": 3},
                    "size": {"width": 1, "height": 1}, "layer": "token", "visible": true,
                }),
            ],
            "{version}"
        );
    }
    Ok(())
}

/// T-TOK-05
#[tokio::test]
async fn t_tok_05_a_creature_needs_a_picture_to_be_placed() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit_settled(&table, "dm").await?;
        let near = map(&table, NEAR)?;
        let campaign = campaign_path(&table);
        let tokens = format!("{campaign}/maps/{near}/tokens");
        let creatures = table.creatures();
        let id = |name: &str| {
            let found = creatures.iter().find(|one| one["name"] == name);
            found.map(|one| one["id"].as_str().unwrap_or_default().to_owned())
        };
        let bare = id("Bell Warden").context("no creature")?;
        let place =
            |creature: &str| json!({"creature_id": creature, "map_id": near, "x": 1, "y": 2});
        let before = said(&table).0;
        let envelope = failure(home, "token_place_creature", place(&bare)).await?;
        let sentence =
            format!("Creature template {bare} has no usable image field; cannot place a token");
        assert_eq!(envelope, json!({"ok": false, "error": sentence}));
        let path = format!("{campaign}/creatures/{bare}");
        assert_eq!(table.log().count("GET", &path), 1);
        assert_eq!(said(&table).0, before + 1, "{version}");
        // One with a picture.
        let stalker = id("Reed Stalker").context("no creature")?;
        let answer = data(home, "token_place_creature", place(&stalker)).await?;
        assert_eq!(answer["message"], "Token added successfully");
        assert_eq!(answer.get("persisted"), None, "{version}");
        assert_eq!(answer.get("broadcast_confirmed"), None, "{version}");
        let picture = "/api/assets/tokens/5f0c5a0e-6b1f-4d53-9d5e-0a5b8f0f1a05";
        let expected = |name: &str, picture: &str| {
            json!({
                "name": name, "imageUrl": picture, "position": {"x": 1, "y": 2},
                "size": {"width": 1, "height": 1}, "layer": "token", "visible": true,
            })
        };
        assert_eq!(
            asked(&table, "POST", &tokens),
            [expected("Reed Stalker", picture)]
        );
        // Templates in other forms.
        let cases = [
            (
                json!({"name": "Eel", "imageUrl": "", "tokenImageUrl": "eel", "image": "x"}),
                ("Eel", "eel"),
            ),
            (json!({"creature": {"image": "pike"}}), ("creature", "pike")),
            (
                json!({"imageUrl": null, "image": "fry"}),
                ("creature", "fry"),
            ),
        ];
        for (at, (body, (name, picture))) in cases.into_iter().enumerate() {
            let path = format!("{campaign}/creatures/c{at}");
            let fault = Fault::Answer(Reply::json(200, &body));
            let armed = table.faults().route("GET", &path, fault);
            data(home, "token_place_creature", place(&format!("c{at}"))).await?;
            assert_eq!(armed.fired(), 1, "{body}");
            let bodies = asked(&table, "POST", &tokens);
            assert_eq!(bodies.last(), Some(&expected(name, picture)), "{body}");
        }
        let none = json!({"name": "Mud", "imageUrl": 7, "image": ""});
        let fault = Fault::Answer(Reply::json(200, &none));
        let path = format!("{campaign}/creatures/mud");
        let _armed = table.faults().route("GET", &path, fault);
        let count = table.log().count("POST", &tokens);
        failure(home, "token_place_creature", place("mud")).await?;
        assert_eq!(table.log().count("POST", &tokens), count);
    }
    Ok(())
}

/// T-TOK-06
#[tokio::test]
async fn t_tok_06_coordinates_are_reported_as_the_server_made_them() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "dm").await?;
    let near = map(&table, NEAR)?;
    let barge = json!({
        "map_id": near, "name": "Barge", "image_url": "", "x": 23, "y": 17, "width": 10,
        "height": 10,
    });
    let answer = data(home, "token_add", barge).await?;
    assert_eq!(answer["token"]["position"], json!({"x": 14, "y": 8}));
    let (_, id) = token(&table, "Barge")?;
    let place = json!({"map_id": near, "token_id": id, "x": 20, "y": 0});
    let answer = data(home, "token_move", place).await?;
    assert_eq!(answer["token"]["position"], json!({"x": 14, "y": 0}));
    // What comes back is what is reported, whatever it is.
    let path = format!("{}/maps/{near}/tokens/{id}", campaign_path(&table));
    let body = json!({"token": {"position": {"x": -1.5, "y": "?"}}, "later": null});
    let fault = Fault::Answer(Reply::json(200, &body));
    let _armed = table.faults().route("PUT", &path, fault);
    let place = json!({"map_id": near, "token_id": id, "x": 1, "y": 1});
    let answer = data(home, "token_move", place).await?;
    assert_eq!(answer["token"], body["token"]);
    assert_eq!(answer.get("later"), Some(&Value::Null));
    Ok(())
}

#[tokio::test]
async fn a_size_of_the_grid_that_the_server_does_not_take_is_replaced_by_it() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit_settled(&table, "dm").await?;
        let new = json!({
            "name": "Weir", "image_url": "pic", "width": 30, "height": 20, "grid_size": 501,
        });
        let answer = data(home, "map_create", new).await?;
        let size = if version == Version::V1_5 { 50 } else { 501 };
        assert_eq!(answer["map"]["gridSize"], size, "{version}");
    }
    Ok(())
}

// ---- token_hp_update -------------------------------------------------------

#[tokio::test]
async fn hit_points_are_changed_by_a_signed_amount_and_the_receipt_claims_nothing() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit_settled(&table, "dm").await?;
        let id = table
            .character_named("Brannoc Thornfield")
            .context("no character")?;
        // The sheet holds 34 points at most.
        for (delta, left) in [(-9, 25), (0, 25), (4, 29), (1000, 34), (-1000, 0)] {
            let change = json!({"character_id": id, "delta": delta});
            let answer = data(home, "token_hp_update", change).await?;
            assert_eq!(
                answer,
                json!({
                    "sent": true, "confirmed": false, "status": "pending",
                    "since": answer["since"], "note": NOTE, "characterId": id, "delta": delta,
                }),
                "{version}"
            );
            let since = answer["since"].as_u64().context("no number")?;
            let told = event(home, since, "character.hp.updated").await;
            assert_eq!(told["payload"]["hp"]["current"], left, "{version}");
        }
        let frames = table.log().events_in("character.hp.update");
        assert_eq!(frames.len(), 5, "{version}");
        assert_eq!(frames[0].payload, json!({"characterId": id, "delta": -9}));
        // Refusals come as events, after `since`.
        let lost = json!({"character_id": "nobody", "delta": 1});
        let answer = data(home, "token_hp_update", lost).await?;
        let since = answer["since"].as_u64().context("no number")?;
        let refused = event(home, since, "system.error").await;
        assert!(
            refused["payload"]
                .to_string()
                .contains("Character not found")
        );
        let count = table.log().events_in("character.hp.update").len();
        for bad in [
            json!({"character_id": "", "delta": 1}),
            json!({"character_id": id}),
            json!({"character_id": id, "delta": 1.5}),
            json!({"character_id": id, "delta": "1"}),
            json!({"character_id": id, "delta": true}),
        ] {
            refusal(home, "token_hp_update", bad).await?;
        }
        fence(&table, home).await?;
        assert_eq!(table.log().events_in("character.hp.update").len(), count);
    }
    Ok(())
}

// ---- Ids -------------------------------------------------------------------

/// T-IDS-01
#[tokio::test]
async fn t_ids_01_an_id_is_one_segment_of_a_path_or_nothing_is_sent() -> Result<()> {
    let scene = Scene::default().main(|campaign| {
        campaign.creature(CreaturePlan::new("Painted Heron", 10, 5).image("heron"))
    });
    let table = Table::builder().scene(scene).start().await?;
    let home = &sit_settled(&table, "dm").await?;
    let creatures = table.creatures();
    let heron = creatures
        .iter()
        .find(|one| one["name"] == "Painted Heron")
        .context("no creature")?["id"]
        .clone();
    let campaign = campaign_path(&table);
    let at = |path: &str| format!("{campaign}/{path}");
    let moved = json!({"map_id": "m", "token_id": "t", "x": 1, "y": 1});
    let gone = json!({"map_id": "m", "token_id": "t"});
    let added = json!({"map_id": "m", "name": "T", "image_url": "", "x": 1, "y": 1});
    let placed = json!({"creature_id": heron, "map_id": "m", "x": 1, "y": 1});
    let sheet = json!({"character_id": "c"});
    let renamed = json!({"character_id": "c", "data": {"name": "N"}});
    let document = json!({"document_id": "d"});
    let cases = [
        (
            "map_switch",
            json!({"map_id": "m"}),
            "map_id",
            "PUT",
            at("maps/*/set-current"),
        ),
        (
            "map_delete",
            json!({"map_id": "m"}),
            "map_id",
            "DELETE",
            at("maps/*"),
        ),
        ("token_add", added, "map_id", "POST", at("maps/*/tokens")),
        (
            "token_move",
            moved.clone(),
            "map_id",
            "PUT",
            at("maps/*/tokens/t"),
        ),
        (
            "token_move",
            moved,
            "token_id",
            "PUT",
            at("maps/m/tokens/*"),
        ),
        (
            "token_delete",
            gone.clone(),
            "map_id",
            "DELETE",
            at("maps/*/tokens/t"),
        ),
        (
            "token_delete",
            gone,
            "token_id",
            "DELETE",
            at("maps/m/tokens/*"),
        ),
        (
            "token_place_creature",
            placed.clone(),
            "creature_id",
            "GET",
            at("creatures/*"),
        ),
        (
            "token_place_creature",
            placed,
            "map_id",
            "POST",
            at("maps/*/tokens"),
        ),
        (
            "character_get",
            sheet.clone(),
            "character_id",
            "GET",
            "/api/characters/*".to_owned(),
        ),
        (
            "character_update",
            renamed,
            "character_id",
            "GET",
            "/api/characters/*".to_owned(),
        ),
        (
            "character_validate",
            sheet.clone(),
            "character_id",
            "GET",
            "/api/characters/*/validate".to_owned(),
        ),
        (
            "character_delete",
            sheet,
            "character_id",
            "DELETE",
            "/api/characters/*".to_owned(),
        ),
        (
            "session_notes_update",
            json!({"session_id": "s", "notes": ""}),
            "session_id",
            "PUT",
            at("sessions/*/notes"),
        ),
        (
            "document_update",
            json!({"document_id": "d", "content": "x"}),
            "document_id",
            "PUT",
            "/api/assets/documents/*/content".to_owned(),
        ),
        (
            "document_unshare",
            document.clone(),
            "document_id",
            "DELETE",
            at("documents/*"),
        ),
        (
            "document_delete",
            document,
            "document_id",
            "DELETE",
            "/api/assets/*".to_owned(),
        ),
        (
            "saved_roll_update",
            json!({"macro_id": "r", "name": "N"}),
            "macro_id",
            "PUT",
            at("macros/*"),
        ),
        (
            "saved_roll_delete",
            json!({"macro_id": "r"}),
            "macro_id",
            "DELETE",
            at("macros/*"),
        ),
    ];
    let before = said(&table);
    for (tool, arguments, parameter, _, _) in &cases {
        for bad in ["", ".", ".."] {
            let mut arguments = arguments.clone();
            arguments[*parameter] = json!(bad);
            let sentence = refusal(home, tool, arguments).await?;
            assert!(
                sentence.contains(BAD_ID) && sentence.contains(parameter),
                "{tool}: {sentence}"
            );
        }
    }
    nothing_said_since(before, &table, home).await?;
    for (tool, arguments, parameter, method, path) in &cases {
        let mut arguments = arguments.clone();
        arguments[*parameter] = json!(WILD.0);
        let path = path.replace('*', WILD.1);
        let before = table.log().count(method, &path);
        failure(home, tool, arguments).await?;
        let count = table.log().count(method, &path) - before;
        assert_eq!(count, 1, "{tool}, {parameter}: {path}");
    }
    // It is the segment that was meant, so the map of that name is not found.
    let records = events(home, 0).await?;
    assert!(records.iter().all(|one| one["event"] != "map.changed"));
    Ok(())
}
