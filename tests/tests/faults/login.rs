//! Signing in goes wrong in every way.

use std::time::{Duration, SystemTime};

use anyhow::{Result, ensure};
use cozyvtt_table::{Fault, Reply, Version};
use cozyvtt_tests::asked::logins;
use cozyvtt_tests::calls::events;
use cozyvtt_tests::in_process::{InProcess, pass, patient_table};
use cozyvtt_tests::until;
use serde_json::json;

use crate::trial::{SCALE, Stage, TOLERANCE};

const LOGIN: &str = "/api/auth/login";

/// A first sign-in that goes wrong once; the next one, when the rule allows it, does
/// not.
async fn once(version: Version, fault: Fault, words: &str) -> Result<()> {
    once_and(version, fault, words, Duration::from_secs(180)).await
}

/// The same, with the least time between the two sign-ins.
async fn once_and(version: Version, fault: Fault, words: &str, apart: Duration) -> Result<()> {
    let stage = Stage::new(version).await?;
    let armed = stage.table.faults().route("POST", LOGIN, fault).times(1);
    let trial = stage.begin_amiss().await?;
    until("the fault has fired", || async {
        (armed.fired() == 1).then_some(())
    })
    .await;
    // Told while it lasts, and kept for whoever looks later.
    until("it is told", || async {
        let told = events(trial.home(), 0).await.ok()?;
        told.iter()
            .any(|one| one["event"] == "system.error" && one.to_string().contains(words))
            .then_some(())
    })
    .await;
    until("the next sign-in has come", || async {
        (logins(&stage.table) >= 2).then_some(())
    })
    .await;
    let sent = stage.table.log().requests_to("POST", LOGIN);
    let waited = sent[1].at - sent[0].at;
    ensure!(waited + TOLERANCE >= apart / SCALE, "{waited:?}");
    trial.aftermath().await
}

fn busy(status: u16, after: impl ToString) -> Fault {
    let reply = Reply::json(status, &json!({"error": "Busy", "message": "Later"}));
    Fault::Answer(reply.header("Retry-After", after))
}

#[tokio::test]
async fn a_login_that_is_too_many_waits_as_many_seconds_as_it_is_told() -> Result<()> {
    let asked = Duration::from_secs(1200);
    once_and(Version::V1_5, busy(429, 1200), "cooldown", asked).await
}

/// The daemon's time of day is that of the test here, which a date needs.
#[tokio::test]
async fn a_login_that_is_too_many_waits_until_the_date_it_is_told() -> Result<()> {
    let table = patient_table(Version::V1_1_2).await?;
    let later = SystemTime::now() + Duration::from_secs(1200);
    let date = busy(429, httpdate::fmt_http_date(later));
    let armed = table.faults().route("POST", LOGIN, date).times(1);
    let client = InProcess::start(&table, "dm")?;
    until("the fault has fired", || async {
        (armed.fired() == 1).then_some(())
    })
    .await;
    let told = client.session.read_campaign().await;
    let told = told
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    ensure!(told.contains("cooldown"), "{told}");
    pass(Duration::from_secs(1100)).await;
    ensure!(client.session.read_campaign().await.is_err());
    ensure!(logins(&table) == 1);
    pass(Duration::from_secs(200)).await;
    client.linked().await;
    ensure!(logins(&table) == 2);
    client.session.read_campaign().await?;
    Ok(())
}

#[tokio::test]
async fn a_login_at_a_server_in_maintenance_waits() -> Result<()> {
    let asked = Duration::from_secs(900);
    once_and(Version::V1_5, busy(503, 900), "cooldown", asked).await
}

#[tokio::test]
async fn a_login_answered_by_a_page_waits() -> Result<()> {
    once(Version::V1_5, Fault::Html, "cooldown").await
}

#[tokio::test]
async fn a_login_answered_by_half_an_answer_waits() -> Result<()> {
    once(Version::V1_5, Fault::TruncatedJson, "cooldown").await
}

#[tokio::test]
async fn a_login_answered_by_wrong_types_waits() -> Result<()> {
    once(Version::V1_5, Fault::WrongTypes, "cooldown").await
}

#[tokio::test]
async fn a_login_answered_by_ten_megabytes_is_read() -> Result<()> {
    let stage = Stage::new(Version::V1_5).await?;
    let large = Fault::BigBody(10 << 20);
    let armed = stage.table.faults().route("POST", LOGIN, large).times(1);
    let trial = stage.begin_amiss().await?;
    until("the fault has fired", || async {
        (armed.fired() == 1).then_some(())
    })
    .await;
    trial.aftermath().await
}

async fn redirected(status: u16, to: &str) -> Result<()> {
    let away = Reply::text(status, "text/plain", "over there").header("Location", to);
    once(Version::V1_5, Fault::Answer(away), "redirect").await
}

#[tokio::test]
async fn a_login_that_is_sent_in_a_circle_is_sent_once() -> Result<()> {
    redirected(307, LOGIN).await
}

#[tokio::test]
async fn a_login_that_is_sent_on_within_the_instance_is_not() -> Result<()> {
    redirected(308, "/api/auth/me").await
}

#[tokio::test]
async fn a_login_whose_line_breaks_before_it_is_handled_counts_as_sent() -> Result<()> {
    once(Version::V1_1_2, Fault::HangUpBefore, "cooldown").await
}

#[tokio::test]
async fn a_login_whose_answer_is_lost_counts_as_sent() -> Result<()> {
    once(Version::V1_1_2, Fault::HangUpAfter, "cooldown").await
}

#[tokio::test]
async fn a_login_whose_answer_breaks_off_counts_as_sent() -> Result<()> {
    once(Version::V1_5, Fault::CutMidAnswer, "cooldown").await
}

#[tokio::test]
async fn a_login_that_crashes_the_server_waits() -> Result<()> {
    once(Version::V1_1_2, Fault::status(500), "cooldown").await
}

#[tokio::test]
async fn a_login_refused_by_a_proxy_is_no_verdict_on_the_password() -> Result<()> {
    let page = Reply::text(401, "text/html", "<html>Who are you?</html>");
    once(Version::V1_5, Fault::Answer(page), "cooldown").await
}

#[tokio::test]
async fn a_rejected_password_stays_where_it_is_until_a_person_says_otherwise() -> Result<()> {
    let stage = Stage::new(Version::V1_5).await?;
    let words = json!({"error": "Unauthorized", "message": "Invalid email or password"});
    let rejected = Fault::Answer(Reply::json(401, &words));
    let armed = stage.table.faults().route("POST", LOGIN, rejected);
    let trial = stage.begin_amiss().await?;
    until("the password was rejected", || async {
        (armed.fired() == 1).then_some(())
    })
    .await;
    // Much longer than any cool-down.
    tokio::time::sleep(Duration::from_secs(600) / SCALE).await;
    for _ in 0..5 {
        let answer = trial.lists_maps().await?;
        ensure!(answer["ok"] == false, "{answer}");
    }
    ensure!(logins(&stage.table) == 1);
    armed.off();
    let told = stage.home.ctl(&["login"]).await?;
    ensure!(told.status.success(), "{told:?}");
    trial.aftermath().await
}
