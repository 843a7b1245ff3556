//! mcp.sock, line by line: what a client that writes its lines by hand gets for
//! good ones, bad ones, and those of either era of MCP.

use std::time::Duration;

use anyhow::{Context as _, Result};
use cozyvtt_proto::paths::MCP_SOCKET;
use cozyvtt_proto::preset::all_tools;
use cozyvtt_proto::{MAX_LINE_BYTES, PROTOCOL};
use cozyvtt_table::{Armed, Fault, Table};
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::raw::{Wire, handshake, stateless};
use cozyvtt_tests::{PATIENCE, until};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

const MAPS: &str = "/api/campaigns/*/maps";

fn slow_maps(table: &Table, delay: Duration) -> Armed {
    table.faults().route("GET", MAPS, Fault::Delay(delay))
}

async fn has_fired(fault: &Armed) {
    until("the call is at the table", || async {
        (fault.fired() > 0).then_some(())
    })
    .await;
}

fn error_of(answer: &Value) -> (&Value, i64, &str) {
    (
        &answer["id"],
        answer["error"]["code"].as_i64().unwrap_or_default(),
        answer["error"]["message"].as_str().unwrap_or_default(),
    )
}

#[tokio::test]
async fn what_is_no_json_is_answered_and_the_connection_goes_on() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut wire = Wire::connect(&home).await?;
    // As the very first line, and again after the handshake.
    for _ in 0..2 {
        for nonsense in ["{oops", "hello?", "{\"jsonrpc\":\"2.0\",\"id\":1", "\u{0}"] {
            wire.line(nonsense).await?;
            let answer = wire.next().await?;
            let (id, code, message) = error_of(&answer);
            assert_eq!((id, code), (&Value::Null, -32700), "{nonsense}");
            assert!(message.contains("JSON"), "{message}");
            assert_eq!(answer["jsonrpc"], "2.0");
        }
        wire.shake_hands().await?;
    }
    wire.bytes(b"\xff\xfe{}\n").await?;
    assert_eq!(wire.next().await?["error"]["code"], -32700);
    wire.is_alive().await
}

#[tokio::test]
async fn a_line_over_the_limit_is_refused_and_the_connection_goes_on() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut wire = Wire::connect(&home).await?;
    let mut too_long = vec![b'x'; MAX_LINE_BYTES + 1];
    too_long.push(b'\n');
    for _ in 0..2 {
        wire.bytes(&too_long).await?;
        let answer = wire.next().await?;
        let (id, code, message) = error_of(&answer);
        assert_eq!((id, code), (&Value::Null, -32600));
        assert!(message.contains(&MAX_LINE_BYTES.to_string()), "{message}");
        wire.shake_hands().await?;
    }
    wire.is_alive().await
}

#[tokio::test]
async fn a_line_just_at_the_limit_is_taken() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut wire = Wire::shaken(&home).await?;
    let (head, tail) = (
        r#"{"jsonrpc":"2.0","id":"long","method":"ping","params":{"_meta":{"pad":""#,
        "\"}}}",
    );
    let pad = "x".repeat(MAX_LINE_BYTES - head.len() - tail.len());
    wire.line(&format!("{head}{pad}{tail}")).await?;
    let answer = wire.next().await?;
    assert_eq!(answer["id"], "long");
    assert!(answer["result"].is_object(), "{answer}");
    Ok(())
}

#[tokio::test]
async fn a_batch_is_refused_and_none_of_it_is_carried_out() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut wire = Wire::shaken(&home).await?;
    for batch in [r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, "[]"] {
        wire.line(batch).await?;
        let answer = wire.next().await?;
        let (id, code, message) = error_of(&answer);
        assert_eq!((id, code), (&Value::Null, -32600));
        assert!(message.contains("batch"), "{message}");
    }
    // The next answer is that of the next request, not one out of the batch.
    wire.is_alive().await
}

#[tokio::test]
async fn a_request_with_misshapen_parameters_is_refused_under_its_own_id() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut wire = Wire::shaken(&home).await?;
    for (id, params) in [
        (json!("a"), json!({"name": 5})),
        (json!(7), json!({"name": "map_list", "arguments": "none"})),
        (json!(8), json!([1, 2])),
        (json!(9), json!({})),
        (json!("b"), json!("map_list")),
    ] {
        let answer = wire.ask(id, "tools/call", params.clone()).await?;
        let code = answer["error"]["code"].as_i64();
        assert!(
            matches!(code, Some(-32602 | -32600)),
            "{params} was answered with {answer}"
        );
    }
    wire.is_alive().await
}

