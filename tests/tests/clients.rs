//! Many clients at once, and a person in charge of them.

use std::time::Duration;

use anyhow::{Context as _, Result};
use cozyvtt_table::{Armed, Fault, Table};
use cozyvtt_tests::agent::{Agent, Era};
use cozyvtt_tests::calls::high_water;
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::raw::{Wire, rpc};
use cozyvtt_tests::seat::fence;
use cozyvtt_tests::until;
use serde_json::{Value, json};

/// What `client.list` says of the clients.
async fn list(home: &Home) -> Result<Vec<Value>> {
    let answer = rpc(home, "client.list", json!({})).await?;
    Ok(answer["result"]["clients"]
        .as_array()
        .with_context(|| format!("no list: {answer}"))?
        .clone())
}

/// A client with a name, introduced as a shim does.
async fn named(home: &Home, id: &str, name: &str) -> Result<Wire> {
    let mut wire = Wire::connect(home).await?;
    let hello = json!({"protocol": 1, "version": "0.1.0", "pid": 4321, "client_id": id,
        "toolsets": ["play", "roster"]});
    wire.send(&json!({"cozyvtt": hello})).await?;
    wire.next().await?;
    let hands = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": name, "version": "3.2.1"}});
    wire.ask("hands", "initialize", hands).await?;
    wire.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        .await?;
    Ok(wire)
}

/// The envelope of a call.
async fn envelope(wire: &mut Wire, id: u64, tool: &str, arguments: Value) -> Result<Value> {
    let answer = wire.call(id, tool, arguments).await?;
    Ok(answer["result"]["structuredContent"].clone())
}

/// Runs `cozyvttctl`, which has to work; gives what it printed.
async fn ctl(home: &Home, arguments: &[&str]) -> Result<String> {
    let output = home.ctl(arguments).await?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    anyhow::ensure!(output.status.success(), "{arguments:?}: {stderr}");
    Ok(String::from_utf8(output.stdout)?)
}

