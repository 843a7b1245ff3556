//! Folders and files that are ours alone, and the lock that keeps a second daemon out.

use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use thiserror::Error;

/// Why a folder cannot be used.
#[derive(Debug, Error)]
pub enum FolderError {
    /// It could not be made or looked at.
    #[error("the folder {} cannot be used: {source}; choose another one with --socket-dir or --state-dir", path.display())]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something else is in its place.
    #[error("{} is no folder; remove it, or choose another place with --socket-dir or --state-dir", path.display())]
    NoFolder {
        /// What is no folder.
        path: PathBuf,
    },
    /// It belongs to another user.
    #[error("the folder {} belongs to another user; choose one of your own", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
    },
    /// Others may enter it.
    #[error("other users can enter the folder {} (mode {mode:04o}); run: chmod 700 {}", path.display(), path.display())]
    Open {
        /// The folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Another daemon holds it.
    #[error("the folder {} is in use by another cozyvttd; stop that one (cozyvttctl stop) or choose another folder", path.display())]
    Occupied {
        /// The folder.
        path: PathBuf,
    },
}

/// Makes `path` if it is not there, 0700, and makes sure that it is ours and
/// that nobody else can enter it. A folder that was there with other modes is
/// refused rather than changed: it may be meant for something else.
///
/// # Errors
///
/// [`FolderError`], but never [`FolderError::Occupied`].
pub fn ensure(path: &Path) -> Result<(), FolderError> {
    let unusable = |source| FolderError::Unusable {
        path: path.into(),
        source,
    };
    make(path).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            FolderError::NoFolder { path: path.into() }
        }
        _ => unusable(source),
    })?;
    let meta = path.metadata().map_err(unusable)?;
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(FolderError::Foreign { path: path.into() });
    }
    let mode = meta.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(FolderError::Open {
            path: path.into(),
            mode,
        });
    }
    Ok(())
}

/// Makes `path` if it is not there, 0700.
///
/// # Errors
///
/// What the system said.
pub fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file that its owner alone can read, 0600, whole or not at all; it is on
/// the disk when this returns, whatever happens then.
///
/// # Errors
///
/// What the system said; the file is as it was before.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    // The name is on the disk once the folder is.
    File::open(folder)?.sync_all()
}

/// A folder that no other daemon uses as long as this value lives. The lock is
/// on the folder itself, so nothing is left behind, not even after a crash.
#[derive(Debug)]
pub struct FolderLock(#[expect(dead_code, reason = "held for its lock")] File);

impl FolderLock {
    /// Makes the folder private ([`ensure`]) and takes it.
    ///
    /// # Errors
    ///
    /// [`FolderError`].
    pub fn take(path: &Path) -> Result<Self, FolderError> {
        ensure(path)?;
        let unusable = |source| FolderError::Unusable {
            path: path.into(),
            source,
        };
        let folder = File::open(path).map_err(unusable)?;
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self(folder)),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(FolderError::Occupied { path: path.into() }),
            Err(error) => Err(unusable(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_new_folder_is_made_for_its_owner_alone() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("a/b");
        ensure(&path).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_folder_that_others_can_enter_is_refused_and_left_as_it_is() {
        let base = tempfile::tempdir().unwrap();
        std::fs::set_permissions(base.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let refusal = ensure(base.path()).unwrap_err();
        assert!(refusal.to_string().contains("chmod 700"), "{refusal}");
        assert_eq!(base.path().metadata().unwrap().mode() & 0o777, 0o755);
    }

    #[test]
    fn a_file_is_replaced_whole_and_is_for_its_owner_alone() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("login.json");
        for content in ["the first and longer one", "the second"] {
            write(&path, content.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
            assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        }
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 1);
        assert!(write(&base.path().join("none/login.json"), b"").is_err());
    }

    #[test]
    fn a_second_taker_is_told_that_the_folder_is_in_use() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("state");
        let first = FolderLock::take(&path).unwrap();
        assert!(matches!(
            FolderLock::take(&path),
            Err(FolderError::Occupied { .. })
        ));
        drop(first);
        FolderLock::take(&path).unwrap();
    }
}
