//! The live link breaks at every step, and everything odd comes over it.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use cozyvtt_proto::control::HopState;
use cozyvtt_table::{SocketFault, Table, Version};
use cozyvtt_tests::between::{Between, Way};
use cozyvtt_tests::calls::{data, event, events, high_water, hop};
use cozyvtt_tests::until;
use serde_json::{Value, json};

use crate::trial::{Stage, Trial};

/// The first attempt to connect is reset when these bytes pass.
async fn reset_at(way: Way, bytes: &str) -> Result<()> {
    let mut stage = Stage::new(Version::V1_5).await?;
    let between = Between::start(stage.table.port()).await?;
    stage.home.set("COZYVTT_URL", between.url());
    between.break_once_at(way, bytes);
    let trial = stage.begin_amiss().await?;
    until("the line was reset", || async {
        (between.broken() == 1).then_some(())
    })
    .await;
    trial.aftermath().await
}

#[tokio::test]
async fn a_reset_at_the_login() -> Result<()> {
    reset_at(Way::Up, "POST /api/auth/login").await
}

#[tokio::test]
async fn a_reset_at_the_answer_to_the_login() -> Result<()> {
    reset_at(Way::Down, "set-cookie").await
}

#[tokio::test]
async fn a_reset_at_the_handshake() -> Result<()> {
    reset_at(Way::Up, "GET /socket.io/").await
}

#[tokio::test]
async fn a_reset_at_the_upgrade() -> Result<()> {
    reset_at(Way::Down, "101 Switching Protocols").await
}

#[tokio::test]
async fn a_reset_at_the_open_packet() -> Result<()> {
    reset_at(Way::Down, "0{\"sid\"").await
}

#[tokio::test]
async fn a_reset_at_the_namespace() -> Result<()> {
    reset_at(Way::Down, "40{\"sid\"").await
}

#[tokio::test]
async fn a_reset_at_connected() -> Result<()> {
    reset_at(Way::Down, "42[\"connected\"").await
}

#[tokio::test]
async fn a_reset_at_authenticated() -> Result<()> {
    reset_at(Way::Down, "42[\"authenticated\"").await
}

/// A fault of the sockets keeps the first attempt from succeeding.
async fn refused(version: Version, fault: SocketFault, words: &str) -> Result<()> {
    let stage = Stage::new(version).await?;
    let armed = stage.table.faults().socket(fault);
    let trial = stage.begin_amiss().await?;
    let told = until("the refusal is told", || async {
        let told = events(trial.home(), 0).await.ok()?;
        told.into_iter()
            .find(|one| one["event"] == "system.error" && one.to_string().contains(words))
    })
    .await;
    ensure!(armed.fired() > 0, "{told}");
    armed.off();
    trial.aftermath().await
}

#[tokio::test]
async fn a_handshake_refused_by_a_proxy() -> Result<()> {
    refused(Version::V1_5, SocketFault::RefuseHandshake(502), "HTTP 502").await
}

#[tokio::test]
async fn a_handshake_forbidden() -> Result<()> {
    refused(
        Version::V1_1_2,
        SocketFault::RefuseHandshake(403),
        "HTTP 403",
    )
    .await
}

#[tokio::test]
async fn a_handshake_that_finds_the_session_gone() -> Result<()> {
    refused(Version::V1_5, SocketFault::RefuseHandshake(401), "HTTP 401").await
}

#[tokio::test]
async fn an_introduction_that_finds_the_session_gone() -> Result<()> {
    let words = "Unauthorized";
    let gone = SocketFault::AuthenticateError(words.to_owned());
    refused(Version::V1_5, gone, words).await
}

#[tokio::test]
async fn a_link_that_is_told_that_its_session_is_gone() -> Result<()> {
    let frame = "42[\"error\",{\"message\":\"Unauthorized\"}]";
    over_the_link(frame, Some("Unauthorized")).await
}

#[tokio::test]
async fn a_server_that_never_says_connected() -> Result<()> {
    refused(Version::V1_5, SocketFault::NeverConnected, "timed out").await
}

#[tokio::test]
async fn a_server_that_never_says_authenticated() -> Result<()> {
    refused(Version::V1_5, SocketFault::NeverAuthenticated, "timed out").await
}

#[tokio::test]
async fn a_campaign_that_is_not_there_any_more_is_asked_for_slowly() -> Result<()> {
    let gone = SocketFault::AuthenticateError("Campaign not found".to_owned());
    refused(Version::V1_5, gone, "Campaign not found").await
}

#[tokio::test]
async fn a_membership_that_is_lost_is_asked_for_slowly() -> Result<()> {
    let words = "You are not a member of this campaign";
    let lost = SocketFault::AuthenticateError(words.to_owned());
    refused(Version::V1_1_2, lost, words).await
}

#[tokio::test]
async fn a_server_that_is_broken_inside() -> Result<()> {
    let words = "Authentication failed";
    let broken = SocketFault::AuthenticateError(words.to_owned());
    refused(Version::V1_1_2, broken, words).await
}

