//! The journal of real daemons: what it keeps when they are killed, when there is no
//! room, nothing to write to, or a file that it cannot read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use cozyvtt_proto::control::{EventPage, EventPoll, HopState, PollParams};
use cozyvtt_proto::event::EventRecord;
use cozyvtt_table::Table;
use cozyvtt_tests::calls::{data, hop};
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::{PATIENCE, mounts, until};
use rustix::process::Signal;
use serde_json::{Value, json};

async fn page(home: &Home, since: u64) -> Result<EventPage> {
    let params = PollParams {
        since,
        limit: 500,
        campaign: None,
    };
    Ok(home.control().call::<EventPoll>(params, PATIENCE).await?)
}

/// Everything after `since`.
async fn records(home: &Home, mut since: u64) -> Result<Vec<EventRecord>> {
    let mut records = Vec::new();
    loop {
        let page = page(home, since).await?;
        since = page.next_seq;
        records.extend(page.events);
        if !page.has_more {
            return Ok(records);
        }
    }
}

/// The lines of chat among records.
fn lines(records: &[EventRecord]) -> Vec<&str> {
    let chat = records.iter().filter(|one| one.event == "chat.message");
    chat.filter_map(|one| one.payload["content"].as_str())
        .collect()
}

/// Lets somebody speak, and waits until the line can be read.
async fn said(home: &Home, table: &Table, text: &str) -> EventRecord {
    table.say("player1", text);
    until("the line can be read", || async {
        let records = records(home, 1).await.ok()?;
        let mut lines = records.into_iter().rev();
        lines.find(|one| one.payload["content"] == text)
    })
    .await
}

/// Waits until the daemon hears the table; its journal may be broken.
async fn linked(home: &Home) {
    until("the campaign has accepted us", || async {
        let status = home.status().await.ok()?;
        (hop(&status, "campaign").ok()?.state == HopState::Ok).then_some(())
    })
    .await;
}

/// Waits until the journal's hop is in that state; gives its detail and its fix.
async fn journal_is(home: &Home, state: HopState) -> (String, String) {
    until("the journal is in that state", || async {
        let status = home.status().await.ok()?;
        let hop = hop(&status, "journal").ok()?;
        let fix = hop.fix.clone().unwrap_or_default();
        (hop.state == state).then(|| (hop.detail.clone(), fix))
    })
    .await
}

/// The journal's files in a state folder, with what they hold.
fn files(state_dir: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(state_dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("journal-") {
            files.insert(name.into_owned(), std::fs::read(&path)?);
        }
    }
    Ok(files)
}

/// The journal's file itself.
fn journal(home: &Home) -> Result<PathBuf> {
    let names = files(&home.state_dir())?.into_keys();
    let name = { names }.find(|name| name.ends_with(".sqlite"));
    Ok(home.state_dir().join(name.context("no journal")?))
}

/// A home whose journal holds a line and was closed in order; the line's number.
async fn with_a_past(table: &Table) -> Result<(Home, u64)> {
    let home = Home::at(table, "dm")?;
    let daemon = home.start_at_table().await?;
    let line = said(&home, table, "Long ago").await;
    ensure!(daemon.stop().await?.success(), "{}", home.log());
    Ok((home, line.seq))
}

#[tokio::test]
async fn nothing_that_was_read_is_missing_after_a_kill_and_no_number_comes_twice() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let mut read: BTreeMap<u64, EventRecord> = BTreeMap::new();
    let (mut since, mut given) = (0, 0);
    for round in 0..6 {
        let mut daemon = home.start_at_table().await?;
        let kept = records(&home, 1).await?;
        for (seq, record) in read.range(2..) {
            let found = kept.iter().find(|one| one.seq == *seq);
            assert_eq!(found, Some(record), "round {round}");
        }
        let page = page(&home, since).await?;
        assert!(!page.gap && !page.cursor_reset, "round {round}: {page:?}");
        let first = said(&home, &table, &format!("{round}: hello")).await;
        assert!(first.seq > given, "round {round}: {first:?} after {given}");
        // Read under load, and at another moment of it each time.
        for number in 0..20 + 17 * round {
            table.say("player1", &format!("{round}: {number}"));
            for record in records(&home, since).await? {
                since = record.seq;
                read.insert(since, record);
            }
        }
        let receipt = data(&home, "chat_send", json!({"content": "?"})).await?;
        given = receipt["since"].as_u64().context("no cursor")?.max(since);
        // What comes on top of that may be lost, for nobody has read it.
        for number in 0..50 {
            table.say("player1", &format!("{round}: more {number}"));
        }
        daemon.signal(Signal::KILL)?;
        daemon.ended().await?;
    }
    assert!(read.len() > 300, "{} were read", read.len());
    Ok(())
}

#[tokio::test]
async fn a_stop_in_order_leaves_one_file_and_no_hole() -> Result<()> {
    let table = Table::builder().start().await?;
    let (home, line) = with_a_past(&table).await?;
    let names: Vec<_> = files(&home.state_dir())?.into_keys().collect();
    assert!(
        names.len() == 1 && names[0].ends_with(".sqlite"),
        "{names:?}"
    );
    let _daemon = home.start_at_table().await?;
    let next = said(&home, &table, "And on").await;
    assert!(next.seq < line + 10, "{next:?}");
    Ok(())
}