fn error(envelope: &Value) -> &str {
    envelope["error"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn clients_are_listed_with_what_they_say_of_themselves_and_do() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    assert!(list(&home).await?.is_empty());
    let mut wire = named(&home, "a", "Claude Code").await?;
    envelope(&mut wire, 1, "campaign_get", json!({})).await?;
    envelope(&mut wire, 2, "events_poll", json!({})).await?;
    let clients = list(&home).await?;
    assert_eq!(clients.len(), 1);
    let client = &clients[0];
    assert_eq!(client["name"], "Claude Code");
    assert_eq!(client["version"], "3.2.1");
    assert_eq!(client["pid"], 4321);
    assert_eq!(client["toolsets"], json!(["play", "roster"]));
    assert_eq!(client["calls"], 2);
    assert_eq!(client["waiting"], 0);
    assert_eq!(client["last_call"]["tool"], "events_poll");
    assert_eq!(client["state"], "active");
    let shown = ctl(&home, &["clients"]).await?;
    assert!(
        shown.contains("Claude Code 3.2.1") && shown.contains("4321"),
        "{shown}"
    );
    assert!(
        shown.lines().all(|line| line.chars().count() <= 80),
        "{shown}"
    );
    let read: Value = serde_json::from_str(&ctl(&home, &["clients", "--json"]).await?)?;
    assert_eq!(read["clients"][0]["name"], "Claude Code");
    drop(wire);
    until("it has left the list", || async {
        list(&home).await.ok()?.is_empty().then_some(())
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_client_of_either_era_is_known_by_name_through_the_real_shim() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    for era in [Era::Handshake, Era::Stateless] {
        let agent = Agent::through_shim(&home, era).await?;
        agent.client().list_all_tools().await?;
        let clients = list(&home).await?;
        let newest = clients.last().context("nobody is listed")?;
        assert_eq!(newest["name"], "test-agent", "{era:?}");
        assert_eq!(newest["version"], "1.0.0", "{era:?}");
        assert!(newest["pid"].is_u64(), "{era:?}");
        agent.leave().await?;
        until("it has left", || async {
            list(&home).await.ok()?.is_empty().then_some(())
        })
        .await;
    }
    Ok(())
}

#[tokio::test]
async fn log_lines_of_calls_carry_the_client() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let mut wire = named(&home, "a", "Careful Agent").await?;
    envelope(&mut wire, 1, "map_delete", json!({"map_id": "nope"})).await?;
    until("the log tells whose call failed", || async {
        home.log()
            .lines()
            .any(|line| line.contains("a tool failed") && line.contains("Careful Agent"))
            .then_some(())
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_held_client_reads_on_and_its_writes_are_refused_until_it_is_released() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let daemon = home.start_at_table().await?;
    let mut held = named(&home, "a", "Held").await?;
    let mut free = named(&home, "b", "Free").await?;
    let told = ctl(&home, &["hold", "Held"]).await?;
    assert!(told.contains("Held (number 1)"), "{told}");
    let line = json!({"content": "let me speak"});
    let refused = envelope(&mut held, 1, "chat_send", line.clone()).await?;
    assert!(
        error(&refused).contains("a person holds this client's writes"),
        "{refused}"
    );
    let read = envelope(&mut held, 2, "campaign_get", json!({})).await?;
    assert_eq!(read["ok"], true, "{read}");
    let spoken = envelope(&mut free, 1, "chat_send", json!({"content": "I may"})).await?;
    assert_eq!(spoken["ok"], true, "{spoken}");
    // A restart sets nobody free.
    assert!(daemon.stop().await?.success());
    let _daemon = home.start_at_table().await?;
    let mut held = named(&home, "a", "Held").await?;
    let refused = envelope(&mut held, 1, "chat_send", line.clone()).await?;
    assert_eq!(refused["ok"], false, "{refused}");
    assert_eq!(list(&home).await?[0]["state"], "held");
    ctl(&home, &["release", "Held"]).await?;
    let spoken = envelope(&mut held, 2, "chat_send", line).await?;
    assert_eq!(spoken["ok"], true, "{spoken}");
    fence(&table, &home).await?;
    let said = table.chat().into_iter();
    assert_eq!(
        said.filter(|line| line.content == "let me speak").count(),
        1
    );
    Ok(())
}

#[tokio::test]
async fn hold_without_a_name_holds_all_and_those_to_come_but_not_the_person() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    ctl(&home, &["hold"]).await?;
    let mut late = named(&home, "late", "Late").await?;
    let roll = json!({"expression": "1d6"});
    let refused = envelope(&mut late, 1, "dice_roll", roll.clone()).await?;
    assert!(error(&refused).contains("holds"), "{refused}");
    fence(&table, &home).await?;
    ctl(&home, &["release"]).await?;
    let rolled = envelope(&mut late, 2, "dice_roll", roll).await?;
    assert_eq!(rolled["ok"], true, "{rolled}");
    Ok(())
}

#[tokio::test]
async fn a_client_that_was_kicked_is_cut_off_and_refused_when_it_comes_back() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let mut wire = named(&home, "a", "Pest").await?;
    let mut other = named(&home, "b", "Other").await?;
    ctl(&home, &["kick", "Pest"]).await?;
    wire.ended().await?;
    other.is_alive().await?;
    let mut back = named(&home, "a", "Pest").await?;
    for (id, tool) in [(1, "campaign_get"), (2, "events_poll")] {
        let refused = envelope(&mut back, id, tool, json!({})).await?;
        assert!(
            error(&refused).contains("sent this client away"),
            "{refused}"
        );
    }
    ctl(&home, &["release", "Pest"]).await?;
    let read = envelope(&mut back, 3, "campaign_get", json!({})).await?;
    assert_eq!(read["ok"], true, "{read}");
    Ok(())
}

#[tokio::test]
async fn what_a_client_is_told_arrives_in_its_next_poll_and_in_nobody_elses() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let mut one = named(&home, "a", "One").await?;
    let mut two = named(&home, "b", "Two").await?;
    let since = high_water(&home).await?;
    ctl(&home, &["tell", "One", "Let them find the door."]).await?;
    let poll = json!({"since": since});
    let page = envelope(&mut one, 1, "events_poll", poll.clone()).await?;
    let notes = |page: &Value| {
        let events = page["data"]["events"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let notes = events
            .into_iter()
            .filter(|event| event["event"] == "system.note");
        notes.collect::<Vec<_>>()
    };
    let found = notes(&page);
    assert_eq!(found.len(), 1, "{page}");
    assert_eq!(found[0]["payload"]["text"], "Let them find the door.");
    let page = envelope(&mut two, 1, "events_poll", poll).await?;
    assert!(notes(&page).is_empty(), "{page}");
    // A cursor goes past what is not for it.
    assert!(page["data"]["next_seq"].as_u64() > Some(since), "{page}");
    Ok(())
}

#[tokio::test]
async fn a_client_that_there_is_not_is_answered_with_those_there_are() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let _wire = named(&home, "a", "Somebody").await?;
    for command in ["hold", "release", "kick"] {
        let output = home.ctl(&[command, "Nobody"]).await?;
        assert_eq!(output.status.code(), Some(1), "{command}");
        let said = String::from_utf8(output.stderr)?;
        assert!(said.contains("1 (Somebody)"), "{command}: {said}");
    }
    Ok(())
}

#[tokio::test]
async fn a_policy_denies_tools_to_all_and_to_clients_of_a_name() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let file = home.path().join("config.toml");
    std::fs::write(
        &file,
        "[policy]\ndeny = [\"map_delete\"]\n[policy.clients.\"Claude Code\"]\ndeny = [\"dice_roll\"]\n",
    )?;
    let mut command = home.daemon_command()?;
    command.arg("--config").arg(&file);
    let _daemon = home.start_with(command).await?;
    let mut claude = named(&home, "a", "Claude Code").await?;
    let mut other = named(&home, "b", "Other").await?;
    let (map, roll) = (json!({"map_id": "m"}), json!({"expression": "1d6"}));
    for wire in [&mut claude, &mut other] {
        let denied = envelope(wire, 1, "map_delete", map.clone()).await?;
        assert!(error(&denied).contains("denied by [policy]"), "{denied}");
    }
    let denied = envelope(&mut claude, 2, "dice_roll", roll.clone()).await?;
    assert!(error(&denied).contains("Claude Code"), "{denied}");
    let rolled = envelope(&mut other, 2, "dice_roll", roll).await?;
    assert_eq!(rolled["ok"], true, "{rolled}");
    Ok(())
}

