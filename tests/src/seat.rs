//! A seat at the practice table: a daemon that has got there, and what it has
//! said since.

use anyhow::Result;
use cozyvtt_table::{Direction, Table};
use serde_json::json;

use crate::calls::{data, event};
use crate::daemon::{Daemon, Home};
use crate::until;

/// Takes a seat; every hop is fine when this returns.
pub async fn sit<'a>(
    table: &Table,
    account: &str,
    home: &'a mut Option<Home>,
) -> Result<Daemon<'a>> {
    home.insert(Home::at(table, account)?)
        .start_at_table()
        .await
}

/// Takes a seat; what the daemon does by itself then is over when this returns.
pub async fn sit_settled<'a>(
    table: &Table,
    account: &str,
    home: &'a mut Option<Home>,
) -> Result<Daemon<'a>> {
    let home: &'a Home = home.insert(Home::at(table, account)?);
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
