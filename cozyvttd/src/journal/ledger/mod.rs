//! The ledger of writes: what was begun, and what it came to.
//!
//! A write is entered, and committed, when it is asked for; that it leaves, before
//! anything of it does; and its outcome after. So whatever kills the daemon, the next run
//! knows which writes are done, which ones were never begun, and which ones nobody can
//! know of. Entries are kept for an hour, in a file of their own beside the journal's,
//! which any SQLite tool can read:
//!
//! ```text
//! writes(id       INTEGER  -- in the order in which they were begun
//!        instance TEXT     -- the run of the daemon that began it
//!        client   TEXT     -- the client's own random name
//!        name     TEXT     -- its name for people
//!        request  TEXT     -- the id of its JSON-RPC request, as JSON, or NULL
//!        key      TEXT     -- the idempotency key, or NULL
//!        tool     TEXT
//!        digest   TEXT     -- of the arguments, SHA-256 in hexadecimal
//!        begun    REAL     -- in seconds since 1970
//!        sent     INTEGER  -- 1: something of it may have left
//!        ended    REAL     -- the same, or NULL: its outcome is not known (yet)
//!        outcome  TEXT     -- JSON
//!        void     INTEGER) -- 1: it is certain that nothing was sent
//! runs(instance, since)    -- the runs whose writes are all here
//! ```
//!
//! It outlives the daemon's death, not a power cut: whoever waits for an answer dies with
//! the machine as well. A file that takes no entries is given up, and taken away if it
//! can be, so that no later run mistakes it for a whole one.

mod book;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::{Connection, params};
use serde_json::Value;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::lock;
use book::{Book, Known, Running, of_key, of_request, orphan};

/// How long an entry is kept.
pub const KEPT: Duration = Duration::from_secs(60 * 60);

/// How long an idempotency key stands for its first call.
pub const KEY_HOLDS: Duration = Duration::from_secs(10 * 60);

/// How much earlier than it was sent an entry of a request may seem to have begun: its
/// sender counts by another clock.
const SKEW: Duration = Duration::from_secs(5);

/// Tells the time of day, in seconds since 1970.
pub type Time = Arc<dyn Fn() -> f64 + Send + Sync>;

/// Why a write cannot be entered. It was not begun.
#[derive(Debug, Error)]
pub enum LedgerError {
    /// SQLite refused, in memory as well.
    #[error("the ledger of writes takes no entry: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The entry was given up halfway; the daemon is stopping.
    #[error("the ledger of writes is closed")]
    Closed,
}

/// A write that is to be begun.
#[derive(Debug, Clone)]
pub struct Write {
    /// The client's own random name, kept over reconnects.
    pub client: String,
    /// Its name for people.
    pub name: String,
    /// The id of the JSON-RPC request, as JSON, where there is one.
    pub request: Option<String>,
    /// The client has announced that it sends this request once more, on another
    /// connection than before. Only then its id counts: clients use ids again.
    pub announced: bool,
    /// The idempotency key that came along.
    pub key: Option<String>,
    /// The tool.
    pub tool: String,
    /// The digest of its arguments.
    pub digest: String,
    /// Cancelled once its connection counts no more: what has not been begun by then is
    /// not begun. Whoever looks for a trace of it after that can rely on there being none.
    pub replaced: CancellationToken,
}

/// What comes of entering a write.
#[derive(Debug)]
pub enum Begun {
    /// It is entered: to be done now.
    New(Entry),
    /// It was done before: this is what it came to.
    Done(Value),
    /// It is being done.
    Running(First),
    /// It was begun before, and nobody knows what it came to.
    Unknown,
    /// Its key stands for another call: of this tool.
    Other(String),
    /// Its connection counts no more.
    Late,
    /// It may not be begun, and was not.
    Forbidden,
}

/// What is known of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Trace {
    /// It is done: this is what it came to.
    Done(Value),
    /// It was begun, and there is no outcome (yet).
    Begun,
    /// There is an entry of its id, and of an earlier request: the client uses its ids
    /// again.
    Earlier,
    /// There is no entry of it.
    None,
}

