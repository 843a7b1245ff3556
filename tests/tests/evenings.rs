//! The tools of game sessions against the contract, at both releases: starting, pausing and
//! ending an evening, and its recap. A test that covers an acceptance case of the contract names
//! it.

use anyhow::{Context as _, Result};
use cozyvtt_table::{CampaignPlan, Fault, Reply, Scene, Table, Version};
use cozyvtt_tests::asked::{asked, campaign_path};
use cozyvtt_tests::calls::{data, event, failure, high_water, http, refusal};
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::seat::{fence, nothing_said_since, said, sit_settled};
use serde_json::{Value, json};

const NONE_ACTIVE: &str = "The current campaign has no active session to pause or end";

/// A table between two evenings.
async fn table(version: Version) -> Result<Table> {
    let idle = |campaign: CampaignPlan| campaign.status("INACTIVE");
    Table::builder()
        .version(version)
        .scene(Scene::default().main(idle))
        .start()
        .await
}

/// What the daemon has asked since that many requests.
fn since(table: &Table, before: usize) -> Vec<String> {
    let requests = table.log().requests().into_iter().skip(before);
    requests
        .map(|one| format!("{} {}", one.method, one.path))
        .collect()
}

async fn manage(home: &Home, action: &str) -> Result<Value> {
    data(home, "session_manage", json!({"action": action})).await
}

/// Starts a session; gives its id.
async fn start(home: &Home) -> Result<String> {
    let answer = manage(home, "start").await?;
    let id = answer["session"]["id"].as_str().context("no session")?;
    Ok(id.to_owned())
}

/// T-SES-01
#[tokio::test]
async fn t_ses_01_an_evening_is_started_paused_and_ended() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit_settled(&table, "dm").await?;
        let campaign = campaign_path(&table);
        let before = said(&table);
        let told = high_water(home).await?;
        let answer = manage(home, " START ").await?;
        assert_eq!(answer["message"], "Session started successfully");
        assert_eq!(answer["session"]["sessionNumber"], 1, "{version}");
        let id = answer["session"]["id"].as_str().context("no session")?;
        let paused = manage(home, "pause").await?;
        assert_eq!(
            paused,
            json!({"message": "Session paused successfully", "stateSaved": true})
        );
        let ended = manage(home, "End").await?;
        assert_eq!(
            ended,
            json!({"message": "Session ended successfully", "stateSaved": true})
        );
        let (pause, end) = (
            format!("{campaign}/sessions/{id}/pause"),
            format!("{campaign}/sessions/{id}/end"),
        );
        assert_eq!(
            since(&table, before.0),
            [
                format!("POST {campaign}/sessions"),
                format!("GET {campaign}"),
                format!("PUT {pause}"),
                format!("GET {campaign}"),
                format!("PUT {end}"),
            ],
            "{version}"
        );
        let sessions = format!("{campaign}/sessions");
        assert_eq!(asked(&table, "POST", &sessions), [json!({})]);
        assert_eq!(asked(&table, "PUT", &pause), [json!({})]);
        assert_eq!(asked(&table, "PUT", &end), [json!({"saveState": true})]);
        for name in ["session.started", "session.paused", "session.ended"] {
            let record = event(home, told, name).await;
            assert_eq!(record["payload"]["sessionId"], id, "{version}, {name}");
        }
        fence(&table, home).await?;
        assert_eq!(said(&table), (before.0 + 5, before.1 + 1), "{version}");
    }
    Ok(())
}

/// T-SES-02
#[tokio::test]
async fn t_ses_02_without_an_active_session_nothing_is_written() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit_settled(&table, "dm").await?;
        let campaign = campaign_path(&table);
        for action in ["pause", "end"] {
            let before = said(&table).0;
            let change = json!({"action": action});
            let envelope = failure(home, "session_manage", change).await?;
            assert_eq!(envelope, json!({"ok": false, "error": NONE_ACTIVE}));
            let requests = since(&table, before);
            assert_eq!(requests, [format!("GET {campaign}")], "{version}, {action}");
        }
        let before = said(&table).0;
        let exact = "action must be one of ['end', 'pause', 'start']";
        for action in [json!("resume"), json!(""), json!("start!")] {
            let change = json!({"action": action});
            let sentence = refusal(home, "session_manage", change).await?;
            assert_eq!(sentence, exact, "{action}");
        }
        for change in [json!({}), json!({"action": 1}), json!({"action": null})] {
            let sentence = refusal(home, "session_manage", change.clone()).await?;
            assert!(sentence.contains("action"), "{change}: {sentence}");
        }
        assert_eq!(said(&table).0, before, "{version}");
    }
    Ok(())
}

