//! What readers see: the records of the file, and on top of them those that no file
//! has taken yet.

use std::collections::BTreeMap;

use cozyvtt_proto::event::EventRecord;
use rusqlite::Transaction;

use super::store::Store;

/// The stores of a journal. Every number in memory is larger than any in the file.
#[derive(Debug, Default)]
pub(super) struct View {
    /// A connection that reads the file, if it can be read.
    pub(super) file: Option<Store>,
    /// What the file does not take.
    pub(super) memory: Option<Store>,
}

impl View {
    /// From the oldest to the newest.
    fn stores(&self) -> impl DoubleEndedIterator<Item = &Store> {
        self.file.iter().chain(&self.memory)
    }

    /// What is read while this value lives is of one moment.
    pub(super) fn snapshot(&self) -> rusqlite::Result<Vec<Transaction<'_>>> {
        self.stores().map(Store::snapshot).collect()
    }

    /// The number of the newest record there ever was; 0 when there was none.
    pub(super) fn newest(&self) -> rusqlite::Result<u64> {
        self.stores().try_fold(0, |newest: u64, store| {
            store.newest().map(|seq| newest.max(seq))
        })
    }

    /// The number of the oldest record that is kept.
    pub(super) fn oldest(&self) -> rusqlite::Result<Option<u64>> {
        for store in self.stores() {
            if let Some(oldest) = store.oldest()? {
                return Ok(Some(oldest));
            }
        }
        Ok(None)
    }

    /// The cursor after which `count` records come, or all if there are fewer.
    pub(super) fn back(&self, mut count: u64) -> rusqlite::Result<u64> {
        for store in self.stores().rev() {
            match store.back(count)? {
                Ok(oldest) => return Ok(oldest - 1),
                Err(missing) => count = missing,
            }
        }
        Ok(0)
    }

    /// The first `limit` records after `seq`, oldest first.
    pub(super) fn after(&self, seq: u64, limit: usize) -> rusqlite::Result<Vec<EventRecord>> {
        let mut records = Vec::new();
        for store in self.stores() {
            records.extend(store.after(seq, limit - records.len())?);
        }
        Ok(records)
    }

    /// The newest record of that name.
    pub(super) fn latest(&self, name: &str) -> rusqlite::Result<Option<EventRecord>> {
        for store in self.stores().rev() {
            if let Some(found) = store.latest(name)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The newest record up to `seq`.
    pub(super) fn last_until(&self, seq: u64) -> rusqlite::Result<Option<EventRecord>> {
        for store in self.stores().rev() {
            if let Some(found) = store.last_until(seq)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Whether a record of that origin is kept.
    pub(super) fn knows(&self, origin: &str) -> rusqlite::Result<bool> {
        for store in self.stores() {
            if store.knows(origin)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How many records after `seq` were lost, by name.
    pub(super) fn evicted(&self, seq: u64) -> rusqlite::Result<BTreeMap<String, u64>> {
        let mut counts = BTreeMap::new();
        for store in self.stores() {
            store.evicted(seq, &mut counts)?;
        }
        Ok(counts)
    }
}
