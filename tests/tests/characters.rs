//! The tools of characters against the contract, at both releases: how a sheet is read, merged
//! and saved, how a character gets onto the roster, and hit dice. A test that covers an acceptance
//! case of the contract names it.

use anyhow::{Context as _, Result};
use cozyvtt_table::{CharacterPlan, Fault, GameSystem, Reply, Scene, Table, Version, plain_sheet};
use cozyvtt_tests::asked::asked;
use cozyvtt_tests::calls::{data, event, failure, http, refusal};
use cozyvtt_tests::seat::{fence, nothing_said_since, said, sit_settled};
use futures_util::future::try_join_all;
use serde_json::{Value, json};

const HIT_DICE_NOTE: &str = "Operation sent; the result is not yet confirmed. Read events or \
                             state before taking further action; do not repeat the operation.";
const BRANNOC: &str = "Brannoc Thornfield";

async fn table(version: Version) -> Result<Table> {
    Table::builder().version(version).start().await
}

fn roster_path(table: &Table) -> String {
    format!("/api/campaigns/{}/characters", table.campaign_id())
}

fn character(table: &Table, name: &str) -> Result<String> {
    table
        .character_named(name)
        .with_context(|| format!("no character {name}"))
}

/// What the daemon has asked since that many requests.
fn since(table: &Table, before: usize) -> Vec<(String, String)> {
    let requests = table.log().requests().into_iter().skip(before);
    requests.map(|one| (one.method, one.path)).collect()
}

fn reply(status: u16, body: &Value) -> Fault {
    Fault::Answer(Reply::json(status, body))
}

// ---- Reading ---------------------------------------------------------------

#[tokio::test]
async fn the_roster_and_a_sheet_are_passed_on_unchanged() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let id = character(&table, BRANNOC)?;
        for account in ["dm", "player2", "spectator"] {
            let home = &sit_settled(&table, account).await?;
            let roster = data(home, "character_list", json!({})).await?;
            let listed = roster["roster"].as_array().into_iter().flatten();
            let mut ids = listed
                .flat_map(|member| member["characters"].as_array().into_iter().flatten())
                .map(|one| one["id"].clone());
            assert!(ids.any(|one| one == *id), "{version}, {account}: {roster}");
            let answer = data(home, "character_get", json!({"character_id": id})).await?;
            assert_eq!(answer["character"]["name"], BRANNOC, "{version}");
            assert_eq!(answer["character"]["data"], table.sheet(&id), "{version}");
        }
        let home = &sit_settled(&table, "dm").await?;
        let odd = json!({"character": {"data": {"x": [1.5, null]}}, "later": {"é": "\u{202e}"}});
        let path = format!("/api/characters/{id}");
        let _armed = table.faults().route("GET", &path, reply(200, &odd));
        let answer = data(home, "character_get", json!({"character_id": id})).await?;
        assert_eq!(answer, odd, "{version}");
        let odd = json!({"roster": [{"userId": null, "characters": "?"}, 7], "later": 1});
        let _armed = table
            .faults()
            .route("GET", &roster_path(&table), reply(200, &odd));
        assert_eq!(data(home, "character_list", json!({})).await?, odd);
    }
    Ok(())
}

// ---- character_update ------------------------------------------------------