#[tokio::test]
async fn a_policy_that_denies_a_tool_which_there_is_not_is_told() -> Result<()> {
    let home = Home::empty()?;
    let file = home.path().join("config.toml");
    std::fs::write(&file, "[policy]\ndeny = [\"map_delte\"]\n")?;
    let mut command = home.daemon_command()?;
    command.arg("--config").arg(&file);
    let _daemon = home.start_with(command).await?;
    let answer = home.call("campaign_get", json!({})).await?;
    assert!(error(&answer.envelope).contains("map_delte"), "{answer:?}");
    Ok(())
}

#[tokio::test]
async fn fifty_rolls_of_one_client_do_not_keep_another_from_its_one() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let mut greedy = named(&home, "a", "Greedy").await?;
    let mut modest = named(&home, "b", "Modest").await?;
    for id in 0..50 {
        let roll = json!({"name": "dice_roll", "arguments": {"expression": "1d20"}});
        greedy.request(id, "tools/call", roll).await?;
    }
    // Those that would wait too long are told how long, and the others roll at once.
    let mut rolled = 0;
    for _ in 0..50 {
        let answer = greedy.next().await?;
        let envelope = &answer["result"]["structuredContent"];
        if envelope["ok"] == true {
            rolled += 1;
        } else {
            assert!(error(envelope).contains("would wait"), "{envelope}");
        }
    }
    assert_eq!(rolled, 27, "one of 28 is the other's");
    let one = envelope(&mut modest, 1, "dice_roll", json!({"expression": "1d20"})).await?;
    assert_eq!(one["ok"], true, "{one}");
    assert_eq!(one["data"]["waited_s"], Value::Null, "{one}");
    Ok(())
}