#[tokio::test]
async fn what_is_json_but_no_message_is_refused() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut wire = Wire::shaken(&home).await?;
    for (line, id) in [
        ("5", Value::Null),
        ("null", Value::Null),
        ("{}", Value::Null),
        (r#"{"id":3,"method":"ping"}"#, json!(3)),
        (r#"{"jsonrpc":"1.0","id":"x","method":"ping"}"#, json!("x")),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, Value::Null),
    ] {
        wire.line(line).await?;
        let answer = wire.next().await?;
        assert_eq!(answer["error"]["code"], -32600, "{line}: {answer}");
        assert_eq!(answer["id"], id, "{line}");
    }
    wire.is_alive().await
}

#[tokio::test]
async fn an_id_in_flight_is_refused_and_its_first_request_is_answered_all_the_same() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let fault = slow_maps(&table, Duration::from_millis(400));
    let mut wire = Wire::shaken(&home).await?;
    let map_list = json!({"name": "map_list", "arguments": {}});
    wire.request(1, "tools/call", map_list.clone()).await?;
    has_fired(&fault).await;
    let refusal = wire.ask(1, "ping", json!({})).await?;
    assert_eq!(refusal["error"]["code"], -32600);
    // The string "1" is another id than the number.
    wire.ask("1", "ping", json!({})).await?;
    let answer = wire.next().await?;
    assert_eq!(answer["id"], 1);
    assert_eq!(
        answer["result"]["structuredContent"]["ok"], true,
        "{answer}"
    );
    Ok(())
}

#[tokio::test]
async fn an_id_may_be_used_again_as_soon_as_its_answer_is_there() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut wire = Wire::shaken(&home).await?;
    for time in 0..500 {
        let answer = wire.ask("again", "ping", json!({})).await?;
        assert!(answer["result"].is_object(), "time {time}: {answer}");
    }
    Ok(())
}

#[tokio::test]
async fn empty_lines_are_ignored() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut wire = Wire::connect(&home).await?;
    wire.bytes(b"\n\r\n  \n").await?;
    wire.shake_hands().await?;
    wire.bytes(b"\n\n\t\n").await?;
    wire.is_alive().await?;
    // A line may end as on Windows.
    wire.bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n")
        .await?;
    assert!(wire.next().await?["result"].is_object());
    Ok(())
}

#[tokio::test]
async fn a_notification_before_initialize_does_not_end_the_connection() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut wire = Wire::connect(&home).await?;
    wire.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        .await?;
    wire.send(&json!({"jsonrpc": "2.0", "method": "notifications/what-is-this"}))
        .await?;
    wire.send(&json!({"jsonrpc": "2.0", "id": 4, "result": {}}))
        .await?;
    wire.shake_hands().await?;
    wire.is_alive().await
}

#[tokio::test]
async fn a_notification_between_the_first_requests_and_initialize_does_not_end_it_either()
-> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    for (method, params) in [
        ("ping", json!({})),
        ("server/discover", stateless(json!({}))),
        // Refused, since nobody has shaken hands.
        ("tools/list", json!({})),
    ] {
        let mut wire = Wire::connect(&home).await?;
        wire.ask(1, method, params).await?;
        wire.send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 1}}),
        )
        .await?;
        wire.shake_hands()
            .await
            .with_context(|| format!("a notification after {method}"))?;
    }
    Ok(())
}

#[tokio::test]
async fn a_ping_before_initialize_is_answered() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut wire = Wire::connect(&home).await?;
    wire.is_alive().await?;
    wire.is_alive().await?;
    wire.shake_hands().await?;
    wire.is_alive().await
}

#[tokio::test]
async fn a_version_is_taken_if_it_is_known_and_answered_with_a_known_one_otherwise() -> Result<()> {
    const KNOWN: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    for asked in [
        KNOWN.as_slice(),
        &["1999-01-01", "2026-07-28", "2031-01-01"],
    ]
    .concat()
    {
        let mut wire = Wire::connect(&home).await?;
        let answer = wire.ask(1, "initialize", handshake(asked)).await?;
        let got = &answer["result"]["protocolVersion"];
        if KNOWN.contains(&asked) {
            assert_eq!(got, asked);
        } else {
            assert!(KNOWN.iter().any(|known| got == known), "{asked}: {answer}");
        }
        wire.is_alive().await?;
    }
    Ok(())
}