/// T-CHR-01
#[tokio::test]
async fn t_chr_01_a_patch_changes_what_it_names_and_nothing_else() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "dm").await?;
    let path = "/api/characters/c";
    let sheet = json!({
        "hp": {"current": 9, "maximum": 12, "temporary": 0},
        "conditions": ["prone", "wet"],
        "notes": "x",
        "skills": {"stealth": {"bonus": 3}, "arcana": 1},
        "later": {"of": [1.5, null, {"x": "é"}]},
    });
    let read = json!({"character": {"id": "c", "name": "Bram", "data": sheet}});
    let _read = table.faults().route("GET", path, reply(200, &read));
    let saved = json!({"message": "saved", "character": {"id": "c"}, "later": 1});
    let _saved = table.faults().route("PUT", path, reply(200, &saved));
    let before = said(&table).0;
    let edits = json!({
        "hp": {"current": 3},
        "conditions": [],
        "notes": null,
        "skills": {"arcana": {"bonus": 2}},
        "new": {"deep": {"er": true}},
    });
    let change = json!({"character_id": "c", "data": {"data": edits}});
    let answer = data(home, "character_update", change).await?;
    assert_eq!(answer, saved);
    assert_eq!(
        since(&table, before),
        [
            ("GET".to_owned(), path.to_owned()),
            ("PUT".to_owned(), path.to_owned())
        ]
    );
    assert_eq!(
        asked(&table, "PUT", path),
        [json!({"data": {
            "hp": {"current": 3, "maximum": 12, "temporary": 0},
            "conditions": [],
            "notes": null,
            "skills": {"stealth": {"bonus": 3}, "arcana": {"bonus": 2}},
            "later": {"of": [1.5, null, {"x": "é"}]},
            "new": {"deep": {"er": true}},
        }})]
    );
    Ok(())
}

#[tokio::test]
async fn a_patched_sheet_is_stored_at_both_releases() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let id = character(&table, BRANNOC)?;
        // The owner and the DM may.
        for (account, left) in [("player1", 20), ("dm", 21)] {
            let mut expected = table.sheet(&id);
            expected["hp"]["current"] = json!(left);
            let home = &sit_settled(&table, account).await?;
            let patch = json!({"data": {"hp": {"current": left}}});
            let change = json!({"character_id": id, "data": patch});
            let answer = data(home, "character_update", change).await?;
            assert_eq!(answer["message"], "Character updated successfully");
            assert_eq!(table.sheet(&id), expected, "{version}, {account}");
        }
    }
    Ok(())
}

/// T-CHR-02
#[tokio::test]
async fn t_chr_02_a_sheet_that_did_not_come_is_not_overwritten() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "dm").await?;
    let path = "/api/characters/c";
    let sentence = "Upstream character response is missing the data object; refusing to overwrite";
    for (body, exact) in [
        (json!({}), false),
        (json!({"character": null}), false),
        (json!({"character": {}}), true),
        (json!({"character": {"data": null}}), true),
        (json!({"character": {"data": []}}), true),
        (json!({"character": {"data": "sheet"}}), true),
    ] {
        let armed = table.faults().route("GET", path, reply(200, &body));
        let before = said(&table).0;
        let change = json!({"character_id": "c", "data": {"data": {"hp": {"current": 1}}}});
        let envelope = failure(home, "character_update", change).await?;
        if exact {
            assert_eq!(envelope, json!({"ok": false, "error": sentence}), "{body}");
        }
        let requests = since(&table, before);
        assert_eq!(requests, [("GET".to_owned(), path.to_owned())], "{body}");
        armed.off();
    }
    Ok(())
}

/// T-CHR-03
#[tokio::test]
async fn t_chr_03_a_patch_in_the_wrong_place_is_not_sent() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "dm").await?;
    let fields = "Provide name/data/tokenImageUrl fields; put sheet patches inside the data object";
    let sheet = "The sheet data patch must be an object; clearing the entire sheet is not allowed";
    let cases = [
        (json!({"hp": 5}), fields),
        (json!({}), fields),
        (json!({"gameSystem": "DND_5E"}), fields),
        (json!({"updatedAt": "now"}), fields),
        (json!({"name": "N", "hp": 5}), fields),
        (json!({"data": null}), sheet),
        (json!({"data": []}), sheet),
        (json!({"data": 5, "name": "N"}), sheet),
        (json!(null), "data"),
        (json!([]), "data"),
        (json!("{}"), "data"),
    ];
    let before = said(&table);
    for (patch, words) in cases {
        let change = json!({"character_id": "c", "data": patch});
        let sentence = refusal(home, "character_update", change.clone()).await?;
        if words.len() > 10 {
            assert_eq!(sentence, words, "{change}");
        } else {
            assert!(sentence.contains(words), "{change}: {sentence}");
        }
    }
    nothing_said_since(before, &table, home).await?;
    Ok(())
}

