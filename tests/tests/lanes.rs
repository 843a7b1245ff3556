//! Write lanes: on a server that loses parallel updates, none is lost.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use cozyvtt_table::{Fault, Table, Version};
use cozyvtt_tests::agent::{Agent, Era};
use cozyvtt_tests::calls::{data, failure};
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::in_process::{InProcess, pass, patient_table};
use cozyvtt_tests::raw::Wire;
use cozyvtt_tests::until;
use cozyvttd::session::patience::Patience;
use cozyvttd::session::rest::{Expect, Request};
use cozyvttd::tools::files::{Files, ReadFolders};
use cozyvttd::tools::{Catalog, Context as ToolContext, Outcome};
use futures_util::future::{BoxFuture, join_all};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const WRITES: usize = 20;

/// Three clients that share the daemon, of either kind.
async fn three_clients(home: &Home) -> Result<Vec<Agent>> {
    Ok(vec![
        Agent::through_shim(home, Era::Handshake).await?,
        Agent::through_shim(home, Era::Stateless).await?,
        Agent::on_the_socket(home, Era::Handshake).await?,
    ])
}

/// Calls a tool twenty times at once, spread over the clients.
async fn at_once(
    agents: &[Agent],
    tool: &str,
    arguments: impl Fn(usize) -> Value,
) -> Vec<Result<Value>> {
    join_all((0..WRITES).map(|number| {
        let agent = &agents[number % agents.len()];
        agent.data(tool, arguments(number))
    }))
    .await
}

fn map_of(table: &Table) -> String {
    table.current_map().unwrap_or_default()
}

/// A session whose lanes are not asked, at a table that loses what overlaps.
async fn without_lanes() -> Result<(Table, InProcess)> {
    let table = Table::builder().version(Version::V1_1_2).start().await?;
    let seat = InProcess::start(&table, "dm")?;
    seat.linked().await;
    Ok((table, seat))
}

#[tokio::test]
async fn without_lanes_tokens_added_at_once_are_lost() -> Result<()> {
    let (table, seat) = without_lanes().await?;
    let map = map_of(&table);
    let before = table.tokens(&map).len();
    let answers = join_all((0..WRITES).map(|number| {
        let token = json!({"name": format!("t{number}"), "position": {"x": number % 10, "y": 1}});
        let path = seat.session.in_campaign(&["maps", &map, "tokens"]);
        let session = &seat.session;
        async move {
            let request = Request::post(path, token);
            session.request(&request, Expect::Has("token")).await
        }
    }))
    .await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let kept = table.tokens(&map).len() - before;
    assert!(kept < WRITES, "the table is not supposed to keep all");
    Ok(())
}

#[tokio::test]
async fn without_lanes_tokens_moved_at_once_stay_where_they_were() -> Result<()> {
    let (table, seat) = without_lanes().await?;
    let map = map_of(&table);
    let session = &seat.session;
    let mut tokens = Vec::new();
    for number in 0..WRITES {
        let token = json!({"name": format!("t{number}"), "position": {"x": 0, "y": 0}});
        let request = Request::post(session.in_campaign(&["maps", &map, "tokens"]), token);
        let added = session.request(&request, Expect::Has("token")).await?;
        tokens.push(added["token"]["id"].as_str().unwrap().to_owned());
    }
    let answers = join_all(tokens.iter().map(|token| {
        let path = session.in_campaign(&["maps", &map, "tokens", token]);
        async move {
            let request = Request::put(path, json!({"position": {"x": 5, "y": 5}}));
            session.request(&request, Expect::Object).await
        }
    }))
    .await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let moved = table
        .tokens(&map)
        .iter()
        .filter(|token| token["position"] == json!({"x": 5, "y": 5}))
        .count();
    assert!(moved < WRITES, "the table is not supposed to move all");
    Ok(())
}

#[tokio::test]
async fn without_lanes_hits_at_once_on_one_sheet_are_lost() -> Result<()> {
    let (table, seat) = without_lanes().await?;
    let character = table.character_named("Brannoc Thornfield").unwrap();
    let before = table.sheet(&character)["hp"]["current"].as_i64().unwrap();
    let since = seat.session.journal.high_water();
    let hit = json!({"characterId": character, "delta": -1});
    for _ in 0..WRITES {
        seat.session
            .link
            .emit("character.hp.update", hit.clone())
            .await?;
    }
    until("the table has told of all hits", || async {
        let page = seat.session.journal.page(since, 500).await.ok()?;
        let told = page
            .events
            .iter()
            .filter(|event| event.event == "character.hp.updated")
            .count();
        (told == WRITES).then_some(())
    })
    .await;
    let now = table.sheet(&character)["hp"]["current"].as_i64().unwrap();
    assert!(
        before - now < i64::try_from(WRITES)?,
        "the table is not supposed to count all"
    );
    Ok(())
}

