//! One connection to a journal, be it a file or in memory: what is read of it and how
//! it is written.

use std::collections::BTreeMap;
use std::path::Path;

use cozyvtt_proto::event::EventRecord;
use rusqlite::types::{ToSqlOutput, Type};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::commit::{Commit, Entry, Tally};
use super::moves::Moves;
use super::retention::{self, Keep};
use super::{JournalError, schema};

/// How a record's columns are asked for.
const RECORD: &str = "seq, ts, event, payload, generation";

/// How often all kinds are looked at for their age, in seconds.
const SWEEP: f64 = 600.0;

/// The most that a journal in memory takes, in bytes.
const MEMORY: u64 = 64 << 20;

/// The kind under which a whole file is counted that cannot be read.
const UNREADABLE: &str = "unknown";

/// One connection.
#[derive(Debug)]
pub(super) struct Store {
    db: Connection,
    keep: fn(&str) -> Keep,
    /// The most bytes that are used.
    room: Option<u64>,
    /// What there is, counted when the store is first written to.
    tally: Option<Tally>,
    swept: f64,
}

impl Store {
    /// The file at `path`, made or brought to the present format where that is needed.
    pub(super) fn open(path: &Path) -> Result<Self, JournalError> {
        schema::open(path).map(|db| Self::of(db, retention::in_file))
    }

    /// A store in memory.
    pub(super) fn in_memory() -> rusqlite::Result<Self> {
        Ok(Self {
            room: Some(MEMORY),
            ..Self::of(schema::in_memory()?, retention::in_memory)
        })
    }

    /// An open connection to a journal of the present format.
    pub(super) fn of(db: Connection, keep: fn(&str) -> Keep) -> Self {
        Self {
            db,
            keep,
            room: None,
            tally: None,
            swept: 0.0,
        }
    }

    /// With another retention.
    #[cfg(test)]
    pub(super) fn keeping(mut self, keep: fn(&str) -> Keep) -> Self {
        self.keep = keep;
        self
    }

    /// Damages the file, as seen by whoever looks it through.
    #[cfg(test)]
    pub(super) fn spoil(&self) {
        self.db
            .execute_batch(
                "PRAGMA writable_schema = ON;
                 UPDATE sqlite_schema SET rootpage =
                     (SELECT rootpage FROM sqlite_schema WHERE name = 'evicted')
                 WHERE name = 'events_by_name';
                 PRAGMA writable_schema = RESET;",
            )
            .unwrap();
    }

    // ---- Reading