#[tokio::test]
async fn a_client_that_asks_for_progress_is_told_how_long_it_waits() -> Result<()> {
    let table = Table::builder().start().await?;
    table.set_chat_cooldown(Some(2));
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let mut wire = named(&home, "a", "Patient").await?;
    envelope(&mut wire, 1, "chat_send", json!({"content": "one"})).await?;
    let two = json!({"name": "chat_send", "arguments": {"content": "two"},
        "_meta": {"progressToken": "t"}});
    wire.request(2, "tools/call", two).await?;
    let progress = wire.next().await?;
    assert_eq!(progress["method"], "notifications/progress", "{progress}");
    let params = &progress["params"];
    assert_eq!(params["progressToken"], "t");
    assert!(params["total"].as_f64() > params["progress"].as_f64());
    let message = params["message"].as_str().unwrap_or_default();
    assert!(message.contains("its turn to speak"), "{message}");
    let answer = wire.next().await?;
    assert_eq!(answer["id"], 2, "{answer}");
    let receipt = &answer["result"]["structuredContent"];
    assert_eq!(receipt["ok"], true, "{receipt}");
    Ok(())
}

#[tokio::test]
async fn calls_beyond_256_of_one_client_are_refused_and_the_others_go_on() -> Result<()> {
    let table = Table::builder().api_limit(10_000).start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let mut busy = named(&home, "a", "Busy").await?;
    let mut calm = named(&home, "b", "Calm").await?;
    let slow = Fault::Delay(Duration::from_secs(3600));
    let slow = table.faults().route("GET", "/api/campaigns/*/maps", slow);
    let maps = json!({"name": "map_list", "arguments": {}});
    for id in 0..257 {
        busy.request(id, "tools/call", maps.clone()).await?;
    }
    let refused = busy.next().await?;
    let envelope_of_it = &refused["result"]["structuredContent"];
    let told = error(envelope_of_it);
    assert!(
        told.contains("256 calls") && told.contains("nothing was sent"),
        "{told}"
    );
    let campaign = envelope(&mut calm, 1, "campaign_get", json!({})).await?;
    assert_eq!(campaign["ok"], true, "{campaign}");
    slow.off();
    Ok(())
}

#[tokio::test]
async fn the_thousand_and_first_client_is_refused_and_the_others_go_on() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut first = Wire::shaken(&home).await?;
    let mut others = Vec::new();
    for _ in 1..1000 {
        others.push(Wire::connect(&home).await?);
    }
    until("a thousand are there", || async {
        (home.status().await.ok()?.clients == 1000).then_some(())
    })
    .await;
    let mut late = Wire::connect(&home).await?;
    let refused = late.next().await?;
    let sentence = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(sentence.contains("1000 clients already"), "{refused}");
    late.ended().await?;
    first.is_alive().await?;
    others.pop();
    until("there is room", || async {
        (home.status().await.ok()?.clients == 999).then_some(())
    })
    .await;
    Wire::shaken(&home).await?.is_alive().await
}

/// A table that takes a second sheet only when the fault is off.
fn stuck_sheets(table: &Table) -> Armed {
    let hour = Fault::Delay(Duration::from_secs(3600));
    table.faults().route("POST", "/api/characters", hour)
}

#[tokio::test]
async fn a_client_that_is_kicked_hears_what_became_of_the_write_that_was_under_way() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let mut wire = named(&home, "a", "Agent").await?;
    let slow = Fault::Delay(Duration::from_secs(2));
    let slow = table.faults().route("POST", "/api/characters", slow);
    let sheet = json!({"name": "character_create", "arguments": {"name": "Owl"}});
    wire.request(1, "tools/call", sheet).await?;
    until("it is at the table", || async {
        (slow.fired() == 1).then_some(())
    })
    .await;
    // The second waits behind it, and has not left.
    let line = json!({"name": "chat_send", "arguments": {"content": "x"}});
    let answered = wire.ask(2, "tools/call", line).await?;
    assert_eq!(answered["result"]["structuredContent"]["ok"], true);
    ctl(&home, &["kick", "Agent"]).await?;
    let answer = wire.next().await?;
    assert_eq!(answer["id"], 1, "{answer}");
    assert_eq!(
        answer["result"]["structuredContent"]["ok"], true,
        "{answer}"
    );
    wire.ended().await?;
    assert!(table.character_named("Owl").is_some());
    Ok(())
}

