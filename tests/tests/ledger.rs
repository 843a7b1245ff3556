//! The ledger of writes: what was asked for twice is done once, whatever happens in
//! between, and every write is in the audit log.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use anyhow::{Context as _, Result};
use cozyvtt_table::{Fault, Table};
use cozyvtt_tests::calls::{data, failure, refusal};
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::raw::Wire;
use cozyvtt_tests::seat::fence;
use cozyvtt_tests::until;
use rustix::process::Signal;
use serde_json::{Value, json};

/// The lines of the audit log.
fn audit(home: &Home) -> Vec<Value> {
    let text = std::fs::read_to_string(home.state_dir().join("audit.log")).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// A client that introduces itself, as a shim does, and shakes hands.
async fn introduced(home: &Home, id: &str) -> Result<Wire> {
    let mut wire = Wire::connect(home).await?;
    let hello = json!({"protocol": 1, "version": "0.1.0", "pid": 7, "client_id": id});
    wire.send(&json!({"cozyvtt": hello})).await?;
    let welcome = wire.next().await?;
    assert!(welcome["cozyvtt"]["instance"].is_string(), "{welcome}");
    wire.shake_hands().await?;
    Ok(wire)
}

/// The envelope of a call.
async fn envelope(wire: &mut Wire, id: u64, tool: &str, arguments: Value) -> Result<Value> {
    let answer = wire.call(id, tool, arguments).await?;
    Ok(answer["result"]["structuredContent"].clone())
}

#[tokio::test]
async fn a_key_that_comes_again_gives_the_first_receipt_and_rolls_no_second_time() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let mut wire = introduced(&home, "a").await?;
    let roll = json!({"expression": "1d20+5", "idempotency_key": "attack"});
    let first = envelope(&mut wire, 1, "dice_roll", roll.clone()).await?;
    assert_eq!(first["ok"], true, "{first}");
    // Another order of the same arguments, and the same client on a new connection.
    let again = json!({"idempotency_key": "attack", "expression": "1d20+5"});
    let mut back = introduced(&home, "a").await?;
    assert_eq!(envelope(&mut back, 9, "dice_roll", again).await?, first);
    fence(&table, &home).await?;
    assert_eq!(table.log().events_in("dice.roll").len(), 1);
    // Another client's key is another one.
    let mut other = introduced(&home, "b").await?;
    let theirs = envelope(&mut other, 1, "dice_roll", roll).await?;
    assert_eq!(theirs["ok"], true, "{theirs}");
    fence(&table, &home).await?;
    assert_eq!(table.log().events_in("dice.roll").len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_key_with_other_arguments_is_refused_and_nothing_is_sent() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    data(
        &home,
        "chat_send",
        json!({"content": "one", "idempotency_key": "k"}),
    )
    .await?;
    for (tool, arguments) in [
        (
            "chat_send",
            json!({"content": "two", "idempotency_key": "k"}),
        ),
        (
            "dice_roll",
            json!({"expression": "1d4", "idempotency_key": "k"}),
        ),
    ] {
        let refused = failure(&home, tool, arguments).await?;
        let sentence = refused["error"].as_str().unwrap_or_default();
        assert!(
            sentence.contains("chat_send") && sentence.contains("nothing was sent"),
            "{sentence}"
        );
    }
    fence(&table, &home).await?;
    let lines: Vec<_> = table.chat().into_iter().map(|line| line.content).collect();
    assert!(!lines.iter().any(|line| line == "two"), "{lines:?}");
    assert!(table.log().events_in("dice.roll").is_empty());
    Ok(())
}

#[tokio::test]
async fn a_key_is_a_string_of_1_to_128_characters_and_reads_take_none() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    for key in [json!(""), json!("k".repeat(129)), json!(5)] {
        let arguments = json!({"content": "a", "idempotency_key": key});
        let sentence = refusal(&home, "chat_send", arguments).await?;
        assert!(sentence.contains("1..128"), "{sentence}");
    }
    let sentence = refusal(&home, "map_list", json!({"idempotency_key": "k"})).await?;
    assert!(
        sentence.contains("unknown argument `idempotency_key`"),
        "{sentence}"
    );
    Ok(())
}

#[tokio::test]
async fn a_key_whose_first_call_is_still_running_waits_for_its_outcome() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let map = table.current_map().context("no map")?;
    let path = format!("/api/campaigns/{}/maps/{map}/tokens", table.campaign_id());
    let delay = Fault::Delay(Duration::from_millis(700));
    let slow = table.faults().route("POST", &path, delay);
    let token = json!({"map_id": map, "name": "twin", "image_url": "", "x": 1, "y": 1, "idempotency_key": "k"});
    let first = data(&home, "token_add", token.clone());
    let second = async {
        until("the first one is on its way", || async {
            (slow.fired() > 0).then_some(())
        })
        .await;
        data(&home, "token_add", token.clone()).await
    };
    let (first, second) = tokio::try_join!(first, second)?;
    assert_eq!(first, second);
    assert_eq!(table.log().count("POST", &path), 1);
    Ok(())
}

