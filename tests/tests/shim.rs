//! The shim between real daemons and the clients that start it: daemons that die,
//! stop, come back, or are not there yet.

#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot go on has failed

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use cozyvtt_table::{Fault, Table};
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::raw::{Wire, handshake};
use cozyvtt_tests::{PATIENCE, binaries, until};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Stops the daemon that a shim has started, whatever becomes of the test.
struct Started<'a>(&'a Home);

impl Drop for Started<'_> {
    fn drop(&mut self) {
        let stop = std::process::Command::new(binaries::control())
            .arg("--socket-dir")
            .arg(self.0.socket_dir())
            .arg("stop")
            .output();
        drop(stop);
    }
}

/// The command of a shim that starts the daemon.
fn starting(home: &Home) -> Command {
    // It is looked for next to the shim.
    binaries::daemon();
    let mut command = home.command(binaries::shim());
    command.arg("--socket-dir").arg(home.socket_dir());
    command
}

/// The daemons that run for this home, by their process ids.
fn daemons(home: &Home) -> Result<Vec<u32>> {
    let folder = home.socket_dir().display().to_string();
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc")? {
        let process = process?;
        let Ok(pid) = process.file_name().to_string_lossy().parse() else {
            continue;
        };
        // One that has ended in between is none.
        let command = std::fs::read_to_string(process.path().join("cmdline")).unwrap_or_default();
        let mut arguments = command.split('\0');
        let program = arguments.next().unwrap_or_default();
        if program.ends_with("/cozyvttd") && arguments.any(|argument| argument == folder) {
            found.push(pid);
        }
    }
    Ok(found)
}

fn message(answer: &Value) -> &str {
    answer["error"]["message"].as_str().unwrap_or_default()
}

async fn ended(shim: &mut Child) -> Result<()> {
    let status = timeout(PATIENCE, shim.wait())
        .await
        .context("the shim stays")??;
    ensure!(status.code() == Some(0), "{status}");
    Ok(())
}

#[tokio::test]
async fn a_session_goes_on_over_a_killed_daemon_and_no_write_is_sent_twice() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let mut daemon = home.start_at_table().await?;
    let (mut wire, _shim) = Wire::spawn(&mut home.shim_command())?;
    wire.shake_hands().await?;
    let tools = wire.ask(1, "tools/list", json!({})).await?;

    // A read and a write that the daemon has and cannot answer.
    let hour = Fault::Delay(Duration::from_secs(3600));
    let maps = table
        .faults()
        .route("GET", "/api/campaigns/*/maps", hour.clone());
    let sheets = table.faults().route("POST", "/api/characters", hour);
    let read = json!({"name": "map_list", "arguments": {}});
    wire.request("read", "tools/call", read).await?;
    let write = json!({"name": "character_create", "arguments": {"name": "Owl"}});
    wire.request("write", "tools/call", write).await?;
    until("both are at the table", || async {
        (maps.fired() == 1 && sheets.fired() == 1).then_some(())
    })
    .await;
    daemon.signal(Signal::KILL)?;
    daemon.ended().await?;
    table.faults().clear();

    // What keeps clients content needs no daemon.
    wire.is_alive().await?;
    let again = wire.ask(2, "tools/list", json!({})).await?;
    assert_eq!(again["result"], tools["result"]);
    // And what comes now waits for the next one.
    let late = json!({"name": "campaign_get", "arguments": {}});
    wire.request("late", "tools/call", late).await?;

    let _daemon = home.start_at_table().await?;
    let mut answers = std::collections::BTreeMap::new();
    for _ in 0..3 {
        let answer = wire.next().await?;
        let id = answer["id"].as_str().context("no id")?.to_owned();
        ensure!(answers.insert(id, answer).is_none(), "answered twice");
    }
    for id in ["read", "late"] {
        let answer = &answers[id];
        assert_eq!(
            answer["result"]["structuredContent"]["ok"], true,
            "{answer}"
        );
    }
    let write = &answers["write"];
    assert!(message(write).contains("outcome unknown"), "{write}");
    assert_eq!(write["error"]["data"]["hop"], "shim -> daemon");
    assert_eq!(sheets.fired(), 1, "the write was sent once");
    wire.is_alive().await
}

