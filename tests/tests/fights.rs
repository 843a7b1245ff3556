//! The tools of initiative against the contract, at both releases: what is sent for each change
//! of the order, and when an order may be called fresh. A test that covers an acceptance case of
//! the contract names it.

use anyhow::{Context as _, Result};
use cozyvtt_table::{Direction, GameSystem, Scene, SocketFault, Table, Version};
use cozyvtt_tests::asked::token;
use cozyvtt_tests::calls::{data, event, failure, high_water, refusal};
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::seat::{fence, nothing_said_since, said, sit_settled};
use cozyvtt_tests::until;
use serde_json::{Value, json};

const NOTE: &str =
    "Dispatch only; poll for business results and system.error. Do not blindly retry writes.";
const UNKNOWN: &str =
    "Initiative state is unknown: no fresh initiative.state received. Read events_poll.";
const ASKS: &str = "initiative.request_state";

async fn table(version: Version) -> Result<Table> {
    Table::builder().version(version).start().await
}

/// Changes the order; gives what the table says to it: its order or its refusal.
async fn manage(home: &Home, change: Value, effect: &str) -> Result<Value> {
    let answer = data(home, "initiative_manage", change.clone()).await?;
    let since = answer["since"].as_u64().context("no number")?;
    let expected = json!({
        "sent": true, "confirmed": false, "status": "pending", "since": since, "note": NOTE,
        "action": change["action"], "payload": answer["payload"],
    });
    anyhow::ensure!(answer == expected, "no receipt of {change}: {answer}");
    Ok(event(home, since, effect).await["payload"].clone())
}

/// Who acts in which order, as a state tells.
fn order(state: &Value) -> Vec<&str> {
    let combatants = state["combatants"].as_array().into_iter().flatten();
    combatants
        .filter_map(|one| one["tokenId"].as_str())
        .collect()
}

// ---- initiative_manage -----------------------------------------------------

/// T-INT-01
#[tokio::test]
async fn t_int_01_a_change_that_lacks_something_is_not_sent() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "dm").await?;
    let actions = "action must be one of ['add', 'end', 'next', 'remove', 'reorder', 'roll', \
                   'set', 'start']";
    let add = "add requires token_id and map_id";
    let roll = "roll requires token_id and map_id";
    let set = "set requires token_id, map_id, and value";
    let reorder = "reorder requires ordered_token_ids (a list of token IDs)";
    let cases = [
        (json!({"action": "fly"}), actions),
        (json!({"action": ""}), actions),
        (json!({"action": "add"}), add),
        (json!({"action": "add", "token_id": "t"}), add),
        (json!({"action": " ADD ", "map_id": "m"}), add),
        (json!({"action": "remove"}), "remove requires token_id"),
        (json!({"action": "roll", "token_id": "t"}), roll),
        (json!({"action": "roll", "expression": "1d20"}), roll),
        (
            json!({"action": "set", "token_id": "t", "map_id": "m"}),
            set,
        ),
        (
            json!({"action": "set", "token_id": "t", "map_id": "m", "value": null}),
            set,
        ),
        (json!({"action": "set", "token_id": "t", "value": 3}), set),
        (json!({"action": "reorder"}), reorder),
        (
            json!({"action": "reorder", "ordered_token_ids": []}),
            reorder,
        ),
        (json!({}), "action"),
        (json!({"action": 3}), "action"),
        (json!({"action": "next", "value": "3"}), "value"),
        (
            json!({"action": "reorder", "ordered_token_ids": "t"}),
            "ordered_token_ids",
        ),
        (
            json!({"action": "reorder", "ordered_token_ids": [1]}),
            "ordered_token_ids",
        ),
        (json!({"action": "next", "tokenId": "t"}), "tokenId"),
    ];
    let before = said(&table);
    for (change, words) in cases {
        let sentence = refusal(home, "initiative_manage", change.clone()).await?;
        if words.contains(' ') {
            assert_eq!(sentence, words, "{change}");
        } else {
            assert!(sentence.contains(words), "{change}: {sentence}");
        }
    }
    nothing_said_since(before, &table, home).await?;
    Ok(())
}

