//! How much a user may send in a while.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::From;
use crate::hub::Hub;
use crate::lock;

/// How long a socket is left in peace after it was told of a ceiling.
const SILENCE: Duration = Duration::from_secs(10);
const SECOND: Duration = Duration::from_secs(1);

/// Sliding windows per user and kind of event.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    spent: Mutex<HashMap<(String, &'static str), VecDeque<Instant>>>,
    told: Mutex<HashMap<(String, &'static str), Instant>>,
}

impl Budgets {
    /// Counts one event unless the window already holds `most`.
    pub(crate) fn spend(
        &self,
        user_id: &str,
        what: &'static str,
        most: u32,
        window: Duration,
    ) -> bool {
        let now = Instant::now();
        let mut spent = lock(&self.spent);
        let times = spent.entry((user_id.to_owned(), what)).or_default();
        while times
            .front()
            .is_some_and(|&first| now.duration_since(first) >= window)
        {
            times.pop_front();
        }
        if times.len() >= most as usize {
            return false;
        }
        times.push_back(now);
        true
    }

    /// Whether a socket is to be told of a ceiling now: once in ten seconds.
    fn tell(&self, socket: &str, what: &'static str) -> bool {
        let now = Instant::now();
        let mut told = lock(&self.told);
        let last = told.get(&(socket.to_owned(), what));
        if last.is_some_and(|&last| now.duration_since(last) < SILENCE) {
            return false;
        }
        told.insert((socket.to_owned(), what), now);
        true
    }

    pub(crate) fn clear(&self) {
        lock(&self.spent).clear();
        lock(&self.told).clear();
    }
}

impl Hub {
    /// The ceilings of 1.5: `most` events of a kind per second and user, or fewer
    /// where the table was told so.
    pub(crate) fn under_ceiling(
        &self,
        from: &From,
        what: &'static str,
        most: u32,
        sentence: &str,
    ) -> bool {
        let most = most.min(self.options.socket_ceiling);
        if self.version().is_old() || self.floor.within(&from.seat.user_id, what, most, SECOND) {
            return true;
        }
        self.tell_ceiling(from, what, sentence);
        false
    }

    /// Says that a ceiling was hit, at most once in ten seconds.
    pub(crate) fn tell_ceiling(&self, from: &From, what: &'static str, sentence: &str) {
        if self.floor.budgets.tell(from.seat.socket.id.as_str(), what) {
            self.refuse(from, sentence);
        }
    }
}
