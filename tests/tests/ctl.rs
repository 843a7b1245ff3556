//! `cozyvttctl` as people and scripts run it: exit codes, and what is printed
//! where.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use cozyvtt_proto::preset::all_tools;
use cozyvtt_table::{Fault, Table};
use cozyvtt_tests::agent::{Agent, Era};
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::{PATIENCE, binaries, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

/// The exit code, standard output and standard error of a run.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.out).with_context(|| format!("no JSON: {}", self.out))
    }

    fn json_lines(&self) -> Result<Vec<Value>> {
        let lines = self.out.lines().map(serde_json::from_str);
        Ok(lines.collect::<Result<_, _>>()?)
    }
}

fn ran(output: Output) -> Result<Ran> {
    let ran = Ran {
        code: output.status.code(),
        out: String::from_utf8(output.stdout)?,
        err: String::from_utf8(output.stderr)?,
    };
    for text in [&ran.out, &ran.err] {
        assert!(!text.contains('\u{1b}'), "colours in a pipe: {text}");
        assert!(!text.contains("panicked"), "{text}");
    }
    Ok(ran)
}

async fn ctl(home: &Home, arguments: &[&str]) -> Result<Ran> {
    ran(home.ctl(arguments).await?)
}

/// Runs `cozyvttctl` with `input` on its standard input.
async fn ctl_fed(home: &Home, arguments: &[&str], input: &str) -> Result<Ran> {
    let mut child = home
        .command(binaries::control())
        .arg("--socket-dir")
        .arg(home.socket_dir())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().context("no stdin")?;
    stdin.write_all(input.as_bytes()).await?;
    drop(stdin);
    let output = timeout(PATIENCE, child.wait_with_output())
        .await
        .context("cozyvttctl did not end")??;
    ran(output)
}

#[tokio::test]
async fn status_ends_with_zero_when_all_is_well_and_tells_every_hop() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let daemon = home.start_at_table().await?;
    let told = ctl(&home, &["status"]).await?;
    assert_eq!(told.code, Some(0), "{}", told.err);
    for word in [
        "All is well",
        table.url(),
        "rest",
        "login",
        "websocket",
        "campaign",
        "journal",
        "mcp.sock",
        &daemon.pid().to_string(),
    ] {
        assert!(told.out.contains(word), "{word:?} is not in:\n{}", told.out);
    }
    assert!(told.err.is_empty(), "{}", told.err);
    let told = ctl(&home, &["status", "--json"]).await?;
    assert_eq!(told.code, Some(0));
    let status = told.json()?;
    assert_eq!(status["reachable"], true);
    assert_eq!(status["pid"], daemon.pid());
    assert_eq!(status["hops"].as_array().map(Vec::len), Some(7));
    Ok(())
}

#[tokio::test]
async fn status_ends_with_one_when_a_hop_is_broken_and_says_what_mends_it() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let told = ctl(&home, &["status"]).await?;
    assert_eq!(told.code, Some(1));
    for word in [
        "is broken: configuration",
        "COZYVTT_EMAIL",
        "run: cozyvttctl reload",
    ] {
        let words = told.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(word), "{word:?} is not in:\n{}", told.out);
    }
    let told = ctl(&home, &["status", "--json"]).await?;
    assert_eq!(told.code, Some(1));
    assert_eq!(told.json()?["hops"][1]["state"], "broken");
    Ok(())
}

#[tokio::test]
async fn without_a_daemon_every_command_ends_with_three_and_says_how_to_start_it() -> Result<()> {
    let home = Home::empty()?;
    for command in [
        ["status"].as_slice(),
        &["tools"],
        &["call", "map_list"],
        &["events"],
        &["events", "--follow"],
        &["stop"],
    ] {
        let told = ctl(&home, command).await?;
        assert_eq!(told.code, Some(3), "{command:?}: {}", told.err);
        assert!(told.out.is_empty(), "{command:?}: {}", told.out);
        for word in ["error: ", "control.sock", "`cozyvttd`"] {
            assert!(told.err.contains(word), "{command:?}: {}", told.err);
        }
    }
    let told = ctl(&home, &["status", "--json"]).await?;
    assert_eq!(told.code, Some(3));
    let status = told.json()?;
    assert_eq!(status["reachable"], false);
    let fix = status["fix"].as_str().unwrap_or_default();
    assert!(fix.contains("cozyvttd"), "{status}");
    Ok(())
}

