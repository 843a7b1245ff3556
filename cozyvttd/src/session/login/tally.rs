//! The tally of sign-ins: CozyVTT locks an address out after five of them in 15
//! minutes, and 1.1.2 counts good ones, registrations and second factors as well. All
//! of a user's profiles share one file, and stop at four.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use cozyvtt_proto::control::LoginTally;
use reqwest::header::HeaderMap;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::lock::lock;
use crate::private;
use crate::time::{millis, whole_millis};

/// How many sign-ins leave this machine for one instance in one window: one less than
/// CozyVTT takes, which is left to the person and their browser.
const LIMIT: usize = 4;

/// CozyVTT's window.
const WINDOW: Duration = Duration::from_secs(15 * 60);

/// What the server says is left is believed but for this, for the same reason.
const RESERVE: u64 = 1;

/// Longest time to wait for another daemon that has the file.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often is looked whether it is free.
const LOOK: Duration = Duration::from_millis(20);

/// The tally of one instance.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    file: PathBuf,
    lock: PathBuf,
    instance: String,
    /// The page as this run knows it, for a disk that takes nothing.
    here: Arc<Mutex<Page>>,
}

/// The file: what was sent to which instance. Times are milliseconds since 1970.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Book {
    instances: BTreeMap<String, Page>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Page {
    /// When something left that the server counts, oldest first.
    sent_ms: Vec<u64>,
    /// What the server last said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<Word>,
}

/// What the server said is left in its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Word {
    said_ms: u64,
    until_ms: u64,
    remaining: u64,
}

/// No version of CozyVTT allows more sign-ins than that; other limits do.
const SIGN_IN_LIMIT: u64 = 10;

/// The `RateLimit-Remaining` and `RateLimit-Reset` of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RateLimit {
    remaining: u64,
    reset: Duration,
}

impl RateLimit {
    /// Reads the header fields (IETF draft 6, as CozyVTT sends them).
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let number = |name| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
        // A proxy, or the limit on all requests, has words of its own.
        if number("ratelimit-limit").is_some_and(|limit| limit > SIGN_IN_LIMIT) {
            return None;
        }
        let reset = number("ratelimit-reset").map_or(WINDOW, Duration::from_secs);
        Some(Self {
            remaining: number("ratelimit-remaining")?,
            // A longer window is none of CozyVTT's.
            reset: reset.min(Duration::from_secs(24 * 3600)),
        })
    }

    /// Nothing is left for so long.
    pub(super) fn none_for(reset: Duration) -> Self {
        Self {
            remaining: 0,
            reset,
        }
    }
}

impl Page {
    /// The page as of `now`: what is over is gone, and what lies ahead, because the
    /// time of day was put back, counts from now.
    fn turned(mut self, now_ms: u64) -> Self {
        let window = whole_millis(WINDOW);
        self.sent_ms
            .retain(|sent| sent.saturating_add(window) > now_ms);
        for sent in &mut self.sent_ms {
            *sent = (*sent).min(now_ms);
        }
        self.sent_ms.sort_unstable();
        self.server = self
            .server
            .filter(|word| word.until_ms > now_ms && word.said_ms <= now_ms);
        self
    }

    /// How many the server still takes, by its own word.
    fn remaining(&self) -> Option<u64> {
        let word = self.server?;
        let since = self.sent_ms.iter().filter(|sent| **sent > word.said_ms);
        Some(word.remaining.saturating_sub(since.count() as u64))
    }

    /// When `count` more may be sent: now, or a moment that is named.
    fn room_at(&self, count: usize) -> Option<u64> {
        if let (Some(remaining), Some(word)) = (self.remaining(), self.server) {
            let enough = remaining >= count as u64 + RESERVE;
            return (!enough).then_some(word.until_ms);
        }
        let too_many = (self.sent_ms.len() + count).checked_sub(LIMIT)?;
        let last = self.sent_ms.get(too_many.checked_sub(1)?)?;
        Some(last.saturating_add(whole_millis(WINDOW)))
    }

    fn is_blank(&self) -> bool {
        self.sent_ms.is_empty() && self.server.is_none()
    }
}

impl Tally {
    /// The tally of the instance at `instance`, in the folder that all profiles of the
    /// user share.
    pub(super) fn new(shared: &Path, instance: String) -> Self {
        Self {
            file: shared.join("sign-ins.json"),
            lock: shared.join("sign-ins.lock"),
            instance,
            here: Arc::default(),
        }
    }

