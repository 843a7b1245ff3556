//! The daemon as a process: how it starts, what keeps it from starting, how it
//! stops, and what is still there afterwards.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use anyhow::{Context as _, Result};
use cozyvtt_proto::control::{DaemonStop, EventPage, EventPoll, NoParams, PollParams};
use cozyvtt_proto::event::EventRecord;
use cozyvtt_proto::paths::{CONTROL_SOCKET, MCP_SOCKET};
use cozyvtt_table::{Armed, Fault, Table};
use cozyvtt_tests::agent::{Agent, Era};
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::raw::{Wire, files_below};
use cozyvtt_tests::{PATIENCE, binaries, until};
use rustix::process::Signal;
use serde_json::json;
use tokio::process::Command;
use tokio::time::timeout;

async fn page(home: &Home, since: u64) -> Result<EventPage> {
    let params = PollParams {
        since,
        limit: 500,
        campaign: None,
    };
    Ok(home.control().call::<EventPoll>(params, PATIENCE).await?)
}

/// Lets somebody speak, and waits until the journal holds it.
async fn said(home: &Home, table: &Table, text: &str) -> EventRecord {
    table.say("player1", text);
    until("the line is in the journal", || async {
        let page = page(home, 0).await.ok()?;
        let mut events = page.events.into_iter();
        events.find(|event| event.payload["content"] == text)
    })
    .await
}

fn slow_maps(table: &Table) -> Armed {
    let delay = Fault::Delay(Duration::from_millis(300));
    table.faults().route("GET", "/api/campaigns/*/maps", delay)
}

async fn has_fired(fault: &Armed) {
    until("the call is at the table", || async {
        (fault.fired() > 0).then_some(())
    })
    .await;
}

/// Runs a daemon that is not to start, to its end.
async fn refused(home: &Home, socket_dir: &Path, state_dir: &Path) -> Result<String> {
    let mut command = home.command(binaries::daemon());
    command
        .arg("--socket-dir")
        .arg(socket_dir)
        .arg("--state-dir")
        .arg(state_dir);
    let Output { status, stderr, .. } = timeout(PATIENCE, command.output())
        .await
        .context("it started after all")??;
    let stderr = String::from_utf8(stderr)?;
    let in_use = stderr.contains("in use by another cozyvttd");
    // Whoever started it can tell that another one runs.
    let code = if in_use { 3 } else { 1 };
    assert_eq!(status.code(), Some(code), "{stderr}");
    // The last line is for the person who started it; what comes before is log.
    let sentence = stderr.lines().last().unwrap_or_default();
    assert!(sentence.starts_with("cozyvttd: "), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    Ok(sentence.to_owned())
}

#[tokio::test]
async fn a_signal_ends_it_in_order_and_removes_both_sockets() -> Result<()> {
    for signal in [Signal::TERM, Signal::INT] {
        let table = Table::builder().start().await?;
        let home = Home::at(&table, "dm")?;
        let mut daemon = home.start_at_table().await?;
        for socket in [MCP_SOCKET, CONTROL_SOCKET] {
            assert!(home.socket(socket).exists(), "{socket}");
        }
        daemon.signal(signal)?;
        assert_eq!(daemon.ended().await?.code(), Some(0), "{signal:?}");
        for socket in [MCP_SOCKET, CONTROL_SOCKET] {
            assert!(!home.socket(socket).exists(), "{signal:?}: {socket}");
        }
        // It has said goodbye to the table rather than vanished.
        until("its seat is free", || async {
            table.seated().is_empty().then_some(())
        })
        .await;
    }
    Ok(())
}

#[tokio::test]
async fn a_call_that_runs_is_answered_before_a_signal_ends_the_daemon() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let mut daemon = home.start_at_table().await?;
    let agent = Agent::through_shim(&home, Era::Handshake).await?;
    let fault = slow_maps(&table);
    let (answer, ()) = tokio::join!(agent.data("map_list", json!({})), async {
        has_fired(&fault).await;
        daemon.signal(Signal::TERM).ok();
    });
    assert!(answer?["maps"].is_array());
    assert_eq!(daemon.ended().await?.code(), Some(0));
    Ok(())
}

