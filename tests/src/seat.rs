//! A seat at the practice table: a daemon that has got there, and what it has
//! said since.

use anyhow::{Result, ensure};
use cozyvtt_table::{Direction, Table};
use serde_json::json;

use crate::calls::{data, event};
use crate::daemon::{Daemon, Home, Seated};
use crate::until;

/// Takes a seat; every hop is fine when this returns.
pub async fn sit(table: &Table, account: &str) -> Result<Seated> {
    let home = Home::at(table, account)?;
    Seated::by(home, Home::start_at_table).await
}

/// Takes a seat; what the daemon does by itself then is over when this returns.
pub async fn sit_settled(table: &Table, account: &str) -> Result<Seated> {
    Seated::by(Home::at(table, account)?, settled).await
}

/// The same for a home that there is already.
pub async fn settled(home: &Home) -> Result<Daemon<'_>> {
    let daemon = home.start_at_table().await?;
    event(home, 0, "initiative.state").await;
    until("the campaign is known", || async {
        let page = data(home, "events_poll", json!({})).await.ok()?;
        (page["campaign_cache_stale"] == false).then_some(())
    })
    .await;
    Ok(daemon)
}

/// How many requests and how many events the daemon has sent.
pub fn said(table: &Table) -> (usize, usize) {
    let frames = table.log().frames();
    let sent = frames.iter().filter(|one| {
        one.direction == Direction::In && one.event.as_deref().is_some_and(|name| name != "ping")
    });
    (table.log().requests().len(), sent.count())
}

/// Waits until a line of chat has arrived: whatever was sent before has, too.
pub async fn fence(table: &Table, home: &Home) -> Result<()> {
    data(home, "chat_send", json!({"content": "fence"})).await?;
    until("the fence is there", || async {
        let chat = table.chat();
        chat.iter()
            .any(|line| line.content == "fence")
            .then_some(())
    })
    .await;
    Ok(())
}

/// Holds when nothing has gone to the table since `before` ([`said`]), not even what
/// might still be on its way.
pub async fn nothing_said_since(before: (usize, usize), table: &Table, home: &Home) -> Result<()> {
    fence(table, home).await?;
    // The fence itself is one event.
    let now = said(table);
    ensure!(
        now == (before.0, before.1 + 1),
        "requests and events went from {before:?} to {now:?}, a fence included"
    );
    Ok(())
}
