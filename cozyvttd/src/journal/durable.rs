//! A journal's file that is written: what is committed reaches the disk when it is
//! told to.
//!
//! SQLite in WAL mode with `synchronous=NORMAL` leaves a commit to the system, which
//! writes it when it likes; `FULL` would wait for the disk at every commit. Here the log
//! is synced by a handle of our own, once for many commits. The database's own file must
//! never be opened like that: closing it would drop SQLite's locks on it.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::numbers::mark_above;
use super::store::Store;
use super::{JournalError, Numbers};

/// A file that is written.
#[derive(Debug)]
pub(super) struct Durable {
    pub(super) store: Store,
    path: PathBuf,
    log: File,
    mark: u64,
}

impl Durable {
    /// Opens the file, making it where there is none, and reserves numbers above
    /// `known` and above all that the file knows of.
    pub(super) fn open(path: &Path, known: u64) -> Result<(Self, Numbers), JournalError> {
        let explain = |source| JournalError::sqlite(path, source);
        let mut store = Store::open(path)?;
        let (mark, newest) = (
            store.mark().map_err(explain)?,
            store.newest().map_err(explain)?,
        );
        // Only a journal that was not closed in order has given more than it holds.
        if mark > newest
            && let Some(what) = store.damage().map_err(explain)?
        {
            return Err(JournalError::Damaged {
                path: path.into(),
                what,
            });
        }
        let newest = mark.max(known);
        let mark = mark_above(newest);
        store.set_mark(mark).map_err(explain)?;
        let failed = |source| JournalError::Sync {
            path: path.into(),
            source,
        };
        let log = File::open(beside(path, "-wal")).map_err(failed)?;
        let file = Self {
            store,
            path: path.into(),
            log,
            mark,
        };
        file.sync()?;
        // A power cut must not take the names of new files either.
        if let Some(folder) = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            File::open(folder)
                .and_then(|folder| folder.sync_all())
                .map_err(failed)?;
        }
        Ok((file, Numbers::new(newest, Some(mark))))
    }

    /// Brings everything that is committed to the disk.
    pub(super) fn sync(&self) -> Result<(), JournalError> {
        self.log.sync_data().map_err(|source| JournalError::Sync {
            path: self.path.clone(),
            source,
        })
    }

    /// Remembers a mark, on the disk.
    pub(super) fn reserve(&mut self, mark: u64) -> Result<(), JournalError> {
        self.store
            .set_mark(mark)
            .map_err(|source| JournalError::sqlite(&self.path, source))?;
        self.mark = mark;
        self.sync()
    }

    /// Commits everything that `memory` holds; numbers up to `newest` were given.
    pub(super) fn take_over(&mut self, memory: &Store, newest: u64) -> Result<(), JournalError> {
        let mark = mark_above(newest);
        self.store
            .take_over(memory, mark)
            .map_err(|source| JournalError::sqlite(&self.path, source))?;
        self.mark = mark;
        Ok(())
    }

    /// Closes the journal in order: the next run goes on right after `newest`.
    pub(super) fn close(mut self, newest: u64) -> Result<(), JournalError> {
        self.store
            .release_mark(self.mark, newest)
            .map_err(|source| JournalError::sqlite(&self.path, source))?;
        self.sync()
    }
}

/// A file that SQLite or we keep beside the journal's.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}
