//! How a journal begins: with its file where that can be used, with a new one where it
//! is damaged, in memory where there is nothing to write to.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use url::Url;

use super::durable::{Durable, beside};
use super::store::Store;
use super::view::View;
use super::{JournalError, Numbers, Trouble, numbers, retention, schema};

/// A journal that is about to begin.
#[derive(Debug)]
pub(super) struct Opened {
    /// The file, if it can be written.
    pub(super) file: Option<Durable>,
    pub(super) view: View,
    pub(super) numbers: Numbers,
    /// Why it is not the file that takes records.
    pub(super) trouble: Option<Trouble>,
    /// What a person is to know besides.
    pub(super) remark: Option<String>,
}

/// Opens the journal at `path`, in one way or another. It fails only where not even
/// memory serves.
pub(super) fn open(path: &Path) -> Result<Opened, JournalError> {
    // Damaged files lie there, and what should be here has gone: their numbers are not
    // known any more.
    let orphaned = !path.exists() && aside_of(path).next().is_some();
    let known = if orphaned { numbers::from_clock() } else { 0 };
    match Durable::open(path, known) {
        Ok((file, numbers)) => with_file(path, file, numbers, None),
        Err(error) if error.is_damage() => begin_anew(path, &error, None),
        Err(error) => without_file(path, &error),
    }
}

/// Sets a damaged file aside and begins a new one. Its numbers lie above `given`, where
/// this run has given some, else above all that the damaged one can still tell of, and
/// where it tells of none they come from the clock.
pub(super) fn begin_anew(
    path: &Path,
    damage: &JournalError,
    given: Option<u64>,
) -> Result<Opened, JournalError> {
    let known = given
        .or_else(|| last_words(path))
        .unwrap_or_else(numbers::from_clock);
    let begun = set_aside(path).and_then(|aside| {
        let (mut file, numbers) = Durable::open(path, known)?;
        file.store
            .note_unreadable(known)
            .map_err(|source| JournalError::sqlite(path, source))?;
        Ok((file, numbers, aside))
    });
    match begun {
        Ok((file, numbers, aside)) => {
            tracing::error!(%damage, aside = %aside.display(), "the journal was damaged and is begun anew");
            let remark = format!("the one before was damaged and lies in {}", aside.display());
            with_file(path, file, numbers, Some(remark))
        }
        Err(error) => without_file(path, &error),
    }
}

fn with_file(
    path: &Path,
    file: Durable,
    numbers: Numbers,
    remark: Option<String>,
) -> Result<Opened, JournalError> {
    Ok(Opened {
        file: Some(file),
        view: View {
            file: Some(reader(path)?),
            memory: None,
        },
        numbers,
        trouble: None,
        remark,
    })
}

fn without_file(path: &Path, error: &JournalError) -> Result<Opened, JournalError> {
    let explain = |source| JournalError::sqlite(path, source);
    let newer = matches!(error, JournalError::Newer { .. });
    let file = if newer { None } else { read_only(path) };
    let known = file.as_ref().and_then(|file| file.mark().ok());
    let newest = numbers::from_clock().max(known.unwrap_or(0));
    let mut memory = Store::in_memory().map_err(explain)?;
    let holds_something = path.metadata().is_ok_and(|file| file.len() > 0);
    if file.is_none() && holds_something {
        memory.note_unreadable(newest).map_err(explain)?;
    }
    Ok(Opened {
        file: None,
        view: View {
            file,
            memory: Some(memory),
        },
        numbers: Numbers::new(newest, None),
        trouble: Some(Trouble::of(error)),
        remark: None,
    })
}

/// A connection that reads a file which another one of this process writes.
fn reader(path: &Path) -> Result<Store, JournalError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags)
        .map(|db| Store::of(db, retention::in_file))
        .map_err(|source| JournalError::sqlite(path, source))
}

/// A file that can be read, though not written.
fn read_only(path: &Path) -> Option<Store> {
    let readable = |db: Connection| {
        let known = schema::format(&db).is_ok_and(|found| found == schema::FORMAT);
        let store = Store::of(db, retention::in_file);
        (known && store.mark().is_ok()).then_some(store)
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if let Some(store) = Connection::open_with_flags(path, flags)
        .ok()
        .and_then(readable)
    {
        return Some(store);
    }
    // In a folder where SQLite can make no files of its own, it takes a file's word that
    // nobody changes it. With a log beside it that would be half of the truth.
    let log = beside(path, "-wal").metadata().map_or(0, |log| log.len());
    let mut url = Url::from_file_path(path).ok().filter(|_| log == 0)?;
    url.set_query(Some("immutable=1"));
    Connection::open_with_flags(url.as_str(), flags | OpenFlags::SQLITE_OPEN_URI)
        .ok()
        .and_then(readable)
}

/// The newest number that a damaged file tells of, with room for those it does not.
fn last_words(path: &Path) -> Option<u64> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).ok()?;
    let number = |sql: &str| -> Option<u64> { db.query_row(sql, [], |row| row.get(0)).ok() };
    [
        "SELECT max(mark) FROM numbers",
        "SELECT max(seq) FROM sqlite_sequence WHERE name = 'events'",
        "SELECT max(seq) FROM events",
    ]
    .into_iter()
    .filter_map(number)
    .max()
    // The mark may be what is damaged, and is a block above the records at most. A number
    // from beyond the clock is damage as well.
    .map(numbers::mark_above)
    .map(numbers::mark_above)
    .filter(|known| *known <= numbers::from_clock())
}

/// Renames a damaged file and what SQLite keeps beside it.
pub(super) fn set_aside(path: &Path) -> Result<PathBuf, JournalError> {
    let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S%3fZ");
    let aside = beside(path, &format!("{CORRUPT}{time}"));
    let renamed = std::fs::rename(path, &aside).and_then(|()| {
        for ending in ["-wal", "-shm"] {
            match std::fs::rename(beside(path, ending), beside(&aside, ending)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    });
    renamed.map_err(|source| JournalError::Aside {
        path: path.into(),
        source,
    })?;
    Ok(aside)
}

/// What a damaged file's name ends with, before the time.
const CORRUPT: &str = ".corrupt-";

/// The damaged files that were set aside.
fn aside_of(path: &Path) -> impl Iterator<Item = PathBuf> {
    let beginning = beside(path, CORRUPT);
    let entries = path.parent().and_then(|folder| folder.read_dir().ok());
    entries
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(move |found| {
            let name = found.as_os_str().as_encoded_bytes();
            name.starts_with(beginning.as_os_str().as_encoded_bytes())
        })
}