    /// What is read while this value lives is of one moment.
    pub(super) fn snapshot(&self) -> rusqlite::Result<Transaction<'_>> {
        self.db.unchecked_transaction()
    }

    /// The number of the newest record there ever was; 0 when there was none.
    pub(super) fn newest(&self) -> rusqlite::Result<u64> {
        self.db
            .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'events'")?
            .query_row([], |row| row.get(0))
            .optional()
            .map(Option::unwrap_or_default)
    }

    /// The number of the oldest record that is kept.
    pub(super) fn oldest(&self) -> rusqlite::Result<Option<u64>> {
        self.db
            .prepare_cached("SELECT min(seq) FROM events")?
            .query_row([], |row| row.get(0))
    }

    /// The oldest one's number of the `count` newest records, or how many fewer there are.
    pub(super) fn back(&self, count: u64) -> rusqlite::Result<Result<u64, u64>> {
        let newest = "SELECT min(seq), count(*) FROM
            (SELECT seq FROM events ORDER BY seq DESC LIMIT ?1)";
        self.db.prepare_cached(newest)?.query_row([count], |row| {
            let (oldest, found): (Option<u64>, u64) = (row.get(0)?, row.get(1)?);
            Ok(match oldest {
                Some(oldest) if found == count => Ok(oldest),
                _ => Err(count - found),
            })
        })
    }

    /// The first `limit` records after `seq`, oldest first.
    pub(super) fn after(&self, seq: u64, limit: usize) -> rusqlite::Result<Vec<EventRecord>> {
        let sql = format!("SELECT {RECORD} FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2");
        self.db
            .prepare_cached(&sql)?
            .query_map(params![seq, limit], record)?
            .collect()
    }

    /// The newest record of that name.
    pub(super) fn latest(&self, name: &str) -> rusqlite::Result<Option<EventRecord>> {
        let sql = format!("SELECT {RECORD} FROM events WHERE event = ?1 ORDER BY seq DESC LIMIT 1");
        self.db
            .prepare_cached(&sql)?
            .query_row([name], record)
            .optional()
    }

    /// The newest record up to `seq`.
    pub(super) fn last_until(&self, seq: u64) -> rusqlite::Result<Option<EventRecord>> {
        let sql = format!("SELECT {RECORD} FROM events WHERE seq <= ?1 ORDER BY seq DESC LIMIT 1");
        self.db
            .prepare_cached(&sql)?
            .query_row([seq], record)
            .optional()
    }

    /// Whether a record of that origin is kept.
    pub(super) fn knows(&self, origin: &str) -> rusqlite::Result<bool> {
        self.db
            .prepare_cached("SELECT 1 FROM events WHERE origin = ?1")?
            .exists([origin])
    }

    /// How many records after `seq` were lost, by name. Exact as far as they are
    /// remembered one by one; before that, at most so many.
    pub(super) fn evicted(
        &self,
        seq: u64,
        counts: &mut BTreeMap<String, u64>,
    ) -> rusqlite::Result<()> {
        let sql = "SELECT event, count(*) FROM evicted WHERE seq > ?1 GROUP BY event
            UNION ALL SELECT event, records FROM evicted_before WHERE last > ?1";
        let mut query = self.db.prepare_cached(sql)?;
        let mut rows = query.query([seq])?;
        while let Some(row) = rows.next()? {
            *counts.entry(row.get(0)?).or_default() += row.get::<_, u64>(1)?;
        }
        Ok(())
    }

    /// The number up to which any may have been given.
    pub(super) fn mark(&self) -> rusqlite::Result<u64> {
        let mark = self
            .db
            .query_row("SELECT max(mark) FROM numbers", [], |row| {
                row.get::<_, Option<u64>>(0)
            })?;
        Ok(mark.unwrap_or(0).max(self.newest()?))
    }

    /// Looks the whole file through; gives what is damaged.
    pub(super) fn damage(&self) -> rusqlite::Result<Option<String>> {
        let verdict: String = self
            .db
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        Ok((verdict != "ok").then_some(verdict))
    }

    // ---- Writing

    /// Commits all of them or none, evicts what is too much, and tells of each whether
    /// it was taken.
    pub(super) fn append(
        &mut self,
        entries: &[Entry],
        moves: &mut Moves,
        now: f64,
    ) -> rusqlite::Result<Vec<bool>> {
        let mut tally = self.counted()?;
        let sweep = (now - self.swept).abs() >= SWEEP;
        let transaction = self.db.transaction()?;
        let work = Commit {
            db: &transaction,
            keep: self.keep,
        };
        let taken = work.insert(entries, moves, now, &mut tally)?;
        work.evict(entries, sweep.then_some(now), &mut tally)?;
        if let Some(room) = self.room {
            work.fit(room, &mut tally)?;
        }
        transaction.commit()?;
        self.tally = Some(tally);
        if sweep {
            self.swept = now;
        }
        Ok(taken)
    }

    /// Remembers that any number up to `mark` may have been given.
    pub(super) fn set_mark(&mut self, mark: u64) -> rusqlite::Result<()> {
        let transaction = self.db.transaction()?;
        set_mark(&transaction, mark)?;
        transaction.commit()
    }

    /// Takes the mark back to the newest number given, unless somebody else has set
    /// another one.
    pub(super) fn release_mark(&mut self, mark: u64, newest: u64) -> rusqlite::Result<()> {
        self.db.execute(
            "UPDATE numbers SET mark = ?2 WHERE mark = ?1",
            [mark, newest],
        )?;
        // So that the file alone holds everything while nobody uses it.
        self.db
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    }

    /// Notes that a file with records up to `seq` cannot be read.
    pub(super) fn note_unreadable(&mut self, seq: u64) -> rusqlite::Result<()> {
        self.tally = None;
        self.db
            .execute(
                "INSERT OR REPLACE INTO evicted (seq, event) VALUES (?1, ?2)",
                params![seq, UNREADABLE],
            )
            .map(drop)
    }

    /// Commits everything that `other` holds, and the mark, in one transaction.
    pub(super) fn take_over(&mut self, other: &Self, mark: u64) -> rusqlite::Result<()> {
        self.tally = None;
        let transaction = self.db.transaction()?;
        copy(
            &other.db,
            &transaction,
            "SELECT seq, ts, event, payload, generation, origin, recovered FROM events",
            "INSERT INTO events (seq, ts, event, payload, generation, origin, recovered)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        // A file that could not be read is this one, and can be read again.
        copy(
            &other.db,
            &transaction,
            &format!("SELECT seq, event FROM evicted WHERE event != '{UNREADABLE}'"),
            "INSERT INTO evicted (seq, event) VALUES (?1, ?2)",
        )?;
        copy(
            &other.db,
            &transaction,
            &format!(
                "SELECT event, records, last FROM evicted_before WHERE event != '{UNREADABLE}'"
            ),
            "INSERT INTO evicted_before (event, records, last) VALUES (?1, ?2, ?3)
             ON CONFLICT (event) DO UPDATE SET
                 records = records + excluded.records, last = max(last, excluded.last)",
        )?;
        set_mark(&transaction, mark)?;
        transaction.commit()
    }

    /// How many records are kept.
    pub(super) fn count(&self) -> rusqlite::Result<u64> {
        self.db
            .query_row("SELECT count(*) FROM events", [], |row| row.get(0))
    }

    /// The tally for a transaction, which puts it back when it has worked.
    fn counted(&mut self) -> rusqlite::Result<Tally> {
        if let Some(tally) = self.tally.take() {
            return Ok(tally);
        }
        let kept = self
            .db
            .prepare("SELECT event, count(*) FROM events GROUP BY event")?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        let evicted = self
            .db
            .query_row("SELECT count(*) FROM evicted", [], |row| row.get(0))?;
        Ok(Tally { kept, evicted })
    }
}

fn set_mark(db: &Connection, mark: u64) -> rusqlite::Result<()> {
    if db.execute("UPDATE numbers SET mark = ?1", [mark])? == 0 {
        db.execute("INSERT INTO numbers (mark) VALUES (?1)", [mark])?;
    }
    Ok(())
}

/// Carries rows over, column by column as they are.
fn copy(from: &Connection, to: &Connection, select: &str, insert: &str) -> rusqlite::Result<()> {
    let mut query = from.prepare(select)?;
    let mut statement = to.prepare(insert)?;
    let columns = query.column_count();
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        for column in 0..columns {
            let value = ToSqlOutput::Borrowed(row.get_ref(column)?);
            statement.raw_bind_parameter(column + 1, value)?;
        }
        statement.raw_execute()?;
    }
    Ok(())
}

fn record(row: &Row<'_>) -> rusqlite::Result<EventRecord> {
    let payload: String = row.get(3)?;
    Ok(EventRecord {
        seq: row.get(0)?,
        ts: row.get(1)?,
        event: row.get(2)?,
        payload: serde_json::from_str(&payload).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(3, Type::Text, error.into())
        })?,
        generation: row.get(4)?,
    })
}
