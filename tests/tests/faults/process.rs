//! The daemon itself is killed, stopped, started twice; its clock jumps.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use cozyvtt_proto::event::EventRecord;
use cozyvtt_table::{Fault, Version};
use cozyvtt_tests::asked::logins;
use cozyvtt_tests::calls::{events, high_water};
use cozyvtt_tests::in_process::{InProcess, pass, patient_table};
use futures_util::future::join_all;
use rustix::process::Signal;
use serde_json::json;

use crate::trial::{SCALE, Stage};

#[tokio::test]
async fn the_daemon_is_killed_twenty_times_under_load() -> Result<()> {
    let stage = Stage::new(Version::V1_5).await?;
    let mut trial = stage.begin().await?;
    let home = &stage.home;
    let mut read: Vec<(u64, serde_json::Value)> = Vec::new();
    for round in 0..20_u64 {
        // Another moment each time, and never the same twice.
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let moment = Duration::from_micros(u64::from(now.subsec_micros()) % 150_000);
        println!("round {round}: killed after {moment:?}");
        let since = high_water(home).await?;
        let load = join_all((0..8).map(|number| async move {
            let line = json!({"content": format!("{round}-{number}")});
            // It may well be cut off.
            let _ = home.call("chat_send", line).await;
        }));
        let read_on = async {
            let mut read = Vec::new();
            let mut at = since;
            // Until nobody answers any more.
            while let Ok(records) = events(home, at).await {
                at = records
                    .last()
                    .and_then(|one| one["seq"].as_u64())
                    .unwrap_or(at);
                read.extend(records);
                tokio::task::yield_now().await;
            }
            read
        };
        let killed = async {
            tokio::time::sleep(moment).await;
            trial.daemon.signal(Signal::KILL)?;
            trial.daemon.ended().await
        };
        let (_, seen, killed) = tokio::join!(load, read_on, killed);
        killed?;
        read.extend(
            seen.into_iter()
                .filter_map(|record| Some((record["seq"].as_u64()?, record))),
        );
        stage
            .table
            .say("player1", &format!("While it was dead {round}"));
        trial.goes_on_with(home.start_at_table().await?);
    }
    // Whatever was read is still there, under the same number.
    for (seq, record) in &read {
        let again = events(home, seq - 1).await?;
        let found = again.iter().find(|one| one["seq"] == *seq);
        // Of a token's moves only the last one stays.
        ensure!(
            found == Some(record) || record["event"] == "token.moved",
            "{seq} was read and is gone"
        );
    }
    for round in 0..20 {
        for number in 0..8 {
            let line = format!("{round}-{number}");
            let said = stage.table.chat();
            let said = said.iter().filter(|one| one.content == line).count();
            ensure!(said <= 1, "{line} was said {said} times");
        }
    }
    ensure!(logins(&stage.table) == 1, "the kept session is enough");
    trial.aftermath().await
}

#[tokio::test]
async fn the_daemon_stands_still_for_a_while() -> Result<()> {
    let stage = Stage::new(Version::V1_5).await?;
    let trial = stage.begin().await?;
    trial.daemon.freeze().await?;
    for number in 0..50 {
        stage.table.say("player1", &format!("Line {number}"));
    }
    // Longer than a line may be silent on its clock.
    tokio::time::sleep(Duration::from_secs(300) / SCALE).await;
    trial.daemon.signal(Signal::CONT)?;
    trial.aftermath().await
}

#[tokio::test]
async fn a_second_daemon_on_one_state_folder_leaves_with_a_sentence() -> Result<()> {
    let stage = Stage::new(Version::V1_1_2).await?;
    let trial = stage.begin().await?;
    let before = stage.home.log();
    let mut second = stage.home.daemon_command()?.spawn()?;
    let status = second.wait().await?;
    ensure!(!status.success());
    let log = stage.home.log();
    let said = log.strip_prefix(&before).unwrap_or(&log);
    ensure!(said.contains("in use by another cozyvttd"), "{said}");
    ensure!(logins(&stage.table) == 1);
    trial.aftermath().await
}

#[tokio::test]
async fn the_daemon_stops_in_order_under_load_and_starts_again() -> Result<()> {
    let stage = Stage::new(Version::V1_1_2).await?;
    let mut trial = stage.begin().await?;
    let home = &stage.home;
    let load = join_all((0..20).map(|number| async move {
        let line = json!({"content": format!("at the end {number}")});
        home.call("chat_send", line).await
    }));
    let ends = async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        trial.daemon.signal(Signal::TERM)?;
        trial.daemon.ended().await
    };
    let (answers, ended) = tokio::join!(load, ends);
    ensure!(ended?.success());
    for answer in answers.into_iter().flatten() {
        // What was not sent says so.
        let answer = answer.envelope;
        let said = answer["error"].as_str().unwrap_or_default();
        ensure!(answer["ok"] == true || said.contains("stop"), "{answer}");
    }
    trial.goes_on_with(home.start_at_table().await?);
    trial.aftermath().await
}

/// The clock jumps over a night; the session is looked at, and the password stays.
#[tokio::test]
async fn the_clock_jumps() -> Result<()> {
    let table = patient_table(Version::V1_5).await?;
    let client = InProcess::start(&table, "dm")?;
    client.authenticated(1).await;
    let looks = || table.log().count("GET", "/api/auth/me");
    let before = looks();
    client.hand.sleep(Duration::from_secs(8 * 3600));
    // The first call looks before it goes on.
    client.session.read_campaign().await?;
    ensure!(looks() == before + 1);
    client.hand.put_back(Duration::from_secs(24 * 3600));
    client.session.read_campaign().await?;
    table.say("player1", "Good morning");
    let heard = client
        .session
        .journal
        .find(0, Duration::from_secs(10), |event: &EventRecord| {
            event.payload["content"] == "Good morning"
        })
        .await;
    ensure!(heard.is_some());
    ensure!(logins(&table) == 1);
    ensure!(client.session.link.state().authenticated());
    let page = client.session.journal.page(1, 500).await?;
    let said = page
        .events
        .iter()
        .filter(|one| one.payload["content"] == "Good morning");
    ensure!(said.count() == 1 && !page.gap);
    Ok(())
}

/// The machine wakes and the table cannot be reached: the session is looked at now and
/// then, and not all the time.
#[tokio::test]
async fn the_machine_wakes_without_a_network() -> Result<()> {
    let table = patient_table(Version::V1_5).await?;
    let client = InProcess::start(&table, "dm")?;
    client.authenticated(1).await;
    let looks = table
        .faults()
        .route("GET", "/api/auth/me", Fault::HangUpBefore);
    client.hand.sleep(Duration::from_secs(8 * 3600));
    for _ in 0..20 {
        pass(Duration::from_secs(60)).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Two a minute at most, for twenty minutes, and those of the link.
    ensure!(looks.fired() <= 60, "{} looks", looks.fired());
    ensure!(logins(&table) == 1);
    looks.off();
    pass(Duration::from_secs(60)).await;
    client.linked().await;
    Ok(())
}