/// T-INT-02
#[tokio::test]
async fn t_int_02_initiative_is_rolled_where_the_rules_roll_it() -> Result<()> {
    let systems = [
        (Some(GameSystem::Dnd5e), true),
        (Some(GameSystem::Pathfinder2e), true),
        (Some(GameSystem::Shadowrun6e), true),
        (Some(GameSystem::CallOfCthulhu7e), false),
        (None, false),
    ];
    for (system, rolls) in systems {
        let table = Table::builder()
            .scene(Scene::of_system(system))
            .start()
            .await?;
        let home = &sit_settled(&table, "dm").await?;
        let map = table.current_map().context("no map")?;
        let token = table.tokens(&map)[2]["id"].clone();
        let before = said(&table);
        let roll = json!({
            "action": "roll", "token_id": token, "map_id": map, "expression": "1d20+3",
            "character_name": "The Foe",
        });
        if rolls {
            let state = manage(home, roll, "initiative.state").await?;
            assert!(state["combatants"][0]["initiative"].is_number(), "{state}");
            let frames = table.log().events_in("initiative.roll");
            assert_eq!(frames.len(), 1, "{system:?}");
            assert_eq!(
                frames[0].payload,
                json!({
                    "tokenId": token, "mapId": map, "expression": "1d20+3",
                    "characterName": "The Foe",
                })
            );
            assert_eq!(said(&table), (before.0, before.1 + 1), "{system:?}");
        } else {
            let envelope = failure(home, "initiative_manage", roll).await?;
            let system = system.map_or("unset (flexible)", GameSystem::as_str);
            let sentence = format!(
                "initiative.roll (CoC7e orders initiative by DEX without rolling) is available \
                 only for DND_5E/PATHFINDER_2E/SHADOWRUN_6E campaigns; current campaign system: \
                 {system}"
            );
            assert_eq!(envelope, json!({"ok": false, "error": sentence}));
            fence(&table, home).await?;
            assert_eq!(said(&table), (before.0, before.1 + 1), "{system}");
            // The others work all the same.
            let set = json!({"action": "add", "token_id": token, "map_id": map});
            manage(home, set, "initiative.state").await?;
        }
    }
    Ok(())
}

/// T-INT-01, T-INT-03
#[tokio::test]
async fn t_int_03_a_whole_fight_is_managed() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit_settled(&table, "dm").await?;
        let (map, brannoc) = token(&table, "Brannoc")?;
        let (_, stalker) = token(&table, "Reed Stalker")?;
        let place =
            |action: &str, token: &str| json!({"action": action, "token_id": token, "map_id": map});
        for token in [&brannoc, &stalker] {
            manage(home, place("add", token), "initiative.state").await?;
        }
        let mut set = place("set", &brannoc);
        set["value"] = json!(0);
        manage(home, set, "initiative.state").await?;
        let mut set = place("set", &stalker);
        set["value"] = json!(15);
        // What an action does not need is left out.
        set["expression"] = json!("1d20");
        let state = manage(home, set, "initiative.state").await?;
        assert_eq!(order(&state), [&stalker, &brannoc], "{version}");
        let state = manage(home, json!({"action": "start"}), "initiative.state").await?;
        assert_eq!(state["active"], true, "{version}");
        assert_eq!(state["currentTokenId"], *stalker, "{version}");
        let state = manage(home, json!({"action": "next"}), "initiative.state").await?;
        assert_eq!(state["currentTokenId"], *brannoc, "{version}");
        let ids = json!({"action": "reorder", "ordered_token_ids": [brannoc, stalker]});
        let state = manage(home, ids, "initiative.state").await?;
        assert_eq!(order(&state), [&brannoc, &stalker], "{version}");
        let read = data(home, "initiative_read", json!({})).await?;
        assert_eq!(read["stale"], false, "{version}");
        assert_eq!(order(&read["state"]), [&brannoc, &stalker], "{version}");
        let gone = json!({"action": "remove", "token_id": stalker});
        let state = manage(home, gone, "initiative.state").await?;
        assert_eq!(order(&state), [&brannoc], "{version}");
        let state = manage(home, json!({"action": "end"}), "initiative.state").await?;
        assert_eq!(state["active"], false, "{version}");

        let frames = table.log().frames().into_iter().filter(|one| {
            one.direction == Direction::In
                && one
                    .event
                    .as_deref()
                    .is_some_and(|name| name.starts_with("initiative.") && name != ASKS)
        });
        let changes: Vec<_> = frames
            .map(|one| (one.event.unwrap_or_default(), one.payload))
            .collect();
        let expected = [
            ("add", json!({"tokenId": brannoc, "mapId": map})),
            ("add", json!({"tokenId": stalker, "mapId": map})),
            ("set", json!({"tokenId": brannoc, "mapId": map, "value": 0})),
            (
                "set",
                json!({"tokenId": stalker, "mapId": map, "value": 15}),
            ),
            ("start", json!({})),
            ("next", json!({})),
            ("reorder", json!({"orderedTokenIds": [brannoc, stalker]})),
            ("remove", json!({"tokenId": stalker})),
            ("end", json!({})),
        ]
        .map(|(action, payload)| (format!("initiative.{action}"), payload));
        assert_eq!(changes, expected, "{version}");
    }
    Ok(())
}

#[tokio::test]
async fn an_action_is_read_in_any_case_and_named_in_small_letters() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "dm").await?;
    let answer = data(home, "initiative_manage", json!({"action": " END\n"})).await?;
    assert_eq!(answer["action"], "end");
    assert_eq!(answer["payload"], json!({}));
    until("it is sent", || async {
        (table.log().events_in("initiative.end").len() == 1).then_some(())
    })
    .await;
    Ok(())
}

// ---- initiative_read -------------------------------------------------------