#[tokio::test]
async fn twenty_tokens_added_at_once_by_three_clients_are_all_there() -> Result<()> {
    let table = Table::builder().version(Version::V1_1_2).start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let agents = three_clients(&home).await?;
    let map = map_of(&table);
    let before = table.tokens(&map).len();
    let added = at_once(&agents, "token_add", |number| {
        json!({
            "map_id": map, "name": format!("t{number}"), "image_url": "",
            "x": number % 10, "y": number / 10,
        })
    })
    .await;
    for answer in added {
        assert_eq!(answer?["persisted"], true);
    }
    assert_eq!(table.tokens(&map).len() - before, WRITES);
    Ok(())
}

#[tokio::test]
async fn twenty_tokens_moved_at_once_by_three_clients_all_stand_where_they_should() -> Result<()> {
    let table = Table::builder().version(Version::V1_1_2).start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let agents = three_clients(&home).await?;
    let map = map_of(&table);
    let mut tokens = Vec::new();
    for number in 0..WRITES {
        let token = json!({
            "map_id": map, "name": format!("t{number}"), "image_url": "", "x": 0, "y": 0,
        });
        let added = agents[0].data("token_add", token).await?;
        tokens.push(added["token"]["id"].as_str().unwrap().to_owned());
    }
    let moved = at_once(&agents, "token_move", |number| {
        json!({"map_id": map, "token_id": tokens[number], "x": number % 10, "y": 1 + number / 10})
    })
    .await;
    for answer in moved {
        answer?;
    }
    let stored = table.tokens(&map);
    for (number, id) in tokens.iter().enumerate() {
        let token = stored
            .iter()
            .find(|token| token["id"] == id.as_str())
            .unwrap();
        let wanted = json!({"x": number % 10, "y": 1 + number / 10});
        assert_eq!(token["position"], wanted, "token {number}");
    }
    Ok(())
}

#[tokio::test]
async fn twenty_hits_at_once_by_three_clients_all_count() -> Result<()> {
    let table = Table::builder().version(Version::V1_1_2).start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let agents = three_clients(&home).await?;
    let character = table.character_named("Brannoc Thornfield").unwrap();
    let before = table.sheet(&character)["hp"]["current"].as_i64().unwrap();
    let hits = at_once(
        &agents,
        "token_hp_update",
        |_| json!({"character_id": character, "delta": -1}),
    )
    .await;
    for receipt in hits {
        assert_eq!(receipt?["status"], "pending");
    }
    let wanted = before - i64::try_from(WRITES)?;
    until("all hits have counted", || async {
        let now = table.sheet(&character)["hp"]["current"].as_i64()?;
        (now == wanted).then_some(())
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn reads_are_not_held_up_by_a_write() -> Result<()> {
    let table = Table::builder()
        .version(Version::V1_1_2)
        .write_hold(Duration::from_secs(5))
        .start()
        .await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let agents = three_clients(&home).await?;
    let map = map_of(&table);
    let token = json!({"map_id": map, "name": "slow", "image_url": "", "x": 0, "y": 0});
    let write = agents[0].data("token_add", token);
    let read = agents[1].data("map_list", json!({}));
    tokio::pin!(write, read);
    // The read is over while the write is still held.
    tokio::select! {
        _ = &mut write => panic!("the write was not held"),
        maps = &mut read => assert!(maps?["maps"].is_array()),
    }
    Ok(())
}

#[tokio::test]
async fn tokens_and_their_initiative_written_at_once_over_rest_and_socket_are_all_there()
-> Result<()> {
    let table = Table::builder().version(Version::V1_1_2).start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let agents = three_clients(&home).await?;
    let map = map_of(&table);
    let before = table.tokens(&map).len();
    let ids: Vec<String> = table
        .tokens(&map)
        .iter()
        .filter_map(|token| token["id"].as_str().map(ToOwned::to_owned))
        .collect();
    let add = |number: usize| json!({"map_id": map, "name": format!("t{number}"), "image_url": "", "x": number, "y": 2});
    let set = |number: usize| {
        json!({
            "action": "set", "map_id": map, "token_id": ids[number % ids.len()],
            "value": number % ids.len(),
        })
    };
    let written = join_all((0..WRITES).map(|number| {
        let agent = &agents[number % agents.len()];
        let (tool, arguments) = if number % 2 == 0 {
            ("token_add", add(number / 2))
        } else {
            ("initiative_manage", set(number / 2))
        };
        agent.data(tool, arguments)
    }))
    .await;
    for answer in written {
        answer?;
    }
    until("all values are stored", || async {
        let tokens = table.tokens(&map);
        ids.iter()
            .take(WRITES / 2)
            .enumerate()
            .all(|(value, id)| {
                tokens
                    .iter()
                    .any(|token| token["id"] == id.as_str() && token["initiative"] == value)
            })
            .then_some(())
    })
    .await;
    assert_eq!(table.tokens(&map).len() - before, WRITES / 2);
    Ok(())
}

/// A table that takes its time for a write, its map, and a daemon at it.
async fn slow_writes() -> Result<(Table, Home)> {
    let table = Table::builder()
        .version(Version::V1_1_2)
        .write_hold(Duration::from_millis(300))
        .start()
        .await?;
    let home = Home::at(&table, "dm")?;
    Ok((table, home))
}

fn named(map: &str, name: &str) -> Value {
    json!({"map_id": map, "name": name, "image_url": "", "x": 1, "y": 1})
}

fn stands(table: &Table, map: &str, name: &str) -> bool {
    table.tokens(map).iter().any(|token| token["name"] == name)
}

#[tokio::test]
async fn a_write_that_its_client_cancels_keeps_the_next_one_waiting() -> Result<()> {
    let (table, home) = slow_writes().await?;
    let _daemon = home.start_at_table().await?;
    let map = map_of(&table);
    let arrived = table.faults().route(
        "POST",
        "/api/campaigns/*/maps/*/tokens",
        Fault::Delay(Duration::ZERO),
    );
    let mut wire = Wire::shaken(&home).await?;
    let call = json!({"name": "token_add", "arguments": named(&map, "first")});
    wire.request(1, "tools/call", call).await?;
    until("the first write has arrived", || async {
        (arrived.fired() == 1).then_some(())
    })
    .await;
    wire.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 1, "reason": "never mind"}}),
    )
    .await?;
    wire.call(2, "token_add", named(&map, "second")).await?;
    assert!(stands(&table, &map, "first") && stands(&table, &map, "second"));
    Ok(())
}