#[tokio::test]
async fn twenty_shims_at_once_start_one_daemon_and_leave_no_lock_behind() -> Result<()> {
    let home = Home::empty()?;
    let _started = Started(&home);
    let mut shims = Vec::new();
    for _ in 0..20 {
        shims.push(Wire::spawn(&mut starting(&home))?);
    }
    for (wire, _) in &mut shims {
        wire.request("hands", "initialize", handshake("2025-11-25"))
            .await?;
    }
    for (wire, _) in &mut shims {
        let answer = wire.next().await?;
        assert_eq!(
            answer["result"]["serverInfo"]["name"], "cozyvtt",
            "{answer}"
        );
    }
    let running = until("the others have given way", || async {
        daemons(&home).ok().filter(|running| running.len() == 1)
    })
    .await;
    let status = home.status().await?;
    assert_eq!(running, [status.pid]);
    assert_eq!(status.clients, 20);
    assert_eq!(status.idle_exit_s, Some(30 * 60));
    let daemon = &status.hops[0];
    assert!(daemon.detail.contains("leaves after 30 min"), "{daemon:?}");
    let mut files: Vec<_> = std::fs::read_dir(home.socket_dir())?
        .map(|entry| Ok(entry?.file_name()))
        .collect::<Result<_>>()?;
    files.sort();
    assert_eq!(files, ["control.sock", "mcp.sock"]);
    Ok(())
}

#[tokio::test]
async fn a_daemon_that_a_shim_starts_has_a_session_of_its_own_and_nothing_of_the_client()
-> Result<()> {
    let home = Home::empty()?;
    let _started = Started(&home);
    let mut command = starting(&home);
    command
        .env("COZYVTT_PASSWORD", "the client's")
        .env("COZYVTT_STATE_DIR", home.state_dir());
    let (mut wire, mut shim) = Wire::spawn(&mut command)?;
    wire.shake_hands().await?;
    let status = home.status().await?;
    assert_eq!(status.state_dir, home.state_dir().display().to_string());
    let own = |name: &str| format!("/proc/{}/{name}", status.pid);
    let environment = std::fs::read(own("environ"))?;
    let environment = String::from_utf8_lossy(&environment);
    assert!(!environment.contains("COZYVTT_PASSWORD"));
    for stream in ["fd/0", "fd/1", "fd/2"] {
        assert_eq!(std::fs::read_link(own(stream))?, Path::new("/dev/null"));
    }
    // The sixth field is the session (proc(5)); the name before may hold spaces.
    let stat = std::fs::read_to_string(own("stat"))?;
    let (_, fields) = stat.rsplit_once(')').context("no name")?;
    let session = fields.split_whitespace().nth(3).context("no session")?;
    assert_eq!(session, status.pid.to_string());
    // It outlives the client.
    wire.half_close().await?;
    ended(&mut shim).await?;
    assert_eq!(home.status().await?.pid, status.pid);
    Ok(())
}

#[tokio::test]
async fn a_killed_daemon_is_started_again_by_the_next_request_alone() -> Result<()> {
    let home = Home::empty()?;
    let _started = Started(&home);
    let (mut wire, _shim) = Wire::spawn(&mut starting(&home))?;
    wire.shake_hands().await?;
    let first = home.status().await?;
    let pid = i32::try_from(first.pid)?;
    let pid = rustix::process::Pid::from_raw(pid).context("no pid")?;
    rustix::process::kill_process(pid, Signal::KILL)?;
    // The socket's file is still there, and nobody answers on it.
    until("it is gone", || async { home.status().await.err() }).await;
    wire.is_alive().await?;
    assert!(daemons(&home)?.is_empty(), "a ping needs no daemon");
    let answer = wire.ask(1, "tools/list", json!({})).await?;
    assert_eq!(answer["result"]["tools"].as_array().map(Vec::len), Some(41));
    assert_ne!(home.status().await?.instance, first.instance);
    Ok(())
}