#[tokio::test]
async fn a_wrong_command_line_ends_with_two() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    for arguments in [
        [].as_slice(),
        &["sing"],
        &["status", "--loud"],
        &["call"],
        &["call", "map_list", "{}", "{}"],
        &["call", "map_list", "{oops"],
        &["call", "map_list", "[1]"],
        &["call", "map_list", ""],
        &["events", "--limit", "0"],
        &["events", "--limit", "501"],
        &["events", "--since", "yesterday"],
        &["events", "--follow", "--since", "1", "--limit", "5"],
    ] {
        let told = ctl(&home, arguments).await?;
        assert_eq!(told.code, Some(2), "{arguments:?}: {}", told.err);
        assert!(!told.err.is_empty() && told.out.is_empty(), "{arguments:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_tools_are_listed_for_people_and_for_programs() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let told = ctl(&home, &["tools"]).await?;
    assert_eq!(told.code, Some(0));
    assert_eq!(told.out.lines().count(), all_tools().len(), "{}", told.out);
    for (name, effect) in [("campaign_get", "reads"), ("chat_send", "adds")] {
        let line = told.out.lines().find(|line| line.starts_with(name));
        assert!(
            line.is_some_and(|line| line.contains(effect)),
            "{}",
            told.out
        );
    }
    let told = ctl(&home, &["tools", "--json"]).await?;
    assert_eq!(told.code, Some(0));
    let tools = told.json()?;
    assert_eq!(tools.as_array().map(Vec::len), Some(all_tools().len()));
    assert!(tools[0]["inputSchema"].is_object() && tools[0]["annotations"].is_object());
    Ok(())
}

#[tokio::test]
async fn a_call_that_works_prints_its_data_and_with_json_the_envelope() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let told = ctl(&home, &["call", "campaign_get"]).await?;
    assert_eq!(told.code, Some(0), "{}", told.err);
    assert_eq!(told.json()?["campaign"]["id"], table.campaign_id());
    let told = ctl(&home, &["call", "campaign_get", "--json"]).await?;
    assert_eq!(told.code, Some(0));
    assert_eq!(told.out.lines().count(), 1, "{}", told.out);
    let envelope = told.json()?;
    assert_eq!(envelope["ok"], true);
    assert_eq!(envelope["data"]["campaign"]["id"], table.campaign_id());
    let line = r#"{"content": "The door creaks open.", "type": "DM"}"#;
    let told = ctl_fed(&home, &["call", "chat_send", "-"], line).await?;
    assert_eq!(told.code, Some(0), "{}", told.err);
    assert_eq!(told.json()?["status"], "pending");
    until("the line is in the chat", || async {
        let chat = table.chat();
        let mut lines = chat.iter();
        lines
            .any(|line| line.content == "The door creaks open.")
            .then_some(())
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_call_that_fails_ends_with_one_and_the_tools_own_words() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let _fault = table
        .faults()
        .route("GET", "/api/campaigns/*/maps", Fault::status(500));
    let told = ctl(&home, &["call", "map_list"]).await?;
    assert_eq!(told.code, Some(1));
    assert!(told.out.is_empty(), "{}", told.out);
    let sentence = "error: HTTP 500: The table was told to answer 500";
    assert!(told.err.starts_with(sentence), "{}", told.err);
    let told = ctl(&home, &["call", "map_list", "--json"]).await?;
    assert_eq!(told.code, Some(1));
    let envelope = told.json()?;
    assert_eq!(envelope["ok"], false);
    assert_eq!(envelope["data"]["status"], 500);
    Ok(())
}

#[tokio::test]
async fn a_call_that_cannot_be_made_is_explained() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let bad = r#"{"limit": 0}"#;
    let told = ctl(&home, &["call", "chat_read", bad]).await?;
    assert_eq!(told.code, Some(1));
    assert!(told.err.contains("limit must be in 1..100"), "{}", told.err);
    let told = ctl(&home, &["call", "send_chat"]).await?;
    assert_eq!(told.code, Some(1));
    assert!(
        told.err.contains("Did you mean `chat_send`?"),
        "{}",
        told.err
    );
    let told = ctl(&home, &["call", "chat_send", r#"{"content" "hi"}"#]).await?;
    assert_eq!(told.code, Some(2));
    assert!(told.err.contains("column 12"), "{}", told.err);
    let told = ctl_fed(&home, &["call", "chat_send", "-"], "{oops").await?;
    assert_eq!(told.code, Some(2));
    assert!(told.err.contains("not valid JSON"), "{}", told.err);
    Ok(())
}

/// Lets somebody speak, and waits until it can be read; gives the newest number.
async fn said(home: &Home, table: &Table, text: &str) -> u64 {
    table.say("player1", text);
    until("the line is in the journal", || async {
        let ran = ctl(home, &["events", "--json", "--limit", "1"])
            .await
            .ok()?;
        let newest = ran.json_lines().ok()?.pop()?;
        (newest["payload"]["content"] == text).then(|| newest["seq"].as_u64())?
    })
    .await
}

#[tokio::test]
async fn events_are_shown_from_the_newest_or_from_a_cursor_on() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let first = said(&home, &table, "one").await;
    let second = said(&home, &table, "two").await;
    let third = said(&home, &table, "three").await;
    let seqs = |ran: &Ran| -> Result<Vec<u64>> {
        let lines = ran.json_lines()?;
        Ok(lines
            .iter()
            .filter_map(|line| line["seq"].as_u64())
            .collect())
    };

    let told = ctl(&home, &["events"]).await?;
    assert_eq!(told.code, Some(0));
    let last = told.out.lines().last().unwrap_or_default();
    assert!(
        last.ends_with("three") && last.contains(&third.to_string()),
        "{last}"
    );

    let told = ctl(&home, &["events", "--json", "--limit", "2"]).await?;
    assert_eq!(seqs(&told)?, [second, third]);

    let since = first.to_string();
    let told = ctl(&home, &["events", "--since", &since, "--json"]).await?;
    assert_eq!(told.code, Some(0));
    assert_eq!(seqs(&told)?, [second, third]);

    let told = ctl(
        &home,
        &["events", "--since", &since, "--limit", "1", "--json"],
    )
    .await?;
    assert_eq!(seqs(&told)?, [second]);
    let on = format!("--since {second}");
    assert!(told.err.contains(&on), "{}", told.err);

    let since = third.to_string();
    let told = ctl(&home, &["events", "--since", &since, "--json"]).await?;
    assert_eq!((told.code, told.out.as_str()), (Some(0), ""));
    assert!(
        told.err.contains("Nothing has happened since"),
        "{}",
        told.err
    );
    Ok(())
}

#[tokio::test]
async fn what_players_type_cannot_steer_the_terminal() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    said(&home, &table, "\u{1b}[2J\u{7}\u{202e}evil\r\nfake").await;
    for arguments in [
        ["events"].as_slice(),
        &["events", "--json"],
        &["call", "chat_read"],
    ] {
        let told = ctl(&home, arguments).await?;
        assert!(told.out.contains("evil"), "{}", told.out);
        for hidden in ['\u{1b}', '\u{7}', '\u{202e}', '\r'] {
            assert!(!told.out.contains(hidden), "{arguments:?}: {:?}", told.out);
        }
    }
    Ok(())
}

#[tokio::test]
async fn following_shows_what_was_and_what_comes_and_ends_with_three_when_the_daemon_goes()
-> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let daemon = home.start_at_table().await?;
    let first = said(&home, &table, "one").await;
    let second = said(&home, &table, "two").await;
    let mut follower = home
        .command(binaries::control())
        .arg("--socket-dir")
        .arg(home.socket_dir())
        .args(["events", "--follow", "--json", "--since"])
        .arg(first.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let out = follower.stdout.take().context("no stdout")?;
    let mut lines = BufReader::new(out).lines();
    let mut next = async || -> Result<Value> {
        let line = timeout(PATIENCE, lines.next_line()).await;
        let line = line.context("nothing is shown")??;
        Ok(serde_json::from_str(&line.context("it ended")?)?)
    };
    let replayed = next().await?;
    assert_eq!(replayed["seq"], second);
    table.say("player1", "live");
    let live = next().await?;
    assert_eq!(live["payload"]["content"], "live");

    assert!(daemon.stop().await?.success());
    let output = timeout(PATIENCE, follower.wait_with_output())
        .await
        .context("it follows nobody")??;
    let told = ran(output)?;
    assert_eq!(told.code, Some(3), "{}", told.err);
    assert!(told.err.contains("the daemon has gone"), "{}", told.err);
    assert!(told.err.contains("--follow --since"), "{}", told.err);
    Ok(())
}

#[tokio::test]
async fn stop_waits_until_the_daemon_has_gone() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    for json in [false, true] {
        let mut daemon = home.start_at_table().await?;
        let arguments: &[&str] = if json { &["stop", "--json"] } else { &["stop"] };
        let told = ctl(&home, arguments).await?;
        assert_eq!(told.code, Some(0), "{}", told.err);
        if json {
            let expected = json!({"stopped": true, "draining": 0, "restarted": false});
            assert_eq!(told.json()?, expected);
        } else {
            let pid = format!("(pid {}) has stopped", daemon.pid());
            assert!(told.out.contains(&pid), "{}", told.out);
        }
        assert!(!home.socket("control.sock").exists());
        assert!(daemon.ended().await?.success());
        assert_eq!(ctl(&home, &["stop"]).await?.code, Some(3));
    }
    Ok(())
}

