//! control.sock, spoken to by a plain HTTP client: the methods, their errors,
//! and the event stream.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use cozyvtt_proto::paths::{CONTROL_SOCKET, MCP_SOCKET};
use cozyvtt_proto::preset::all_tools;
use cozyvtt_table::Table;
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::raw::{Stream, http, rpc};
use cozyvtt_tests::{PATIENCE, until};
use serde_json::{Value, json};
use tokio::time::timeout;

/// The newest number of the journal.
async fn high_water(home: &Home) -> Result<u64> {
    let page = rpc(home, "event.poll", json!({})).await?;
    let newest = page["result"]["high_water_seq"].as_u64();
    newest.with_context(|| format!("no page: {page}"))
}

/// Lets somebody speak, and waits until the journal holds it; gives its number.
async fn said(home: &Home, table: &Table, text: &str) -> Result<u64> {
    let since = high_water(home).await?;
    table.say("player1", text);
    let find = || async {
        let page = rpc(home, "event.poll", json!({"since": since}))
            .await
            .ok()?;
        let events = page["result"]["events"].as_array()?.clone();
        let line = events
            .into_iter()
            .find(|event| event["payload"]["content"] == text)?;
        line["seq"].as_u64()
    };
    Ok(until("the line is in the journal", find).await)
}

fn mode(path: &Path) -> Result<u32> {
    Ok(path.metadata()?.permissions().mode() & 0o7777)
}

#[tokio::test]
async fn health_is_answered_whatever_the_state_of_the_table() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let status = home.status().await?;
    let reply = http(&home, "GET", "/health", "").await?;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(
        reply.json()?,
        json!({"status": "ok", "version": status.version, "instance": status.instance})
    );
    Ok(())
}

#[tokio::test]
async fn the_sockets_and_their_folders_are_for_their_owner_alone() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    for socket in [MCP_SOCKET, CONTROL_SOCKET] {
        assert_eq!(mode(&home.socket(socket))?, 0o600, "{socket}");
    }
    for folder in [
        home.socket_dir(),
        home.state_dir(),
        home.state_dir().join("logs"),
    ] {
        assert_eq!(mode(&folder)?, 0o700, "{}", folder.display());
    }
    Ok(())
}

#[tokio::test]
async fn status_tells_every_hop_on_the_way_to_the_table() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let daemon = home.start_at_table().await?;
    let status = rpc(&home, "daemon.status", json!({})).await?["result"].clone();
    assert_eq!(status["pid"], daemon.pid());
    assert_eq!(status["url"], table.url());
    assert_eq!(status["clients"], 0);
    let mcp = home.socket(MCP_SOCKET).display().to_string();
    assert_eq!(status["sockets"]["mcp"], mcp);
    let hops = status["hops"].as_array().context("no hops")?;
    let names: Vec<_> = hops.iter().filter_map(|hop| hop["name"].as_str()).collect();
    assert_eq!(
        names,
        [
            "daemon",
            "configuration",
            "rest",
            "login",
            "websocket",
            "campaign",
            "journal"
        ]
    );
    assert!(hops.iter().all(|hop| hop["state"] == "ok"), "{hops:?}");
    let login = hops[3]["detail"].as_str().unwrap_or_default();
    assert!(login.contains(&table.account("dm").display_name), "{login}");
    assert!(!status.to_string().contains(&table.account("dm").password));
    Ok(())
}

#[tokio::test]
async fn the_tools_are_listed_and_called_as_agents_see_them() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let list = rpc(&home, "tool.list", json!({})).await?;
    let tools = list["result"]["tools"].as_array().context("no tools")?;
    assert_eq!(tools.len(), all_tools().len());
    for tool in tools {
        assert!(tool["inputSchema"].is_object() && tool["annotations"].is_object());
    }
    let called = rpc(&home, "tool.call", json!({"name": "campaign_get"})).await?;
    assert_eq!(called["result"]["is_error"], false, "{called}");
    let envelope = &called["result"]["envelope"];
    assert_eq!(envelope["ok"], true);
    assert_eq!(envelope["data"]["campaign"]["id"], table.campaign_id());
    let wrong = json!({"name": "chat_read", "arguments": {"limit": 0}});
    let wrong = rpc(&home, "tool.call", wrong).await?;
    assert_eq!(wrong["result"]["is_error"], true, "{wrong}");
    assert_eq!(
        wrong["result"]["envelope"],
        json!({"ok": false, "error": "limit must be in 1..100"})
    );
    Ok(())
}