#[tokio::test]
async fn a_key_outlives_a_restart_of_the_daemon() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let daemon = home.start_at_table().await?;
    let line = json!({"content": "once and for all", "idempotency_key": "k"});
    let mut wire = introduced(&home, "a").await?;
    let first = envelope(&mut wire, 1, "chat_send", line.clone()).await?;
    assert_eq!(first["ok"], true, "{first}");
    assert!(daemon.stop().await?.success());
    let _daemon = home.start_at_table().await?;
    let mut wire = introduced(&home, "a").await?;
    assert_eq!(envelope(&mut wire, 1, "chat_send", line).await?, first);
    fence(&table, &home).await?;
    let said = table.chat().into_iter();
    assert_eq!(
        said.filter(|line| line.content == "once and for all")
            .count(),
        1
    );
    Ok(())
}

#[tokio::test]
async fn a_write_that_the_daemon_was_killed_over_is_not_done_again() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let mut daemon = home.start_at_table().await?;
    let map = table.current_map().context("no map")?;
    let path = format!("/api/campaigns/{}/maps/{map}/tokens", table.campaign_id());
    let delay = Fault::Delay(Duration::from_secs(30));
    let slow = table.faults().route("POST", &path, delay);
    let token = json!({"map_id": map, "name": "ghost", "image_url": "", "x": 1, "y": 1, "idempotency_key": "k"});
    let asked = home.call("token_add", token.clone());
    let killed = async {
        until("it is on its way", || async {
            (slow.fired() > 0).then_some(())
        })
        .await;
        daemon.signal(Signal::KILL)?;
        daemon.ended().await
    };
    let (answer, _) = tokio::join!(asked, killed);
    assert!(answer.is_err(), "{answer:?}");
    slow.off();
    let _daemon = home.start_at_table().await?;
    let before = table.log().count("POST", &path);
    let unknown = failure(&home, "token_add", token).await?;
    let sentence = unknown["error"].as_str().unwrap_or_default();
    assert!(
        sentence.contains("outcome is unknown") && sentence.contains("check before repeating"),
        "{sentence}"
    );
    assert_eq!(table.log().count("POST", &path), before);
    let lines = until("the audit log tells of both", || async {
        let lines = audit(&home);
        (lines.len() >= 2).then_some(lines)
    })
    .await;
    assert!(
        lines
            .iter()
            .all(|line| line["tool"] == "token_add" && line["outcome"] == "unknown"),
        "{lines:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_call_that_was_refused_before_anything_left_may_come_again_with_its_key() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let action = json!({"action": "fly", "idempotency_key": "k"});
    home.call("initiative_manage", action).await?;
    let line = json!({"content": "here I am", "idempotency_key": "k"});
    data(&home, "chat_send", line).await?;
    Ok(())
}

#[tokio::test]
async fn every_write_is_in_the_audit_log_with_its_client_and_no_read_is() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let mut wire = introduced(&home, "a").await?;
    envelope(&mut wire, 1, "campaign_get", json!({})).await?;
    let line = json!({"content": "for the record", "idempotency_key": "k"});
    envelope(&mut wire, 2, "chat_send", line.clone()).await?;
    envelope(&mut wire, 3, "chat_send", line).await?;
    let missing = json!({"map_id": "no-such-map"});
    envelope(&mut wire, 4, "map_delete", missing).await?;
    envelope(&mut wire, 5, "map_delete", json!({"map": 7})).await?;
    let lines = audit(&home);
    let told: Vec<_> = lines
        .iter()
        .map(|line| (line["tool"].as_str(), line["outcome"].as_str()))
        .collect();
    assert_eq!(
        told,
        [
            (Some("chat_send"), Some("pending")),
            (Some("chat_send"), Some("repeated")),
            (Some("map_delete"), Some("failed")),
            (Some("map_delete"), Some("refused")),
        ]
    );
    for line in &lines {
        assert_eq!(line["client"], "by-hand");
        assert_eq!(line["client_id"], "a");
        assert_eq!(line["digest"].as_str().map(str::len), Some(64));
    }
    assert!(!format!("{lines:?}").contains("for the record"));
    let mode = home
        .state_dir()
        .join("audit.log")
        .metadata()?
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    Ok(())
}

#[tokio::test]
async fn every_write_tool_takes_a_key_and_no_other_does() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let list = cozyvtt_tests::raw::rpc(&home, "tool.list", json!({})).await?;
    let tools = list["result"]["tools"].as_array().context("no tools")?;
    for tool in tools {
        let writes = tool["annotations"]["readOnlyHint"] == false;
        let key = &tool["inputSchema"]["properties"]["idempotency_key"];
        assert_eq!(key.is_object(), writes, "{}", tool["name"]);
    }
    Ok(())
}