#[tokio::test]
async fn stop_lets_a_call_that_runs_finish() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let mut daemon = home.start_at_table().await?;
    let agent = Agent::through_shim(&home, Era::Handshake).await?;
    let delay = Fault::Delay(Duration::from_millis(300));
    let fault = table.faults().route("GET", "/api/campaigns/*/maps", delay);
    let (maps, told) = tokio::join!(agent.data("map_list", json!({})), async {
        until("the call is at the table", || async {
            (fault.fired() == 1).then_some(())
        })
        .await;
        ctl(&home, &["stop", "--json"]).await
    });
    assert!(maps?["maps"].is_array());
    let told = told?.json()?;
    assert_eq!(
        (&told["stopped"], &told["draining"]),
        (&json!(true), &json!(1))
    );
    assert!(daemon.ended().await?.success());
    Ok(())
}

#[tokio::test]
async fn once_stop_is_through_another_daemon_can_start() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let delay = Fault::Delay(Duration::from_secs(1));
    let fault = table.faults().route("GET", "/api/campaigns/*/maps", delay);
    let (maps, next) = tokio::join!(home.call("map_list", json!({})), async {
        until("the call is at the table", || async {
            (fault.fired() == 1).then_some(())
        })
        .await;
        let told = ctl(&home, &["stop"]).await?;
        assert_eq!(told.code, Some(0), "{}", told.err);
        // As `cozyvttctl stop && cozyvttd` would.
        let mut next = home.daemon_command()?.spawn()?;
        tokio::select! {
            ended = next.wait() => {
                bail!("the next daemon ends with {}: {}", ended?, home.log())
            }
            _ = until("the next daemon serves", || async { home.status().await.ok() }) => {}
        }
        anyhow::Ok(next)
    });
    assert_eq!(maps?.envelope["ok"], true);
    drop(next?);
    Ok(())
}

