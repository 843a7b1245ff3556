//! What one commit does: it inserts, lets a later move take the place of an earlier one,
//! and evicts what is too much, in small steps.

use std::collections::HashMap;

use cozyvtt_proto::event::EventRecord;
use rusqlite::{Connection, OptionalExtension, ToSql, params};

use super::moves::Moves;

use super::retention::Keep;

/// How many lost records are remembered one by one.
const REMEMBERED: u64 = 20_000;

/// How many records of a kind a commit evicts beyond twice what it brings of it: a
/// long backlog goes in small steps.
const STEP: u64 = 256;

/// How many records one statement inserts, where there are so many.
const ROWS: usize = 32;

/// A record on its way in.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) record: EventRecord,
    /// The record's payload as JSON.
    pub(super) payload: String,
    /// The server's own id of what happened.
    pub(super) origin: Option<String>,
    /// Read again after an outage: taken only when nothing of its origin is there.
    pub(super) recovered: bool,
}

/// What a store holds, so that no commit has to count it.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Records by name.
    pub(super) kept: HashMap<String, u64>,
    /// Lost records that are remembered one by one.
    pub(super) evicted: u64,
}

/// The statements of one commit.
pub(super) struct Commit<'a> {
    pub(super) db: &'a Connection,
    pub(super) keep: fn(&str) -> Keep,
}

impl Commit<'_> {
    /// Inserts records; tells of each whether it was taken.
    pub(super) fn insert(
        &self,
        entries: &[Entry],
        moves: &mut Moves,
        now: f64,
        tally: &mut Tally,
    ) -> rusqlite::Result<Vec<bool>> {
        let mut taken = Vec::with_capacity(entries.len());
        let mut rows: Vec<&Entry> = Vec::with_capacity(ROWS);
        let mut replaced = Vec::new();
        for entry in entries {
            let is_new = self.is_new(entry, &rows, now)?;
            taken.push(is_new);
            if !is_new {
                continue;
            }
            tally.gained(&entry.record.event);
            replaced.extend(moves.replaced_by(&entry.record));
            rows.push(entry);
            if rows.len() == ROWS {
                self.write(&rows)?;
                rows.clear();
            }
        }
        for row in &rows {
            self.write(std::slice::from_ref(row))?;
        }
        for seq in replaced {
            self.replace(seq, tally)?;
        }
        Ok(taken)
    }

    /// Whether a record is to be taken; `ahead` are those that go before it and are not
    /// written yet.
    fn is_new(&self, entry: &Entry, ahead: &[&Entry], now: f64) -> rusqlite::Result<bool> {
        let record = &entry.record;
        // It would be evicted at once, and be read again after the next outage.
        if entry.recovered && now - record.ts > (self.keep)(&record.event).age.as_secs_f64() {
            return Ok(false);
        }
        let Some(origin) = &entry.origin else {
            return Ok(true);
        };
        // What was recovered may be heard live a moment later, and is there already. What
        // the server sends twice by itself is two records.
        let twin = |other: &&Entry| {
            other.origin.as_ref() == Some(origin) && (other.recovered || entry.recovered)
        };
        if ahead.iter().any(twin) {
            return Ok(false);
        }
        self.db
            .prepare_cached("SELECT 1 FROM events WHERE origin = ?1 AND (recovered OR ?2)")?
            .exists(params![origin, entry.recovered])
            .map(|known| !known)
    }

    /// Writes rows with one statement.
    fn write(&self, entries: &[&Entry]) -> rusqlite::Result<()> {
        let values = vec!["(?, ?, ?, ?, ?, ?, ?)"; entries.len()].join(", ");
        let mut statement = self.db.prepare_cached(&format!(
            "INSERT INTO events (seq, ts, event, payload, generation, origin, recovered)
             VALUES {values}"
        ))?;
        let columns: Vec<&dyn ToSql> = entries
            .iter()
            .flat_map(|entry| -> [&dyn ToSql; 7] {
                let record = &entry.record;
                [
                    &record.seq,
                    &record.ts,
                    &record.event,
                    &entry.payload,
                    &record.generation,
                    &entry.origin,
                    &entry.recovered,
                ]
            })
            .collect();
        statement.execute(&*columns).map(drop)
    }

    /// Removes a move whose place another one has taken.
    fn replace(&self, seq: u64, tally: &mut Tally) -> rusqlite::Result<()> {
        let gone: Option<String> = self
            .db
            .prepare_cached("DELETE FROM events WHERE seq = ?1 RETURNING event")?
            .query_row([seq], |row| row.get(0))
            .optional()?;
        if let Some(event) = gone {
            tally.lost(&event, 1);
        }
        Ok(())
    }

    /// Evicts what is too much of the kinds in hand; with `now` given, what is too old
    /// of every kind.
    pub(super) fn evict(
        &self,
        entries: &[Entry],
        now: Option<f64>,
        tally: &mut Tally,
    ) -> rusqlite::Result<()> {
        let mut fresh: HashMap<&str, u64> = HashMap::new();
        for entry in entries {
            *fresh.entry(&entry.record.event).or_default() += 1;
        }
        for (event, count) in fresh {
            let kept = tally.kept.get(event).copied().unwrap_or(0);
            let excess = kept.saturating_sub((self.keep)(event).records);
            let step = excess.min(STEP + 2 * count);
            self.drop_oldest(event, step, f64::MAX, tally)?;
        }
        if let Some(now) = now {
            let kinds: Vec<String> = tally.kept.keys().cloned().collect();
            for event in kinds {
                let oldest = now - (self.keep)(&event).age.as_secs_f64();
                self.drop_oldest(&event, STEP, oldest, tally)?;
            }
        }
        self.fold(tally)
    }

    /// Drops those of the `count` oldest records of a kind that are from before `oldest`.
    fn drop_oldest(
        &self,
        event: &str,
        count: u64,
        oldest: f64,
        tally: &mut Tally,
    ) -> rusqlite::Result<()> {
        if count == 0 {
            return Ok(());
        }
        let lost = "FROM events WHERE ts < ?3 AND seq IN
            (SELECT seq FROM events WHERE event = ?1 ORDER BY seq LIMIT ?2)";
        let bounds = params![event, count, oldest];
        self.db
            .prepare_cached(&format!(
                "INSERT INTO evicted (seq, event) SELECT seq, event {lost}"
            ))?
            .execute(bounds)?;
        let lost = self
            .db
            .prepare_cached(&format!("DELETE {lost}"))?
            .execute(bounds)? as u64;
        tally.lost(event, lost);
        tally.evicted += lost;
        Ok(())
    }

    /// Counts the oldest of the remembered losses together.
    fn fold(&self, tally: &mut Tally) -> rusqlite::Result<()> {
        // Seldom, and then many: it is cheap in bulk.
        if tally.evicted <= REMEMBERED + REMEMBERED / 10 {
            return Ok(());
        }
        let last: u64 = self.db.query_row(
            "SELECT seq FROM evicted ORDER BY seq DESC LIMIT 1 OFFSET ?1",
            [REMEMBERED],
            |row| row.get(0),
        )?;
        self.db.execute(
            "INSERT INTO evicted_before (event, records, last)
                SELECT event, count(*), max(seq) FROM evicted WHERE seq <= ?1 GROUP BY event
             ON CONFLICT (event) DO UPDATE SET
                records = records + excluded.records, last = max(last, excluded.last)",
            [last],
        )?;
        self.db
            .execute("DELETE FROM evicted WHERE seq <= ?1", [last])?;
        tally.evicted = REMEMBERED;
        Ok(())
    }

    /// Evicts the oldest records of whatever kind until the rest needs no more than
    /// `room` bytes.
    pub(super) fn fit(&self, room: u64, tally: &mut Tally) -> rusqlite::Result<()> {
        loop {
            let pragma = |name: &str| -> rusqlite::Result<u64> {
                self.db.pragma_query_value(None, name, |row| row.get(0))
            };
            let pages = pragma("page_count")?.saturating_sub(pragma("freelist_count")?);
            if pages * pragma("page_size")? <= room {
                return Ok(());
            }
            let oldest: Option<String> = self
                .db
                .prepare_cached("SELECT event FROM events ORDER BY seq LIMIT 1")?
                .query_row([], |row| row.get(0))
                .optional()?;
            let Some(event) = oldest else { return Ok(()) };
            self.drop_oldest(&event, 1, f64::MAX, tally)?;
        }
    }
}