#[tokio::test]
async fn a_call_that_runs_is_answered_before_daemon_stop_ends_the_daemon() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let mut daemon = home.start_at_table().await?;
    let agent = Agent::through_shim(&home, Era::Stateless).await?;
    let fault = slow_maps(&table);
    let control = home.control();
    let (by_agent, by_person, stopping) = tokio::join!(
        agent.data("map_list", json!({})),
        home.call("map_list", json!({})),
        async {
            until("both calls are at the table", || async {
                (fault.fired() == 2).then_some(())
            })
            .await;
            control.call::<DaemonStop>(NoParams {}, PATIENCE).await
        }
    );
    assert!(by_agent?["maps"].is_array());
    assert_eq!(by_person?.envelope["ok"], true);
    assert_eq!(stopping?.draining, 2);
    assert_eq!(daemon.ended().await?.code(), Some(0));
    Ok(())
}

#[tokio::test]
async fn clients_that_sit_idle_do_not_keep_the_daemon_from_leaving() -> Result<()> {
    let home = Home::empty()?;
    let daemon = home.start().await?;
    let mut silent = Wire::connect(&home).await?;
    let mut shaken = Wire::shaken(&home).await?;
    until("both are seen", || async {
        let status = home.status().await.ok()?;
        (status.clients == 2).then_some(())
    })
    .await;
    let ended = timeout(PATIENCE / 4, daemon.stop()).await;
    assert!(ended.context("it waits for idle clients")??.success());
    silent.ended().await?;
    shaken.ended().await
}

#[tokio::test]
async fn a_second_daemon_on_the_same_folders_is_refused_and_the_first_one_goes_on() -> Result<()> {
    let home = Home::empty()?;
    let daemon = home.start().await?;
    let instance = home.status().await?.instance;
    let (run, state) = (home.socket_dir(), home.state_dir());
    let elsewhere = |name: &str| home.path().join(name);
    for (socket_dir, state_dir, named) in [
        (run.clone(), state.clone(), &state),
        (elsewhere("run-2"), state.clone(), &state),
        (run.clone(), elsewhere("state-2"), &run),
    ] {
        let sentence = refused(&home, &socket_dir, &state_dir).await?;
        for part in [&named.display().to_string(), "another cozyvttd", "stop"] {
            assert!(sentence.contains(part), "{sentence}");
        }
    }
    assert_eq!(home.status().await?.instance, instance);
    Wire::shaken(&home).await?.is_alive().await?;
    assert!(daemon.stop().await?.success());
    Ok(())
}

#[tokio::test]
async fn the_sockets_of_a_daemon_that_was_killed_are_replaced() -> Result<()> {
    let home = Home::empty()?;
    let mut daemon = home.start().await?;
    let first = home.status().await?.instance;
    daemon.signal(Signal::KILL)?;
    daemon.ended().await?;
    for socket in [MCP_SOCKET, CONTROL_SOCKET] {
        assert!(home.socket(socket).exists(), "{socket} is not stale");
    }
    let daemon = home.start().await?;
    assert_ne!(home.status().await?.instance, first);
    Wire::shaken(&home).await?.is_alive().await?;
    assert!(daemon.stop().await?.success());
    Ok(())
}

#[tokio::test]
async fn a_folder_that_others_can_enter_is_refused_with_its_mend() -> Result<()> {
    let home = Home::empty()?;
    let open = home.path().join("open");
    std::fs::create_dir(&open)?;
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755))?;
    for (socket_dir, state_dir) in [(&home.socket_dir(), &open), (&open, &home.state_dir())] {
        let sentence = refused(&home, socket_dir, state_dir).await?;
        let mend = format!("chmod 700 {}", open.display());
        assert!(sentence.contains(&mend), "{sentence}");
    }
    // It was refused, not changed: it may be meant for something else.
    assert_eq!(open.metadata()?.permissions().mode() & 0o777, 0o755);
    Ok(())
}

#[tokio::test]
async fn a_socket_path_that_is_too_long_is_refused_with_its_mend() -> Result<()> {
    let home = Home::empty()?;
    let long = home.path().join("x".repeat(120));
    let sentence = refused(&home, &long, &home.state_dir()).await?;
    for part in ["107 bytes", "shorter", "--socket-dir"] {
        assert!(sentence.contains(part), "{sentence}");
    }
    Ok(())
}

