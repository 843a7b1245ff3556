//! Answers that are late, broken, or none.

use std::time::Duration;

use anyhow::{Result, ensure};
use cozyvtt_table::{Fault, Reply, Version};
use cozyvtt_tests::asked::logins;
use futures_util::future::join_all;
use serde_json::json;

use crate::trial::{SCALE, Stage};

const MAPS: &str = "/api/campaigns/*/maps";
const TOKENS: &str = "/api/campaigns/*/maps/*/tokens";

/// A read that meets a fault fails with these words, or works; the next one works.
async fn a_read(fault: Fault, words: &str) -> Result<()> {
    let stage = Stage::new(Version::V1_5).await?;
    let trial = stage.begin().await?;
    let armed = stage.table.faults().route("GET", MAPS, fault).times(1);
    let answer = trial.lists_maps().await?;
    ensure!(armed.fired() == 1);
    ensure!(answer.to_string().contains(words), "{words}: {answer}");
    let answer = trial.lists_maps().await?;
    ensure!(answer["ok"] == true, "{answer}");
    trial.aftermath().await
}

/// A write that meets a fault says that its outcome is unknown, or what became of it,
/// and happened as often as it is said.
async fn a_write(fault: Fault, words: &str, happened: usize) -> Result<()> {
    let stage = Stage::new(Version::V1_1_2).await?;
    let mut trial = stage.begin().await?;
    let armed = stage.table.faults().route("POST", TOKENS, fault).times(1);
    let answer = trial.adds_token("t-once").await?;
    ensure!(armed.fired() == 1);
    ensure!(answer.to_string().contains(words), "{words}: {answer}");
    ensure!(trial.tokens("t-once") == happened);
    trial.aftermath().await
}

#[tokio::test]
async fn a_read_answered_by_a_page() -> Result<()> {
    a_read(Fault::Html, "INVALID_RESPONSE").await
}

#[tokio::test]
async fn a_read_answered_by_half_an_answer() -> Result<()> {
    a_read(Fault::TruncatedJson, "INVALID_RESPONSE").await
}

#[tokio::test]
async fn a_read_answered_by_wrong_types() -> Result<()> {
    a_read(Fault::WrongTypes, "INVALID_RESPONSE").await
}

#[tokio::test]
async fn a_read_answered_by_ten_megabytes() -> Result<()> {
    a_read(Fault::BigBody(10 << 20), "\"ok\":true").await
}

#[tokio::test]
async fn a_read_answered_by_more_than_is_taken() -> Result<()> {
    a_read(Fault::BigBody(17 << 20), "larger than").await
}

#[tokio::test]
async fn a_read_whose_line_breaks() -> Result<()> {
    a_read(Fault::HangUpBefore, "network error").await
}

#[tokio::test]
async fn a_read_whose_answer_breaks_off() -> Result<()> {
    a_read(Fault::CutMidAnswer, "network error").await
}

#[tokio::test]
async fn a_read_that_crashes_the_server() -> Result<()> {
    a_read(Fault::status(500), "HTTP 500").await
}

#[tokio::test]
async fn a_read_behind_a_proxy_without_a_server() -> Result<()> {
    let page = Reply::text(502, "text/html", "<html>Bad gateway</html>");
    a_read(Fault::Answer(page), "HTTP 502").await
}

#[tokio::test]
async fn a_write_whose_line_breaks_before_it_happens() -> Result<()> {
    a_write(Fault::HangUpBefore, "outcome of this write is unknown", 0).await
}

#[tokio::test]
async fn a_write_whose_answer_is_lost() -> Result<()> {
    a_write(Fault::HangUpAfter, "outcome of this write is unknown", 1).await
}

#[tokio::test]
async fn a_write_whose_answer_breaks_off() -> Result<()> {
    a_write(Fault::CutMidAnswer, "outcome of this write is unknown", 1).await
}

#[tokio::test]
async fn a_write_answered_by_a_page() -> Result<()> {
    a_write(Fault::Html, "INVALID_RESPONSE", 1).await
}