impl Tally {
    fn gained(&mut self, event: &str) {
        match self.kept.get_mut(event) {
            Some(kept) => *kept += 1,
            None => {
                self.kept.insert(event.to_owned(), 1);
            }
        }
    }

    fn lost(&mut self, event: &str, count: u64) {
        if let Some(kept) = self.kept.get_mut(event) {
            *kept = kept.saturating_sub(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::super::store::Store;
    use super::*;

    fn entry(seq: u64, ts: f64, event: &str, payload: Value) -> Entry {
        Entry {
            payload: payload.to_string(),
            record: EventRecord {
                seq,
                ts,
                event: event.to_owned(),
                payload,
                generation: 1,
            },
            origin: None,
            recovered: false,
        }
    }

    fn batch(seqs: std::ops::RangeInclusive<u64>, ts: f64, event: &str) -> Vec<Entry> {
        seqs.map(|seq| entry(seq, ts, event, Value::Null)).collect()
    }

    /// Ten records of a kind, a hundred seconds of each.
    fn few(_: &str) -> Keep {
        Keep {
            records: 10,
            age: Duration::from_secs(100),
        }
    }

    fn append(store: &mut Store, entries: &[Entry], now: f64) {
        store.append(entries, &mut Moves::default(), now).unwrap();
    }

    fn seqs(store: &Store) -> Vec<u64> {
        let records = store.after(0, 100_000).unwrap();
        records.iter().map(|record| record.seq).collect()
    }

    fn lost(store: &Store, since: u64) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        store.evicted(since, &mut counts).unwrap();
        counts
    }

    #[test]
    fn a_kind_loses_its_oldest_and_leaves_the_others_alone() {
        let mut store = Store::in_memory().unwrap().keeping(few);
        append(&mut store, &batch(1..=3, 0.0, "dice.rolled"), 0.0);
        append(&mut store, &batch(4..=30, 0.0, "token.moved"), 0.0);
        let kept: Vec<u64> = (1..=3).chain(21..=30).collect();
        assert_eq!(seqs(&store), kept);
        assert_eq!(lost(&store, 0), [("token.moved".to_owned(), 17)].into());
        assert_eq!(lost(&store, 19), [("token.moved".to_owned(), 1)].into());
    }

    #[test]
    fn what_is_too_old_goes_though_nothing_of_its_kind_comes() {
        let mut store = Store::in_memory().unwrap().keeping(few);
        append(&mut store, &batch(1..=4, 0.0, "chat.message"), 0.0);
        append(&mut store, &batch(5..=5, 700.0, "x"), 700.0);
        assert_eq!(seqs(&store), [5]);
        assert_eq!(lost(&store, 0), [("chat.message".to_owned(), 4)].into());
    }

    #[test]
    fn a_long_backlog_goes_in_small_steps_and_a_flood_is_kept_up_with() {
        fn many(_: &str) -> Keep {
            Keep {
                records: 5000,
                age: Duration::from_secs(100),
            }
        }
        let mut store = Store::in_memory().unwrap().keeping(many);
        append(&mut store, &batch(1..=5000, 0.0, "x"), 0.0);
        let mut store = store.keeping(few);
        append(&mut store, &batch(5001..=5001, 0.0, "x"), 0.0);
        assert_eq!(seqs(&store).len(), 5001 - 258);
        for first in (5002..).step_by(1000).take(9) {
            append(&mut store, &batch(first..=first + 999, 0.0, "x"), 0.0);
        }
        assert_eq!(seqs(&store).len(), 10);
    }

    #[test]
    fn old_losses_are_counted_together_and_no_gap_is_forgotten() {
        let mut store = Store::in_memory().unwrap().keeping(few);
        let mut seq = 0;
        while seq < REMEMBERED + 5000 {
            append(&mut store, &batch(seq + 1..=seq + 1000, 0.0, "x"), 0.0);
            seq += 1000;
        }
        let all = seq - 10;
        assert_eq!(lost(&store, 0), [("x".to_owned(), all)].into());
        // Near the end it is exact, before that an upper bound, and never nothing.
        assert_eq!(lost(&store, all - 7), [("x".to_owned(), 7)].into());
        assert_eq!(lost(&store, all), [].into());
        let early = lost(&store, 5)["x"];
        assert!(early >= all - 5 && early <= all, "{early}");
    }

    #[test]
    fn memory_is_bounded_by_bytes() {
        let mut store = Store::in_memory().unwrap();
        let large = json!("x".repeat(1 << 20));
        for seq in 1..=100 {
            append(&mut store, &[entry(seq, 0.0, "x", large.clone())], 0.0);
        }
        let kept = seqs(&store);
        assert!((50..64).contains(&kept.len()), "{}", kept.len());
        assert_eq!(kept.last(), Some(&100));
        assert_eq!(lost(&store, 0)["x"], 100 - kept.len() as u64);
    }

    #[test]
    fn a_replaced_move_is_no_loss_and_is_not_counted_as_kept() {
        let mut store = Store::in_memory().unwrap().keeping(few);
        let mut moves = Moves::default();
        for (seq, ts) in (1..=30).zip((1..).map(|step| 0.01 * f64::from(step))) {
            let payload = json!({"tokenId": "t", "mapId": "m", "x": seq});
            let step = entry(seq, ts, "token.moved", payload);
            store.append(&[step], &mut moves, 0.0).unwrap();
        }
        append(&mut store, &batch(31..=39, 0.0, "token.moved"), 0.0);
        assert_eq!(seqs(&store), (30..=39).collect::<Vec<_>>());
        assert_eq!(lost(&store, 0), [].into());
    }

    #[test]
    fn what_memory_held_and_lost_goes_to_the_file_in_one_step() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = Store::open(&dir.path().join("journal.sqlite")).unwrap();
        append(&mut file, &batch(1..=2, 0.0, "x"), 0.0);
        let mut memory = Store::in_memory().unwrap().keeping(few);
        memory.note_unreadable(5).unwrap();
        append(&mut memory, &batch(10..=30, 0.0, "x"), 0.0);
        file.take_over(&memory, 1000).unwrap();
        assert_eq!(
            seqs(&file),
            [&[1, 2][..], &(21..=30).collect::<Vec<_>>()].concat()
        );
        assert_eq!(lost(&file, 0), [("x".to_owned(), 11)].into());
        assert_eq!(file.mark().unwrap(), 1000);
        assert_eq!(file.newest().unwrap(), 30);
    }
}
