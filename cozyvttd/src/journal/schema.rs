//! The format of a journal's file, and the steps from one format to the next.
//!
//! Any SQLite tool can read it:
//!
//! ```text
//! events(seq        INTEGER  -- the record's number, never given twice
//!        ts         REAL     -- when it happened, in seconds since 1970
//!        event      TEXT     -- the event's name
//!        payload    TEXT     -- JSON
//!        generation INTEGER  -- which connection of the link brought it
//!        origin     TEXT     -- the server's own id, as chat:ID or dice:ID, or NULL
//!        recovered  INTEGER) -- 1: read again after an outage, not heard live
//! evicted(seq, event)                  -- what was dropped lately
//! evicted_before(event, records, last) -- what was dropped before that: how many, up to which number
//! numbers(mark)                        -- up to this number, any may have been given
//! ```
//!
//! `user_version` is the number of the format.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::JournalError;

/// The steps from one format to the next; the format's number is how many were
/// taken. AUTOINCREMENT remembers the newest number even when its record is gone.
const MIGRATIONS: [&str; 2] = [
    "
    CREATE TABLE events (
        seq        INTEGER PRIMARY KEY AUTOINCREMENT,
        ts         REAL    NOT NULL,
        event      TEXT    NOT NULL,
        payload    TEXT    NOT NULL,
        generation INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX events_by_name ON events (event, seq);
    ",
    "
    ALTER TABLE events ADD COLUMN origin TEXT;
    ALTER TABLE events ADD COLUMN recovered INTEGER NOT NULL DEFAULT 0;
    UPDATE events
        SET origin = CASE event WHEN 'chat.message' THEN 'chat:' ELSE 'dice:' END
            || CASE WHEN json_valid(payload) THEN payload ->> '$.id' END
        WHERE event IN ('chat.message', 'dice.rolled', 'dice.rolled.secret');
    CREATE INDEX events_by_origin ON events (origin) WHERE origin IS NOT NULL;
    CREATE TABLE evicted (
        seq   INTEGER PRIMARY KEY,
        event TEXT NOT NULL
    ) STRICT;
    CREATE TABLE evicted_before (
        event   TEXT    PRIMARY KEY,
        records INTEGER NOT NULL,
        last    INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE numbers (mark INTEGER NOT NULL) STRICT;
    INSERT INTO numbers
        SELECT ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0);
    ",
];

/// The format that is written here.
pub(super) const FORMAT: usize = MIGRATIONS.len();

/// How long another program that looks at the file may hold us up.
const BUSY: Duration = Duration::from_secs(2);

/// Opens the file for writing, making it or bringing it to the present format.
pub(super) fn open(path: &Path) -> Result<Connection, JournalError> {
    let explain = |source| JournalError::sqlite(path, source);
    // A look that leaves no trace, before SQLite makes files of its own beside it.
    refuse_newer(path, format_in_header(path))?;
    let mut db = Connection::open(path).map_err(explain)?;
    // Whatever is newer than the header stands in the log beside the file, and is not
    // to be moved into it by leaving.
    leave_as_it_is(&db, true).map_err(explain)?;
    let found = format(&db).map_err(explain)?;
    refuse_newer(path, found)?;
    leave_as_it_is(&db, false).map_err(explain)?;
    prepare(&mut db, found).map_err(explain)?;
    Ok(db)
}

/// A journal in memory.
pub(super) fn in_memory() -> rusqlite::Result<Connection> {
    let mut db = Connection::open_in_memory()?;
    migrate(&mut db, 0)?;
    Ok(db)
}

/// The format of an open file.
pub(super) fn format(db: &Connection) -> rusqlite::Result<usize> {
    db.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// The format in the file's header, 0 where there is none.
fn format_in_header(path: &Path) -> usize {
    // The SQLite file format: `user_version` is big-endian at offset 60.
    let mut header = [0; 64];
    let whole = File::open(path).and_then(|mut file| file.read_exact(&mut header));
    match (whole, header) {
        (Ok(()), [head @ .., a, b, c, d]) if head.starts_with(b"SQLite format 3\0") => {
            usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX)
        }
        _ => 0,
    }
}

fn refuse_newer(path: &Path, found: usize) -> Result<(), JournalError> {
    if found > FORMAT {
        return Err(JournalError::Newer {
            path: path.into(),
            found,
            known: FORMAT,
        });
    }
    Ok(())
}

fn leave_as_it_is(db: &Connection, yes: bool) -> rusqlite::Result<()> {
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, yes)
        .map(drop)
}

fn prepare(db: &mut Connection, found: usize) -> rusqlite::Result<()> {
    db.busy_timeout(BUSY)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "NORMAL")?;
    migrate(db, found)
}