#[tokio::test]
async fn a_write_that_is_cancelled_before_its_turn_is_never_sent() -> Result<()> {
    let (table, home) = slow_writes().await?;
    let _daemon = home.start_at_table().await?;
    let map = map_of(&table);
    let mut wire = Wire::shaken(&home).await?;
    for (id, name) in [(1, "first"), (2, "unwanted"), (3, "third")] {
        let call = json!({"name": "token_add", "arguments": named(&map, name)});
        wire.request(id, "tools/call", call).await?;
        until("it has got its place in the queue", || async {
            let running = home.status().await.ok()?.hops[0].detail.clone();
            running
                .contains(&format!("{id} calls running"))
                .then_some(())
        })
        .await;
    }
    wire.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 2, "reason": "never mind"}}),
    )
    .await?;
    for id in [1, 3] {
        assert_eq!(wire.next().await?["id"], id);
    }
    assert!(stands(&table, &map, "first") && stands(&table, &map, "third"));
    assert!(!stands(&table, &map, "unwanted"));
    Ok(())
}

#[tokio::test]
async fn a_write_whose_answer_got_lost_keeps_the_next_one_waiting() -> Result<()> {
    let (table, home) = slow_writes().await?;
    let _daemon = home.start_at_table().await?;
    let map = map_of(&table);
    let lost = table
        .faults()
        .route(
            "POST",
            "/api/campaigns/*/maps/*/tokens",
            Fault::HangUpMeanwhile,
        )
        .times(1);
    let first = failure(&home, "token_add", named(&map, "first")).await?;
    let said = first["error"].as_str().unwrap_or_default();
    assert!(said.contains("outcome of this write is unknown"), "{said}");
    assert_eq!(lost.fired(), 1);
    data(&home, "token_add", named(&map, "second")).await?;
    assert!(stands(&table, &map, "first") && stands(&table, &map, "second"));
    Ok(())
}

#[tokio::test]
async fn a_look_at_the_order_does_not_pass_for_the_effect_of_a_change() -> Result<()> {
    let (table, home) = slow_writes().await?;
    let _daemon = home.start_at_table().await?;
    let map = map_of(&table);
    let (first, second) = {
        let tokens = table.tokens(&map);
        let id = |at: usize| tokens[at]["id"].as_str().unwrap_or_default().to_owned();
        (id(0), id(1))
    };
    let set = |token: &str, value: u8| json!({"action": "set", "map_id": map, "token_id": token, "value": value});
    data(&home, "initiative_manage", set(&first, 11)).await?;
    data(&home, "initiative_read", json!({})).await?;
    data(&home, "initiative_manage", set(&second, 12)).await?;
    until("both values are stored", || async {
        let tokens = table.tokens(&map);
        let has = |id: &str, value: u8| {
            tokens
                .iter()
                .any(|token| token["id"] == id && token["initiative"] == value)
        };
        (has(&first, 11) && has(&second, 12)).then_some(())
    })
    .await;
    Ok(())
}