#[tokio::test]
async fn a_plain_file_in_place_of_the_folder_is_refused_with_its_mend() -> Result<()> {
    let home = Home::empty()?;
    let file = home.path().join("mine");
    std::fs::write(&file, "mine")?;
    let sentence = refused(&home, &file, &home.state_dir()).await?;
    assert!(sentence.contains(&file.display().to_string()), "{sentence}");
    assert!(sentence.contains("--socket-dir"), "no mend: {sentence}");
    assert_eq!(std::fs::read_to_string(file)?, "mine");
    Ok(())
}

#[tokio::test]
async fn a_plain_file_in_place_of_a_socket_is_refused_with_its_mend() -> Result<()> {
    let home = Home::empty()?;
    std::fs::create_dir(home.socket_dir())?;
    std::fs::set_permissions(home.socket_dir(), std::fs::Permissions::from_mode(0o700))?;
    for name in [MCP_SOCKET, CONTROL_SOCKET] {
        let file = home.socket(name);
        std::fs::write(&file, "mine")?;
        let sentence = refused(&home, &home.socket_dir(), &home.state_dir()).await?;
        assert!(sentence.contains(&file.display().to_string()), "{sentence}");
        assert!(sentence.contains("--socket-dir"), "no mend: {sentence}");
        assert_eq!(std::fs::read_to_string(&file)?, "mine");
        std::fs::remove_file(file)?;
    }
    Ok(())
}

#[tokio::test]
async fn why_it_does_not_start_is_said_once() -> Result<()> {
    let home = Home::empty()?;
    let file = home.path().join("mine");
    std::fs::write(&file, "mine")?;
    for (socket_dir, state_dir) in [
        (file.clone(), home.state_dir()),
        (home.socket_dir(), file.clone()),
        (home.socket_dir(), home.path().join("mine/below")),
    ] {
        let sentence = refused(&home, &socket_dir, &state_dir).await?;
        let cause = sentence.matches("(os error").count();
        assert!(cause <= 1, "{sentence}");
    }
    Ok(())
}

#[tokio::test]
async fn the_journal_goes_on_after_a_stop_and_after_a_kill() -> Result<()> {
    for signal in [Signal::TERM, Signal::KILL] {
        let table = Table::builder().start().await?;
        let home = Home::at(&table, "dm")?;
        let mut daemon = home.start_at_table().await?;
        let spoken = said(&home, &table, "Remember this").await;
        let before = page(&home, 0).await?.events;
        daemon.signal(signal)?;
        daemon.ended().await?;
        let _daemon = home.start_at_table().await?;
        let after = page(&home, 0).await?.events;
        assert!(after.starts_with(&before), "{signal:?}: {after:?}");
        let newest = after.last().context("an empty journal")?.seq;
        let next = said(&home, &table, "And this").await;
        assert!(next.seq > newest, "{signal:?}");
        // A cursor from before the restart reads on as if there had been none.
        let on = page(&home, spoken.seq).await?;
        assert!(!on.gap && !on.cursor_reset, "{signal:?}: {on:?}");
        // What was missed meanwhile may be read again after it.
        assert!(on.events.contains(&next), "{signal:?}: {on:?}");
    }
    Ok(())
}

fn logs(home: &Home) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(home.state_dir().join("logs"))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

#[tokio::test]
async fn the_log_is_private_and_tells_what_happened() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let daemon = home.start_at_table().await?;
    assert!(daemon.stop().await?.success());
    let logs = logs(&home)?;
    assert_eq!(logs.len(), 1, "{logs:?}");
    assert_eq!(logs[0].metadata()?.permissions().mode() & 0o777, 0o600);
    let log = std::fs::read_to_string(&logs[0])?;
    for line in ["serving", "signed in", "SIGTERM", "stopped"] {
        assert!(log.contains(line), "{line:?} is not in:\n{log}");
    }
    assert!(!log.contains('\u{1b}'), "colours in a file:\n{log}");
    Ok(())
}

