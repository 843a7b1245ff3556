//! What can be wrong with a journal, and what mends it.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use thiserror::Error;

/// Why the journal's file, or the journal, cannot be used.
#[derive(Debug, Error)]
pub enum JournalError {
    /// SQLite refused.
    #[error("the journal {} cannot be used: {source}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// What is committed cannot be brought to the disk.
    #[error("the journal {} cannot be brought to the disk: {source}", path.display())]
    Sync {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file was written by a newer version.
    #[error("the journal {} was written by a newer cozyvttd (format {found}, this one knows {known}) and is left alone", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The format's number in the file.
        found: usize,
        /// The newest one that is known here.
        known: usize,
    },
    /// The file is damaged.
    #[error("the journal {} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite found.
        what: String,
    },
    /// The file is damaged and cannot be renamed.
    #[error("the journal {} is damaged and cannot be set aside: {source}", path.display())]
    Aside {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file's numbers are larger than those that were given without it.
    #[error("the journal {} has come back with numbers from beyond this run's: the clock has been set back", path.display())]
    Ahead {
        /// The file.
        path: PathBuf,
    },
    /// The writer does not come to an end with what it has in hand.
    #[error("the journal takes no events at the moment: {0}; nothing was read, so ask again")]
    Stuck(String),
    /// The writer's thread cannot be started.
    #[error("the journal's thread cannot be started: {0}")]
    Thread(io::Error),
    /// The writer has gone; the daemon is stopping.
    #[error("the journal is closed")]
    Closed,
}

impl JournalError {
    pub(super) fn sqlite(path: &Path, source: rusqlite::Error) -> Self {
        Self::Sqlite {
            path: path.into(),
            source,
        }
    }

    /// What SQLite refuses with, if it does.
    fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Sqlite { source, .. } => source.sqlite_error_code(),
            _ => None,
        }
    }

    /// Whether it is the file's content that is wrong.
    pub(super) fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
            || matches!(
                self.code(),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
            )
    }
}

/// Why new records are held in memory, and what mends that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What is wrong.
    pub what: String,
    /// What mends it.
    pub fix: String,
    /// It does not pass while the daemon runs: the file is not tried again.
    pub lasts: bool,
}

impl Trouble {
    pub(super) fn of(error: &JournalError) -> Self {
        let fix = match (error, error.code()) {
            (JournalError::Newer { .. }, _) => {
                "install that version, or move the file away, then restart cozyvttd"
            }
            (JournalError::Ahead { .. }, _) => "set the clock, then restart cozyvttd",
            (_, Some(ErrorCode::DiskFull)) => {
                "make room on the disk; cozyvttd then writes by itself"
            }
            (
                _,
                Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied),
            )
            | (JournalError::Aside { .. }, _) => {
                "make the file and its folder writable for this user; cozyvttd then writes by itself"
            }
            _ => "look after the file and its disk; cozyvttd tries again by itself",
        };
        Self {
            what: error.to_string(),
            fix: fix.to_owned(),
            lasts: matches!(
                error,
                JournalError::Newer { .. } | JournalError::Ahead { .. }
            ),
        }
    }

    /// Both in one sentence, for somebody who reads events.
    pub(super) fn note(&self) -> String {
        format!(
            "{}. New events are held in memory and are lost when cozyvttd ends; {}.",
            self.what, self.fix
        )
    }
}
