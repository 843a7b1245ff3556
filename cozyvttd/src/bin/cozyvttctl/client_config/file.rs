//! A client's file: read, edited, kept as it was beside the new one.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::client::Client;
use super::edit;
use super::entry::Entry;
use crate::failure::Failure;

/// What was done to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// The entry is in it now.
    Written {
        /// The file as it was, where there was one.
        backup: Option<PathBuf>,
        /// Where there was none: the file, or the uppermost folder of it that was made.
        made: Option<PathBuf>,
    },
    /// The entry is no longer in it.
    Removed { backup: PathBuf },
    /// The file, which was made for the entry and held nothing else, is gone.
    Deleted,
    /// The entry was in it already.
    Same,
    /// The entry was not in it.
    Absent,
}

impl Change {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Written { .. } => "written",
            Self::Removed { .. } => "removed",
            Self::Deleted => "deleted",
            Self::Same | Self::Absent => "none",
        }
    }

    /// Where the file as it was is kept.
    pub(crate) fn backup(&self) -> Option<&Path> {
        match self {
            Self::Written { backup, .. } => backup.as_deref(),
            Self::Removed { backup } => Some(backup),
            Self::Deleted | Self::Same | Self::Absent => None,
        }
    }

    /// The same for people.
    pub(crate) fn told(&self, client: Client, file: &str) -> String {
        let title = client.title();
        let kept = self
            .backup()
            .map(|backup| format!(" As it was it is kept in {}.", backup.display()))
            .unwrap_or_default();
        match self {
            Self::Written { .. } => format!("{title} will start cozyvtt-shim: {file}.{kept}"),
            Self::Removed { .. } => format!("{title} no longer starts cozyvtt-shim: {file}.{kept}"),
            Self::Deleted => format!(
                "{title} no longer starts cozyvtt-shim; {file} held nothing else and is gone."
            ),
            Self::Same => format!("{title} has it so already: {file}."),
            Self::Absent => format!("{title} has no such entry: {file}."),
        }
    }
}

/// Merges an entry into a file.
///
/// # Errors
///
/// It cannot be read, understood or written; it is as it was.
pub(crate) fn put(path: &Path, client: Client, entry: &Entry) -> Result<Change, Failure> {
    let target = target(path)?;
    let before = read(&target)?;
    let text = before.clone().unwrap_or_default();
    let after = edit::put(&text, client, entry).map_err(|why| no_edit(path, client, &why))?;
    if before.as_ref() == Some(&after) {
        return Ok(Change::Same);
    }
    let made = before.is_none().then(|| uppermost_missing(&target));
    let backup = before.map(|text| back_up(&target, &text)).transpose()?;
    write(&target, &after)?;
    Ok(Change::Written { backup, made })
}

/// Takes an entry out of a file. A file that then says nothing goes with the folders around
/// it, up to what was `made` for the entry; anybody else's stays.
///
/// # Errors
///
/// As [`put`].
pub(crate) fn take(
    path: &Path,
    client: Client,
    name: &str,
    made: Option<&Path>,
) -> Result<Change, Failure> {
    let target = target(path)?;
    let Some(before) = read(&target)? else {
        return Ok(Change::Absent);
    };
    let after = edit::take(&before, client, name).map_err(|why| no_edit(path, client, &why))?;
    let Some(after) = after else {
        return Ok(Change::Absent);
    };
    if let Some(made) = made.filter(|_| edit::is_empty(&after, client)) {
        fs::remove_file(&target).map_err(|error| unwritten(path, &error))?;
        let folders = target.ancestors().skip(1);
        for folder in folders.take_while(|folder| folder.starts_with(made)) {
            // One that holds anything else stays.
            let _ = fs::remove_dir(folder);
        }
        return Ok(Change::Deleted);
    }
    let backup = back_up(&target, &before)?;
    write(&target, &after)?;
    Ok(Change::Removed { backup })
}

/// The file itself: links to it stay what they are.
fn target(path: &Path) -> Result<PathBuf, Failure> {
    match path.canonicalize() {
        Ok(target) => Ok(target),
        Err(_) if path.is_symlink() => Err(Failure::failed(format!(
            "{} is a link to a file that is not there; nothing was changed",
            path.display()
        ))
        .advise("Make the file that it leads to, or remove the link.")),
        Err(_) => Ok(path.to_owned()),
    }
}

/// What a file has to have made for it to be there.
fn uppermost_missing(path: &Path) -> PathBuf {
    let missing = path.ancestors().take_while(|path| !path.exists());
    missing.last().unwrap_or(path).to_owned()
}

fn read(path: &Path) -> Result<Option<String>, Failure> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::failed(format!(
            "{} cannot be read: {error}; nothing was changed",
            path.display()
        ))),
    }
}

/// Keeps the file as it was beside it, under a name that is free: an earlier backup stays.
fn back_up(path: &Path, text: &str) -> Result<PathBuf, Failure> {
    let time = jiff::Timestamp::now().as_second();
    let mut number = 1;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".bak-{time}"));
        if number > 1 {
            name.push(format!("-{number}"));
        }
        let backup = PathBuf::from(name);
        let new = prepare(path, text).and_then(|new| Ok(new.persist_noclobber(&backup)?));
        match new {
            Ok(_) => return Ok(backup),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(unwritten(&backup, &error)),
        }
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    prepare(path, text)
        .and_then(|new| Ok(new.persist(path)?))
        .map(drop)
        .map_err(|error| unwritten(path, &error))
}

/// A file that is written whole and waits for its name, with the mode of the one at `path`,
/// else for its owner alone.
fn prepare(path: &Path, text: &str) -> std::io::Result<tempfile::NamedTempFile> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    let mode = path
        .metadata()
        .map_or(0o600, |meta| meta.permissions().mode() & 0o777);
    file.as_file()
        .set_permissions(fs::Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    Ok(file)
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!(
        "{} cannot be written: {error}; the client's file is as it was",
        path.display()
    ))
}

fn no_edit(path: &Path, client: Client, why: &str) -> Failure {
    Failure::failed(format!("{} was left as it is: {why}", path.display())).advise(format!(
        "Mend it, or put the lines of `cozyvttctl client-config {}` into it by hand.",
        client.name()
    ))
}