#[tokio::test]
async fn a_daemon_that_cannot_serve_says_why_through_the_shim() -> Result<()> {
    let home = Home::empty()?;
    std::fs::create_dir(home.socket_dir())?;
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(home.socket_dir(), open)?;
    let (mut wire, _shim) = Wire::spawn(&mut starting(&home))?;
    let answer = wire.ask(1, "initialize", handshake("2025-11-25")).await?;
    assert_eq!(answer["error"]["data"]["kind"], "daemon_not_started");
    assert!(message(&answer).contains("chmod 700"), "{answer}");
    // Once that is mended, the next request starts it.
    let _started = Started(&home);
    let own = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(home.socket_dir(), own)?;
    wire.shake_hands().await?;
    Ok(())
}

#[tokio::test]
async fn without_leave_to_start_it_a_missing_daemon_is_told_with_its_mend() -> Result<()> {
    let home = Home::empty()?;
    let mut command = home.shim_command();
    let (mut wire, _shim) = Wire::spawn(command.args(["--wait", "1"]))?;
    let answer = wire.ask(1, "initialize", handshake("2025-11-25")).await?;
    assert_eq!(answer["error"]["data"]["hop"], "shim -> daemon");
    assert!(message(&answer).contains("Start `cozyvttd`"), "{answer}");
    assert!(daemons(&home)?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_daemon_with_a_unit_is_started_through_the_user_manager() -> Result<()> {
    let home = Home::empty()?;
    let bin = home.path().join("bin");
    std::fs::create_dir(&bin)?;
    let said = home.path().join("said");
    let script = bin.join("systemctl");
    let runtime = home.path().join("runtime");
    std::fs::create_dir(&runtime)?;
    std::fs::write(
        &script,
        format!(
            "#!/bin/sh\necho \"$@\" >> {}\ncase \"$2\" in\nshow) echo loaded ;;\n\
             *) echo 'Job for cozyvttd.service failed.' >&2; exit 1 ;;\nesac\n",
            said.display()
        ),
    )?;
    let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, runs)?;
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let mut command = home.command(binaries::shim());
    command.env("PATH", path).env("XDG_RUNTIME_DIR", &runtime);
    let (mut wire, _shim) = Wire::spawn(&mut command)?;
    let answer = wire.ask(1, "initialize", handshake("2025-11-25")).await?;
    assert!(
        message(&answer).contains("Job for cozyvttd.service failed."),
        "{answer}"
    );
    let said = std::fs::read_to_string(said)?;
    assert!(said.ends_with("--user start cozyvttd.service\n"), "{said}");
    Ok(())
}

#[tokio::test]
async fn a_daemon_that_is_stopped_is_told_within_bounds_and_goes_on_afterwards() -> Result<()> {
    let home = Home::empty()?;
    let daemon = home.start().await?;
    let mut command = home.shim_command();
    let (mut wire, _shim) = Wire::spawn(command.args(["--wait", "1"]))?;
    wire.shake_hands().await?;
    daemon.freeze().await?;
    let begun = Instant::now();
    let read = json!({"name": "campaign_get", "arguments": {}});
    wire.request(1, "tools/call", read).await?;
    let answer = wire.next().await?;
    assert_eq!(answer["id"], 1);
    assert_eq!(answer["error"]["data"]["kind"], "daemon_silent", "{answer}");
    assert_eq!(answer["error"]["data"]["hop"], "shim -> daemon");
    assert!(begun.elapsed() < PATIENCE);
    daemon.signal(Signal::CONT)?;
    until("it answers", || async { home.status().await.ok() }).await;
    let (mut other, _shim) = Wire::spawn(&mut home.shim_command())?;
    other.shake_hands().await?;
    wire.is_alive().await
}

#[tokio::test]
async fn an_empty_stdin_ends_the_shim_at_once_and_starts_nothing() -> Result<()> {
    let home = Home::empty()?;
    let mut command = starting(&home);
    let begun = Instant::now();
    let output = timeout(PATIENCE, command.stdin(Stdio::null()).output()).await??;
    assert!(output.status.success());
    assert!(output.stdout.is_empty());
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert!(!home.socket_dir().exists());
    Ok(())
}

/// What comes of `printf '...' | cozyvtt-shim`.
async fn piped(mut command: Command, lines: &[Value]) -> Result<Output> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().context("no stdin")?;
    for line in lines {
        stdin.write_all(format!("{line}\n").as_bytes()).await?;
    }
    drop(stdin);
    Ok(timeout(PATIENCE, child.wait_with_output()).await??)
}

