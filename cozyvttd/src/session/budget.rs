//! A budget of sends in a sliding window: a short burst goes out at once, what
//! exceeds the window waits its turn, and what would wait too long is refused.

use std::collections::VecDeque;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// The budget of one kind of send, shared by all clients.
#[derive(Debug)]
pub struct Budget {
    sends: usize,
    window: Duration,
    patience: Duration,
    /// When the newest `sends` slots are used, oldest first.
    slots: Mutex<VecDeque<Instant>>,
}

/// The queue is so long that the caller is told rather than kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the queue is full: this one would wait {} s; nothing was sent, try again then", wait.as_secs())]
pub struct QueueFull {
    /// How long it would have waited.
    pub wait: Duration,
}

impl Budget {
    /// `sends` in every `window`; a caller waits for `patience` at most.
    pub fn new(sends: usize, window: Duration, patience: Duration) -> Self {
        Self {
            sends,
            window,
            patience,
            slots: Mutex::default(),
        }
    }

    /// Takes a slot and waits until it has come. The slot counts as used even
    /// when the send fails or is given up: the server may have counted it.
    ///
    /// # Errors
    ///
    /// [`QueueFull`] at once, when the wait would exceed the patience.
    pub async fn take(&self) -> Result<(), QueueFull> {
        let slot = {
            let mut slots = self.slots.lock().await;
            let now = Instant::now();
            let slot = if slots.len() < self.sends {
                now
            } else {
                slots
                    .front()
                    .map_or(now, |oldest| now.max(*oldest + self.window))
            };
            let wait = slot - now;
            if wait > self.patience {
                return Err(QueueFull { wait });
            }
            slots.push_back(slot);
            if slots.len() > self.sends {
                slots.pop_front();
            }
            slot
        };
        sleep_until(slot).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_burst_goes_out_at_once_and_the_next_one_waits_for_the_window() {
        let budget = Budget::new(28, MINUTE, MINUTE);
        let start = Instant::now();
        for _ in 0..28 {
            budget.take().await.unwrap();
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        budget.take().await.unwrap();
        assert_eq!(start.elapsed().as_secs(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn no_window_ever_holds_more_than_the_budget() {
        let budget = Budget::new(3, MINUTE, 10 * MINUTE);
        let mut times = Vec::new();
        for number in 0..12_u64 {
            tokio::time::advance(Duration::from_secs(number % 5)).await;
            budget.take().await.unwrap();
            times.push(Instant::now());
        }
        for four in times.windows(4) {
            assert!(four[3] - four[0] >= MINUTE);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_would_wait_too_long_is_refused_at_once_with_the_wait() {
        let budget = Budget::new(1, MINUTE, Duration::from_secs(30));
        budget.take().await.unwrap();
        let refusal = budget.take().await.unwrap_err();
        assert_eq!(refusal.wait, MINUTE);
        tokio::time::advance(Duration::from_secs(31)).await;
        budget.take().await.unwrap();
    }
}