/// T-CHR-04
#[tokio::test]
async fn t_chr_04_patches_at_the_same_time_all_survive() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit_settled(&table, "dm").await?;
        let id = character(&table, BRANNOC)?;
        let mut expected = table.sheet(&id);
        expected["hp"]["current"] = json!(7);
        expected["speed"] = json!(25);
        expected["conditions"] = json!(["wet"]);
        let patches = [
            json!({"hp": {"current": 7}}),
            json!({"speed": 25}),
            json!({"conditions": ["wet"]}),
        ];
        let before = said(&table).0;
        try_join_all(patches.into_iter().map(|patch| {
            let change = json!({"character_id": id, "data": {"data": patch}});
            data(home, "character_update", change)
        }))
        .await?;
        assert_eq!(table.sheet(&id), expected, "{version}");
        let methods: Vec<_> = since(&table, before)
            .into_iter()
            .map(|(method, _)| method)
            .collect();
        assert_eq!(
            methods,
            ["GET", "PUT", "GET", "PUT", "GET", "PUT"],
            "{version}"
        );
    }
    Ok(())
}

/// T-CHR-05
#[tokio::test]
async fn t_chr_05_what_a_release_adds_to_a_sheet_survives_a_patch() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "dm").await?;
    let path = "/api/characters/c";
    let saved = json!({"message": "saved", "character": {"id": "c"}});
    let _saved = table.faults().route("PUT", path, reply(200, &saved));
    let mut investigator = plain_sheet(Some(GameSystem::CallOfCthulhu7e), "Edith");
    investigator["conditions"] = json!({"majorWound": true, "temporaryInsanity": false});
    investigator["spellsAndMythos"] =
        json!({"cthulhuMythos": 4, "spells": [{"name": "Shrivelling"}]});
    investigator["skills"] = json!({"cthulhuMythos": {"currentValue": 9}});
    investigator["appearance"] = json!({"scars": null});
    investigator["keeperNotesOfLater"] = json!([{"deep": [[]]}]);
    let mut fighter = plain_sheet(Some(GameSystem::Dnd5e), "Hob");
    fighter["hitDice"] = json!([
        {"class": "Fighter", "total": "1d10", "remaining": 1},
        {"class": "Rogue", "die": 8, "maximum": 2, "remaining": 0, "later": {"x": 1.25}},
    ]);
    fighter["extensions"] = json!({"ours": [1, null]});
    let cases = [
        (investigator, "derivedStats", json!({"hp": {"current": 2}})),
        (fighter, "hp", json!({"current": 2})),
    ];
    for (sheet, key, patch) in cases {
        let read = json!({"character": {"id": "c", "data": sheet}});
        let armed = table.faults().route("GET", path, reply(200, &read));
        let change = json!({"character_id": "c", "data": {"data": {key: patch}}});
        data(home, "character_update", change).await?;
        let mut expected = sheet.clone();
        if key == "hp" {
            expected["hp"]["current"] = json!(2);
        } else {
            expected["derivedStats"]["hp"]["current"] = json!(2);
        }
        let bodies = asked(&table, "PUT", path);
        assert_eq!(bodies.last(), Some(&json!({"data": expected})), "{key}");
        armed.off();
    }
    Ok(())
}

