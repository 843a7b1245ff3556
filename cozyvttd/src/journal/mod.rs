//! The durable journal of a campaign's events.
//!
//! Appending numbers an event and hands it to the writer, a thread of its own
//! that commits whatever has gathered in one transaction. Readers see only what
//! is committed. One SQLite file holds the journal of one campaign.

mod cursor;
mod store;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cozyvtt_proto::control::EventPage;
use cozyvtt_proto::event::EventRecord;
use serde_json::Value;
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

pub use cursor::PageError;
use store::Store;

/// How many appended events may wait for the writer. A writer that falls this
/// far behind (a full disk) slows the link down instead of filling the memory.
const QUEUE: usize = 4096;

/// How long a reader waits for what was appended before it asked.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why the journal cannot be used.
#[derive(Debug, Error)]
pub enum JournalError {
    /// SQLite refused.
    #[error("the journal {} cannot be used: {source}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The file was written by a newer version.
    #[error("the journal {} was written by a newer cozyvttd (format {found}, this one knows {known}); install that version, or move the file away", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The format's number in the file.
        found: i64,
        /// The newest one that is known here.
        known: i64,
    },
    /// It takes no events at the moment.
    #[error(
        "the journal takes no events: {0}; make room on the disk and check the folder's permissions"
    )]
    Stuck(String),
    /// The writer has gone; the daemon is stopping.
    #[error("the journal is closed")]
    Closed,
}

/// An event that has no number yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// What came with it; `null` when nothing did.
    pub payload: Value,
    /// Which connection of the link brought it.
    pub generation: u64,
}

impl Event {
    /// An event of `generation`.
    pub fn new(name: impl Into<String>, payload: Value, generation: u64) -> Self {
        Self {
            name: name.into(),
            payload,
            generation,
        }
    }
}

/// What the journal holds now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// The newest number handed out; 0 when there was no event ever.
    pub high_water: u64,
    /// Why the last commit failed, while it is being tried again.
    pub trouble: Option<String>,
}

/// The journal of one campaign. Clones share it.
#[derive(Debug, Clone)]
pub struct Journal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// The newest number. Numbering and queueing are one step under its lock, so
    /// that the order of the numbers is the order in the queue.
    newest: Mutex<u64>,
    queue: mpsc::Sender<EventRecord>,
    committed: watch::Receiver<Health>,
    reader: Arc<Mutex<Store>>,
}

