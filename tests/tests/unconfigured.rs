//! A daemon that cannot get to a table: it serves all the same, and explains
//! itself in every answer.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use cozyvtt_proto::control::{Hop, HopState};
use cozyvtt_proto::preset::all_tools;
use cozyvtt_table::Table;
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::raw::{Wire, http, rpc, stateless};
use cozyvtt_tests::until;
use serde_json::{Value, json};

/// Tools that read, write and wait, with arguments that they take.
fn calls() -> [(&'static str, Value); 6] {
    [
        ("campaign_get", json!({})),
        ("chat_read", json!({})),
        ("chat_send", json!({"content": "Hello?"})),
        ("dice_roll", json!({"expression": "1d20"})),
        ("events_poll", json!({})),
        ("map_list", json!({})),
    ]
}

/// Waits until a hop is broken; gives it.
async fn broken(home: &Home, name: &str) -> Hop {
    until(&format!("{name} is broken"), || async {
        let status = home.status().await.ok()?;
        let mut hops = status.hops.into_iter();
        hops.find(|hop| hop.name == name && hop.state == HopState::Broken)
    })
    .await
}

/// What MCP clients ask before anything else is answered in both eras.
async fn serves_mcp(home: &Home) -> Result<Wire> {
    let mut newer = Wire::connect(home).await?;
    let discovered = newer
        .ask(1, "server/discover", stateless(json!({})))
        .await?;
    assert!(discovered["result"]["supportedVersions"].is_array());
    let list = newer.ask(2, "tools/list", stateless(json!({}))).await?;
    assert_eq!(
        list["result"]["tools"].as_array().map(Vec::len),
        Some(all_tools().len())
    );
    let mut older = Wire::connect(home).await?;
    let hands = older.shake_hands().await?;
    assert_eq!(hands["serverInfo"]["name"], "cozyvtt");
    let list = older.ask(1, "tools/list", json!({})).await?;
    assert_eq!(
        list["result"]["tools"].as_array().map(Vec::len),
        Some(all_tools().len())
    );
    Ok(older)
}

/// Bad arguments are told first, whatever else is wrong.
async fn explains_bad_arguments(wire: &mut Wire) -> Result<()> {
    let answer = wire.call("bad", "chat_read", json!({"limit": 0})).await?;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let envelope = &answer["result"]["structuredContent"];
    assert_eq!(envelope["error"], "limit must be in 1..100");
    Ok(())
}

/// A daemon whose configuration is wrong serves everything, and every answer
/// holds all of `words`, none of them `canary`.
async fn explains(home: &Home, extra: &[&str], words: &[&str]) -> Result<()> {
    let mut command = home.daemon_command()?;
    let _daemon = command.args(extra).spawn()?;
    until("the daemon serves", || async { home.status().await.ok() }).await;
    let holds = |what: &str, text: &str| {
        for word in words {
            assert!(text.contains(word), "{what} does not say {word}: {text}");
        }
        assert!(!text.contains("canary"), "{what} tells a secret: {text}");
    };

    let mut wire = serves_mcp(home).await?;
    for (tool, arguments) in calls() {
        let answer = wire.call(tool, tool, arguments.clone()).await?;
        let result = &answer["result"];
        // The arguments were right, so a model need not mend them.
        assert_ne!(result["isError"], true, "{answer}");
        let envelope = &result["structuredContent"];
        assert_eq!(envelope["ok"], false, "{answer}");
        holds(tool, envelope["error"].as_str().unwrap_or_default());
        let by_person = home.call(tool, arguments).await?;
        assert_eq!(&by_person.envelope, envelope);
    }
    explains_bad_arguments(&mut wire).await?;

    let hop = broken(home, "configuration").await;
    holds(
        "status",
        &format!("{} {}", hop.detail, hop.fix.unwrap_or_default()),
    );
    let status = rpc(home, "daemon.status", json!({})).await?;
    assert!(!status.to_string().contains("canary"), "{status}");
    let poll = rpc(home, "event.poll", json!({})).await?;
    assert_eq!(poll["error"]["data"]["kind"], "not_configured");
    holds(
        "event.poll",
        poll["error"]["message"].as_str().unwrap_or_default(),
    );
    let tools = rpc(home, "tool.list", json!({})).await?;
    assert_eq!(
        tools["result"]["tools"].as_array().map(Vec::len),
        Some(all_tools().len())
    );
    assert_eq!(http(home, "GET", "/health", "").await?.status, 200);
    assert!(!home.log().contains("canary"), "{}", home.log());
    Ok(())
}

/// Writes the configuration file where the daemon looks for it.
fn write_config(home: &Home, text: &str, mode: u32) -> Result<PathBuf> {
    home.configure(text)?;
    let file = home.config_file();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode))?;
    Ok(file)
}