#[tokio::test]
async fn what_is_no_request_is_refused_with_its_kind_and_its_number() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    for (body, kind, code, word) in [
        ("{oops", "parse_error", -32700, "JSON"),
        ("", "parse_error", -32700, "JSON"),
        ("[]", "invalid_request", -32600, "request"),
        (
            r#"{"jsonrpc":"1.0","id":7,"method":"daemon.status"}"#,
            "invalid_request",
            -32600,
            "jsonrpc",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"daemon.status"}"#,
            "invalid_request",
            -32600,
            "id",
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"daemon.status","parms":{}}"#,
            "invalid_request",
            -32600,
            "parms",
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"daemon.restart"}"#,
            "method_not_found",
            -32601,
            "daemon.status",
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"event.poll","params":{"limt":5}}"#,
            "invalid_params",
            -32602,
            "limt",
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"daemon.stop","params":{"now":true}}"#,
            "invalid_params",
            -32602,
            "now",
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tool.call","params":{}}"#,
            "invalid_params",
            -32602,
            "name",
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tool.call","params":{"name":"send_chat"}}"#,
            "unknown_tool",
            -32602,
            "send_chat",
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"event.poll"}"#,
            "not_configured",
            -32000,
            "COZYVTT_EMAIL",
        ),
    ] {
        let reply = http(&home, "POST", "/rpc", body).await?;
        assert_eq!(reply.status, 200, "{body}");
        let answer = reply.json()?;
        assert_eq!(answer["jsonrpc"], "2.0");
        assert_eq!(answer["error"]["data"]["kind"], kind, "{body}: {answer}");
        assert_eq!(answer["error"]["code"], code, "{body}");
        let id = if body.contains("\"id\":7") {
            json!(7)
        } else {
            Value::Null
        };
        assert_eq!(answer["id"], id, "{body}");
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(word), "{body}: {message}");
    }
    // None of it has stopped the daemon.
    home.status().await?;
    Ok(())
}

#[tokio::test]
async fn an_id_comes_back_as_it_was_sent_and_parameters_may_be_left_out() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    for id in [json!("a"), json!(7), json!("7")] {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "daemon.status"});
        let answer = http(&home, "POST", "/rpc", &request.to_string())
            .await?
            .json()?;
        assert_eq!(answer["id"], id);
        assert!(answer["result"]["hops"].is_array(), "{answer}");
        assert!(answer.get("error").is_none(), "{answer}");
    }
    Ok(())
}

#[tokio::test]
async fn other_paths_and_other_verbs_are_told_what_there_is() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    for (verb, path, status) in [
        ("GET", "/", 404),
        ("POST", "/rpc/", 404),
        ("GET", "/../etc/passwd", 404),
        ("GET", "/rpc", 405),
        ("POST", "/events", 405),
        ("DELETE", "/health", 405),
    ] {
        let reply = http(&home, verb, path, "").await?;
        assert_eq!(reply.status, status, "{verb} {path}");
        let answer = reply.json()?;
        assert_eq!(answer["error"]["data"]["kind"], "invalid_request");
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("GET /events"), "{message}");
    }
    Ok(())
}

#[tokio::test]
async fn a_page_of_events_keeps_to_its_bounds() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    for params in [
        json!({"limit": 0}),
        json!({"limit": 501}),
        json!({"since": -1}),
        json!({"since": "0"}),
    ] {
        let answer = rpc(&home, "event.poll", params.clone()).await?;
        assert_eq!(
            answer["error"]["data"]["kind"], "invalid_params",
            "{params}: {answer}"
        );
    }
    let before = high_water(&home).await?;
    let mut spoken = Vec::new();
    for text in ["one", "two", "three"] {
        spoken.push(said(&home, &table, text).await?);
    }
    let first = json!({"since": before, "limit": 2});
    let first = rpc(&home, "event.poll", first).await?["result"].clone();
    assert_eq!(seqs(&first), spoken[..2]);
    assert_eq!(first["has_more"], true);
    assert_eq!(first["next_seq"], spoken[1]);
    let rest = json!({"since": first["next_seq"], "limit": 500});
    let rest = rpc(&home, "event.poll", rest).await?["result"].clone();
    assert_eq!(seqs(&rest), spoken[2..]);
    assert_eq!(rest["has_more"], false);
    assert_eq!(
        (&rest["gap"], &rest["cursor_reset"]),
        (&json!(false), &json!(false))
    );
    // A cursor from elsewhere starts over, and says so.
    for foreign in [spoken[2] + 1000, u64::MAX] {
        let anew = rpc(&home, "event.poll", json!({"since": foreign})).await?;
        assert_eq!(anew["result"]["cursor_reset"], true, "{anew}");
        assert_eq!(seqs(&anew["result"]).last(), spoken.last());
    }
    Ok(())
}