/// T-CHR-06
#[tokio::test]
async fn t_chr_06_the_guard_is_the_very_text_that_was_read() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "dm").await?;
    let path = "/api/characters/c";
    let saved = json!({"message": "saved", "character": {"id": "c"}});
    let _saved = table.faults().route("PUT", path, reply(200, &saved));
    let stamps = [
        Some("2026-01-02T03:04:05.600Z"),
        Some("2026-01-02 03:04:05.6000000+00 "),
        Some(""),
        None,
    ];
    for stamp in stamps {
        let mut read = json!({"character": {"id": "c", "name": "Bram", "data": {"a": 1}}});
        if let Some(stamp) = stamp {
            read["character"]["updatedAt"] = json!(stamp);
        }
        let armed = table.faults().route("GET", path, reply(200, &read));
        let changes = [
            (json!({"name": "Bran"}), json!({"name": "Bran"})),
            (
                json!({"tokenImageUrl": null}),
                json!({"tokenImageUrl": null}),
            ),
            (
                json!({"data": {"b": 2}, "name": "B"}),
                json!({"data": {"a": 1, "b": 2}, "name": "B"}),
            ),
        ];
        for (change, mut expected) in changes {
            if let Some(stamp) = stamp {
                expected["updatedAt"] = json!(stamp);
            }
            let before = said(&table).0;
            let change = json!({"character_id": "c", "data": change});
            data(home, "character_update", change).await?;
            let requests = since(&table, before);
            assert_eq!(requests.len(), 2, "{stamp:?}: {requests:?}");
            assert_eq!(requests[0].0, "GET", "{stamp:?}");
            let bodies = asked(&table, "PUT", path);
            assert_eq!(bodies.last(), Some(&expected), "{stamp:?}");
        }
        armed.off();
    }
    Ok(())
}

/// T-CHR-07
#[tokio::test]
async fn t_chr_07_a_sheet_that_somebody_else_saved_is_left_to_the_caller() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "dm").await?;
    let id = character(&table, BRANNOC)?;
    let path = format!("/api/characters/{id}");
    let sheet = table.sheet(&id);
    let stale = json!({"character": {
        "id": id, "data": sheet, "updatedAt": "2001-01-01T00:00:00.000Z",
    }});
    let armed = table.faults().route("GET", &path, reply(200, &stale));
    let before = said(&table).0;
    let change = json!({"character_id": id, "data": {"data": {"hp": {"current": 1}}}});
    let envelope = failure(home, "character_update", change.clone()).await?;
    let body = json!({
        "error": "Conflict",
        "message": "This character was changed by someone else since you opened it.",
        "code": "CHARACTER_CHANGED",
    });
    assert_eq!(envelope, http(409, &body));
    assert_eq!(
        since(&table, before),
        [
            ("GET".to_owned(), path.clone()),
            ("PUT".to_owned(), path.clone())
        ]
    );
    assert_eq!(table.sheet(&id), sheet);
    // With what is there now it is taken.
    armed.off();
    data(home, "character_update", change).await?;
    assert_eq!(table.sheet(&id)["hp"]["current"], 1);
    Ok(())
}

/// T-ENV-06
#[tokio::test]
async fn t_env_06_what_the_server_finds_wrong_is_passed_on_and_not_tried_again() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "dm").await?;
    let id = character(&table, BRANNOC)?;
    let path = format!("/api/characters/{id}");
    let body = json!({
        "error": "Validation Error", "message": "name is taken",
        "validationErrors": [{"path": "name", "message": "taken", "code": "custom"}],
        "later": [1],
    });
    let armed = table.faults().route("PUT", &path, reply(400, &body));
    let before = said(&table).0;
    let change = json!({"character_id": id, "data": {"name": "Bran"}});
    let envelope = failure(home, "character_update", change).await?;
    assert_eq!(envelope, http(400, &body));
    assert_eq!(
        since(&table, before),
        [
            ("GET".to_owned(), path.clone()),
            ("PUT".to_owned(), path.clone())
        ]
    );
    armed.off();
    // The server's own words about a sheet; no field is dropped to please it.
    let change = json!({"character_id": id, "data": {"data": {"level": "high", "new": 1}}});
    let envelope = failure(home, "character_update", change).await?;
    let message = "Character data does not match game system schema";
    assert_eq!(envelope["error"], format!("HTTP 400: {message}"));
    let errors = &envelope["data"]["upstream"]["validationErrors"];
    assert_eq!(errors[0]["path"], "level");
    let bodies = asked(&table, "PUT", &path);
    assert_eq!(bodies.len(), 2);
    assert_eq!(bodies[1]["data"]["level"], "high");
    assert_eq!(bodies[1]["data"]["new"], 1);
    Ok(())
}