#[tokio::test]
async fn a_frame_of_garbage_at_the_beginning_is_named() -> Result<()> {
    let garbage = SocketFault::Garbage("{not a packet".to_owned());
    refused(Version::V1_5, garbage, "unreadable frame").await
}

/// A frame that comes over a link that is up.
async fn over_the_link(frame: &str, ends: Option<&str>) -> Result<()> {
    let stage = Stage::new(Version::V1_5).await?;
    let trial = stage.begin().await?;
    let since = high_water(trial.home()).await?;
    stage.table.faults().send_frame(frame);
    if let Some(words) = ends {
        let ended = event(trial.home(), since, "system.disconnected").await;
        ensure!(ended.to_string().contains(words), "{ended}");
    } else {
        // It was seen once the line after it has come.
        stage.table.say("player1", "After that");
        event(trial.home(), since, "chat.message").await;
        let seen = events(trial.home(), since).await?;
        let ended = seen.iter().any(|one| one["event"] == "system.disconnected");
        ensure!(!ended, "{seen:?}");
    }
    trial.aftermath().await
}

#[tokio::test]
async fn garbage_in_the_middle_ends_the_link_and_is_named() -> Result<()> {
    over_the_link("8what is this", Some("unreadable frame")).await
}

#[tokio::test]
async fn half_an_event_ends_the_link_and_is_named() -> Result<()> {
    over_the_link("42[\"chat.message\",{\"id\":", Some("unreadable frame")).await
}

#[tokio::test]
async fn a_foreign_namespace_is_passed_over() -> Result<()> {
    over_the_link("42/other,[\"chat.message\",{\"id\":\"x\"}]", None).await
}

#[tokio::test]
async fn an_acknowledgement_that_nobody_asked_for_is_passed_over() -> Result<()> {
    over_the_link("437[\"yes\"]", None).await
}

#[tokio::test]
async fn a_disconnect_by_the_server_is_followed_by_a_new_connection() -> Result<()> {
    over_the_link("41", Some("disconnected this client")).await
}

#[tokio::test]
async fn a_frame_larger_than_is_taken_ends_the_link_and_is_named() -> Result<()> {
    let frame = format!("42[\"map.changed\",\"{}\"]", "x".repeat(17 << 20));
    over_the_link(&frame, Some("too")).await
}

#[tokio::test]
async fn an_unknown_event_is_counted_and_not_journalled() -> Result<()> {
    let stage = Stage::new(Version::V1_5).await?;
    let trial = stage.begin().await?;
    let since = high_water(trial.home()).await?;
    for _ in 0..3 {
        stage
            .table
            .faults()
            .send_frame("42[\"weather.changed\",{\"rain\":true}]");
    }
    stage.table.say("player1", "It rains");
    event(trial.home(), since, "chat.message").await;
    let seen = events(trial.home(), since).await?;
    ensure!(seen.iter().all(|one| one["event"] != "weather.changed"));
    let ignored = trial.home().status().await?.ignored_events;
    ensure!(ignored.get("weather.changed") == Some(&3), "{ignored:?}");
    trial.aftermath().await
}

#[tokio::test]
async fn a_line_that_falls_silent_without_ending_is_found_dead() -> Result<()> {
    let heart = Duration::from_millis(500);
    let table = Table::builder().ping_interval(heart).ping_timeout(heart);
    let mut stage = Stage::of(table).await?;
    let between = Between::start(stage.table.port()).await?;
    stage.home.set("COZYVTT_URL", between.url());
    let trial = stage.begin().await?;
    let since = high_water(trial.home()).await?;
    between.fall_silent();
    stage.table.say("player1", "Can you hear me?");
    let ended = event(trial.home(), since, "system.disconnected").await;
    ensure!(ended.to_string().contains("dead"), "{ended}");
    between.speak_again();
    trial.aftermath().await
}

/// Closes the link as soon as it is up, sixty times: a table that ends it every
/// second, for a minute.
async fn sixty_times(version: Version) -> Result<()> {
    let stage = Stage::new(version).await?;
    let mut trial = stage.begin().await?;
    for round in 0..60 {
        let since = high_water(trial.home()).await?;
        stage.table.close_sockets();
        if round % 20 == 0 {
            stage.table.say("player1", &format!("Between {round}"));
            trial.says(&format!("In spite of it {round}")).await?;
        }
        event(trial.home(), since, "system.reconnected").await;
    }
    trial.aftermath().await
}

#[tokio::test]
async fn a_link_that_is_closed_sixty_times() -> Result<()> {
    sixty_times(Version::V1_5).await
}

#[tokio::test]
async fn a_link_that_is_closed_sixty_times_in_1_1_2() -> Result<()> {
    sixty_times(Version::V1_1_2).await
}

