//! The audit log: one JSON line for every write that a client asked for.
//!
//! `audit.log` in the state folder, for its owner alone. At 8 MiB it becomes `audit.log.1`,
//! and the four before it move on; what is older goes.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde::Serialize;

use crate::lock::lock;

/// When the file is put aside, in bytes.
const FULL: u64 = 8 * 1024 * 1024;

/// How many files are kept beside the present one.
const KEPT: usize = 4;

/// A line of the log.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// When the write ended, or was refused: RFC 3339, UTC.
    pub ts: String,
    /// The client's name.
    pub client: String,
    /// Its own random name.
    pub client_id: String,
    /// Its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The tool.
    pub tool: String,
    /// The digest of its arguments: SHA-256 of their JSON with sorted keys.
    pub digest: String,
    /// What it came to.
    pub outcome: Verdict,
    /// Why not, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What a write came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The server has done it.
    Done,
    /// It is sent; the server acknowledges nothing.
    Pending,
    /// It failed at the server or on the way; something may have happened.
    Failed,
    /// Nothing was sent.
    Refused,
    /// The answer was that of an earlier call with the same key.
    Repeated,
    /// Nobody knows.
    Unknown,
}

/// The log. Clones share it.
#[derive(Debug, Clone)]
pub struct Audit(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    full: u64,
    file: Mutex<Option<File>>,
    /// Told once while it lasts.
    broken: AtomicBool,
}

impl Audit {
    /// The log in `state_dir`; the file is made with the first line.
    pub fn new(state_dir: &Path) -> Self {
        Self::of(state_dir.join("audit.log"), FULL)
    }

    fn of(path: PathBuf, full: u64) -> Self {
        Self(Arc::new(Inner {
            path,
            full,
            file: Mutex::default(),
            broken: AtomicBool::new(false),
        }))
    }

    /// Writes a line. One that cannot be written is no reason to stop the game; the log
    /// of the daemon tells.
    pub async fn note(&self, line: Line) {
        let inner = Arc::clone(&self.0);
        let written = tokio::task::spawn_blocking(move || inner.write(&line)).await;
        let error = match written {
            Ok(Ok(())) => {
                self.0.broken.store(false, Ordering::Relaxed);
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        if !self.0.broken.swap(true, Ordering::Relaxed) {
            tracing::error!(error, file = %self.0.path.display(), "the audit log takes no lines");
        }
    }
}

impl Inner {
    fn write(&self, line: &Line) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        let mut open = lock(&self.file);
        let file = match open.take() {
            Some(file) if file.metadata()?.len() < self.full => file,
            full => {
                if full.is_some() {
                    self.rotate()?;
                }
                self.open()?
            }
        };
        // One write a line, so that none is ever half of two.
        let written = open.insert(file).write_all(&bytes);
        if written.is_err() {
            *open = None;
        }
        written
    }

    fn open(&self) -> io::Result<File> {
        File::options()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&self.path)
    }

    fn rotate(&self) -> io::Result<()> {
        for number in (0..KEPT).rev() {
            match std::fs::rename(self.numbered(number), self.numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn numbered(&self, number: usize) -> PathBuf {
        let mut name = OsString::from(&self.path);
        if number > 0 {
            name.push(format!(".{number}"));
        }
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn line(tool: &str) -> Line {
        Line {
            ts: "2026-01-01T00:00:00Z".to_owned(),
            client: "A".to_owned(),
            client_id: "a".to_owned(),
            pid: None,
            tool: tool.to_owned(),
            digest: "d".to_owned(),
            outcome: Verdict::Done,
            error: None,
        }
    }

    #[tokio::test]
    async fn a_line_is_one_json_object_in_a_file_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let audit = Audit::new(dir.path());
        audit.note(line("chat_send")).await;
        let path = dir.path().join("audit.log");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(&path).unwrap();
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["tool"], "chat_send");
        assert_eq!(read["outcome"], "done");
    }

    #[tokio::test]
    async fn a_full_file_moves_aside_and_five_are_kept_in_all() {
        let dir = tempfile::tempdir().unwrap();
        let audit = Audit::of(dir.path().join("audit.log"), 1);
        for number in 0..8 {
            audit.note(line(&number.to_string())).await;
        }
        assert_eq!(dir.path().read_dir().unwrap().count(), 5);
        let newest = std::fs::read_to_string(dir.path().join("audit.log")).unwrap();
        assert!(newest.contains(r#""tool":"7""#), "{newest}");
        let oldest = std::fs::read_to_string(dir.path().join("audit.log.4")).unwrap();
        assert!(oldest.contains(r#""tool":"3""#), "{oldest}");
    }
}