// ---- character_create ------------------------------------------------------

/// T-CHR-08
#[tokio::test]
async fn t_chr_08_a_character_that_the_server_left_off_the_roster_is_put_on_it() -> Result<()> {
    let table = table(Version::V1_1_2).await?;
    let home = &sit_settled(&table, "player1").await?;
    let roster = roster_path(&table);
    let before = said(&table).0;
    let answer = data(home, "character_create", json!({"name": "Hob"})).await?;
    assert_eq!(answer["assigned"], true);
    assert_eq!(answer["message"], "Character created successfully");
    let id = answer["character"]["id"].as_str().context("no id")?;
    let assign = format!("/api/characters/{id}/assign");
    assert_eq!(
        since(&table, before),
        [
            ("POST".to_owned(), "/api/characters".to_owned()),
            ("GET".to_owned(), roster.clone()),
            ("POST".to_owned(), assign.clone()),
        ]
    );
    assert_eq!(
        asked(&table, "POST", &assign),
        [json!({"campaignId": table.campaign_id()})]
    );
    let listed = data(home, "character_list", json!({})).await?;
    assert!(listed.to_string().contains(id), "{listed}");
    for status in [403, 500] {
        let fault = Fault::status(status);
        let armed = table
            .faults()
            .route("POST", "/api/characters/*/assign", fault);
        let before = said(&table).0;
        let envelope = failure(home, "character_create", json!({"name": "Nob"})).await?;
        let character = &envelope["data"]["character"];
        let id = character["id"].as_str().context("no id")?;
        let cause = format!("HTTP {status}: The table was told to answer {status}");
        assert_eq!(
            envelope,
            json!({
                "ok": false,
                "error": format!(
                    "Character {id} was created but roster assignment failed; assign it in the \
                     UI, do not create again: {cause}"
                ),
                "data": {"created": true, "assigned": false, "character": character},
            })
        );
        assert_eq!(since(&table, before).len(), 3, "{status}");
        assert!(table.character_ids().iter().any(|one| one == id));
        armed.off();
    }
    Ok(())
}

/// T-CHR-09
#[tokio::test]
async fn t_chr_09_a_character_that_is_on_the_roster_is_not_put_there_again() -> Result<()> {
    let table = Table::builder()
        .scene(Scene::of_system(None))
        .start()
        .await?;
    let home = &sit_settled(&table, "player1").await?;
    let roster = roster_path(&table);
    let before = said(&table).0;
    let new = json!({"name": "Hob", "data": {}, "token_image_url": "pic"});
    let answer = data(home, "character_create", new).await?;
    assert_eq!(answer["assigned"], true);
    assert_eq!(
        since(&table, before),
        [
            ("POST".to_owned(), "/api/characters".to_owned()),
            ("GET".to_owned(), roster.clone()),
        ]
    );
    assert_eq!(
        asked(&table, "POST", "/api/characters"),
        [json!({
            "name": "Hob", "campaignId": table.campaign_id(), "data": {}, "tokenImageUrl": "pic",
        })]
    );
    // Whether it is there is not known: it is put there to be sure.
    for fault in [Fault::status(500), Fault::Html] {
        let armed = table.faults().route("GET", &roster, fault);
        let before = said(&table).0;
        let answer = data(home, "character_create", json!({"name": "Nob"})).await?;
        assert_eq!(answer["assigned"], true);
        let requests = since(&table, before);
        assert_eq!(requests.len(), 3, "{requests:?}");
        assert!(requests[2].1.ends_with("/assign"), "{requests:?}");
        armed.off();
    }
    Ok(())
}

