//! The clock: what time it is, how long something takes, and whether the machine
//! has slept in between. Handed in, so that a test can hold it.
//!
//! Moments are tokio's [`Instant`]s and may be waited for directly; spans are
//! measured and waited for through the clock alone, so that a process under test can
//! let an hour pass in a minute.

use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// The time. Clones are the same clock.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    #[cfg(any(test, feature = "test-clock"))]
    held: Option<held::Held>,
}

impl Clock {
    /// The machine's clock. Built for tests (feature `test-clock`, and never as a
    /// release), it runs as many times faster as `COZYVTT_TEST_TIME_SCALE` says.
    pub fn real() -> Self {
        #[cfg(all(feature = "test-clock", debug_assertions))]
        if let Some(held) = held::Held::from_environment() {
            return Self { held: Some(held) };
        }
        Self::default()
    }

    /// The time of day, which may jump: a person or a time server sets it.
    pub fn wall(&self) -> SystemTime {
        #[cfg(any(test, feature = "test-clock"))]
        if let Some(held) = &self.held {
            return held.wall();
        }
        SystemTime::now()
    }

    /// The moment that is `span` from now. It stands still while the machine sleeps.
    pub fn after(&self, span: Duration) -> Instant {
        Instant::now() + self.real_span(span)
    }

    /// How long it is until `moment`; nothing when it has passed.
    pub fn until(&self, moment: Instant) -> Duration {
        self.told_span(moment.saturating_duration_since(Instant::now()))
    }

    /// How long ago `moment` was; nothing when it is still to come.
    pub fn since(&self, moment: Instant) -> Duration {
        self.told_span(Instant::now().saturating_duration_since(moment))
    }

    /// `moment`, but `span` earlier, or now if that has passed.
    pub fn earlier(&self, moment: Instant, span: Duration) -> Instant {
        let earlier = moment.checked_sub(self.real_span(span));
        earlier.unwrap_or(moment).max(Instant::now())
    }

    /// Waits for `span`, not counting time in which the machine sleeps.
    pub async fn sleep(&self, span: Duration) {
        tokio::time::sleep(self.real_span(span)).await;
    }

    /// How long the machine has slept so far, since it was switched on. Two readings
    /// tell whether it slept in between.
    pub fn slept(&self) -> Duration {
        #[cfg(any(test, feature = "test-clock"))]
        if let Some(held) = &self.held {
            return held.slept();
        }
        // The one goes on while the machine sleeps, the other does not (Linux).
        let read = |id| Duration::try_from(clock_gettime(id)).unwrap_or_default();
        let awake = read(ClockId::Monotonic);
        read(ClockId::Boottime).saturating_sub(awake)
    }

    #[cfg_attr(
        not(any(test, feature = "test-clock")),
        expect(clippy::unused_self, reason = "a test's clock may run faster")
    )]
    fn real_span(&self, span: Duration) -> Duration {
        #[cfg(any(test, feature = "test-clock"))]
        if let Some(held) = &self.held {
            return span / held.scale();
        }
        span
    }

    #[cfg_attr(
        not(any(test, feature = "test-clock")),
        expect(clippy::unused_self, reason = "a test's clock may run faster")
    )]
    fn told_span(&self, span: Duration) -> Duration {
        #[cfg(any(test, feature = "test-clock"))]
        if let Some(held) = &self.held {
            return span.saturating_mul(held.scale());
        }
        span
    }
}

#[cfg(any(test, feature = "test-clock"))]
pub use held::Hand;

/// A clock that a test holds.
#[cfg(any(test, feature = "test-clock"))]
mod held {
    use std::sync::{Arc, Mutex, MutexGuard};
    use std::time::{Duration, SystemTime};

    use tokio::time::Instant;

    use super::Clock;
    use crate::lock::lock;

    /// A test's clock: tokio's, which a test may pause and advance, and a time of
    /// day that follows it but for the jumps that the test makes.
    #[derive(Debug, Clone)]
    pub(super) struct Held {
        began: Instant,
        began_wall: SystemTime,
        scale: u32,
        jumps: Arc<Mutex<Jumps>>,
    }