/// T-INT-04
#[tokio::test]
async fn t_int_04_an_old_order_is_never_given_as_a_fresh_one() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit_settled(&table, "dm").await?;
        let state = json!({
            "active": true, "round": 3, "currentTokenId": "t",
            "combatants": [{"tokenId": "t", "initiative": 7.5, "later": [1]}],
        });
        let since = high_water(home).await?;
        table
            .faults()
            .send_frame(&format!("42{}", json!(["initiative.state", state])));
        let record = event(home, since, "initiative.state").await;
        let known = json!({
            "state": state, "seq": record["seq"], "ts": record["ts"], "stale": true,
        });
        let _deaf = table.faults().socket(SocketFault::Swallow(ASKS.to_owned()));
        let asked = table.log().events_in(ASKS).len();
        let cached = data(home, "initiative_read", json!({"refresh": false})).await?;
        assert_eq!(cached, known, "{version}");
        assert_eq!(table.log().events_in(ASKS).len(), asked, "{version}");
        let unknown = json!({"state": null, "stale": true, "note": UNKNOWN});
        let fresh = data(home, "initiative_read", json!({"refresh": true})).await?;
        assert_eq!(fresh, unknown, "{version}");
        assert_eq!(table.log().events_in(ASKS).len(), asked + 1, "{version}");
        // Nothing is forgotten for it.
        let cached = data(home, "initiative_read", json!({"refresh": false})).await?;
        assert_eq!(cached, known, "{version}");
    }
    Ok(())
}

/// T-INT-05
#[tokio::test]
async fn t_int_05_an_order_that_comes_while_one_waits_is_fresh() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "dm").await?;
    let since = high_water(home).await?;
    let answer = data(home, "initiative_read", json!({})).await?;
    let record = event(home, since, "initiative.state").await;
    assert_eq!(
        answer,
        json!({
            "state": record["payload"], "seq": record["seq"], "ts": record["ts"],
            "stale": false,
        })
    );
    // One that somebody else's deed brings will do as well.
    let _deaf = table.faults().socket(SocketFault::Swallow(ASKS.to_owned()));
    let asked = table.log().events_in(ASKS).len();
    let since = high_water(home).await?;
    let state = json!({"active": true, "round": 9, "currentTokenId": null, "combatants": []});
    let push = async {
        until("the order is asked for", || async {
            (table.log().events_in(ASKS).len() > asked).then_some(())
        })
        .await;
        let frame = json!(["initiative.state", state]);
        table.faults().send_frame(&format!("42{frame}"));
    };
    let (answer, ()) = tokio::join!(data(home, "initiative_read", json!({})), push);
    let answer = answer?;
    assert_eq!(answer["state"], state);
    assert_eq!(answer["stale"], false);
    assert!(answer["seq"].as_u64() > Some(since), "{answer}");
    Ok(())
}

/// T-INT-06
#[tokio::test]
async fn t_int_06_an_order_of_an_earlier_connection_is_not_known_any_more() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let home = &sit_settled(&table, "dm").await?;
        let cached = data(home, "initiative_read", json!({"refresh": false})).await?;
        assert_eq!(cached["state"]["active"], false, "{version}");
        let _deaf = table.faults().socket(SocketFault::Swallow(ASKS.to_owned()));
        let seated = table.log().events_in("authenticate").len();
        table.close_sockets();
        until("the daemon is back", || async {
            if table.log().events_in("authenticate").len() == seated {
                return None;
            }
            let page = data(home, "events_poll", json!({})).await.ok()?;
            (page["authenticated"] == true).then_some(())
        })
        .await;
        let cached = data(home, "initiative_read", json!({"refresh": false})).await?;
        let unknown = json!({"state": null, "stale": true, "note": UNKNOWN});
        assert_eq!(cached, unknown, "{version}");
        let since = high_water(home).await?;
        let state = json!({"active": true, "round": 2, "currentTokenId": null, "combatants": []});
        let frame = json!(["initiative.state", state]);
        table.faults().send_frame(&format!("42{frame}"));
        event(home, since, "initiative.state").await;
        let cached = data(home, "initiative_read", json!({"refresh": false})).await?;
        assert_eq!(cached["state"], state, "{version}");
        assert_eq!(cached["stale"], true, "{version}");
    }
    Ok(())
}

#[tokio::test]
async fn without_a_link_there_is_no_order() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let home = &sit_settled(&table, "dm").await?;
    let _closed = table.faults().socket(SocketFault::RefuseHandshake(503));
    table.close_sockets();
    until("the link is down", || async {
        let page = data(home, "events_poll", json!({})).await.ok()?;
        (page["connected"] == false).then_some(())
    })
    .await;
    for refresh in [true, false] {
        let envelope = failure(home, "initiative_read", json!({"refresh": refresh})).await?;
        assert!(envelope["error"].is_string(), "{envelope}");
        assert_eq!(envelope.get("data"), None, "{envelope}");
    }
    for bad in [
        json!({"refresh": "yes"}),
        json!({"refresh": null}),
        json!({"stale": true}),
    ] {
        refusal(home, "initiative_read", bad).await?;
    }
    Ok(())
}