/// T-CHR-10
#[tokio::test]
async fn t_chr_10_a_character_is_created_with_exactly_what_was_given() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit_settled(&table, "player1").await?;
        let campaign = table.campaign_id();
        let mut sheet = plain_sheet(Some(GameSystem::Dnd5e), "Hob");
        sheet["playerName"] = json!("Tamsin");
        let new = json!({"name": " Hob ", "data": sheet, "token_image_url": ""});
        let answer = data(home, "character_create", new).await?;
        data(
            home,
            "character_create",
            json!({"name": "Nob", "data": null}),
        )
        .await?;
        assert_eq!(
            asked(&table, "POST", "/api/characters"),
            [
                json!({"name": " Hob ", "campaignId": campaign, "data": sheet}),
                json!({"name": "Nob", "campaignId": campaign}),
            ],
            "{version}"
        );
        let id = answer["character"]["id"].as_str().context("no id")?;
        let answer = data(home, "character_validate", json!({"character_id": id})).await?;
        assert_eq!(answer["isValid"], true, "{version}");
        let path = format!("/api/characters/{id}/validate");
        assert_eq!(table.log().count("GET", &path), 1, "{version}");
    }
    Ok(())
}

/// T-CHR-12
#[tokio::test]
async fn t_chr_12_without_an_id_it_is_unknown_whether_there_is_a_character() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "player1").await?;
    let path = "/api/characters";
    for body in [
        json!({}),
        json!({"character": {}}),
        json!({"character": {"id": 7}, "later": 1}),
        json!({"character": {"id": ""}}),
        json!({"character": {"id": ".."}}),
    ] {
        let armed = table.faults().route("POST", path, reply(201, &body));
        let before = said(&table).0;
        let envelope = failure(home, "character_create", json!({"name": "Hob"})).await?;
        assert_eq!(
            envelope,
            json!({
                "ok": false,
                "error": "Character creation response is missing the character ID; creation \
                          status is unknown. Check upstream; do not create again",
                "data": {"created": null, "response": body},
            })
        );
        assert_eq!(since(&table, before).len(), 1, "{body}");
        armed.off();
    }
    for fault in [Fault::Html, Fault::TruncatedJson] {
        let armed = table.faults().route("POST", path, fault);
        let before = said(&table).0;
        let envelope = failure(home, "character_create", json!({"name": "Hob"})).await?;
        let error = envelope["error"].as_str().context("no sentence")?;
        assert!(error.contains("INVALID_RESPONSE"), "{error}");
        assert!(error.contains("201"), "{error}");
        assert!(
            error.ends_with("Check upstream; do not create again"),
            "{error}"
        );
        assert_eq!(envelope["data"]["created"], Value::Null);
        assert_eq!(since(&table, before).len(), 1);
        armed.off();
    }
    Ok(())
}

#[tokio::test]
async fn a_character_without_a_fitting_name_or_sheet_is_refused() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit_settled(&table, "player1").await?;
        let before = said(&table);
        let length = "name must be 1..200 characters";
        for (new, words) in [
            (json!({"name": ""}), length),
            (json!({"name": "é".repeat(201)}), length),
            (json!({}), "name"),
            (json!({"name": 5}), "name"),
            (json!({"name": "Hob", "data": []}), "data"),
            (json!({"name": "Hob", "data": "{}"}), "data"),
            (
                json!({"name": "Hob", "token_image_url": null}),
                "token_image_url",
            ),
            (json!({"name": "Hob", "gameSystem": "DND_5E"}), "gameSystem"),
        ] {
            let sentence = refusal(home, "character_create", new.clone()).await?;
            if words == length {
                assert_eq!(sentence, length);
            } else {
                assert!(sentence.contains(words), "{new}: {sentence}");
            }
        }
        fence(&table, home).await?;
        assert_eq!(said(&table), (before.0, before.1 + 1), "{version}");
        // What only the server knows.
        let envelope = failure(home, "character_create", json!({"name": "  "})).await?;
        let body = json!({
            "error": "Validation Error", "message": "Character name must be 1 to 200 characters",
        });
        assert_eq!(envelope, http(400, &body), "{version}");
        let new = json!({"name": "Hob", "data": {"level": "high"}});
        let envelope = failure(home, "character_create", new).await?;
        let errors = &envelope["data"]["upstream"]["validationErrors"];
        assert!(errors.as_array().is_some_and(|list| !list.is_empty()));
        assert_eq!(
            envelope["error"],
            "HTTP 400: Character data does not match game system schema"
        );
        assert_eq!(table.log().count("GET", &roster_path(&table)), 0);
        data(home, "character_create", json!({"name": "é".repeat(200)})).await?;
    }
    Ok(())
}