#[tokio::test]
async fn an_agent_that_comes_back_late_is_told_how_much_of_what_is_gone() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let since = said(&home, &table, "Then").await.seq;
    for number in 0..205 {
        let frame = json!(["map.changed", {"mapId": "m", "number": number}]);
        table.faults().send_frame(&format!("42{frame}"));
    }
    said(&home, &table, "Now").await;
    let page = data(&home, "events_poll", json!({"since": since, "limit": 1})).await?;
    assert_eq!(page["gap"], true, "{page}");
    assert_eq!(page["evicted"], json!({"map.changed": 5}));
    assert_eq!(page["events"][0]["payload"]["number"], 5);
    // The line from before is kept, though what came later is not.
    assert!(page["oldest_seq"].as_u64() <= Some(since), "{page}");
    let told = home.ctl(&["events", "--since", &since.to_string()]).await?;
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.contains("5 map.changed"), "{told}");
    let page = data(&home, "events_poll", json!({"since": page["next_seq"]})).await?;
    assert_eq!(page["gap"], false);
    assert_eq!(page.get("evicted"), None);
    Ok(())
}

#[tokio::test]
async fn a_drag_is_one_record_and_no_gap() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let since = said(&home, &table, "Careful").await.seq;
    for x in 0..30 {
        let step = json!({"tokenId": "t", "mapId": "m", "x": x, "y": 0, "movedBy": null});
        table
            .faults()
            .send_frame(&format!("42{}", json!(["token.moved", step])));
    }
    said(&home, &table, "There").await;
    let page = page(&home, since).await?;
    let moves: Vec<_> = { page.events.iter() }
        .filter(|one| one.event == "token.moved")
        .collect();
    assert_eq!(moves.last().context("no move")?.payload["x"], 29);
    // A machine that is slow may take more than half a second for thirty frames.
    assert!(moves.len() < 5, "{moves:?}");
    assert!(!page.gap, "{page:?}");
    Ok(())
}

#[tokio::test]
async fn in_a_read_only_folder_the_past_is_read_and_the_present_held_in_memory() -> Result<()> {
    if !mounts::possible() {
        return Ok(());
    }
    let table = Table::builder().start().await?;
    let (home, line) = with_a_past(&table).await?;
    let before = files(&home.state_dir())?;
    let read_only = "mount --bind $STATE $STATE; mount -o remount,bind,ro $STATE";
    let daemon = home.start_among(read_only).await?;
    linked(&home).await;
    let now = said(&home, &table, "Now").await;
    assert!(now.seq > line);
    let all = records(&home, 1).await?;
    // What the server tells again of the time in between may stand after that.
    let place = |text: &str| lines(&all).iter().position(|line| *line == text);
    let (then, now_at) = (place("Long ago"), place("Now"));
    assert!(then.is_some() && then < now_at, "{all:?}");
    let (detail, fix) = journal_is(&home, HopState::Broken).await;
    assert!(detail.contains("held in memory"), "{detail}");
    assert!(fix.contains("writable"), "{fix}");
    let page = data(&home, "events_poll", json!({"since": line})).await?;
    assert_eq!(
        (&page["durable"], &page["gap"]),
        (&json!(false), &json!(false))
    );
    let note = page["note"].as_str().unwrap_or_default();
    assert!(note.contains("lost when cozyvttd ends"), "{page}");
    assert!(daemon.stop().await?.success());
    assert_eq!(files(&home.state_dir())?, before);
    // A cursor from that run is from elsewhere for the next one, and never a wrong one.
    let _daemon = home.start_at_table().await?;
    let page = data(&home, "events_poll", json!({"since": now.seq})).await?;
    assert_eq!(page["cursor_reset"], true, "{page}");
    assert_eq!(page.get("durable"), None);
    Ok(())
}

/// Fills the disk on which this folder is.
fn fill(folder: &Path) -> Result<PathBuf> {
    let path = folder.join("filler");
    let mut file = File::create(&path)?;
    while file.write_all(&[0; 1024]).is_ok() {}
    Ok(path)
}

