//! Whether the machine has slept: a session may have run out meanwhile, so it is
//! looked at before anything else.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::super::clock::Clock;

use crate::lock::lock;

/// Shorter sleeps, and smaller jumps of the time of day, change nothing.
const NAP: Duration = Duration::from_secs(30);

/// What the clock showed, and whether that has raised a doubt.
#[derive(Debug)]
pub(super) struct Wake {
    seen: Mutex<Seen>,
    doubt: AtomicBool,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    slept: Duration,
    wall: SystemTime,
    at: Instant,
}

impl Wake {
    pub(super) fn new(clock: &Clock) -> Self {
        Self {
            seen: Mutex::new(Seen::now(clock)),
            doubt: AtomicBool::new(false),
        }
    }

    /// Looks at the clock; whether the session has to be looked at, too.
    pub(super) fn look(&self, clock: &Clock) -> bool {
        let now = Seen::now(clock);
        let mut seen = lock(&self.seen);
        let slept = now.slept.saturating_sub(seen.slept);
        // A virtual machine that was halted shows only by its time of day.
        let passed = now.wall.duration_since(seen.wall).unwrap_or_default();
        let jumped = passed.saturating_sub(clock.since(seen.at));
        *seen = now;
        if slept.max(jumped) > NAP {
            tracing::info!("the machine has slept, or the time of day has jumped");
            self.doubt.store(true, Ordering::Relaxed);
        }
        self.doubt.load(Ordering::Relaxed)
    }

    /// The session has been looked at.
    pub(super) fn trust(&self) {
        self.doubt.store(false, Ordering::Relaxed);
    }
}

impl Seen {
    fn now(clock: &Clock) -> Self {
        Self {
            slept: clock.slept(),
            wall: clock.wall(),
            at: Instant::now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sleep_or_a_jump_forward_raises_a_doubt_until_it_is_settled() {
        let (clock, hand) = Clock::held();
        let wake = Wake::new(&clock);
        tokio::time::advance(Duration::from_secs(7200)).await;
        assert!(!wake.look(&clock), "two busy hours");
        hand.sleep(Duration::from_secs(10));
        hand.put_back(Duration::from_secs(3600));
        assert!(!wake.look(&clock), "a nap");
        hand.sleep(Duration::from_secs(3600));
        assert!(wake.look(&clock) && wake.look(&clock));
        wake.trust();
        assert!(!wake.look(&clock));
        hand.put_forward(Duration::from_secs(60));
        assert!(wake.look(&clock));
    }
}
