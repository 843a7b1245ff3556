//! Acceptance cases that rest on the other bridge's process model: for each of
//! them, what holds instead. The cases with a case of ours beside them (T-INI-02,
//! T-BUF-03, T-BUF-05, T-ENV-05, T-WSK-15) stand where that one is.

use std::time::Duration;

use anyhow::{Context as _, Result};
use cozyvtt_table::{Fault, Table, Version};
use cozyvtt_tests::asked::logins;
use cozyvtt_tests::calls::{data, event, events, high_water};
use cozyvtt_tests::in_process::{InProcess, pass, patient_table};
use cozyvtt_tests::seat::sit_settled;
use cozyvtt_tests::until;
use cozyvttd::session::rest::{Expect, Request, RestError};
use serde_json::{Value, json};

const LOGIN: &str = "/api/auth/login";

async fn maps(client: &InProcess) -> Result<Value, RestError> {
    let request = Request::get(client.session.in_campaign(&["maps"]));
    client.session.request(&request, Expect::Has("maps")).await
}

/// What a call is told while no password may be sent.
async fn cooling_down(client: &InProcess) -> Result<()> {
    let error = maps(client).await.err().context("no cool-down")?;
    let error = error.to_string();
    assert!(error.contains("Login cooldown; retry in"), "{error}");
    Ok(())
}

async fn sent(table: &Table, passwords: usize) {
    until("the password is sent", || async {
        (logins(table) == passwords).then_some(())
    })
    .await;
}

/// T-AUT-02: three 429 without a wait, then a login that works, is four requests there
/// as here; but each is a whole lock-out of 15 minutes after the one before. A server
/// that counts every login would shut out who sends four in a few seconds.
#[tokio::test]
async fn t_aut_02_a_login_429_without_a_wait_is_followed_by_the_next_login_15_minutes_later()
-> Result<()> {
    let table = patient_table(Version::V1_5).await?;
    let armed = table.faults().route("POST", LOGIN, Fault::status(429));
    let armed = armed.times(3);
    let client = InProcess::start(&table, "dm")?;
    for passwords in 1..=3 {
        sent(&table, passwords).await;
        // The answer has to have arrived before the clock jumps.
        until("the cool-down has begun", || async {
            let error = maps(&client).await.err()?.to_string();
            error.contains("cooldown").then_some(())
        })
        .await;
        // 1, 2 and 4 s are what the other bridge waits, 180 s the usual spacing.
        for seconds in [0, 1, 2, 4, 180, 700] {
            pass(Duration::from_secs(seconds)).await;
            cooling_down(&client).await?;
            assert_eq!(logins(&table), passwords);
        }
        pass(Duration::from_secs(14)).await;
    }
    client.linked().await;
    maps(&client).await?;
    assert_eq!((logins(&table), armed.fired()), (4, 3));
    Ok(())
}

/// T-AUT-03: a login that is answered 429 has failed after one request, not after
/// four.
#[tokio::test]
async fn t_aut_03_a_login_429_is_a_failure_after_one_request() -> Result<()> {
    for version in Version::ALL {
        let table = patient_table(version).await?;
        let armed = table.faults().route("POST", LOGIN, Fault::status(429));
        let client = InProcess::start(&table, "dm")?;
        let error = maps(&client).await.err().context("no failure")?;
        let error = error.to_string();
        assert!(error.contains("429"), "{version}: {error}");
        for _ in 0..4 {
            cooling_down(&client).await?;
        }
        assert_eq!((logins(&table), armed.fired()), (1, 1), "{version}");
    }
    Ok(())
}

/// T-INI-03: the start waits for no call, so none has to come for it to go on after
/// its first login failed.
#[tokio::test]
async fn t_ini_03_a_start_whose_login_failed_goes_on_by_itself_after_180_s() -> Result<()> {
    let table = patient_table(Version::V1_5).await?;
    let armed = table.faults().route("POST", LOGIN, Fault::status(503));
    let armed = armed.times(1);
    let client = InProcess::start(&table, "dm")?;
    let error = maps(&client).await.err().context("no failure")?;
    let error = error.to_string();
    assert!(error.contains("503"), "{error}");
    cooling_down(&client).await?;
    assert_eq!((logins(&table), armed.fired()), (1, 1));
    pass(Duration::from_secs(181)).await;
    client.linked().await;
    assert_eq!(logins(&table), 2);
    maps(&client).await?;
    Ok(())
}

/// T-BUF-02: the first page reaches back as far as the other bridge's buffer did,
/// and what lies before it is still there for a cursor.
#[tokio::test]
async fn t_buf_02_the_start_reaches_back_500_records_and_a_cursor_reaches_those_before()
-> Result<()> {
    let table = Table::builder().start().await?;
    let home = &sit_settled(&table, "dm").await?;
    let before = high_water(home).await?;
    for number in 1..=600 {
        table.say("player1", &format!("line {number}"));
    }
    until("all are journalled", || async {
        (high_water(home).await.ok()? == before + 600).then_some(())
    })
    .await;
    let page = data(home, "events_poll", json!({"since": 0, "limit": 500})).await?;
    let kept = page["events"].as_array().context("no events")?;
    assert_eq!(kept.len(), 500);
    let (first, last) = (&kept[0], &kept[499]);
    assert_eq!(first["seq"], before + 101);
    assert_eq!(first["payload"]["content"], "line 101");
    assert_eq!(last["payload"]["content"], "line 600");
    assert_eq!(page["latest_seq"], before + 600);
    let all = events(home, before.max(1)).await?;
    let lines = all.iter().filter(|one| one["event"] == "chat.message");
    assert_eq!(lines.count(), 600);
    Ok(())
}

/// T-DIC-01: the payloads are the same, and no roll waits for the one before it.
#[tokio::test]
async fn t_dic_01_rolls_back_to_back_go_out_at_once() -> Result<()> {
    for version in Version::ALL {
        let table = Table::builder().version(version).start().await?;
        let home = &sit_settled(&table, "dm").await?;
        let since = high_water(home).await?;
        let rolls = [false, true].repeat(5);
        for secret in &rolls {
            let roll = json!({"expression": "1d20", "is_secret": secret});
            data(home, "dice_roll", roll).await?;
        }
        until("all are rolled", || async {
            (table.rolls().len() == rolls.len()).then_some(())
        })
        .await;
        event(home, since, "dice.rolled").await;
        let frames = table.log().events_in("dice.roll");
        let payloads: Vec<_> = frames.iter().map(|one| one.payload.clone()).collect();
        let expected = |secret: &bool| json!({"expression": "1d20", "secret": secret});
        assert_eq!(payloads, rolls.iter().map(expected).collect::<Vec<_>>());
        // 2.1 s apart, ten of them would take 18.9 s.
        let took = frames[9].at - frames[0].at;
        assert!(took < Duration::from_secs(10), "{version}: {took:?}");
    }
    Ok(())
}