#[tokio::test]
async fn a_write_that_is_too_many_is_sent_again_since_it_did_not_happen() -> Result<()> {
    a_write(Fault::status(429), "\"ok\":true", 1).await
}

/// Twenty calls are in flight when a request of this kind finds the session gone.
async fn a_401(method: &str, path: &str) -> Result<()> {
    let stage = Stage::new(Version::V1_5).await?;
    let mut trial = stage.begin().await?;
    // Longer than a password has to stay.
    tokio::time::sleep(Duration::from_secs(200) / SCALE).await;
    let before = logins(&stage.table);
    let armed = stage
        .table
        .faults()
        .route(method, path, Fault::ForgetSession)
        .times(1);
    // All of them are under way when it happens.
    let slow = Fault::Delay(Duration::from_millis(200));
    let _slow = stage
        .table
        .faults()
        .route("GET", "/api/campaigns/**", slow)
        .times(20);
    let answers = {
        let calls = (0..20).map(|number| {
            let home = &stage.home;
            async move {
                match number % 3 {
                    0 => home.call("map_list", json!({})).await,
                    1 => home.call("campaign_get", json!({})).await,
                    _ => home.call("chat_read", json!({})).await,
                }
            }
        });
        join_all(calls).await
    };
    for answer in answers {
        let answer = answer?.envelope;
        ensure!(answer["ok"] == true, "{answer}");
    }
    trial.says("Found again").await?;
    cozyvtt_tests::until("the fault has fired", || async {
        (armed.fired() == 1).then_some(())
    })
    .await;
    trial.aftermath().await?;
    ensure!(logins(&stage.table) <= before + 1);
    Ok(())
}

#[tokio::test]
async fn a_401_at_the_maps_with_twenty_calls_in_flight() -> Result<()> {
    a_401("GET", MAPS).await
}

#[tokio::test]
async fn a_401_at_the_campaign_with_twenty_calls_in_flight() -> Result<()> {
    a_401("GET", "/api/campaigns/*").await
}

#[tokio::test]
async fn a_401_at_the_chat_with_twenty_calls_in_flight() -> Result<()> {
    a_401("GET", "/api/campaigns/*/messages").await
}

#[tokio::test]
async fn a_401_at_the_keepalive() -> Result<()> {
    a_401("GET", "/api/auth/ping").await
}

#[tokio::test]
async fn a_401_at_the_rolls_that_are_read_again() -> Result<()> {
    a_401("GET", "/api/campaigns/*/dice-rolls").await
}

#[tokio::test]
async fn a_401_at_a_write() -> Result<()> {
    let stage = Stage::new(Version::V1_1_2).await?;
    let mut trial = stage.begin().await?;
    tokio::time::sleep(Duration::from_secs(200) / SCALE).await;
    let armed = stage
        .table
        .faults()
        .route("POST", TOKENS, Fault::ForgetSession)
        .times(1);
    let answer = trial.adds_token("t-401").await?;
    ensure!(answer["ok"] == true, "{answer}");
    ensure!(armed.fired() == 1 && trial.tokens("t-401") == 1);
    ensure!(logins(&stage.table) == 2);
    trial.aftermath().await
}

#[tokio::test]
async fn two_hundred_calls_meet_an_expired_session() -> Result<()> {
    let stage = Stage::new(Version::V1_5).await?;
    let trial = stage.begin().await?;
    tokio::time::sleep(Duration::from_secs(200) / SCALE).await;
    let before = logins(&stage.table);
    stage.table.forget_sessions();
    let answers = join_all((0..200).map(|_| trial.lists_maps())).await;
    for answer in answers {
        let answer = answer?;
        ensure!(answer["ok"] == true, "{answer}");
    }
    let made = logins(&stage.table) - before;
    println!("200 calls met an expired session: {made} login");
    ensure!(made == 1);
    trial.aftermath().await
}
