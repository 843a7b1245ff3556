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
    /// The entry is in it now; the file as it was is kept, where there was one.
    Written { backup: Option<PathBuf> },
    /// The entry is no longer in it.
    Removed { backup: PathBuf },
    /// The file held nothing else and is gone.
    Deleted,
    /// There was nothing to do.
    None,
}

impl Change {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Written { .. } => "written",
            Self::Removed { .. } => "removed",
            Self::Deleted => "deleted",
            Self::None => "none",
        }
    }

    /// Where the file as it was is kept.
    pub(crate) fn backup(&self) -> Option<&Path> {
        match self {
            Self::Written { backup } => backup.as_deref(),
            Self::Removed { backup } => Some(backup),
            Self::Deleted | Self::None => None,
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
            Self::None => format!("{title} has it so already: {file}."),
        }
    }
}

/// Merges an entry into a file.
///
/// # Errors
///
/// It cannot be read, understood or written; it is as it was.
pub(crate) fn put(path: &Path, client: Client, entry: &Entry) -> Result<Change, Failure> {
    let before = read(path)?;
    let text = before.clone().unwrap_or_default();
    let after = edit::put(&text, client, entry).map_err(|why| no_edit(path, client, &why))?;
    if before.as_ref() == Some(&after) {
        return Ok(Change::None);
    }
    let backup = before.map(|text| back_up(path, &text)).transpose()?;
    write(path, &after)?;
    Ok(Change::Written { backup })
}

/// Takes an entry out of a file.
///
/// # Errors
///
/// As [`put`].
pub(crate) fn take(path: &Path, client: Client, name: &str) -> Result<Change, Failure> {
    let Some(before) = read(path)? else {
        return Ok(Change::None);
    };
    let after = edit::take(&before, client, name).map_err(|why| no_edit(path, client, &why))?;
    let Some(after) = after else {
        return Ok(Change::None);
    };
    if edit::is_empty(&after, client) {
        fs::remove_file(path).map_err(|error| unwritten(path, &error))?;
        if let Some(folder) = path.parent() {
            // It was made for the file, if nothing else is in it; else it stays.
            let _ = fs::remove_dir(folder);
        }
        return Ok(Change::Deleted);
    }
    let backup = back_up(path, &before)?;
    write(path, &after)?;
    Ok(Change::Removed { backup })
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

/// Keeps the file as it was beside it, under a name that is free.
fn back_up(path: &Path, text: &str) -> Result<PathBuf, Failure> {
    let time = jiff::Timestamp::now().as_second();
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".bak-{time}"));
    let backup = PathBuf::from(name);
    if fs::read_to_string(&backup).is_ok_and(|kept| kept == text) {
        return Ok(backup);
    }
    write_as(&backup, path, text).map_err(|error| unwritten(&backup, &error))?;
    Ok(backup)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    // A link stays one: what it leads to is written.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    write_as(&target, &target, text).map_err(|error| unwritten(path, &error))
}

/// Writes a file whole or not at all, with the mode of `like`, else for its owner alone.
fn write_as(path: &Path, like: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    let mode = like
        .metadata()
        .map_or(0o600, |meta| meta.permissions().mode() & 0o777);
    file.as_file()
        .set_permissions(fs::Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
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