#[tokio::test]
async fn what_is_piped_in_is_answered_even_if_the_daemon_has_to_be_started() -> Result<()> {
    let home = Home::empty()?;
    let _started = Started(&home);
    let lines = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": handshake("2025-11-25")}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
    ];
    for start in [true, false] {
        let command = if start {
            starting(&home)
        } else {
            home.shim_command()
        };
        let output = piped(command, &lines).await?;
        assert!(output.status.success(), "{output:?}");
        let answers: Vec<Value> = String::from_utf8(output.stdout)?
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()?;
        let ids: Vec<_> = answers.iter().map(|answer| &answer["id"]).collect();
        assert_eq!(ids, [1, 2], "{answers:?}");
        assert!(answers[1]["result"]["tools"].is_array(), "{answers:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_killed_client_ends_its_shim() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let (mut wire, mut shim) = Wire::spawn(&mut home.shim_command())?;
    wire.shake_hands().await?;
    // The system closes what a killed process held.
    drop(wire);
    ended(&mut shim).await?;
    until("the daemon knows", || async {
        let status = home.status().await.ok()?;
        (status.clients == 0).then_some(())
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn an_idle_shim_costs_no_time_with_or_without_a_daemon() -> Result<()> {
    let home = Home::empty()?;
    let mut daemon = home.start().await?;
    let (mut wire, shim) = Wire::spawn(&mut home.shim_command())?;
    wire.shake_hands().await?;
    daemon.signal(Signal::KILL)?;
    daemon.ended().await?;
    let pid = shim.id().context("it has gone")?;
    // Times the scheduler has given it the processor, all threads together.
    let turns = || -> Result<u64> {
        let mut turns = 0;
        for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
            let status = std::fs::read_to_string(thread?.path().join("status"))?;
            for line in status.lines() {
                if let Some((name, count)) = line.split_once(':')
                    && name.ends_with("voluntary_ctxt_switches")
                {
                    turns += count.trim().parse::<u64>()?;
                }
            }
        }
        Ok(turns)
    };
    let before = turns()?;
    let second = Instant::now() + Duration::from_secs(1);
    until("a second has passed", || async {
        (Instant::now() >= second).then_some(())
    })
    .await;
    let turns = turns()? - before;
    assert!(turns < 40, "{turns} turns in a second");
    Ok(())
}

#[tokio::test]
async fn hellos_of_other_versions_work_or_are_told_what_mends_it() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let hello = |protocol: u32, version: &str| {
        json!({"cozyvtt": {
            "protocol": protocol, "version": version, "pid": 7, "client_id": "c",
            "a_field_of_tomorrow": true,
        }})
    };
    // Older and newer ones of the same protocol are served.
    for version in ["0.0.9", "0.10.0"] {
        let mut wire = Wire::connect(&home).await?;
        wire.send(&hello(1, version)).await?;
        let reply = wire.next().await?;
        assert!(reply["cozyvtt"]["instance"].is_string(), "{reply}");
        wire.shake_hands().await?;
    }
    for (protocol, version, mend) in [
        (0, "0.0.9", "cargo install --path cozyvtt-shim"),
        (2, "0.10.0", "cargo install --path cozyvttd"),
    ] {
        let mut wire = Wire::connect(&home).await?;
        wire.send(&hello(protocol, version)).await?;
        let reply = wire.next().await?;
        let refused = reply["cozyvtt"]["refused"].as_str().unwrap_or_default();
        assert!(refused.contains(version), "{reply}");
        assert!(refused.contains(mend), "{reply}");
        wire.ended().await?;
    }
    Ok(())
}