#[tokio::test]
async fn no_file_holds_the_password_not_even_when_everything_is_logged() -> Result<()> {
    let table = Table::builder().start().await?;
    let mut home = Home::at(&table, "dm")?;
    home.set("COZYVTT_LOG", "trace");
    let daemon = home.start_at_table().await?;
    let agent = Agent::through_shim(&home, Era::Handshake).await?;
    agent.data("campaign_get", json!({})).await?;
    agent
        .data("chat_send", json!({"content": "Good evening"}))
        .await?;
    agent.leave().await?;
    home.status().await?;
    assert!(daemon.stop().await?.success());
    let log = std::fs::read_to_string(&logs(&home)?[0])?;
    assert!(log.contains("TRACE"), "not everything was logged");
    let password = table.account("dm").password.as_bytes();
    let files = files_below(home.path())?;
    assert!(files.len() >= 3, "log, stderr and journal: {files:?}");
    for (path, bytes) in files {
        let holds = bytes
            .windows(password.len())
            .any(|window| window == password);
        assert!(!holds, "the password is in {}", path.display());
    }
    Ok(())
}

#[tokio::test]
async fn the_session_cookie_is_not_in_the_log() -> Result<()> {
    let table = Table::builder().start().await?;
    let mut home = Home::at(&table, "dm")?;
    home.set("COZYVTT_LOG", "trace");
    let daemon = home.start_at_table().await?;
    home.call("campaign_get", json!({})).await?;
    assert!(daemon.stop().await?.success());
    let requests = table.log().requests();
    let cookie = requests.iter().find_map(|request| request.header("cookie"));
    let (_, value) = cookie
        .and_then(|cookie| cookie.split_once('='))
        .context("no cookie was sent")?;
    assert!(value.len() > 16, "{value}");
    let log = std::fs::read_to_string(&logs(&home)?[0])?;
    assert!(!log.contains(value));
    Ok(())
}

/// Only what MCP clients give a server that they start.
fn six_variables(program: &Path, home: &Home) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("HOME", home.path())
        .env("LOGNAME", "player")
        .env("PATH", "/usr/bin:/bin")
        .env("SHELL", "/bin/sh")
        .env("TERM", "dumb")
        .env("USER", "player")
        .kill_on_drop(true);
    // A runtime folder of this machine's user would be found by its number
    // alone, and it is not ours to use.
    let uid = rustix::process::getuid().as_raw();
    if Path::new(&format!("/run/user/{uid}")).exists() {
        command.arg("--socket-dir").arg(home.socket_dir());
    }
    command
}

#[tokio::test]
async fn a_shim_with_six_variables_finds_the_daemon_and_never_holds_the_password() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let account = table.account("dm");
    let daemon = six_variables(binaries::daemon(), &home)
        .env("COZYVTT_URL", table.url())
        .env("COZYVTT_EMAIL", &account.email)
        .env("COZYVTT_PASSWORD", &account.password)
        .env("COZYVTT_CAMPAIGN_ID", table.campaign_id())
        .stderr(std::process::Stdio::null())
        .spawn()?;
    // It signs in by itself; that is the last thing before it is ready.
    let signed_in = |log: &cozyvtt_table::Log| log.count("POST", "/api/auth/login") == 1;
    assert!(table.log().wait_for(signed_in, PATIENCE).await);

    let (mut wire, mut shim) = Wire::spawn(&mut six_variables(binaries::shim(), &home))?;
    let shaken = wire.shake_hands().await?;
    assert_eq!(shaken["serverInfo"]["name"], "cozyvtt");
    let answer = wire.call(1, "campaign_get", json!({})).await?;
    let envelope = &answer["result"]["structuredContent"];
    assert_eq!(envelope["ok"], true, "{answer}");

    let pids = [daemon.id(), shim.id()];
    for pid in pids {
        let pid = pid.context("it has gone")?;
        let cmdline = std::fs::read_to_string(format!("/proc/{pid}/cmdline"))?;
        assert!(cmdline.contains("cozyvtt"), "{cmdline}");
        assert!(!cmdline.contains(&account.password), "{cmdline}");
    }
    wire.half_close().await?;
    wire.ended().await?;
    let status = timeout(PATIENCE, shim.wait())
        .await
        .context("the shim stays after the end of stdin")??;
    assert_eq!(status.code(), Some(0));
    Ok(())
}