/// Each step is one transaction: a file is of one format or of the next.
fn migrate(db: &mut Connection, found: usize) -> rusqlite::Result<()> {
    for (step, statements) in MIGRATIONS.iter().enumerate().skip(found) {
        let migration = db.transaction()?;
        migration.execute_batch(statements)?;
        migration.pragma_update(None, "user_version", step + 1)?;
        migration.commit()?;
    }
    Ok(())
}

/// A file of format 1, as the first release wrote it.
#[cfg(test)]
pub(super) fn first_format(path: &Path) -> Connection {
    let db = Connection::open(path).unwrap();
    db.pragma_update(None, "journal_mode", "WAL").unwrap();
    db.execute_batch(MIGRATIONS[0]).unwrap();
    db.pragma_update(None, "user_version", 1).unwrap();
    db
}

#[cfg(test)]
mod tests {
    use super::*;

    fn temporary() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.sqlite");
        (dir, path)
    }

    fn bytes(path: &Path) -> Vec<u8> {
        std::fs::read(path).unwrap()
    }

    #[test]
    fn a_file_of_format_1_is_brought_to_the_present_one_with_its_records() {
        let (_dir, path) = temporary();
        let first = first_format(&path);
        let rows = [
            ("chat.message", r#"{"id":"c1"}"#),
            ("dice.rolled.secret", r#"{"id":"r1"}"#),
            ("dice.rolled", r#"{"result":3}"#),
            ("token.moved", r#"{"id":"x"}"#),
            ("chat.message", "no JSON"),
        ];
        for (event, payload) in rows {
            first
                .execute(
                    "INSERT INTO events (ts, event, payload, generation) VALUES (1.5, ?1, ?2, 1)",
                    [event, payload],
                )
                .unwrap();
        }
        drop(first);
        let db = open(&path).unwrap();
        assert_eq!(format(&db).unwrap(), FORMAT);
        let found: Vec<(String, Option<String>, bool)> = db
            .prepare("SELECT event, origin, recovered FROM events ORDER BY seq")
            .unwrap()
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        let origins: Vec<_> = found.iter().map(|row| row.1.as_deref()).collect();
        assert_eq!(
            origins,
            [Some("chat:c1"), Some("dice:r1"), None, None, None]
        );
        assert!(found.iter().zip(rows).all(|(a, b)| a.0 == b.0 && !a.2));
        let mark: u64 = db
            .query_row("SELECT mark FROM numbers", [], |row| row.get(0))
            .unwrap();
        assert_eq!(mark, 5);
    }

    #[test]
    fn a_migration_that_fails_half_way_leaves_the_format_before() {
        let (_dir, path) = temporary();
        // In the way of the second step's last table.
        first_format(&path)
            .execute_batch(
                "INSERT INTO events (ts, event, payload, generation) VALUES (1, 'x', 'null', 1);
                 CREATE TABLE numbers (mine TEXT)",
            )
            .unwrap();
        assert!(open(&path).is_err());
        let db = Connection::open(&path).unwrap();
        assert_eq!(format(&db).unwrap(), 1);
        assert!(db.prepare("SELECT origin FROM events").is_err());
        assert!(db.prepare("SELECT * FROM evicted").is_err());
        db.execute_batch("DROP TABLE numbers").unwrap();
        drop(db);
        let db = open(&path).unwrap();
        let kept: u64 = db
            .query_row("SELECT count(*) FROM events", [], |row| row.get(0))
            .unwrap();
        assert_eq!((format(&db).unwrap(), kept), (FORMAT, 1));
    }

    #[test]
    fn a_file_of_a_newer_format_is_not_touched() {
        let (dir, path) = temporary();
        let db = open(&path).unwrap();
        db.pragma_update(None, "user_version", 99).unwrap();
        drop(db);
        let before = bytes(&path);
        let refusal = open(&path).unwrap_err();
        assert!(
            matches!(refusal, JournalError::Newer { found: 99, .. }),
            "{refusal}"
        );
        assert_eq!(bytes(&path), before);
        assert_eq!(dir.path().read_dir().unwrap().count(), 1, "files beside it");
    }

    #[test]
    fn a_newer_format_that_stands_in_the_log_alone_is_seen_as_well() {
        let (_dir, path) = temporary();
        // As a newer version leaves it that was killed.
        let db = open(&path).unwrap();
        db.pragma_update(None, "user_version", 99).unwrap();
        let before = bytes(&path);
        assert!(matches!(open(&path), Err(JournalError::Newer { .. })));
        assert_eq!(bytes(&path), before);
        drop(db);
    }
}