    #[derive(Debug, Default)]
    struct Jumps {
        forward: Duration,
        back: Duration,
        slept: Duration,
    }

    impl Held {
        #[cfg(all(feature = "test-clock", debug_assertions))]
        pub(super) fn from_environment() -> Option<Self> {
            let scale = std::env::var("COZYVTT_TEST_TIME_SCALE").ok()?;
            let scale = scale.parse().ok().filter(|scale| *scale > 0)?;
            // The same for every process of a day: what one has written down, the
            // next one reads by the same clock.
            let now = SystemTime::now();
            let today = now
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, |since| since.as_secs() % 86_400);
            let began_wall = now + Duration::from_secs(today) * (scale - 1);
            Some(Self::new(began_wall, scale))
        }

        fn new(began_wall: SystemTime, scale: u32) -> Self {
            Self {
                began: Instant::now(),
                began_wall,
                scale,
                jumps: Arc::default(),
            }
        }

        pub(super) fn scale(&self) -> u32 {
            self.scale
        }

        pub(super) fn wall(&self) -> SystemTime {
            let jumps = self.jumps();
            let passed = self.began.elapsed() * self.scale;
            self.began_wall + passed + jumps.forward - jumps.back
        }

        pub(super) fn slept(&self) -> Duration {
            self.jumps().slept
        }

        fn jumps(&self) -> MutexGuard<'_, Jumps> {
            lock(&self.jumps)
        }
    }

    /// The hand that moves a test's clock; tokio's own moves what it does not.
    #[derive(Debug, Clone)]
    pub struct Hand(Held);

    impl Hand {
        /// Puts the time of day forward, as a person or a time server does.
        pub fn put_forward(&self, by: Duration) {
            self.0.jumps().forward += by;
        }

        /// Puts the time of day back.
        pub fn put_back(&self, by: Duration) {
            self.0.jumps().back += by;
        }

        /// The machine sleeps: the time of day goes on, timers stand still.
        pub fn sleep(&self, span: Duration) {
            let mut jumps = self.0.jumps();
            jumps.forward += span;
            jumps.slept += span;
        }
    }

    impl Clock {
        /// A clock for a test, and the hand that moves it.
        pub fn held() -> (Self, Hand) {
            let held = Held::new(SystemTime::now(), 1);
            let clock = Self {
                held: Some(held.clone()),
            };
            (clock, Hand(held))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_held_clock_follows_tokios_and_the_hand() {
        let (clock, hand) = Clock::held();
        let (began, morning) = (Instant::now(), clock.wall());
        clock.sleep(Duration::from_secs(60)).await;
        assert_eq!(clock.since(began), Duration::from_secs(60));
        hand.put_forward(Duration::from_secs(3600));
        hand.put_back(Duration::from_secs(600));
        let passed = clock.wall().duration_since(morning).unwrap();
        assert_eq!(passed, Duration::from_secs(60 + 3000));
        assert_eq!(clock.slept(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleeping_machine_moves_the_time_of_day_and_no_timer() {
        let (clock, hand) = Clock::held();
        let (alarm, morning) = (clock.after(Duration::from_secs(10)), clock.wall());
        hand.sleep(Duration::from_secs(5));
        assert_eq!(clock.until(alarm), Duration::from_secs(10));
        assert_eq!(clock.slept(), Duration::from_secs(5));
        let passed = clock.wall().duration_since(morning).unwrap();
        assert_eq!(passed, Duration::from_secs(5));
        let earlier = clock.earlier(alarm, clock.slept());
        assert_eq!(clock.until(earlier), Duration::from_secs(5));
        assert_eq!(
            clock.earlier(alarm, Duration::from_secs(60)),
            Instant::now()
        );
    }

    #[tokio::test]
    async fn the_machines_own_clock_can_be_read() {
        let clock = Clock::default();
        // Two clocks are read one after the other, so they differ by a little.
        let apart = clock.slept().abs_diff(clock.slept());
        assert!(apart < Duration::from_secs(1), "{apart:?}");
        assert!(clock.wall() > SystemTime::UNIX_EPOCH);
    }
}