    /// Enters one more that leaves now, if there is room for `count` in all.
    ///
    /// # Errors
    ///
    /// How long there is none.
    pub(super) fn take(&self, now: SystemTime, count: usize) -> Result<(), Duration> {
        let now = millis(now);
        self.change(now, |page| match page.room_at(count) {
            None => {
                page.sent_ms.push(now);
                Ok(())
            }
            Some(at) => Err(Duration::from_millis(at.saturating_sub(now))),
        })
    }

    /// Takes the newest back: it did not leave.
    pub(super) fn give_back(&self, now: SystemTime) {
        self.change(millis(now), |page| {
            page.sent_ms.pop();
        });
    }

    /// Enters what the server has said.
    pub(super) fn hear(&self, now: SystemTime, said: RateLimit) {
        let now = millis(now);
        self.change(now, |page| {
            page.server = Some(Word {
                said_ms: now,
                until_ms: now.saturating_add(whole_millis(said.reset)),
                remaining: said.remaining,
            });
        });
    }

    /// How things stand.
    pub(super) fn look(&self, now: SystemTime) -> LoginTally {
        let now = millis(now);
        let on_disk = self.book().instances.remove(&self.instance);
        let here = lock(&self.here);
        let known = [on_disk.unwrap_or_default(), here.clone()].map(|page| page.turned(now));
        drop(here);
        // Whichever has more to tell: the disk of the other daemons, memory of this one.
        let [on_disk, here] = known;
        let page = if here.sent_ms.len() > on_disk.sent_ms.len() {
            here
        } else {
            on_disk
        };
        LoginTally {
            sent: page.sent_ms.len() as u64,
            limit: LIMIT as u64,
            window_s: WINDOW.as_secs(),
            server_remaining: page.remaining(),
            server_resets_in_s: page
                .server
                .map(|word| word.until_ms.saturating_sub(now).div_ceil(1000)),
        }
    }