#[tokio::test]
async fn without_any_configuration_it_serves_and_says_what_is_missing() -> Result<()> {
    let home = Home::empty()?;
    let words = ["Missing COZYVTT_EMAIL / COZYVTT_PASSWORD", "config.toml"];
    explains(&home, &[], &words).await
}

#[tokio::test]
async fn without_a_campaign_it_serves_and_says_what_is_missing() -> Result<()> {
    let mut home = Home::empty()?;
    home.set("COZYVTT_EMAIL", "me@example.org");
    home.set("COZYVTT_PASSWORD", "canary");
    explains(&home, &[], &["Missing COZYVTT_CAMPAIGN_ID", "config.toml"]).await
}

#[tokio::test]
async fn an_unknown_key_in_the_file_is_named_with_its_line() -> Result<()> {
    let home = Home::empty()?;
    let text = "email = \"me@example.org\"\npasword = \"canary\"\n";
    let file = write_config(&home, text, 0o600)?;
    let path = file.display().to_string();
    explains(&home, &[], &[&path, "line 2", "pasword"]).await
}

#[tokio::test]
async fn a_file_that_is_no_toml_is_named_with_the_line_and_without_its_text() -> Result<()> {
    let home = Home::empty()?;
    let text = "email = \"me@example.org\"\npassword = canary\n";
    let file = write_config(&home, text, 0o600)?;
    let path = file.display().to_string();
    explains(&home, &[], &[&path, "line 2"]).await
}

#[tokio::test]
async fn a_password_in_a_file_that_others_can_read_is_not_used() -> Result<()> {
    let table = Table::builder().start().await?;
    let account = table.account("dm");
    let home = Home::empty()?;
    let text = format!(
        "url = {:?}\nemail = {:?}\npassword = {:?}\ncampaign_id = {:?}\n",
        table.url(),
        account.email,
        account.password,
        table.campaign_id()
    );
    let file = write_config(&home, &text, 0o644)?;
    let mend = format!("chmod 600 {}", file.display());
    explains(&home, &[], &[&mend]).await?;
    assert_eq!(table.log().count("POST", "/api/auth/login"), 0);
    // The mend mends it.
    write_config(&home, &text, 0o600)?;
    home.start_at_table().await?;
    Ok(())
}