/// Calls a tool within a session of this process.
fn call(seat: &InProcess, tool: &str, arguments: Value) -> Result<BoxFuture<'static, Outcome>> {
    let context = ToolContext {
        session: Arc::clone(&seat.session),
        caller: Arc::default(),
        files: Arc::new(Files::new(
            ReadFolders::default(),
            std::env::temp_dir(),
            None,
        )),
    };
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    let call = Catalog::default().call(tool, arguments, Ok(context));
    call.context("no such tool")
}

#[tokio::test]
async fn who_waits_for_the_dice_keeps_no_lane_closed() -> Result<()> {
    let table = patient_table(Version::V1_1_2).await?;
    let seat = InProcess::start(&table, "dm")?;
    seat.linked().await;
    let map = map_of(&table);
    let token = table.tokens(&map)[0]["id"].clone();
    for _ in 0..28 {
        let outcome = call(&seat, "dice_roll", json!({"expression": "1d4"}))?.await;
        assert_eq!(outcome.envelope["ok"], true, "{outcome:?}");
    }
    // The next roll is near enough to be waited for.
    pass(Duration::from_secs(30)).await;
    let roll = json!({
        "action": "roll", "map_id": map, "token_id": token, "expression": "1d20",
    });
    let rolled = call(&seat, "initiative_manage", roll)?;
    let added = call(&seat, "token_add", named(&map, "meanwhile"))?;
    tokio::select! {
        outcome = rolled => panic!("it did not wait: {outcome:?}"),
        outcome = added => assert_eq!(outcome.envelope["ok"], true, "{outcome:?}"),
    }
    assert!(stands(&table, &map, "meanwhile"));
    assert!(table.log().events_in("initiative.roll").is_empty());
    Ok(())
}

/// A write that waits for the minute of requests to pass, and what gives it up.
async fn waits_for_the_minute(
    end: impl FnOnce(&InProcess, &CancellationToken),
) -> Result<(Table, Outcome)> {
    let table = Table::builder()
        .ping_interval(Duration::from_secs(3600))
        .api_limit(20)
        .start()
        .await?;
    let seat = InProcess::start(&table, "dm")?;
    seat.linked().await;
    until("the minute is used up", || async {
        let maps = call(&seat, "map_list", json!({})).ok()?.await;
        let (_, requests) = seat.session.account().budgets()[0];
        (maps.envelope["ok"] == true && !requests.wait.is_zero()).then_some(())
    })
    .await;
    pass(Duration::from_secs(30)).await;
    let given_up = CancellationToken::new();
    let patience = Patience::new(given_up.clone(), seat.session.account().draining().clone());
    let text = json!({"name": "Unwanted", "format": "txt", "content": "x"});
    let write = tokio::spawn(patience.rule(call(&seat, "document_create", text)?));
    until("the write waits", || async {
        let (_, requests) = seat.session.account().budgets()[0];
        (requests.sends > requests.of).then_some(())
    })
    .await;
    end(&seat, &given_up);
    let outcome = write.await?;
    let (_, requests) = seat.session.account().budgets()[0];
    assert!(requests.sends <= requests.of, "its place is free again");
    Ok((table, outcome))
}

fn never_sent(table: &Table, outcome: &Outcome, words: &str) {
    let error = outcome.envelope["error"].as_str().unwrap_or_default();
    assert!(error.contains(words), "{error}");
    assert!(error.contains("nothing was sent"), "{error}");
    assert_eq!(table.log().count("POST", "/api/assets/documents"), 0);
}

#[tokio::test]
async fn a_write_that_is_cancelled_while_it_waits_for_the_minute_is_never_sent() -> Result<()> {
    let (table, outcome) = waits_for_the_minute(|_, given_up| given_up.cancel()).await?;
    never_sent(&table, &outcome, "cancelled");
    Ok(())
}

#[tokio::test]
async fn a_write_that_waits_for_the_minute_when_the_daemon_stops_is_never_sent() -> Result<()> {
    let (table, outcome) = waits_for_the_minute(|seat, _| seat.session.account().drain()).await?;
    never_sent(&table, &outcome, "stopping");
    Ok(())
}