#[tokio::test]
async fn one_connection_serves_both_eras() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut wire = Wire::connect(&home).await?;
    let discovered = wire.ask(1, "server/discover", stateless(json!({}))).await?;
    let versions = discovered["result"]["supportedVersions"].as_array();
    let versions = versions.with_context(|| format!("{discovered}"))?;
    assert!(versions.contains(&json!("2026-07-28")), "{discovered}");
    let hands = wire.shake_hands().await?;
    assert_eq!(hands["protocolVersion"], "2025-11-25");
    let old = wire.ask(2, "tools/list", json!({})).await?;
    let new = wire.ask(3, "tools/list", stateless(json!({}))).await?;
    assert_eq!(names(&old).len(), all_tools().len(), "{old}");
    assert_eq!(names(&new), names(&old));
    Ok(())
}

#[tokio::test]
async fn a_handshake_after_stateless_requests_is_refused_and_these_go_on() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut wire = Wire::connect(&home).await?;
    let first = wire.ask(1, "tools/list", stateless(json!({}))).await?;
    let handshake = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "late", "version": "1"},
    });
    let refusal = wire.ask(2, "initialize", handshake).await?;
    assert_eq!(refusal["error"]["code"], -32600, "{refusal}");
    let sentence = refusal["error"]["message"].as_str().unwrap_or_default();
    assert!(sentence.contains("another one"), "{sentence}");
    let again = wire.ask(3, "tools/list", stateless(json!({}))).await?;
    assert_eq!(names(&again), names(&first), "{again}");
    assert!(!names(&again).is_empty());
    Ok(())
}

fn names(list: &Value) -> Vec<&str> {
    let tools = list["result"]["tools"].as_array();
    let tools = tools.into_iter().flatten();
    tools.filter_map(|tool| tool["name"].as_str()).collect()
}

#[tokio::test]
async fn a_request_of_2026_needs_no_handshake() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut wire = Wire::connect(&home).await?;
    let list = wire.ask(1, "tools/list", stateless(json!({}))).await?;
    let all: Vec<_> = all_tools().into_iter().collect();
    assert_eq!(names(&list), all);
    let params = stateless(json!({"name": "map_list", "arguments": {}}));
    let called = wire.ask(2, "tools/call", params).await?;
    assert_eq!(called["result"]["structuredContent"]["ok"], false);
    Ok(())
}

#[tokio::test]
async fn an_old_request_without_a_handshake_is_refused_and_the_handshake_can_still_come()
-> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut wire = Wire::connect(&home).await?;
    let refusal = wire.ask("early", "tools/list", json!({})).await?;
    assert_eq!(refusal["error"]["code"], -32602, "{refusal}");
    wire.shake_hands().await?;
    let list = wire.ask(2, "tools/list", json!({})).await?;
    assert_eq!(names(&list).len(), all_tools().len());
    Ok(())
}

fn hello(protocol: u32) -> Value {
    json!({"cozyvtt": {
        "protocol": protocol, "version": "7.8.9", "pid": 1, "client_id": "by-hand", "later": true,
    }})
}

#[tokio::test]
async fn a_hello_is_welcomed_and_mcp_follows() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let status = home.status().await?;
    let mut wire = Wire::connect(&home).await?;
    wire.send(&hello(PROTOCOL)).await?;
    let welcome = wire.next().await?;
    assert_eq!(
        welcome,
        json!({"cozyvtt": {
            "protocol": PROTOCOL, "version": status.version, "instance": status.instance,
            "knows": ["read_only", "expects", "settings"],
        }})
    );
    wire.shake_hands().await?;
    wire.is_alive().await
}

#[tokio::test]
async fn a_hello_of_another_protocol_is_refused_with_both_versions_and_the_mend() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let version = home.status().await?.version;
    let mut wire = Wire::connect(&home).await?;
    wire.send(&hello(PROTOCOL + 1)).await?;
    let refusal = wire.next().await?["cozyvtt"].clone();
    assert_eq!(refusal["protocol"], PROTOCOL);
    assert_eq!(refusal["version"], version);
    let sentence = refusal["refused"].as_str().context("no sentence")?;
    for part in [version.as_str(), "7.8.9", "cargo install --path cozyvttd"] {
        assert!(sentence.contains(part), "{sentence}");
    }
    wire.ended().await
}