/// `cozyvttctl demo` with settings of a table that is not to be touched.
fn demo(home: &Home, temporary: &Path) -> Command {
    let mut command = home.command(binaries::control());
    command
        .arg("demo")
        .env("TMPDIR", temporary)
        .env("COZYVTT_URL", "http://127.0.0.1:9")
        .env("COZYVTT_EMAIL", "me@example.org")
        .env("COZYVTT_PASSWORD", "wrong")
        .env("COZYVTT_CAMPAIGN_ID", "mine")
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    command
}

fn is_empty(folder: &Path) -> Result<bool> {
    Ok(std::fs::read_dir(folder)?.next().is_none())
}

#[tokio::test]
async fn the_demo_plays_in_time_tells_a_roll_and_leaves_nothing_behind() -> Result<()> {
    let home = Home::empty()?;
    let temporary = home.path().join("tmp");
    std::fs::create_dir(&temporary)?;
    let begun = Instant::now();
    let output = timeout(PATIENCE, demo(&home, &temporary).arg("--json").output())
        .await
        .context("the demo did not end")??;
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    let told = ran(output)?;
    assert_eq!(told.code, Some(0), "{}", told.err);
    let summary = told.json()?;
    let total = summary["total"].as_i64().context("no total")?;
    assert!((6..=25).contains(&total), "1d20+5 came to {total}");
    assert_eq!(summary["logins"], 1);
    assert!(is_empty(&temporary)?);

    let output = timeout(PATIENCE, demo(&home, &temporary).output()).await;
    let told = ran(output.context("the demo did not end")??)?;
    assert_eq!(told.code, Some(0), "{}", told.err);
    let says = |part: &str| told.out.contains(part);
    assert!(
        says("rolled 1d20+5 = ") && says("for 1d20+5."),
        "{}",
        told.out
    );
    assert!(is_empty(&temporary)?);
    // Nor is anything of it in the person's own folders.
    assert!(!home.path().join(".local").exists());
    assert!(!home.path().join(".config").exists());
    Ok(())
}