    fn book(&self) -> Book {
        // A book that cannot be read is begun anew: each daemon's own record still
        // spaces the passwords.
        std::fs::read(&self.file)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    /// Changes the page, on disk and here. A disk that takes nothing leaves the page of
    /// this run, so that the daemon still knows what it has sent itself.
    fn change<T>(&self, now: u64, change: impl Fn(&mut Page) -> T) -> T {
        let on_disk = self.change_on_disk(now, &change);
        let mut here = lock(&self.here);
        match on_disk {
            Ok((outcome, page)) => {
                *here = page;
                outcome
            }
            Err(error) => {
                tracing::warn!(%error, "the tally of sign-ins cannot be written; it is kept in memory");
                *here = std::mem::take(&mut *here).turned(now);
                change(&mut here)
            }
        }
    }

    fn change_on_disk<T>(
        &self,
        now: u64,
        change: impl Fn(&mut Page) -> T,
    ) -> io::Result<(T, Page)> {
        let _lock = self.locked()?;
        let mut book = self.book();
        book.instances = std::mem::take(&mut book.instances)
            .into_iter()
            .map(|(instance, page)| (instance, page.turned(now)))
            .filter(|(instance, page)| *instance == self.instance || !page.is_blank())
            .collect();
        let page = book.instances.entry(self.instance.clone()).or_default();
        let outcome = change(page);
        let page = page.clone();
        private::write(&self.file, &serde_json::to_vec_pretty(&book)?)?;
        Ok((outcome, page))
    }

    /// Keeps other daemons from the file. One that holds it for long has been stopped;
    /// nobody waits for it for ever.
    fn locked(&self) -> io::Result<File> {
        if let Some(folder) = self.lock.parent() {
            private::make(folder)?;
        }
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&self.lock)?;
        let looks = PATIENCE.as_millis() / LOOK.as_millis();
        for _ in 0..looks {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file),
                Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(LOOK),
                Err(error) => return Err(error.into()),
            }
        }
        tracing::warn!(file = %self.lock.display(), "another program holds the tally of sign-ins");
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn tally(folder: &tempfile::TempDir) -> Tally {
        Tally::new(folder.path(), "https://table.example".to_owned())
    }

    fn said(remaining: u64) -> RateLimit {
        RateLimit {
            remaining,
            reset: 15 * MINUTE,
        }
    }

    #[test]
    fn profiles_share_four_sign_ins_in_fifteen_minutes() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (tally(&folder), tally(&folder));
        let began = SystemTime::now();
        for minute in 0..4 {
            let tally = if minute % 2 == 0 { &one } else { &other };
            assert_eq!(tally.take(began + minute * MINUTE, 1), Ok(()));
        }
        let refused = other.take(began + 5 * MINUTE, 1);
        assert_eq!(refused, Err(10 * MINUTE));
        assert_eq!(one.look(began + 5 * MINUTE).sent, 4);
        assert_eq!(one.take(began + 15 * MINUTE, 1), Ok(()));
        let elsewhere = Tally::new(folder.path(), "https://other.example".to_owned());
        assert_eq!(elsewhere.take(began + 5 * MINUTE, 1), Ok(()));
    }

    #[test]
    fn where_the_disk_takes_nothing_this_run_counts_for_itself() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = folder.path().join("file");
        std::fs::write(&nowhere, "no folder").unwrap();
        let tally = Tally::new(&nowhere, "https://table.example".to_owned());
        let began = SystemTime::now();
        for _ in 0..4 {
            assert_eq!(tally.take(began, 1), Ok(()));
        }
        assert_eq!(tally.take(began, 1), Err(15 * MINUTE));
        assert_eq!(tally.look(began).sent, 4);
        assert_eq!(tally.take(began + 15 * MINUTE, 1), Ok(()));
    }

    #[test]
    fn two_that_belong_together_need_room_for_both() {
        let folder = tempfile::tempdir().unwrap();
        let (tally, now) = (tally(&folder), SystemTime::now());
        for _ in 0..3 {
            tally.take(now, 1).unwrap();
        }
        assert_eq!(tally.take(now, 2), Err(15 * MINUTE));
        assert_eq!(tally.take(now, 1), Ok(()));
        tally.give_back(now);
        assert_eq!(tally.look(now).sent, 3);
    }

    #[test]
    fn the_servers_word_wins_both_ways() {
        let folder = tempfile::tempdir().unwrap();
        let (tally, now) = (tally(&folder), SystemTime::now());
        for second in 0..6 {
            // A server that does not count good ones.
            let now = now + second * Duration::from_secs(1);
            assert_eq!(tally.take(now, 1), Ok(()), "{second}");
            tally.hear(now, said(5));
        }
        let now = now + MINUTE;
        tally.hear(now, said(1));
        let refused = tally.take(now + MINUTE, 1);
        assert_eq!(refused, Err(14 * MINUTE), "the last one is the person's");
        let look = tally.look(now + MINUTE);
        assert_eq!(
            (look.server_remaining, look.server_resets_in_s),
            (Some(1), Some(840))
        );
        // What was sent after the server's word is taken off it.
        let now = now + 2 * MINUTE;
        tally.hear(now, said(2));
        assert_eq!(tally.take(now + MINUTE, 1), Ok(()));
        assert!(tally.take(now + MINUTE, 1).is_err());
    }

    #[test]
    fn a_time_of_day_that_was_put_back_does_not_lock_out_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let (tally, now) = (tally(&folder), SystemTime::now());
        for _ in 0..4 {
            tally.take(now, 1).unwrap();
        }
        let earlier = now - 600 * MINUTE;
        assert_eq!(tally.take(earlier, 1), Err(15 * MINUTE));
        assert_eq!(tally.take(earlier + 15 * MINUTE, 1), Ok(()));
    }

    #[test]
    fn daemons_that_count_at_once_lose_none() {
        let folder = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let sent = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..12)
                .map(|_| scope.spawn(|| tally(&folder).take(now, 1).is_ok()))
                .collect();
            threads
                .into_iter()
                .filter(|_| true)
                .map(|one| one.join().unwrap())
                .filter(|sent| *sent)
                .count()
        });
        assert_eq!(sent, LIMIT);
    }

    #[test]
    fn the_header_fields_are_read_as_cozyvtt_writes_them() {
        let headers = |pairs: &[(&'static str, &str)]| {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
                .collect::<HeaderMap>()
        };
        let full = headers(&[("RateLimit-Remaining", "3"), ("RateLimit-Reset", "812")]);
        let read = RateLimit::of(&full).unwrap();
        assert_eq!((read.remaining, read.reset.as_secs()), (3, 812));
        let bare = RateLimit::of(&headers(&[("ratelimit-remaining", "0")])).unwrap();
        assert_eq!(bare.reset, WINDOW);
        assert_eq!(
            RateLimit::of(&headers(&[("ratelimit-remaining", "x")])),
            None
        );
    }
}