#[tokio::test]
async fn a_hello_that_cannot_be_read_is_refused_and_the_connection_closed() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    for line in [
        r#"{"cozyvtt":5}"#,
        r#"{"cozyvtt":{}}"#,
        r#"{"cozyvtt":{"protocol":1}}"#,
        r#"{"cozyvtt":{"protocol":"1","version":"0","pid":1,"client_id":"a"}}"#,
    ] {
        let mut wire = Wire::connect(&home).await?;
        wire.line(line).await?;
        let refusal = wire.next().await?["cozyvtt"].clone();
        let sentence = refusal["refused"].as_str().unwrap_or_default();
        assert!(sentence.contains("install the same version"), "{refusal}");
        wire.ended().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_hello_is_a_hello_only_as_the_first_line() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut wire = Wire::connect(&home).await?;
    wire.send(&hello(PROTOCOL)).await?;
    assert!(wire.next().await?["cozyvtt"]["instance"].is_string());
    for _ in 0..2 {
        wire.send(&hello(PROTOCOL)).await?;
        let answer = wire.next().await?;
        assert_eq!(answer["error"]["code"], -32600, "{answer}");
        wire.shake_hands().await?;
    }
    wire.is_alive().await
}

#[tokio::test]
async fn what_is_running_is_still_answered_after_a_half_close() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let fault = slow_maps(&table, Duration::from_millis(200));
    let mut wire = Wire::shaken(&home).await?;
    let map_list = json!({"name": "map_list", "arguments": {}});
    wire.request("last", "tools/call", map_list).await?;
    wire.half_close().await?;
    let answer = wire.next().await?;
    assert_eq!(answer["id"], "last");
    assert_eq!(
        answer["result"]["structuredContent"]["ok"], true,
        "{answer}"
    );
    assert_eq!(fault.fired(), 1);
    wire.ended().await
}

#[tokio::test]
async fn a_last_line_without_its_newline_is_not_acted_upon() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let daemon = home.start_at_table().await?;
    let mut wire = Wire::shaken(&home).await?;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "chat_send", "arguments": {"content": "Half a sentence"}}});
    wire.bytes(call.to_string().as_bytes()).await?;
    wire.half_close().await?;
    let answer = wire.next().await?;
    let (id, code, message) = error_of(&answer);
    assert_eq!((id, code), (&Value::Null, -32700));
    assert!(message.contains("newline"), "{message}");
    wire.ended().await?;
    // The daemon is through with everything once it has ended.
    assert!(daemon.stop().await?.success());
    assert!(table.log().events_in("chat.message").is_empty());
    Ok(())
}

#[tokio::test]
async fn a_cancelled_call_is_not_answered_and_holds_nothing_up() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    // Longer than anybody here waits.
    let fault = slow_maps(&table, PATIENCE * 2);
    let mut wire = Wire::shaken(&home).await?;
    let map_list = json!({"name": "map_list", "arguments": {}});
    wire.request(1, "tools/call", map_list).await?;
    has_fired(&fault).await;
    wire.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 1, "reason": "never mind"}}),
    )
    .await?;
    wire.is_alive().await?;
    wire.half_close().await?;
    timeout(PATIENCE / 4, wire.ended())
        .await
        .context("the connection waits for a cancelled call")?
}