/// T-SES-03
#[tokio::test]
async fn t_ses_03_recaps_are_listed_rewritten_and_cleared() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "dm").await?;
    let campaign = campaign_path(&table);
    let id = start(home).await?;
    let end = json!({"action": "end", "notes": "The bell rang.", "save_state": false});
    let answer = data(home, "session_manage", end).await?;
    assert_eq!(answer["stateSaved"], false);
    let path = format!("{campaign}/sessions/{id}/end");
    assert_eq!(
        asked(&table, "PUT", &path),
        [json!({"notes": "The bell rang.", "saveState": false})]
    );
    let second = start(home).await?;
    let listed = data(home, "session_list", json!({})).await?;
    let sessions = listed["sessions"].as_array().context("no list")?;
    assert_eq!(sessions.len(), 2);
    assert_eq!(sessions[0]["id"], *second);
    assert_eq!(sessions[0]["endedAt"], Value::Null);
    assert_eq!(sessions[1]["id"], *id);
    assert_eq!(sessions[1]["notes"], "The bell rang.");
    assert!(sessions[1]["endedAt"].is_string());

    let path = format!("{campaign}/sessions/{id}/notes");
    let cases = [
        ("It rang twice.", json!("It rang twice.")),
        ("  trimmed ", json!("trimmed")),
        (" \n", Value::Null),
        ("again", json!("again")),
        ("", Value::Null),
    ];
    for (at, (notes, stored)) in cases.into_iter().enumerate() {
        let change = json!({"session_id": id, "notes": notes});
        let answer = data(home, "session_notes_update", change).await?;
        assert_eq!(answer["session"]["id"], *id);
        assert_eq!(answer["session"]["notes"], stored, "{notes:?}");
        assert_eq!(asked(&table, "PUT", &path)[at], json!({"notes": notes}));
    }
    // Empty notes at the end leave what is there.
    let change = json!({"session_id": second, "notes": "kept"});
    data(home, "session_notes_update", change).await?;
    let end = json!({"action": "end", "notes": ""});
    data(home, "session_manage", end).await?;
    let path = format!("{campaign}/sessions/{second}/end");
    assert_eq!(
        asked(&table, "PUT", &path),
        [json!({"notes": "", "saveState": true})]
    );
    let listed = data(home, "session_list", json!({})).await?;
    assert_eq!(listed["sessions"][0]["notes"], "kept");
    // The list is passed on as it is.
    let odd = json!({"sessions": [{"id": 1, "later": {"of": [1.5, null]}}, "?"], "total": 2});
    let path = format!("{campaign}/sessions");
    let fault = Fault::Answer(Reply::json(200, &odd));
    let _armed = table.faults().route("GET", &path, fault);
    assert_eq!(data(home, "session_list", json!({})).await?, odd);
    Ok(())
}

/// T-SES-04
#[tokio::test]
async fn t_ses_04_notes_in_the_wrong_place_or_too_long_are_not_sent() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "dm").await?;
    let id = start(home).await?;
    let long = "é".repeat(2001);
    let blanks = " ".repeat(2001);
    let only = "notes/save_state apply only to end";
    let most = "notes must be a string of at most 2000 characters";
    let update = "notes must be at most 2000 characters";
    let manage = "session_manage";
    let notes = "session_notes_update";
    let cases = [
        (manage, json!({"action": "pause", "notes": "n"}), only),
        (manage, json!({"action": "pause", "notes": ""}), only),
        (manage, json!({"action": "start", "notes": "n"}), only),
        (
            manage,
            json!({"action": "start", "save_state": false}),
            only,
        ),
        (
            manage,
            json!({"action": "pause", "save_state": false}),
            only,
        ),
        (manage, json!({"action": "end", "notes": long}), most),
        (manage, json!({"action": "end", "notes": 5}), "notes"),
        (
            manage,
            json!({"action": "end", "save_state": "no"}),
            "save_state",
        ),
        (
            manage,
            json!({"action": "end", "saveState": true}),
            "saveState",
        ),
        (notes, json!({"session_id": id, "notes": long}), update),
        (notes, json!({"session_id": id, "notes": blanks}), update),
        (notes, json!({"session_id": id, "notes": null}), "notes"),
        (notes, json!({"session_id": id}), "notes"),
        (notes, json!({"notes": ""}), "session_id"),
        ("session_list", json!({"limit": 5}), "limit"),
    ];
    let before = said(&table);
    for (tool, change, words) in cases {
        let sentence = refusal(home, tool, change).await?;
        if words.contains(' ') {
            assert_eq!(sentence, words, "{tool}");
        } else {
            assert!(sentence.contains(words), "{tool}: {sentence}");
        }
    }
    nothing_said_since(before, &table, home).await?;
    // The limit itself is kept, counted in characters.
    let full = "é".repeat(2000);
    let change = json!({"session_id": id, "notes": full});
    let answer = data(home, notes, change).await?;
    assert_eq!(answer["session"]["notes"], *full);
    data(home, manage, json!({"action": "end", "notes": full})).await?;
    Ok(())
}

