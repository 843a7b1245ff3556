//! How long to wait between attempts: longer each time, never in step with
//! others, and short again only after a connection that held.

use std::time::Duration;

/// The waits before the second, third … attempt; the last one stays.
const STEPS: [u64; 5] = [1, 2, 4, 8, 15];

/// How long a connection must have held before the waits start over. Every
/// connection writes a line into the game's chat on CozyVTT 1.1, so a link that
/// comes and goes must slow down.
const PROVEN: Duration = Duration::from_secs(15);

/// The waits of one link.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: usize,
}

impl Backoff {
    /// The wait after an attempt; `held` is how long it was accepted, if it was.
    pub(super) fn after(&mut self, held: Option<Duration>) -> Duration {
        if held.is_some_and(|held| held >= PROVEN) {
            self.failures = 0;
        }
        let step = STEPS[self.failures.min(STEPS.len() - 1)];
        self.failures += 1;
        jittered(Duration::from_secs(step))
    }
}

/// Between three quarters of the wait and the whole of it.
pub(in crate::session) fn jittered(wait: Duration) -> Duration {
    let mut random = [0; 2];
    // Without randomness the wait is merely not jittered.
    let _ = getrandom::fill(&mut random);
    let share = u32::from(u16::from_le_bytes(random));
    wait * 3 / 4 + wait / 4 * share / u32::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(wait: Duration, seconds: u64) -> bool {
        let whole = Duration::from_secs(seconds);
        wait <= whole && wait >= whole * 3 / 4
    }

    /// T-WSK-15: five steps, each with jitter.
    #[test]
    fn t_wsk_15_the_waits_grow_and_stay_at_the_longest() {
        let mut backoff = Backoff::default();
        for seconds in [1, 2, 4, 8, 15, 15] {
            let wait = backoff.after(None);
            assert!(near(wait, seconds), "{wait:?} for {seconds} s");
        }
    }

    /// T-WSK-15: an acceptance alone is no proof of health.
    #[test]
    fn t_wsk_15_only_a_connection_that_held_makes_them_short_again() {
        let mut backoff = Backoff::default();
        backoff.after(None);
        assert!(near(
            backoff.after(Some(PROVEN.saturating_sub(Duration::from_secs(1)))),
            2
        ));
        assert!(near(backoff.after(Some(PROVEN)), 1));
    }
}