#[tokio::test]
async fn the_demo_that_stays_takes_another_client_and_leaves_nothing_behind() -> Result<()> {
    let home = Home::empty()?;
    let temporary = home.path().join("tmp");
    std::fs::create_dir(&temporary)?;
    let mut child = demo(&home, &temporary)
        .arg("--stay")
        .stdout(Stdio::piped())
        .spawn()?;
    let out = child.stdout.take().context("no stdout")?;
    let mut lines = BufReader::new(out).lines();
    let folder = loop {
        let line = timeout(PATIENCE, lines.next_line()).await;
        let line = line.context("it says nothing more")??;
        let line = line.context("it ended")?;
        let command = line.split_once("cozyvttctl --socket-dir ");
        if let Some((folder, "status")) = command.and_then(|(_, rest)| rest.rsplit_once(' ')) {
            break folder.to_owned();
        }
    };
    let status = home
        .command(binaries::control())
        .args(["--socket-dir", &folder, "status"])
        .output()
        .await?;
    assert_eq!(status.status.code(), Some(0), "{status:?}");
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    let pid = pid.and_then(Pid::from_raw).context("it has gone")?;
    kill_process(pid, Signal::INT)?;
    let status = timeout(PATIENCE, child.wait())
        .await
        .context("Ctrl-C does not end it")??;
    assert_eq!(status.code(), Some(0));
    assert!(is_empty(&temporary)?);
    Ok(())
}

#[tokio::test]
async fn help_tells_exit_codes_and_examples() -> Result<()> {
    let home = Home::empty()?;
    let told = ctl(&home, &["--help"]).await?;
    assert_eq!(told.code, Some(0));
    for word in ["Exit codes:", "Examples:", "--socket-dir", "demo", "3  "] {
        assert!(told.out.contains(word), "{word:?} is not in:\n{}", told.out);
    }
    for command in ["status", "tools", "call", "events", "demo", "stop"] {
        let told = ctl(&home, &[command, "--help"]).await?;
        assert_eq!(told.code, Some(0));
        let example = format!("cozyvttctl {command}");
        let has = |part: &str| told.out.contains(part);
        assert!(has("Examples:") && has(&example), "{}", told.out);
        assert!(has("--json"), "{}", told.out);
    }
    Ok(())
}