#[tokio::test]
async fn an_address_that_is_none_is_explained_and_not_repeated_with_its_password() -> Result<()> {
    for (url, word) in [
        ("table.example", "not usable"),
        ("ftp://table.example", "neither an http nor an https"),
        ("http://me:canary@table.example", "user name or a password"),
    ] {
        let mut home = Home::empty()?;
        home.set("COZYVTT_URL", url);
        home.set("COZYVTT_EMAIL", "me@example.org");
        home.set("COZYVTT_PASSWORD", "canary");
        home.set("COZYVTT_CAMPAIGN_ID", "c1");
        explains(&home, &[], &[word, "https://table.example"]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_address_with_a_password_is_not_shown_when_the_file_is_wrong_as_well() -> Result<()> {
    let mut home = Home::empty()?;
    write_config(&home, "pasword = 1\n", 0o600)?;
    home.set("COZYVTT_URL", "http://me:canary@table.example");
    explains(&home, &[], &["pasword"]).await
}

#[tokio::test]
async fn a_file_that_is_named_and_not_there_is_explained() -> Result<()> {
    let home = Home::empty()?;
    let file = home.path().join("nowhere.toml").display().to_string();
    explains(&home, &["--config", &file], &[&file, "does not exist"]).await
}

#[tokio::test]
async fn a_server_that_is_down_is_explained_and_reached_once_it_is_up() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    table.pause().await;
    let daemon = home.start().await?;
    let rest = broken(&home, "rest").await;
    assert!(rest.detail.contains(table.url()), "{rest:?}");
    assert!(
        rest.fix
            .is_some_and(|fix| fix.contains("check that the server runs"))
    );

    let mut wire = serves_mcp(&home).await?;
    for (tool, arguments) in calls() {
        let answer = wire.call(tool, tool, arguments).await?;
        let envelope = &answer["result"]["structuredContent"];
        let sentence = if tool == "events_poll" {
            // What was journalled can still be read; the trouble is told beside it.
            assert_eq!(envelope["ok"], true, "{answer}");
            assert_eq!(envelope["data"]["stale"], true, "{answer}");
            &envelope["data"]["connection_error"]
        } else {
            assert_eq!(envelope["ok"], false, "{answer}");
            &envelope["error"]
        };
        let sentence = sentence.as_str().unwrap_or_default();
        assert!(sentence.contains("refused"), "{tool}: {sentence}");
        assert_ne!(answer["result"]["isError"], true, "{answer}");
    }
    explains_bad_arguments(&mut wire).await?;

    table.resume().await?;
    until("every hop is fine", || async {
        let status = home.status().await.ok()?;
        let mut hops = status.hops.iter();
        hops.all(|hop| hop.state == HopState::Ok).then_some(())
    })
    .await;
    let answer = wire.call("now", "campaign_get", json!({})).await?;
    let envelope = &answer["result"]["structuredContent"];
    assert_eq!(envelope["ok"], true, "{answer}");
    assert_eq!(table.log().count("POST", "/api/auth/login"), 1);
    assert!(daemon.stop().await?.success());
    Ok(())
}

#[tokio::test]
async fn a_wrong_password_is_sent_once_however_many_ask() -> Result<()> {
    let table = Table::builder().start().await?;
    let mut home = Home::at(&table, "dm")?;
    home.set("COZYVTT_PASSWORD", "canary");
    let _daemon = home.start().await?;
    let mut wires = Vec::new();
    for _ in 0..3 {
        wires.push(serves_mcp(&home).await?);
    }
    for round in 0..3 {
        // All of them at once, then read.
        for wire in &mut wires {
            for (tool, arguments) in calls() {
                let id = format!("{tool}-{round}");
                let params = json!({"name": tool, "arguments": arguments});
                wire.request(id, "tools/call", params).await?;
            }
        }
        for wire in &mut wires {
            for _ in calls() {
                let answer = wire.next().await?;
                let envelope = &answer["result"]["structuredContent"];
                let sentence = match envelope["ok"].as_bool() {
                    Some(true) => &envelope["data"]["connection_error"],
                    _ => &envelope["error"],
                };
                let sentence = sentence.as_str().context("no sentence")?;
                for word in ["HTTP 401", "no further password attempts"] {
                    assert!(sentence.contains(word), "{answer}");
                }
            }
        }
    }
    let login = broken(&home, "login").await;
    assert!(login.detail.contains("HTTP 401"), "{login:?}");
    assert!(login.fix.is_some_and(|fix| fix.contains("configuration")));
    assert_eq!(table.log().count("POST", "/api/auth/login"), 1);
    assert!(!home.log().contains("canary"), "{}", home.log());
    Ok(())
}

#[tokio::test]
async fn a_configuration_can_be_checked_without_a_daemon() -> Result<()> {
    let home = Home::empty()?;
    let check_with = async |more: &[&str]| -> Result<(Option<i32>, String)> {
        let mut command = home.daemon_command()?;
        let output = command.arg("--check-config").args(more).output().await?;
        let told = [output.stdout, output.stderr].concat();
        Ok((output.status.code(), String::from_utf8(told)?))
    };
    let check = async || check_with(&[]).await;
    let (code, told) = check().await?;
    assert_eq!(code, Some(1));
    assert!(
        told.starts_with("cozyvttd: Missing COZYVTT_EMAIL"),
        "{told}"
    );
    let good = "email = 'me@example.org'\npassword = 'canary'\ncampaign_id = 'c1'\n\
                read_folders = ['/nowhere']\n[policy]\ndeny = ['map_delete']\n";
    let file = write_config(&home, good, 0o600)?;
    let (code, told) = check().await?;
    assert_eq!(code, Some(0), "{told}");
    let first = format!("{} is good.", file.display());
    for words in [
        &first,
        "http://localhost:8899",
        "/nowhere (not there)",
        "map_delete to all",
    ] {
        assert!(told.contains(words), "{told}");
    }
    assert!(!told.contains("canary"), "{told}");
    let (code, told) = check_with(&["--json"]).await?;
    let told: serde_json::Value = serde_json::from_str(&told)?;
    assert_eq!((code, &told["ok"]), (Some(0), &true.into()), "{told}");
    assert_eq!(told["account"], "me@example.org");
    write_config(&home, &good.replace("map_delete", "map_delte"), 0o600)?;
    let (code, told) = check().await?;
    assert_eq!(code, Some(1));
    assert!(told.contains("did you mean map_delete?"), "{told}");
    let (code, told) = check_with(&["--json"]).await?;
    let told: serde_json::Value = serde_json::from_str(&told)?;
    assert_eq!((code, &told["ok"]), (Some(1), &false.into()), "{told}");
    assert!(!home.socket_dir().exists(), "a check serves nothing");
    Ok(())
}
