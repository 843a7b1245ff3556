//! How long nobody has been there.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// Waits until the count has been zero for `limit`.
pub(crate) async fn idle_for(limit: Duration, mut count: watch::Receiver<usize>) {
    loop {
        // Both fail only when nobody counts any more.
        if count.wait_for(|count| *count == 0).await.is_err() {
            return;
        }
        let busy = count.wait_for(|count| *count > 0);
        match timeout(limit, busy).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nobody_is_there_once_nobody_was_there_for_long_enough() {
        let minute = Duration::from_secs(60);
        let clients = watch::Sender::new(0);
        let begun = tokio::time::Instant::now();
        let idle = tokio::spawn(idle_for(30 * minute, clients.subscribe()));
        tokio::time::sleep(29 * minute).await;
        clients.send_replace(1);
        tokio::time::sleep(60 * minute).await;
        assert!(!idle.is_finished(), "somebody is there");
        clients.send_replace(0);
        idle.await.unwrap();
        assert_eq!(begun.elapsed().as_secs() / 60, 29 + 60 + 30);
    }
}