/// An entry that has no outcome yet. Dropped without one, it stays so. When nothing of
/// it had left by then ([`Entry::departure`]) it counts as never begun.
#[derive(Debug)]
pub struct Entry {
    id: i64,
    ledger: Ledger,
    outcome: watch::Sender<Option<Value>>,
}

/// Enters that a write leaves.
#[derive(Debug, Clone)]
pub struct Departure {
    id: i64,
    ledger: Ledger,
}

/// The first call of a key, which is being done.
#[derive(Debug)]
pub struct First(watch::Receiver<Option<Value>>);

/// The ledger. Clones share it.
#[derive(Clone)]
pub struct Ledger(Arc<Inner>);

struct Inner {
    instance: String,
    time: Time,
    /// Writes are entered in the order in which they come, and go on in it.
    turn: tokio::sync::Mutex<()>,
    book: Mutex<Book>,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = lock(&self.0.book).file.clone();
        f.debug_tuple("Ledger").field(&file).finish()
    }
}

impl First {
    /// Waits for what it comes to; `None` when nobody will know.
    pub async fn outcome(mut self) -> Option<Value> {
        let outcome = self.0.wait_for(Option::is_some).await.ok()?;
        outcome.clone()
    }
}

impl Entry {
    /// Enters that it leaves, once that is asked for.
    pub fn departure(&self) -> Departure {
        Departure {
            id: self.id,
            ledger: self.ledger.clone(),
        }
    }

    /// Enters what it came to. `void` says that nothing was sent for certain: its key
    /// stands for nothing then.
    pub async fn end(self, outcome: Value, void: bool) {
        let work = tokio::task::spawn_blocking(move || {
            let now = (self.ledger.0.time)();
            let text = outcome.to_string();
            let mut book = lock(&self.ledger.0.book);
            let entered = book.attempt(|db, _| {
                db.prepare_cached(
                    "UPDATE writes SET ended = ?2, outcome = ?3, void = ?4, sent = NOT ?4 WHERE id = ?1",
                )?
                .execute(params![self.id, now, text, void])
            });
            if let Err(error) = entered {
                tracing::error!(%error, "the outcome of a write is not in the ledger");
            }
            // With the book in hand, so that nobody finds it neither running nor done.
            self.outcome.send_replace(Some(outcome));
            book.running.remove(&self.id);
        });
        if let Err(error) = work.await {
            tracing::error!(%error, "the outcome of a write is not in the ledger");
        }
    }
}

impl Departure {
    /// Enters that something of it may have left from now on; committed when this
    /// returns.
    ///
    /// # Errors
    ///
    /// [`LedgerError`]; nothing may leave then.
    pub async fn enter(self) -> Result<(), LedgerError> {
        let Self { id, ledger } = self;
        ledger
            .ask(move |db, _| {
                db.prepare_cached("UPDATE writes SET sent = 1 WHERE id = ?1")?
                    .execute([id])
            })
            .await
            .map(drop)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        lock(&self.ledger.0.book).running.remove(&self.id);
    }
}

impl Ledger {
    /// Opens the ledger in `path` for the run `instance`, making it when it is not there.
    /// A damaged file, or one of another format, is set aside and a new one begun; where
    /// no file can be used the ledger is in memory.
    ///
    /// # Errors
    ///
    /// [`LedgerError`] when there is no memory for it.
    pub fn open(path: &Path, instance: &str, time: Time) -> Result<Self, LedgerError> {
        let book = Book::open(path, instance, time())?;
        Ok(Self(Arc::new(Inner {
            instance: instance.to_owned(),
            time,
            turn: tokio::sync::Mutex::default(),
            book: Mutex::new(book),
        })))
    }

    /// Enters a write, unless its key stands for an earlier one of the same client, or it
    /// may not be begun (`allowed`). It is committed when this returns.
    ///
    /// # Errors
    ///
    /// [`LedgerError`].
    pub async fn begin(&self, write: Write, allowed: bool) -> Result<Begun, LedgerError> {
        let _turn = self.0.turn.lock().await;
        let ledger = self.clone();
        tokio::task::spawn_blocking(move || ledger.enter(&write, allowed))
            .await
            .map_err(|_| LedgerError::Closed)?
    }