#[tokio::test]
async fn a_hold_stops_the_writes_that_wait_for_their_turn_as_well() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let map = table.current_map().context("no map")?;
    let mut wire = named(&home, "a", "Agent").await?;
    let path = format!("/api/campaigns/{}/maps/{map}/tokens", table.campaign_id());
    let slow = Fault::Delay(Duration::from_secs(3));
    let slow = table.faults().route("POST", &path, slow).times(1);
    for id in 1..=3 {
        let token = json!({"map_id": map, "name": format!("token {id}"),
            "image_url": "/a.png", "x": 1, "y": 1});
        let call = json!({"name": "token_add", "arguments": token});
        wire.request(id, "tools/call", call).await?;
    }
    until("the first is at the table", || async {
        (slow.fired() == 1).then_some(())
    })
    .await;
    until("the others wait", || async {
        let clients = list(&home).await.ok()?;
        (clients[0]["waiting"] == 3).then_some(())
    })
    .await;
    ctl(&home, &["hold", "Agent"]).await?;
    let mut held = 0;
    for _ in 1..=3 {
        let answer = wire.next().await?;
        let envelope = &answer["result"]["structuredContent"];
        if envelope["ok"] != true {
            assert!(
                error(envelope).contains("holds this client's writes"),
                "{answer}"
            );
            held += 1;
        }
    }
    assert_eq!(held, 2);
    let tokens = table.tokens(&map);
    let added = tokens.iter().filter(|token| {
        token["name"]
            .as_str()
            .is_some_and(|name| name.starts_with("token "))
    });
    assert_eq!(added.count(), 1);
    Ok(())
}

#[tokio::test]
async fn what_was_done_before_a_hold_is_told_to_whoever_asks_again() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let sheet = |key: &str| json!({"name": "Owl", "idempotency_key": key});
    let mut wire = named(&home, "a", "Agent").await?;
    let first = envelope(&mut wire, 1, "character_create", sheet("k")).await?;
    assert_eq!(first["ok"], true, "{first}");
    ctl(&home, &["hold", "Agent"]).await?;
    let again = envelope(&mut wire, 2, "character_create", sheet("k")).await?;
    assert_eq!(again, first);
    let other = envelope(&mut wire, 3, "character_create", sheet("l")).await?;
    assert!(error(&other).contains("nothing was sent"), "{other}");

    // The same for a request that is sent again after its connection broke.
    ctl(&home, &["release", "Agent"]).await?;
    let stuck = stuck_sheets(&table);
    let lost = json!({"name": "character_create", "arguments": {"name": "Elk"}});
    wire.request(4, "tools/call", lost.clone()).await?;
    until("it is at the table", || async {
        (stuck.fired() == 1).then_some(())
    })
    .await;
    let instance = home.status().await?.instance;
    drop(wire);
    ctl(&home, &["hold"]).await?;
    let mut back = Wire::connect(&home).await?;
    back.send(
        &json!({"cozyvtt": {"protocol": 1, "version": "0.1.0", "pid": 4321,
        "client_id": "a", "previous_instance": instance,
        "resends": [{"id": 4, "method": "tools/call", "tool": "character_create", "age_ms": 10}]}}),
    )
    .await?;
    let welcome = back.next().await?;
    assert_eq!(welcome["cozyvtt"]["resends"], json!(["again"]), "{welcome}");
    back.shake_hands().await?;
    back.request(4, "tools/call", lost).await?;
    stuck.off();
    let answer = back.next().await?;
    assert!(!answer.to_string().contains("nothing was sent"), "{answer}");
    Ok(())
}