// ---- character_validate ----------------------------------------------------

/// T-CHR-11
#[tokio::test]
async fn t_chr_11_a_validation_is_passed_on_and_called_unreliable() -> Result<()> {
    for version in Version::ALL {
        let mut broken = plain_sheet(Some(GameSystem::Dnd5e), "Hob");
        broken["level"] = json!("high");
        let scene = Scene::default().main(|campaign| {
            campaign.character(CharacterPlan::new("player1", "Hob").sheet(broken))
        });
        let table = Table::builder()
            .version(version)
            .scene(scene)
            .start()
            .await?;
        let home = &sit_settled(&table, "player1").await?;
        for name in [BRANNOC, "Hob"] {
            let id = character(&table, name)?;
            let answer = data(home, "character_validate", json!({"character_id": id})).await?;
            // Old releases find nothing wrong, ever.
            let valid = name == BRANNOC || version == Version::V1_1_2;
            assert_eq!(answer["isValid"], valid, "{version}, {name}");
            assert_eq!(answer.get("errors").is_some(), !valid, "{version}, {name}");
            assert_eq!(answer["validation_reliable"], false);
            let note = answer["validation_note"].as_str().context("no note")?;
            assert!(note.contains("v1.4"), "{note}");
        }
        let body = json!({"isValid": false, "errors": [{"code": "odd", "of": [1]}], "later": 1});
        let path = "/api/characters/c/validate";
        let _armed = table.faults().route("GET", path, reply(200, &body));
        let answer = data(home, "character_validate", json!({"character_id": "c"})).await?;
        assert_eq!(answer["errors"], body["errors"]);
        assert_eq!(answer["later"], 1);
        assert_eq!(answer["validation_reliable"], false);
    }
    Ok(())
}

// ---- Refusals --------------------------------------------------------------

// ---- character_hitdice_spend -----------------------------------------------

/// T-DIC-04
#[tokio::test]
async fn t_dic_04_hit_dice_are_spent_in_the_fifth_edition_alone() -> Result<()> {
    let systems = [
        Some(GameSystem::Dnd5e),
        Some(GameSystem::Pathfinder2e),
        Some(GameSystem::Shadowrun6e),
        Some(GameSystem::CallOfCthulhu7e),
        None,
    ];
    for system in systems {
        let table = Table::builder()
            .scene(Scene::of_system(system))
            .start()
            .await?;
        let home = &sit_settled(&table, "dm").await?;
        let id = table.character_ids().remove(0);
        let campaign = format!("/api/campaigns/{}", table.campaign_id());
        let reads = table.log().count("GET", &campaign);
        assert_eq!(reads, 1, "{system:?}");
        let before = said(&table);
        let spend = json!({"character_id": id, "index": 0});
        if system == Some(GameSystem::Dnd5e) {
            let answer = data(home, "character_hitdice_spend", spend).await?;
            assert_eq!(
                answer,
                json!({
                    "sent": true, "confirmed": false, "status": "pending",
                    "since": answer["since"], "note": HIT_DICE_NOTE,
                })
            );
            let since = answer["since"].as_u64().context("no number")?;
            let told = event(home, since, "character.updated").await;
            assert_eq!(told["payload"]["characterId"], *id);
            assert_eq!(table.sheet(&id)["hitDice"][0]["remaining"], 0);
            let frames = table.log().events_in("character.hitdice.spend");
            assert_eq!(frames.len(), 1);
            assert_eq!(frames[0].payload, json!({"characterId": id, "index": 0}));
            assert_eq!(said(&table), (before.0, before.1 + 1));
        } else {
            let envelope = failure(home, "character_hitdice_spend", spend).await?;
            let system = system.map_or("unset (flexible)", GameSystem::as_str);
            let sentence = format!(
                "Hit Dice spending is available only for DND_5E campaigns; current campaign \
                 system: {system}"
            );
            assert_eq!(envelope, json!({"ok": false, "error": sentence}));
            fence(&table, home).await?;
            assert_eq!(said(&table), (before.0, before.1 + 1), "{system}");
        }
        // Known already, so not read again.
        assert_eq!(table.log().count("GET", &campaign), reads, "{system:?}");
    }
    Ok(())
}