    fn enter(&self, write: &Write, allowed: bool) -> Result<Begun, LedgerError> {
        let now = (self.0.time)();
        let mut book = lock(&self.0.book);
        if write.replaced.is_cancelled() {
            return Ok(Begun::Late);
        }
        if let Some(key) = &write.key
            && let Some(known) =
                book.attempt(|db, running| of_key(db, running, &write.client, key, now))?
        {
            return Ok(if known.is(write) {
                book.standing(known)
            } else {
                Begun::Other(known.tool)
            });
        }
        if let Some(request) = write.request.as_ref().filter(|_| write.announced)
            && let Some(known) =
                book.attempt(|db, running| of_request(db, running, &write.client, request))?
        {
            // An id that stands for two writes tells nothing of either.
            return Ok(if known.is(write) {
                book.standing(known)
            } else {
                Begun::Unknown
            });
        }
        if !allowed {
            return Ok(Begun::Forbidden);
        }
        let id = book.attempt(|db, _| {
            // What is under way stays, however long the machine has slept meanwhile.
            db.prepare_cached("DELETE FROM writes WHERE ended < ?1")?
                .execute([now - KEPT.as_secs_f64()])?;
            db.prepare_cached(
                "INSERT INTO writes (instance, client, name, request, key, tool, digest, begun)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .insert(params![
                self.0.instance,
                write.client,
                write.name,
                write.request,
                write.key,
                write.tool,
                write.digest,
                now
            ])
        })?;
        let (outcome, first) = watch::channel(None);
        book.running.insert(id, first);
        Ok(Begun::New(Entry {
            id,
            ledger: self.clone(),
            outcome,
        }))
    }

    /// What is known of the request `request` (its id as JSON) of `client`, first sent
    /// this long ago. Only where the ledger is whole ([`Self::is_whole`]) does [`Trace::None`] say that it was
    /// never begun.
    ///
    /// # Errors
    ///
    /// [`LedgerError`].
    pub async fn trace(
        &self,
        client: &str,
        request: &str,
        age: Duration,
    ) -> Result<Trace, LedgerError> {
        let (client, request) = (client.to_owned(), request.to_owned());
        let sent = (self.0.time)() - (age + SKEW).as_secs_f64();
        self.ask(move |db, running| {
            Ok(match of_request(db, running, &client, &request)? {
                None => Trace::None,
                Some(known) if known.begun < sent => Trace::Earlier,
                Some(Known { outcome: None, .. }) => Trace::Begun,
                Some(Known {
                    outcome: Some(outcome),
                    ..
                }) => Trace::Done(outcome),
            })
        })
        .await
    }

    /// Whether every write that the run `instance` began within the last hour is here.
    ///
    /// # Errors
    ///
    /// [`LedgerError`].
    pub async fn is_whole(&self, instance: &str) -> Result<bool, LedgerError> {
        let instance = instance.to_owned();
        self.ask(move |db, _| {
            db.prepare_cached("SELECT 1 FROM runs WHERE instance = ?1")?
                .exists([&instance])
        })
        .await
    }

    /// The writes of earlier runs whose outcome nobody knows, each of them given once.
    ///
    /// # Errors
    ///
    /// [`LedgerError`].
    pub async fn orphans(&self) -> Result<Vec<Write>, LedgerError> {
        let instance = self.0.instance.clone();
        let now = (self.0.time)();
        self.ask(move |db, _| {
            let orphans = db
                .prepare(
                    "SELECT client, name, request, key, tool, digest FROM writes
                     WHERE ended IS NULL AND sent AND instance <> ?1 ORDER BY id",
                )?
                .query_map([&instance], orphan)?
                .collect::<Result<_, _>>()?;
            db.execute(
                "UPDATE writes SET ended = ?2 WHERE ended IS NULL AND instance <> ?1",
                params![instance, now],
            )?;
            Ok(orphans)
        })
        .await
    }

    /// Whether it outlives the daemon.
    pub fn is_durable(&self) -> bool {
        lock(&self.0.book).file.is_some()
    }

    async fn ask<T: Send + 'static>(
        &self,
        question: impl Fn(&Connection, &Running) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let ledger = self.clone();
        tokio::task::spawn_blocking(move || Ok(lock(&ledger.0.book).attempt(question)?))
            .await
            .map_err(|_| LedgerError::Closed)?
    }
}

#[cfg(test)]
mod tests;