fn seqs(page: &Value) -> Vec<u64> {
    let events = page["events"].as_array();
    let events = events.into_iter().flatten();
    events.filter_map(|event| event["seq"].as_u64()).collect()
}

#[tokio::test]
async fn the_stream_replays_what_came_after_since_and_then_goes_live() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let first = said(&home, &table, "Before the first").await?;
    let second = said(&home, &table, "Before the second").await?;
    let mut stream = Stream::open(&home, &format!("/events?since={first}"), &[]).await?;
    assert_eq!(stream.header("content-type"), Some("text/event-stream"));
    let replayed = stream.next().await?.context("the stream ended")?;
    assert_eq!(replayed.id, second.to_string());
    assert_eq!(replayed.event, "chat.message");
    assert_eq!(replayed.data["seq"], second);
    assert_eq!(replayed.data["event"], "chat.message");
    assert_eq!(replayed.data["payload"]["content"], "Before the second");
    assert!(replayed.data["ts"].as_f64() > Some(1.0e9), "{replayed:?}");
    table.roll("player1", "1d6", false)?;
    let live = stream.next_named("dice.rolled").await?;
    assert_eq!(live.data["payload"]["result"], table.rolls()[0].result);
    assert!(live.data["seq"].as_u64() > Some(second));
    assert_eq!(live.id, live.data["seq"].to_string());
    Ok(())
}

#[tokio::test]
async fn a_client_that_comes_back_is_resumed_after_its_last_event_id() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let first = said(&home, &table, "one").await?;
    let second = said(&home, &table, "two").await?;
    // The header wins over the address, which still holds the first cursor.
    let last = first.to_string();
    let mut stream = Stream::open(&home, "/events?since=0", &[("Last-Event-ID", &last)]).await?;
    let next = stream.next().await?.context("the stream ended")?;
    assert_eq!(next.id, second.to_string());
    Ok(())
}

#[tokio::test]
async fn without_since_the_stream_is_live_only_and_two_streams_see_the_same() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let old = said(&home, &table, "Long ago").await?;
    let mut one = Stream::open(&home, "/events", &[]).await?;
    let mut other = Stream::open(&home, "/events", &[]).await?;
    table.say("player1", "Right now");
    let seen = one.next().await?.context("the stream ended")?;
    assert_eq!(seen.data["payload"]["content"], "Right now");
    assert!(seen.data["seq"].as_u64() > Some(old));
    assert_eq!(other.next().await?, Some(seen));
    Ok(())
}

#[tokio::test]
async fn a_since_that_is_no_number_is_refused_with_a_sentence() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    for bad in ["", "yesterday", "-1", "1.5", "99999999999999999999"] {
        let reply = http(&home, "GET", &format!("/events?since={bad}"), "").await?;
        assert_eq!(reply.status, 400, "{bad}");
        let answer = reply.json()?;
        assert_eq!(answer["error"]["data"]["kind"], "invalid_params");
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(
            message.contains("since") && message.contains(bad),
            "{message}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_cursor_from_beyond_the_journal_does_not_silence_the_stream() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let newest = high_water(&home).await?;
    for since in [newest + 1000, u64::MAX] {
        let mut stream = Stream::open(&home, &format!("/events?since={since}"), &[]).await?;
        let text = format!("After {since}");
        table.say("player1", &text);
        // Its keepalive comments go on whatever happens, hence the limit.
        let heard = timeout(PATIENCE / 4, async {
            loop {
                let sent = stream.next().await?.context("the stream ended")?;
                if sent.data["payload"]["content"] == text {
                    return anyhow::Ok(());
                }
            }
        });
        heard.await.with_context(|| format!("since={since}"))??;
    }
    Ok(())
}

#[tokio::test]
async fn a_stream_without_a_journal_is_refused_with_the_reason() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let reply = http(&home, "GET", "/events", "").await?;
    assert_eq!(reply.status, 503);
    let answer = reply.json()?;
    assert_eq!(answer["error"]["data"]["kind"], "not_configured");
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("COZYVTT_EMAIL"), "{message}");
    Ok(())
}

#[tokio::test]
async fn daemon_stop_is_answered_and_ends_the_streams_and_the_daemon() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let mut daemon = home.start_at_table().await?;
    let mut stream = Stream::open(&home, "/events", &[]).await?;
    let answer = rpc(&home, "daemon.stop", json!({})).await?;
    assert_eq!(answer["result"], json!({"draining": 0}));
    assert_eq!(stream.next().await?, None);
    assert!(daemon.ended().await?.success());
    Ok(())
}