#[tokio::test]
async fn twenty_clients_at_once_each_get_their_own_answers() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let mut clients = JoinSet::new();
    let mut wires = Vec::new();
    for _ in 0..20 {
        wires.push(Wire::shaken(&home).await?);
    }
    assert_eq!(home.status().await?.clients, 20);
    for (number, mut wire) in wires.into_iter().enumerate() {
        clients.spawn(async move {
            // The same ids on all connections, and answers that tell them apart.
            let odd = format!("argument_of_{number}");
            let mistake = json!({"name": "map_list", "arguments": {odd.as_str(): 1}});
            wire.request(1, "tools/call", mistake).await?;
            let campaign = json!({"name": "campaign_get", "arguments": {}});
            wire.request(2, "tools/call", campaign).await?;
            let (one, other) = (wire.next().await?, wire.next().await?);
            let (mistake, campaign) = if one["id"] == 1 {
                (one, other)
            } else {
                (other, one)
            };
            assert_eq!((&mistake["id"], &campaign["id"]), (&json!(1), &json!(2)));
            let text = mistake["result"].to_string();
            assert!(text.contains(&format!("`{odd}`")), "{text}");
            let envelope = &campaign["result"]["structuredContent"];
            assert_eq!(envelope["ok"], true, "{envelope}");
            wire.half_close().await?;
            wire.ended().await
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    assert_eq!(table.log().count("POST", "/api/auth/login"), 1);
    until("all have left", || async {
        let status = home.status().await.ok()?;
        (status.clients == 0).then_some(())
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_client_that_does_not_read_keeps_nobody_else_waiting() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut stuck = UnixStream::connect(home.socket(MCP_SOCKET)).await?;
    let flood = tokio::spawn(async move {
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list",
            "params": stateless(json!({}))});
        // Far more answers than its socket and its queue can hold.
        for id in 0..800 {
            let mut list = list.clone();
            list["id"] = id.into();
            if stuck
                .write_all(format!("{list}\n").as_bytes())
                .await
                .is_err()
            {
                break;
            }
        }
        // Held open, and never read.
        std::future::pending::<()>().await;
    });
    let mut wire = Wire::shaken(&home).await?;
    let others = async {
        for id in 0..100 {
            let list = wire.ask(id, "tools/list", json!({})).await?;
            assert_eq!(names(&list).len(), all_tools().len());
        }
        anyhow::Ok(())
    };
    timeout(PATIENCE / 2, others)
        .await
        .context("another client has to wait")??;
    assert_eq!(home.status().await?.clients, 2);
    flood.abort();
    until("it is gone", || async {
        let status = home.status().await.ok()?;
        (status.clients == 1).then_some(())
    })
    .await;
    wire.is_alive().await
}

#[tokio::test]
async fn every_tool_has_four_hints_and_a_schema_that_stands_alone() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut wire = Wire::shaken(&home).await?;
    let list = wire.ask(1, "tools/list", json!({})).await?;
    let tools = list["result"]["tools"].as_array().context("no tools")?;
    assert_eq!(tools.len(), all_tools().len());
    for tool in tools {
        for hint in [
            "readOnlyHint",
            "destructiveHint",
            "idempotentHint",
            "openWorldHint",
        ] {
            assert!(tool["annotations"][hint].is_boolean(), "{hint}: {tool}");
        }
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
        assert!(!tool.to_string().contains("$ref"), "{tool}");
    }
    Ok(())
}

#[tokio::test]
async fn the_daemon_says_who_it_is_and_how_to_play() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let version = home.status().await?.version;
    let mut wire = Wire::connect(&home).await?;
    let discovered = wire.ask(1, "server/discover", stateless(json!({}))).await?;
    let shaken = wire.shake_hands().await?;
    assert_eq!(shaken["serverInfo"]["name"], "cozyvtt");
    assert_eq!(shaken["serverInfo"]["version"], version);
    assert!(shaken["capabilities"]["tools"].is_object(), "{shaken}");
    let told = shaken["instructions"].as_str().context("no instructions")?;
    for word in [
        "campaign_get",
        "events_poll",
        "\"ok\":false",
        "five attempts",
    ] {
        assert!(told.contains(word), "{word} is not in: {told}");
    }
    assert_eq!(discovered["result"]["instructions"], told, "{discovered}");
    Ok(())
}

#[tokio::test]
async fn an_unknown_tool_is_an_error_that_names_the_tools() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut wire = Wire::shaken(&home).await?;
    let answer = wire.call("x", "send_chat", json!({})).await?;
    let (_, code, message) = error_of(&answer);
    assert_eq!(code, -32602, "{answer}");
    for name in ["send_chat", "chat_send", "campaign_get", "map_list"] {
        assert!(message.contains(name), "{message}");
    }
    let answer = wire.ask(2, "dice/roll", json!({})).await?;
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    Ok(())
}

#[tokio::test]
async fn bad_arguments_come_back_as_a_result_that_names_the_argument() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut wire = Wire::shaken(&home).await?;
    for (id, (tool, arguments, named)) in [
        ("chat_read", json!({"limit": 0}), "limit"),
        ("chat_read", json!({"limit": "ten"}), "limit"),
        ("chat_send", json!({}), "content"),
        ("chat_send", json!({"content": " "}), "content"),
        ("chat_send", json!({"content": "a", "type": "GM"}), "type"),
        ("dice_roll", json!({"expression": 5}), "expression"),
        ("events_poll", json!({"since": -1}), "since"),
        ("map_list", json!({"page": 2}), "page"),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = wire.call(id, tool, arguments).await?;
        let result = &answer["result"];
        assert_eq!(result["isError"], true, "{answer}");
        let text = result["content"][0]["text"].as_str().context("no text")?;
        let envelope: Value = serde_json::from_str(text)?;
        assert_eq!(envelope, result["structuredContent"]);
        assert_eq!(envelope["ok"], false);
        let sentence = envelope["error"].as_str().context("no sentence")?;
        assert!(sentence.contains(named), "{tool}: {sentence}");
    }
    Ok(())
}

#[tokio::test]
async fn an_id_comes_back_as_it_was_sent() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut wire = Wire::shaken(&home).await?;
    for id in [
        json!(0),
        json!(-3),
        json!(9_007_199_254_740_993_i64),
        json!("7"),
        json!("7e2"),
        json!("ид-🎲\u{1}"),
        json!(""),
    ] {
        // `call` compares the id of the answer, its type included.
        wire.call(id, "map_list", json!({"odd": 1})).await?;
    }
    Ok(())
}
