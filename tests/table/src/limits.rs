//! The request limiters: fixed windows counted per client address.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::lock;

/// Which counter a request falls under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Counter {
    /// Everything below `/api`.
    Api,
    /// Sign-in and its relatives.
    Login,
    /// Uploads and new documents, by user instead of address.
    Upload,
}

/// How many requests of a kind are allowed in which time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowance {
    pub(crate) limit: u32,
    pub(crate) window: Duration,
}

/// Where a client stands with a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) allowance: Allowance,
    pub(crate) remaining: u32,
    /// Whole seconds until the window ends, rounded up.
    pub(crate) reset: u64,
    pub(crate) refused: bool,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    began: Instant,
    used: u32,
}

/// All counters of the table. They live in memory: a restart clears them.
#[derive(Debug)]
pub(crate) struct Limits {
    api: Mutex<Allowance>,
    login: Mutex<Allowance>,
    upload: Mutex<Allowance>,
    windows: Mutex<HashMap<(Counter, String), Window>>,
}

impl Limits {
    pub(crate) fn new(api: Allowance, login: Allowance, upload: Allowance) -> Self {
        Self {
            api: Mutex::new(api),
            login: Mutex::new(login),
            upload: Mutex::new(upload),
            windows: Mutex::default(),
        }
    }

    fn of(&self, counter: Counter) -> &Mutex<Allowance> {
        match counter {
            Counter::Api => &self.api,
            Counter::Login => &self.login,
            Counter::Upload => &self.upload,
        }
    }

    fn allowance(&self, counter: Counter) -> Allowance {
        *lock(self.of(counter))
    }

    /// Changes how many requests a window allows.
    pub(crate) fn set(&self, counter: Counter, limit: u32) {
        lock(self.of(counter)).limit = limit;
    }

    /// Counts one request.
    pub(crate) fn count(&self, counter: Counter, address: &str) -> Standing {
        self.stand(counter, address, 1)
    }

    /// Looks without counting: refused when the window is already used up.
    pub(crate) fn look(&self, counter: Counter, address: &str) -> Standing {
        let mut standing = self.stand(counter, address, 0);
        standing.refused = standing.remaining == 0;
        standing
    }

    fn stand(&self, counter: Counter, address: &str, add: u32) -> Standing {
        let allowance = self.allowance(counter);
        let now = Instant::now();
        let mut windows = lock(&self.windows);
        let window = windows
            .entry((counter, address.to_owned()))
            .or_insert(Window {
                began: now,
                used: 0,
            });
        if now.duration_since(window.began) >= allowance.window {
            *window = Window {
                began: now,
                used: 0,
            };
        }
        window.used = window.used.saturating_add(add);
        let left = allowance.window.saturating_sub(now - window.began);
        Standing {
            allowance,
            remaining: allowance.limit.saturating_sub(window.used),
            reset: left.as_millis().div_ceil(1000).try_into().unwrap_or(0),
            refused: window.used > allowance.limit,
        }
    }

    /// Forgets every count.
    pub(crate) fn reset(&self) {
        lock(&self.windows).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_window() {
        let allowance = Allowance {
            limit: 2,
            window: Duration::from_secs(900),
        };
        let limits = Limits::new(allowance, allowance, allowance);
        assert_eq!(limits.count(Counter::Login, "a").remaining, 1);
        assert!(!limits.count(Counter::Login, "a").refused);
        assert!(limits.look(Counter::Login, "a").refused);
        let third = limits.count(Counter::Login, "a");
        assert!(third.refused);
        assert!((899..=900).contains(&third.reset));
        assert!(!limits.count(Counter::Login, "b").refused);
        assert!(!limits.count(Counter::Api, "a").refused);
        limits.reset();
        assert!(!limits.count(Counter::Login, "a").refused);
    }
}
