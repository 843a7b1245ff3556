//! The ledger's tables: the file, or memory where there is none, and what they are asked.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, Row, params};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Begun, First, KEY_HOLDS, Write};
use crate::journal::durable::beside;
use crate::journal::{JournalError, open};

/// How many runs are remembered.
const RUNS: usize = 100;

/// The number of the file's format, its `user_version`.
const FORMAT: i64 = 1;

const TABLES: &str = "
    CREATE TABLE writes (
        id       INTEGER PRIMARY KEY AUTOINCREMENT,
        instance TEXT    NOT NULL,
        client   TEXT    NOT NULL,
        name     TEXT    NOT NULL,
        request  TEXT,
        key      TEXT,
        tool     TEXT    NOT NULL,
        digest   TEXT    NOT NULL,
        begun    REAL    NOT NULL,
        sent     INTEGER NOT NULL DEFAULT 0,
        ended    REAL,
        outcome  TEXT,
        void     INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE INDEX writes_by_begun ON writes (begun);
    CREATE INDEX writes_by_key ON writes (client, key) WHERE key IS NOT NULL;
    CREATE INDEX writes_by_request ON writes (client, request) WHERE request IS NOT NULL;
    CREATE TABLE runs (
        instance TEXT PRIMARY KEY,
        since    REAL NOT NULL
    ) STRICT;
    PRAGMA user_version = 1;
";

/// The open tables, and what is under way in this run.
pub(super) struct Book {
    pub(super) db: Connection,
    /// Where they lie; nowhere when they are in memory.
    pub(super) file: Option<PathBuf>,
    pub(super) running: Running,
}

/// What is under way, and where its outcome will be told.
pub(super) type Running = HashMap<i64, watch::Receiver<Option<Value>>>;

impl Book {
    /// Opens the tables in `path` for the run `instance`, making them where there are none.
    /// A damaged file, or one of another format, is set aside and a new one begun; where no
    /// file can be used they are in memory.
    pub(super) fn open(path: &Path, instance: &str, now: f64) -> rusqlite::Result<Self> {
        let opened = open_file(path).or_else(|error| {
            if !error.is_damage() && !matches!(error, JournalError::Newer { .. }) {
                return Err(error);
            }
            // An hour's worth of knowledge is no reason to go without a file.
            tracing::error!(%error, "the ledger of writes is begun anew");
            open::set_aside(path)?;
            open_file(path)
        });
        let (db, file) = match opened {
            Ok(db) => (db, Some(path.to_owned())),
            Err(error) => {
                tracing::error!(%error, "the ledger of writes is in memory: it does not outlive cozyvttd");
                (in_memory()?, None)
            }
        };
        let mut book = Book {
            db,
            file,
            running: HashMap::new(),
        };
        book.attempt(|db, _| {
            db.execute(
                "INSERT OR REPLACE INTO runs VALUES (?1, ?2)",
                params![instance, now],
            )?;
            db.execute(
                "DELETE FROM runs WHERE rowid NOT IN
                 (SELECT rowid FROM runs ORDER BY rowid DESC LIMIT ?1)",
                [RUNS],
            )
        })?;
        Ok(book)
    }

    /// How a write stands that was begun before.
    pub(super) fn standing(&self, known: Known) -> Begun {
        match self.running.get(&known.id) {
            Some(first) => Begun::Running(First(first.clone())),
            None => known.outcome.map_or(Begun::Unknown, Begun::Done),
        }
    }

    /// Does something; where the file fails, once more in memory.
    pub(super) fn attempt<T>(
        &mut self,
        work: impl Fn(&Connection, &Running) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        match work(&self.db, &self.running) {
            // Somebody else reads the file for long; it is none the worse for it.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Err(error),
            Err(error) if self.file.is_some() => {
                self.fall_back(&error)?;
                work(&self.db, &self.running)
            }
            outcome => outcome,
        }
    }

    /// Goes on in memory, with whatever the file can still tell.
    fn fall_back(&mut self, error: &rusqlite::Error) -> rusqlite::Result<()> {
        tracing::error!(%error, "the ledger of writes goes on in memory: it does not outlive cozyvttd");
        let mut memory = in_memory()?;
        if let Err(error) = take_over(&self.db, &mut memory) {
            tracing::error!(%error, "the ledger of writes has lost what it held");
            // It does not claim to be whole.
            memory = in_memory()?;
        }
        self.db = memory;
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        for ending in ["", "-wal", "-shm"] {
            match std::fs::remove_file(beside(&file, ending)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    tracing::error!(%error, file = %file.display(), "an old ledger of writes stays behind");
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// A write that was begun before.
pub(super) struct Known {
    id: i64,
    pub(super) tool: String,
    digest: String,
    pub(super) begun: f64,
    sent: bool,
    pub(super) outcome: Option<Value>,
}

impl Known {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        let outcome: Option<String> = row.get("outcome")?;
        Ok(Self {
            id: row.get("id")?,
            tool: row.get("tool")?,
            digest: row.get("digest")?,
            begun: row.get("begun")?,
            sent: row.get("sent")?,
            // One that is no JSON is as good as none.
            outcome: outcome.and_then(|text| serde_json::from_str(&text).ok()),
        })
    }

    pub(super) fn is(&self, write: &Write) -> bool {
        self.tool == write.tool && self.digest == write.digest
    }
}

/// The newest write with a key, while that holds.
pub(super) fn of_key(
    db: &Connection,
    running: &Running,
    client: &str,
    key: &str,
    now: f64,
) -> rusqlite::Result<Option<Known>> {
    db.prepare_cached(
        "SELECT id, tool, digest, begun, sent, outcome FROM writes
         WHERE client = ?1 AND key = ?2 AND begun > ?3 AND NOT void ORDER BY id DESC",
    )?
    .query_map(
        params![client, key, now - KEY_HOLDS.as_secs_f64()],
        Known::of,
    )?
    .find(counts(running))
    .transpose()
}

/// The newest write of a request.
pub(super) fn of_request(
    db: &Connection,
    running: &Running,
    client: &str,
    request: &str,
) -> rusqlite::Result<Option<Known>> {
    db.prepare_cached(
        "SELECT id, tool, digest, begun, sent, outcome FROM writes
         WHERE client = ?1 AND request = ?2 AND NOT void ORDER BY id DESC",
    )?
    .query_map([client, request], Known::of)?
    .find(counts(running))
    .transpose()
}

/// Whether a write that was entered has begun: what was given up before it left has not.
fn counts(running: &Running) -> impl Fn(&rusqlite::Result<Known>) -> bool {
    |known| match known {
        Ok(known) => known.sent || running.contains_key(&known.id),
        Err(_) => true,
    }
}

pub(super) fn orphan(row: &Row<'_>) -> rusqlite::Result<Write> {
    Ok(Write {
        client: row.get("client")?,
        name: row.get("name")?,
        request: row.get("request")?,
        announced: false,
        key: row.get("key")?,
        tool: row.get("tool")?,
        digest: row.get("digest")?,
        replaced: CancellationToken::new(),
    })
}

fn in_memory() -> rusqlite::Result<Connection> {
    let db = Connection::open_in_memory()?;
    db.execute_batch(TABLES)?;
    Ok(db)
}

/// Opens the file, making it where there is none.
fn open_file(path: &Path) -> Result<Connection, JournalError> {
    let explain = |source| JournalError::sqlite(path, source);
    let mut db = Connection::open(path).map_err(explain)?;
    let format: i64 = db
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(explain)?;
    if format > FORMAT {
        return Err(JournalError::Newer {
            path: path.into(),
            found: usize::try_from(format).unwrap_or(usize::MAX),
            known: 1,
        });
    }
    let prepared = (|| {
        db.busy_timeout(Duration::from_secs(2))?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "NORMAL")?;
        if format < FORMAT {
            let tables = db.transaction()?;
            tables.execute_batch(TABLES)?;
            tables.commit()?;
        }
        db.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
    })();
    let check = prepared.map_err(explain)?;
    if check != "ok" {
        return Err(JournalError::Damaged {
            path: path.into(),
            what: check,
        });
    }
    Ok(db)
}

fn take_over(from: &Connection, to: &mut Connection) -> rusqlite::Result<()> {
    let to = to.transaction()?;
    for (table, columns) in [("writes", 13), ("runs", 2)] {
        let places = vec!["?"; columns].join(", ");
        let mut insert = to.prepare(&format!("INSERT INTO {table} VALUES ({places})"))?;
        let mut select = from.prepare(&format!("SELECT * FROM {table} ORDER BY rowid"))?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let values = (0..columns)
                .map(|column| row.get::<_, rusqlite::types::Value>(column))
                .collect::<Result<Vec<_>, _>>()?;
            insert.execute(rusqlite::params_from_iter(values))?;
        }
    }
    to.commit()
}
