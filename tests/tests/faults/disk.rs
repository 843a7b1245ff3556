//! The disk is full or cannot be written.

use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use cozyvtt_table::Version;
use cozyvtt_tests::calls::{data, event, high_water};
use cozyvtt_tests::mounts;
use cozyvtt_tests::until;
use serde_json::json;

use crate::trial::{SCALE, Stage};

#[tokio::test]
async fn the_disk_is_full_and_then_it_is_not() -> Result<()> {
    if !mounts::possible() {
        return Ok(());
    }
    let stage = Stage::new(Version::V1_5).await?;
    let small = "mount -t tmpfs -o size=8m,mode=700 none $STATE";
    let daemon = stage.home.start_among(small).await?;
    let pid = daemon.pid();
    let trial = stage.with(daemon);
    let home = trial.home();
    until("the link is up", || async {
        let page = data(home, "events_poll", json!({})).await.ok()?;
        (page["authenticated"] == true).then_some(())
    })
    .await;
    // Through the daemon's own view of it.
    let folder = format!("/proc/{pid}/root{}", home.state_dir().display());
    let filler = std::path::Path::new(&folder).join("filler");
    let mut file = File::create(&filler).context("the disk among the mounts")?;
    while file.write_all(&[0; 1024]).is_ok() {}
    let since = high_water(home).await?;
    for number in 0..200 {
        stage.table.say("player1", &format!("No room for {number}"));
    }
    let page = until("it is told", || async {
        let page = data(home, "events_poll", json!({"since": since}))
            .await
            .ok()?;
        (page["durable"] == false).then_some(page)
    })
    .await;
    ensure!(page["note"].is_string(), "{page}");
    drop(file);
    std::fs::remove_file(&filler)?;
    until("it is durable again", || async {
        let page = data(home, "events_poll", json!({})).await.ok()?;
        page.get("durable").is_none().then_some(())
    })
    .await;
    trial.aftermath().await
}

#[tokio::test]
async fn the_state_folder_is_read_only() -> Result<()> {
    if !mounts::possible() {
        return Ok(());
    }
    let stage = Stage::new(Version::V1_1_2).await?;
    std::fs::create_dir_all(stage.home.state_dir())?;
    std::fs::set_permissions(
        stage.home.state_dir(),
        std::os::unix::fs::PermissionsExt::from_mode(0o700),
    )?;
    let read_only = "mount --bind $STATE $STATE; mount -o remount,bind,ro $STATE";
    let daemon = stage.home.start_among(read_only).await?;
    let home = &stage.home;
    until("the link is up", || async {
        let page = data(home, "events_poll", json!({})).await.ok()?;
        (page["authenticated"] == true).then_some(())
    })
    .await;
    let since = high_water(home).await?;
    stage.table.say("player1", "Written nowhere");
    event(home, since, "chat.message").await;
    let page = data(home, "events_poll", json!({"since": since})).await?;
    ensure!(page["durable"] == false, "{page}");
    ensure!(daemon.stop().await?.success());
    // Not even when it sent its password could be written down.
    tokio::time::sleep(Duration::from_secs(180) / SCALE).await;
    // Given back its folder, it is as before; what it said would be lost is.
    let mut trial = stage.with(stage.home.start_at_table().await?);
    trial.forgets_what_was_said();
    trial.aftermath().await
}