/// T-DIC-05
#[tokio::test]
async fn t_dic_05_hit_dice_that_cannot_be_meant_are_not_spent() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit_settled(&table, "dm").await?;
        let exact = "character_id is required; index must be an integer >=0";
        let before = said(&table);
        for (spend, words) in [
            (json!({"character_id": "c", "index": -1}), exact),
            (json!({"character_id": "", "index": 0}), exact),
            (json!({"character_id": "c", "index": 0.5}), "index"),
            (json!({"character_id": "c", "index": true}), "index"),
            (json!({"character_id": "c", "index": "0"}), "index"),
            (json!({"character_id": "c"}), "index"),
            (json!({"index": 0}), "character_id"),
        ] {
            let sentence = refusal(home, "character_hitdice_spend", spend.clone()).await?;
            if words == exact {
                assert_eq!(sentence, exact, "{spend}");
            } else {
                assert!(sentence.contains(words), "{spend}: {sentence}");
            }
        }
        fence(&table, home).await?;
        assert_eq!(said(&table), (before.0, before.1 + 1), "{version}");
    }
    Ok(())
}

/// T-DIC-06
#[tokio::test]
async fn t_dic_06_a_refusal_of_hit_dice_comes_after_the_receipt() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let own = character(&table, BRANNOC)?;
    let other = character(&table, "Sunniva Ashlocke")?;
    let home = &sit_settled(&table, "player1").await?;
    let cases = [
        (own.as_str(), 9, "No hit dice pool at that position"),
        ("nobody", 0, "Character not found"),
        (
            other.as_str(),
            0,
            "You do not have permission to spend this character's hit dice",
        ),
    ];
    for (id, index, sentence) in cases {
        let spend = json!({"character_id": id, "index": index});
        let answer = data(home, "character_hitdice_spend", spend).await?;
        assert_eq!(answer["sent"], true);
        assert_eq!(answer["confirmed"], false);
        assert_eq!(answer["status"], "pending");
        let since = answer["since"].as_u64().context("no number")?;
        let refused = event(home, since, "system.error").await;
        let payload = refused["payload"].to_string();
        assert!(payload.contains(sentence), "{payload}");
        let page = data(home, "events_poll", json!({})).await?;
        assert_eq!(page["authenticated"], true);
        assert_eq!(page["connected"], true);
    }
    assert_eq!(table.log().events_in("character.hitdice.spend").len(), 3);
    Ok(())
}

#[tokio::test]
async fn an_old_release_ignores_hit_dice_and_the_receipt_claims_nothing_else() -> Result<()> {
    let table = table(Version::V1_1_2).await?;
    let home = &sit_settled(&table, "player1").await?;
    let id = character(&table, BRANNOC)?;
    let sheet = table.sheet(&id);
    let spend = json!({"character_id": id, "index": 0});
    let answer = data(home, "character_hitdice_spend", spend).await?;
    assert_eq!(answer["status"], "pending");
    assert_eq!(answer["note"], HIT_DICE_NOTE);
    fence(&table, home).await?;
    assert_eq!(table.log().events_in("character.hitdice.spend").len(), 1);
    assert_eq!(table.sheet(&id), sheet);
    Ok(())
}