#[tokio::test]
async fn a_session_that_ended_meanwhile_is_told_with_the_servers_answer() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "dm").await?;
    let campaign = campaign_path(&table);
    let id = start(home).await?;
    manage(home, "end").await?;
    let read = |id: &str| {
        let body = json!({"campaign": {
            "id": table.campaign_id(), "userRole": "DM", "activeSession": {"id": id},
        }});
        Fault::Answer(Reply::json(200, &body))
    };
    let ended = json!({"error": "Bad Request", "message": "Session has already ended"});
    let missing = json!({"error": "Not Found", "message": "Session not found"});
    // An id of the server's is one segment as well.
    let cases = [
        (id.as_str(), id.as_str(), 400, &ended),
        ("a/b?c#d%", "a%2Fb%3Fc%23d%25", 404, &missing),
    ];
    for (id, segment, status, body) in cases {
        let armed = table.faults().route("GET", &campaign, read(id));
        for action in ["pause", "end"] {
            let before = said(&table).0;
            let change = json!({"action": action});
            let envelope = failure(home, "session_manage", change).await?;
            assert_eq!(envelope, http(status, body), "{id}, {action}");
            let path = format!("{campaign}/sessions/{segment}/{action}");
            assert_eq!(
                since(&table, before),
                [format!("GET {campaign}"), format!("PUT {path}")]
            );
        }
        armed.off();
    }
    // What names no session is none.
    for id in ["", "..", "."] {
        let armed = table.faults().route("GET", &campaign, read(id));
        let before = said(&table).0;
        let change = json!({"action": "end"});
        let envelope = failure(home, "session_manage", change).await?;
        assert_eq!(envelope, json!({"ok": false, "error": NONE_ACTIVE}));
        assert_eq!(since(&table, before).len(), 1, "{id:?}");
        armed.off();
    }
    let change = json!({"session_id": "s", "notes": "n"});
    let envelope = failure(home, "session_notes_update", change).await?;
    assert_eq!(envelope, http(404, &missing));
    Ok(())
}

#[tokio::test]
async fn an_answer_that_is_none_leaves_it_unknown_whether_a_session_began() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "dm").await?;
    let path = format!("{}/sessions", campaign_path(&table));
    let armed = table.faults().route("POST", &path, Fault::Html);
    let change = json!({"action": "start"});
    let envelope = failure(home, "session_manage", change).await?;
    let error = envelope["error"].as_str().context("no sentence")?;
    assert!(error.contains("INVALID_RESPONSE"), "{error}");
    assert!(error.contains("HTTP 201"), "{error}");
    assert_eq!(envelope["data"]["status"], 201);
    assert_eq!(table.log().count("POST", &path), 1);
    armed.off();
    Ok(())
}

#[tokio::test]
async fn a_release_without_recaps_says_so_every_time_anew() -> Result<()> {
    let table = table(Version::V1_1_2).await?;
    let home = &sit_settled(&table, "dm").await?;
    let id = start(home).await?;
    let sentence = "This CozyVTT instance does not provide this feature; upgrade to a supported \
                    version and retry.";
    let upstream = json!({
        "error": "Not Found", "message": "The requested resource does not exist",
    });
    let expected = json!({
        "ok": false, "error": sentence, "data": {"status": 404, "upstream": upstream},
    });
    for (tool, arguments) in [
        ("session_list", json!({})),
        (
            "session_notes_update",
            json!({"session_id": id, "notes": "n"}),
        ),
    ] {
        for _ in 0..2 {
            let before = said(&table).0;
            let envelope = failure(home, tool, arguments.clone()).await?;
            assert_eq!(envelope, expected, "{tool}");
            assert_eq!(since(&table, before).len(), 1, "{tool}");
        }
    }
    // The rest of it works.
    manage(home, "end").await?;
    Ok(())
}