async fn swallowed(trial: &mut Trial<'_>, name: &str) -> Result<Value> {
    let fault = SocketFault::Swallow(name.to_owned());
    let armed = trial.table().faults().socket(fault);
    let answer = trial.says("Lost on the way").await?;
    until("the line was swallowed", || async {
        (armed.fired() > 0).then_some(())
    })
    .await;
    armed.off();
    Ok(answer)
}

#[tokio::test]
async fn a_send_that_the_server_swallows_stays_pending_and_is_never_sent_again() -> Result<()> {
    let stage = Stage::new(Version::V1_1_2).await?;
    let mut trial = stage.begin().await?;
    let answer = swallowed(&mut trial, "chat.message").await?;
    ensure!(answer["data"]["status"] == "pending", "{answer}");
    trial.aftermath().await
}

#[tokio::test]
async fn a_broadcast_that_is_withheld_keeps_nobody_for_long() -> Result<()> {
    let stage = Stage::new(Version::V1_5).await?;
    let mut trial = stage.begin().await?;
    let withheld = SocketFault::Withhold("chat.message".to_owned());
    let armed = stage.table.faults().socket(withheld).times(1);
    for line in ["One", "Two", "Three"] {
        let answer = trial.says(line).await?;
        ensure!(answer["ok"] == true, "{answer}");
    }
    ensure!(armed.fired() == 1);
    armed.off();
    // Nobody was told of the first line; the next outage brings it in.
    let since = high_water(trial.home()).await?;
    stage.table.close_sockets();
    event(trial.home(), since, "system.resync").await;
    trial.aftermath().await
}

#[tokio::test]
async fn a_member_who_is_removed_is_shown_out_and_let_in_again() -> Result<()> {
    let stage = Stage::new(Version::V1_1_2).await?;
    let trial = stage.begin().await?;
    let role = stage.table.role_of("dm").context("no role")?;
    stage.table.remove_member("dm");
    // 1.1.2 leaves the socket open: the next answer tells.
    let answer = trial.lists_maps().await?;
    ensure!(answer["ok"] == false, "{answer}");
    let told = until("the campaign is closed", || async {
        let status = trial.home().status().await.ok()?;
        let campaign = hop(&status, "campaign").ok()?;
        (campaign.state == HopState::Broken).then(|| campaign.detail.clone())
    })
    .await;
    ensure!(told.contains("not a member"), "{told}");
    stage.table.add_member("dm", role);
    trial.aftermath().await
}

#[tokio::test]
async fn rolls_and_lines_of_an_outage_come_back_once() -> Result<()> {
    let stage = Stage::new(Version::V1_5).await?;
    let trial = stage.begin().await?;
    let since = high_water(trial.home()).await?;
    stage.table.pause().await;
    event(trial.home(), since, "system.disconnected").await;
    stage.table.say("player1", "Nobody hears this");
    stage.table.roll("player1", "1d6", false)?;
    stage.table.roll("dm", "1d8", true)?;
    stage.table.resume().await?;
    let mark = event(trial.home(), since, "system.resync").await;
    // Lines from just before the daemon first came count among them.
    let recovered = &mark["payload"]["recovered"];
    ensure!(
        recovered["chat"].as_u64() >= Some(1) && recovered["dice"] == 2,
        "{mark}"
    );
    let lost = mark["payload"]["may_be_lost"].to_string();
    ensure!(!lost.contains("chat") && !lost.contains("dice"), "{mark}");
    let seen = events(trial.home(), since).await?;
    let rolls: Vec<_> = seen
        .iter()
        .filter(|one| one["event"] == "dice.rolled")
        .map(|one| (&one["payload"]["expression"], &one["payload"]["recovered"]))
        .collect();
    ensure!(
        rolls == [(&json!("1d6"), &json!(true)), (&json!("1d8"), &json!(true))],
        "{seen:?}"
    );
    trial.aftermath().await
}

#[tokio::test]
async fn a_secret_roll_in_another_window_is_found_while_connected() -> Result<()> {
    let stage = Stage::new(Version::V1_5).await?;
    let trial = stage.begin().await?;
    let since = high_water(trial.home()).await?;
    stage.table.roll("dm", "1d20+3", true)?;
    let found = event(trial.home(), since, "dice.rolled").await;
    ensure!(found["payload"]["secret"] == true, "{found}");
    ensure!(found["payload"]["recovered"] == true, "{found}");
    // Read many times since, it is in the journal once.
    let reads = || {
        let read = stage.table.log().requests().into_iter();
        read.filter(|one| one.path.ends_with("/dice-rolls")).count()
    };
    let before = reads();
    until("the rolls are read three more times", || async {
        (reads() >= before + 3).then_some(())
    })
    .await;
    let seen = events(trial.home(), since).await?;
    let rolls = seen.iter().filter(|one| one["event"] == "dice.rolled");
    ensure!(rolls.count() == 1, "{seen:?}");
    data(trial.home(), "map_list", json!({})).await?;
    trial.aftermath().await
}