impl Journal {
    /// Opens the journal in `path`, making it when it is not there.
    ///
    /// # Errors
    ///
    /// [`JournalError`] when SQLite refuses or the file is of a newer version.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let store = Store::open(path)?;
        let reader = Store::open(path)?;
        let high_water = store.high_water()?;
        let (queue, events) = mpsc::channel(QUEUE);
        let (commits, committed) = watch::channel(Health {
            high_water,
            trouble: None,
        });
        std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || store::write(store, events, &commits))
            .map_err(|error| JournalError::Sqlite {
                path: path.into(),
                source: rusqlite::Error::ToSqlConversionFailure(Box::new(error)),
            })?;
        Ok(Self(Arc::new(Inner {
            path: path.into(),
            newest: Mutex::new(high_water),
            queue,
            committed,
            reader: Arc::new(Mutex::new(reader)),
        })))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Numbers an event and queues it for the writer; gives its number.
    ///
    /// # Errors
    ///
    /// [`JournalError::Closed`] once the writer has gone.
    pub async fn append(&self, event: Event) -> Result<u64, JournalError> {
        // The room first: nobody waits for it with the lock in hand.
        let room = self
            .0
            .queue
            .reserve()
            .await
            .map_err(|_| JournalError::Closed)?;
        let mut newest = self.0.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let seq = *newest + 1;
        let record = EventRecord {
            seq,
            ts: now(),
            event: event.name,
            payload: event.payload,
            generation: event.generation,
        };
        room.send(record);
        *newest = seq;
        Ok(seq)
    }

    /// The newest number handed out. Whatever is appended after this call has a
    /// larger one.
    pub fn high_water(&self) -> u64 {
        *self.0.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is committed.
    pub fn health(&self) -> Health {
        self.0.committed.borrow().clone()
    }

    /// A page of the records after `since`: what was appended before this call
    /// is committed first, so that a reader never misses what it was told of.
    ///
    /// # Errors
    ///
    /// [`PageError`] for bounds outside of the allowed ones or when SQLite refuses.
    pub async fn page(&self, since: u64, limit: u32) -> Result<EventPage, PageError> {
        cursor::check(limit)?;
        let appended = self.high_water();
        let committed = timeout(PATIENCE, self.committed(appended)).await;
        if committed.is_err() {
            // A page of what there is, unless the reader has seen more than that.
            let health = self.health();
            if since > health.high_water {
                return Err(PageError::Journal(JournalError::Stuck(
                    health.trouble.unwrap_or_else(|| "it is busy".to_owned()),
                )));
            }
        }
        let reader = Arc::clone(&self.0.reader);
        tokio::task::spawn_blocking(move || {
            let store = reader.lock().unwrap_or_else(PoisonError::into_inner);
            cursor::read(&store, since, limit)
        })
        .await
        .map_err(|_| PageError::Journal(JournalError::Closed))?
    }

    /// The newest record named `name`, if it is kept.
    ///
    /// # Errors
    ///
    /// [`JournalError`] when SQLite refuses.
    pub async fn latest(&self, name: &str) -> Result<Option<EventRecord>, JournalError> {
        let (reader, name) = (Arc::clone(&self.0.reader), name.to_owned());
        tokio::task::spawn_blocking(move || {
            let store = reader.lock().unwrap_or_else(PoisonError::into_inner);
            store.latest(&name)
        })
        .await
        .map_err(|_| JournalError::Closed)?
    }

    /// The first record after `since` that `wanted` accepts, waiting for it for
    /// `patience` at most.
    pub async fn find(
        &self,
        since: u64,
        patience: Duration,
        wanted: impl Fn(&EventRecord) -> bool + Sync,
    ) -> Option<EventRecord> {
        let search = async {
            let mut at = since;
            loop {
                self.beyond(at).await.ok()?;
                let page = self.page(at, 500).await.ok()?;
                at = page.next_seq;
                if let Some(found) = page.events.into_iter().find(&wanted) {
                    return Some(found);
                }
            }
        };
        timeout(patience, search).await.ok().flatten()
    }

    /// Waits until a record after `seq` is committed.
    ///
    /// # Errors
    ///
    /// [`JournalError::Closed`] once the writer has gone.
    pub async fn beyond(&self, seq: u64) -> Result<(), JournalError> {
        self.committed(seq.saturating_add(1)).await
    }

    /// Waits until the record `seq` is committed.
    ///
    /// # Errors
    ///
    /// [`JournalError::Closed`] once the writer has gone.
    pub async fn committed(&self, seq: u64) -> Result<(), JournalError> {
        self.0
            .committed
            .clone()
            .wait_for(|health| health.high_water >= seq)
            .await
            .map(drop)
            .map_err(|_| JournalError::Closed)
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map(|elapsed| elapsed.as_secs_f64())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn temporary() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.sqlite");
        (dir, path)
    }

    async fn filled(path: &Path, count: u64) -> Journal {
        let journal = Journal::open(path).unwrap();
        for number in 0..count {
            let event = Event::new("chat.message", json!({"number": number}), 1);
            journal.append(event).await.unwrap();
        }
        journal
    }

    fn seqs(page: &EventPage) -> Vec<u64> {
        page.events.iter().map(|record| record.seq).collect()
    }

    #[tokio::test]
    async fn an_event_that_was_appended_is_in_the_next_page() {
        let (_dir, path) = temporary();
        let journal = filled(&path, 2).await;
        let page = journal.page(0, 100).await.unwrap();
        assert_eq!(seqs(&page), [1, 2]);
        assert_eq!(
            (page.next_seq, page.high_water_seq, page.oldest_seq),
            (2, 2, 1)
        );
        assert!(!page.gap && !page.cursor_reset && !page.has_more);
        journal
            .append(Event::new("x", Value::Null, 1))
            .await
            .unwrap();
        let page = journal.page(page.next_seq, 100).await.unwrap();
        assert_eq!(seqs(&page), [3]);
        assert_eq!(page.events[0].payload, Value::Null);
    }

    #[tokio::test]
    async fn pages_follow_each_other_without_holes() {
        let (_dir, path) = temporary();
        let journal = filled(&path, 5).await;
        let mut since = 0;
        let mut seen = Vec::new();
        loop {
            let page = journal.page(since, 2).await.unwrap();
            seen.extend(seqs(&page));
            since = page.next_seq;
            if !page.has_more {
                break;
            }
        }
        assert_eq!(seen, [1, 2, 3, 4, 5]);
    }

    #[tokio::test]
    async fn numbers_go_on_after_a_restart() {
        let (_dir, path) = temporary();
        let first = filled(&path, 3).await;
        first.page(0, 1).await.unwrap();
        drop(first);
        let journal = Journal::open(&path).unwrap();
        assert_eq!(
            journal
                .append(Event::new("x", Value::Null, 1))
                .await
                .unwrap(),
            4
        );
        assert_eq!(seqs(&journal.page(0, 100).await.unwrap()), [1, 2, 3, 4]);
    }

    #[tokio::test]
    async fn a_cursor_from_elsewhere_is_reset_and_told_so() {
        let (_dir, path) = temporary();
        let journal = filled(&path, 1).await;
        let page = journal.page(100, 10).await.unwrap();
        assert!(page.cursor_reset && !page.gap);
        assert_eq!(seqs(&page), [1]);
    }

    #[tokio::test]
    async fn the_start_reaches_back_five_hundred_and_a_cursor_reaches_all() {
        let (_dir, path) = temporary();
        let journal = filled(&path, 620).await;
        let page = journal.page(0, 500).await.unwrap();
        assert_eq!((page.events[0].seq, page.next_seq), (121, 620));
        assert!(!page.gap, "nothing was evicted");
        assert_eq!(journal.page(5, 1).await.unwrap().events[0].seq, 6);
    }

    #[tokio::test]
    async fn bounds_outside_of_the_allowed_ones_are_refused() {
        let (_dir, path) = temporary();
        let journal = filled(&path, 1).await;
        for limit in [0, 501] {
            assert!(matches!(
                journal.page(0, limit).await,
                Err(PageError::Bounds)
            ));
        }
    }

    #[tokio::test]
    async fn an_empty_journal_has_an_empty_first_page() {
        let (_dir, path) = temporary();
        let page = filled(&path, 0).await.page(0, 10).await.unwrap();
        assert!(page.events.is_empty() && !page.gap && !page.has_more && !page.cursor_reset);
        assert_eq!(
            (page.next_seq, page.high_water_seq, page.oldest_seq),
            (0, 0, 1)
        );
    }

    #[tokio::test]
    async fn the_latest_of_a_name_is_the_newest_or_nothing() {
        let (_dir, path) = temporary();
        let journal = filled(&path, 3).await;
        journal.page(0, 1).await.unwrap();
        let found = journal.latest("chat.message").await.unwrap().unwrap();
        assert_eq!(found.payload, json!({"number": 2}));
        assert_eq!(journal.latest("dice.rolled").await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_reader_that_waits_is_woken_by_the_next_commit() {
        let (_dir, path) = temporary();
        let journal = filled(&path, 1).await;
        let waiter = tokio::spawn({
            let journal = journal.clone();
            async move { journal.beyond(1).await }
        });
        journal
            .append(Event::new("x", Value::Null, 1))
            .await
            .unwrap();
        waiter.await.unwrap().unwrap();
    }

    #[test]
    fn a_file_of_a_newer_version_is_left_alone() {
        let (_dir, path) = temporary();
        rusqlite::Connection::open(&path)
            .unwrap()
            .pragma_update(None, "user_version", 99)
            .unwrap();
        let refusal = Journal::open(&path).unwrap_err();
        assert!(
            matches!(refusal, JournalError::Newer { found: 99, .. }),
            "{refusal}"
        );
    }
}