#[tokio::test]
async fn what_a_full_disk_refused_is_on_the_disk_once_there_is_room() -> Result<()> {
    if !mounts::possible() {
        return Ok(());
    }
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let small = "mount -t tmpfs -o size=8m,mode=700 none $STATE";
    let mut daemon = home.start_among(small).await?;
    linked(&home).await;
    said(&home, &table, "before").await;
    let inside = format!("/proc/{}/root{}", daemon.pid(), home.state_dir().display());
    let filler = fill(Path::new(&inside))?;
    let mut spoken = vec!["before".to_owned()];
    let broken = async {
        for number in 0.. {
            let text = format!("{number} {}", "long ".repeat(300));
            said(&home, &table, text.trim()).await;
            spoken.push(text.trim().to_owned());
            let status = home.status().await?;
            if hop(&status, "journal")?.state == HopState::Broken {
                break;
            }
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, broken)
        .await
        .context("the disk is not full")??;
    let since = said(&home, &table, "in memory").await.seq;
    spoken.push("in memory".to_owned());
    let (detail, fix) = journal_is(&home, HopState::Broken).await;
    assert!(
        detail.contains("full") && fix.contains("make room"),
        "{detail}: {fix}"
    );
    let full = page(&home, 1).await?;
    assert!(!full.durable && !full.gap, "{full:?}");
    assert_eq!(lines(&full.events), spoken);

    std::fs::remove_file(filler)?;
    journal_is(&home, HopState::Ok).await;
    said(&home, &table, "after").await;
    spoken.push("after".to_owned());
    let room = page(&home, 1).await?;
    assert!(room.durable && !room.gap && room.note.is_none(), "{room:?}");
    assert!(
        room.events.starts_with(&full.events),
        "what was read has changed"
    );
    assert_eq!(lines(&room.events), spoken);
    assert!(
        page(&home, since)
            .await?
            .events
            .iter()
            .all(|one| one.seq > since)
    );

    // The disk outlives the daemon as long as its folder is open.
    let folder = File::open(&inside)?;
    daemon.signal(Signal::KILL)?;
    daemon.ended().await?;
    let kept = format!("/proc/self/fd/{}", folder.as_raw_fd());
    for (name, bytes) in files(Path::new(&kept))? {
        std::fs::write(home.state_dir().join(name), bytes)?;
    }
    let _daemon = home.start_at_table().await?;
    // And behind them what the server tells again of the time in between.
    let kept = records(&home, 1).await?;
    assert_eq!(lines(&kept)[..spoken.len()], spoken);
    Ok(())
}

#[tokio::test]
async fn a_damaged_file_is_set_aside_and_a_new_one_begun_above_its_numbers() -> Result<()> {
    let table = Table::builder().start().await?;
    let (home, line) = with_a_past(&table).await?;
    let path = journal(&home)?;
    let damaged = b"this was a journal once ".repeat(1000);
    std::fs::write(&path, &damaged)?;
    let daemon = home.start_at_table().await?;
    let now = said(&home, &table, "Now").await;
    assert!(now.seq > line);
    let late = data(&home, "events_poll", json!({"since": line})).await?;
    assert_eq!(
        (&late["gap"], &late["cursor_reset"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(late["evicted"], json!({"unknown": 1}));
    let (detail, _) = journal_is(&home, HopState::Ok).await;
    let aside: Vec<_> = { files(&home.state_dir())?.into_iter() }
        .filter(|(name, _)| name.contains(".sqlite.corrupt-"))
        .collect();
    let [(name, bytes)] = &aside[..] else {
        anyhow::bail!("not one file: {:?}", files(&home.state_dir())?.keys());
    };
    assert_eq!(*bytes, damaged, "it was changed");
    assert!(detail.contains(name.as_str()), "{detail}");
    assert!(home.log().contains(name.as_str()), "{}", home.log());
    assert!(daemon.stop().await?.success());
    // The new one lasts.
    let _daemon = home.start_at_table().await?;
    let page = data(
        &home,
        "events_poll",
        json!({"since": now.seq - 1, "limit": 1}),
    )
    .await?;
    assert_eq!(page["events"][0]["payload"]["content"], "Now");
    Ok(())
}

/// Makes a file one of a format that nobody knows yet.
fn of_tomorrow(path: &Path) -> Result<()> {
    let mut bytes = std::fs::read(path)?;
    let format = bytes.get_mut(60..64).context("no header")?;
    format.copy_from_slice(&99_u32.to_be_bytes());
    Ok(std::fs::write(path, bytes)?)
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_left_alone_while_the_daemon_serves_from_memory() -> Result<()>
{
    let table = Table::builder().start().await?;
    let (home, line) = with_a_past(&table).await?;
    of_tomorrow(&journal(&home)?)?;
    let before = files(&home.state_dir())?;
    let mut daemon = home.start().await?;
    linked(&home).await;
    let now = said(&home, &table, "Now").await;
    let (detail, fix) = journal_is(&home, HopState::Broken).await;
    assert!(detail.contains("newer cozyvttd (format 99"), "{detail}");
    assert!(fix.contains("install that version"), "{fix}");
    let status = home.status().await?;
    for name in ["rest", "login", "websocket", "campaign"] {
        assert_eq!(hop(&status, name)?.state, HopState::Ok, "{name}");
    }
    let page = data(&home, "events_poll", json!({"since": line})).await?;
    assert_eq!(
        (&page["durable"], &page["gap"]),
        (&json!(false), &json!(true))
    );
    let events = page["events"].as_array().context("no events")?;
    let here = |one: &Value| one["seq"] == now.seq && one["payload"]["content"] == "Now";
    assert!(events.iter().any(here), "{page}");
    let told = home.ctl(&["events"]).await?;
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.contains("held in memory"), "{told}");
    daemon.signal(Signal::TERM)?;
    assert!(daemon.ended().await?.success());
    assert_eq!(files(&home.state_dir())?, before);
    Ok(())
}
