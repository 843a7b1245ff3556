//! The server as a whole: away, slow, new, forgetful.

use std::time::Duration;

use anyhow::{Result, ensure};
use cozyvtt_table::{Fault, Version};
use cozyvtt_tests::asked::logins;
use cozyvtt_tests::until;
use futures_util::future::join_all;

use crate::trial::{SCALE, Stage};

#[tokio::test]
async fn the_server_is_down_at_the_start() -> Result<()> {
    let stage = Stage::new(Version::V1_5).await?;
    stage.table.pause().await;
    let trial = stage.begin_amiss().await?;
    let answer = trial.lists_maps().await?;
    let error = answer["error"].as_str().unwrap_or_default();
    ensure!(error.contains("cannot connect"), "{answer}");
    stage.table.resume().await?;
    trial.aftermath().await
}

#[tokio::test]
async fn the_server_drops_every_connection_at_the_start() -> Result<()> {
    let stage = Stage::new(Version::V1_1_2).await?;
    stage.table.faults().refuse_connections(true);
    let trial = stage.begin_amiss().await?;
    until("connections were dropped", || async {
        (stage.table.faults().refused_connections() > 0).then_some(())
    })
    .await;
    stage.table.faults().refuse_connections(false);
    trial.aftermath().await
}

#[tokio::test]
async fn the_server_goes_down_in_the_middle_of_a_call() -> Result<()> {
    let stage = Stage::new(Version::V1_5).await?;
    let mut trial = stage.begin().await?;
    let slow = stage.table.faults().route(
        "POST",
        "/api/campaigns/*/maps/*/tokens",
        Fault::Delay(Duration::from_secs(60)),
    );
    let home = &stage.home;
    let killed = async {
        until("the write is under way", || async {
            (slow.fired() > 0).then_some(())
        })
        .await;
        stage.table.kill();
    };
    let (answer, ()) = tokio::join!(trial.adds_token("t-down"), killed);
    let answer = answer?;
    let error = answer["error"].as_str().unwrap_or_default();
    ensure!(
        error.contains("outcome of this write is unknown"),
        "{answer}"
    );
    slow.off();
    stage.table.resume().await?;
    ensure!(!home.log().contains("panicked"));
    trial.aftermath().await
}

#[tokio::test]
async fn the_server_is_slow() -> Result<()> {
    let stage = Stage::new(Version::V1_5).await?;
    let mut trial = stage.begin().await?;
    let slow = Fault::Delay(Duration::from_millis(300));
    let slow = stage.table.faults().route("*", "/api/**", slow);
    let answers = join_all((0..20).map(|_| trial.lists_maps())).await;
    for answer in answers {
        let answer = answer?;
        ensure!(answer["ok"] == true, "{answer}");
    }
    let answer = trial.adds_token("t-slow").await?;
    ensure!(answer["ok"] == true, "{answer}");
    ensure!(slow.fired() >= 21);
    slow.off();
    trial.aftermath().await
}

async fn restarts(version: Version) -> Result<()> {
    let stage = Stage::new(version).await?;
    let mut trial = stage.begin().await?;
    stage.table.pause().await;
    until("the outage is noticed", || async {
        let page = trial.home().status().await.ok()?;
        page.hops
            .iter()
            .any(|hop| hop.state != cozyvtt_proto::control::HopState::Ok)
            .then_some(())
    })
    .await;
    // Nobody is there to hear it live.
    stage.table.say("player1", "While you were away");
    stage.table.resume().await?;
    trial.says("Back again").await?;
    trial.aftermath().await
}

#[tokio::test]
async fn the_server_restarts() -> Result<()> {
    restarts(Version::V1_5).await
}

#[tokio::test]
async fn the_server_restarts_in_1_1_2() -> Result<()> {
    restarts(Version::V1_1_2).await
}

async fn forgets(version: Version) -> Result<()> {
    let stage = Stage::new(version).await?;
    let trial = stage.begin().await?;
    // The password was sent longer ago than it takes to send it again.
    tokio::time::sleep(Duration::from_secs(200) / SCALE).await;
    let before = logins(&stage.table);
    stage.table.forget_sessions();
    let answers = join_all((0..20).map(|_| trial.lists_maps())).await;
    let fine = answers
        .iter()
        .filter(|answer| answer.as_ref().is_ok_and(|answer| answer["ok"] == true));
    ensure!(fine.count() == 20, "{answers:?}");
    ensure!(logins(&stage.table) == before + 1);
    trial.aftermath().await
}

#[tokio::test]
async fn the_server_forgets_the_session() -> Result<()> {
    forgets(Version::V1_5).await
}

#[tokio::test]
async fn the_server_forgets_the_session_in_1_1_2() -> Result<()> {
    forgets(Version::V1_1_2).await
}
