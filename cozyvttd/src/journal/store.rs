//! The SQLite file of a journal: its schema, what is read and how it is written.
//!
//! Any SQLite tool can read it:
//!
//! ```text
//! events(seq     INTEGER  -- the record's number, never reused
//!        ts      REAL     -- seconds since 1970
//!        event   TEXT     -- the event's name
//!        payload TEXT     -- JSON
//!        generation INTEGER)
//! ```
//!
//! `user_version` is the number of the format.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cozyvtt_proto::event::EventRecord;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use tokio::sync::{mpsc, watch};

use super::{Health, JournalError};

/// The steps from one format to the next; the format's number is how many were
/// taken. AUTOINCREMENT is what keeps a number from being used twice even when
/// the newest records have been evicted.
const MIGRATIONS: [&str; 1] = ["
    CREATE TABLE events (
        seq        INTEGER PRIMARY KEY AUTOINCREMENT,
        ts         REAL    NOT NULL,
        event      TEXT    NOT NULL,
        payload    TEXT    NOT NULL,
        generation INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX events_by_name ON events (event, seq);
"];

/// How long the writer waits before it tries a refused commit again.
const RETRY: Duration = Duration::from_secs(1);

/// Most events in one transaction.
const BATCH: usize = 1024;

/// One connection to the file.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    db: Connection,
}

impl Store {
    pub(super) fn open(path: &Path) -> Result<Self, JournalError> {
        let explain = |source| JournalError::Sqlite {
            path: path.into(),
            source,
        };
        let mut db = Connection::open(path).map_err(explain)?;
        let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
        let found: i64 = db
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .map_err(explain)?;
        if found > known {
            return Err(JournalError::Newer {
                path: path.into(),
                found,
                known,
            });
        }
        prepare(&mut db, usize::try_from(found).unwrap_or(0)).map_err(explain)?;
        Ok(Self {
            path: path.into(),
            db,
        })
    }

    /// The newest number ever handed out, kept or not.
    pub(super) fn high_water(&self) -> Result<u64, JournalError> {
        self.db
            .query_row(
                "SELECT seq FROM sqlite_sequence WHERE name = 'events'",
                [],
                |row| row.get(0),
            )
            .optional()
            .map(Option::unwrap_or_default)
            .map_err(|source| self.refused(source))
    }

    /// The newest record of that name.
    pub(super) fn latest(&self, name: &str) -> Result<Option<EventRecord>, JournalError> {
        self.db
            .prepare_cached(
                "SELECT seq, ts, event, payload, generation FROM events
                 WHERE event = ?1 ORDER BY seq DESC LIMIT 1",
            )
            .and_then(|mut query| query.query_row([name], record).optional())
            .map_err(|source| self.refused(source))
    }

    /// A view of the file as it is now.
    pub(super) fn snapshot(&self) -> Result<Snapshot<'_>, JournalError> {
        self.db
            .unchecked_transaction()
            .map(|transaction| Snapshot {
                store: self,
                transaction,
            })
            .map_err(|source| self.refused(source))
    }

    pub(super) fn append(&mut self, batch: &[EventRecord]) -> rusqlite::Result<()> {
        let transaction = self.db.transaction()?;
        {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO events (seq, ts, event, payload, generation)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            for record in batch {
                insert.execute(params![
                    record.seq,
                    record.ts,
                    record.event,
                    record.payload.to_string(),
                    record.generation,
                ])?;
            }
        }
        transaction.commit()
    }

    /// Removes the records up to `seq`, as an eviction would.
    #[cfg(test)]
    pub(super) fn evict(&self, seq: u64) {
        let evicted = self.db.execute("DELETE FROM events WHERE seq <= ?1", [seq]);
        evicted.unwrap();
    }

    fn refused(&self, source: rusqlite::Error) -> JournalError {
        JournalError::Sqlite {
            path: self.path.clone(),
            source,
        }
    }
}

/// A consistent view; what is committed meanwhile is not in it.
pub(super) struct Snapshot<'a> {
    store: &'a Store,
    transaction: Transaction<'a>,
}

impl Snapshot<'_> {
    pub(super) fn newest(&self) -> Result<u64, JournalError> {
        self.store.high_water()
    }

    pub(super) fn oldest(&self) -> Result<Option<u64>, JournalError> {
        self.transaction
            .query_row("SELECT min(seq) FROM events", [], |row| row.get(0))
            .map_err(|source| self.store.refused(source))
    }

    pub(super) fn after(&self, seq: u64, limit: u32) -> Result<Vec<EventRecord>, JournalError> {
        let read = || {
            self.transaction
                .prepare_cached(
                    "SELECT seq, ts, event, payload, generation FROM events
                     WHERE seq > ?1 ORDER BY seq LIMIT ?2",
                )?
                .query_map(params![seq, limit], record)?
                .collect::<rusqlite::Result<_>>()
        };
        read().map_err(|source| self.store.refused(source))
    }
}

fn record(row: &Row<'_>) -> rusqlite::Result<EventRecord> {
    let payload: String = row.get(3)?;
    Ok(EventRecord {
        seq: row.get(0)?,
        ts: row.get(1)?,
        event: row.get(2)?,
        payload: serde_json::from_str(&payload).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(3, rusqlite::types::Type::Text, error.into())
        })?,
        generation: row.get(4)?,
    })
}

fn prepare(db: &mut Connection, format: usize) -> rusqlite::Result<()> {
    db.busy_timeout(Duration::from_secs(5))?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "NORMAL")?;
    for (step, statements) in MIGRATIONS.iter().enumerate().skip(format) {
        let migration = db.transaction()?;
        migration.execute_batch(statements)?;
        migration.pragma_update(None, "user_version", step + 1)?;
        migration.commit()?;
    }
    Ok(())
}

/// The writer's loop: commits what has gathered, tells the readers, and tries
/// a refused commit again until it works or the journal is closed.
pub(super) fn write(
    mut store: Store,
    mut events: mpsc::Receiver<EventRecord>,
    commits: &watch::Sender<Health>,
) {
    let mut batch = Vec::with_capacity(BATCH);
    while events.blocking_recv_many(&mut batch, BATCH) > 0 {
        while let Err(error) = store.append(&batch) {
            tracing::error!(%error, events = batch.len(), "the journal refused a commit; trying again");
            commits.send_modify(|health| health.trouble = Some(error.to_string()));
            if events.is_closed() {
                tracing::error!(
                    events = batch.len(),
                    "events lost: the daemon stops and the journal refuses them"
                );
                return;
            }
            std::thread::sleep(RETRY);
        }
        let newest = batch.last().map_or(0, |record| record.seq);
        commits.send_modify(|health| {
            health.high_water = newest;
            health.trouble = None;
        });
        batch.clear();
    }
}
