//! What the daemon keeps, other than the journal: its secrets, and the disk that all is on.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use cozyvtt_proto::control::Hop;

use super::{Patient, broken, hint, ok, quoted};

/// Less free space than this is a fault, in bytes: a journal commits a few MiB at once.
const TOO_LITTLE: u64 = 16 * 1024 * 1024;

/// Less than this is worth a word.
const LITTLE: u64 = 256 * 1024 * 1024;

/// Whether secrets are for this user alone.
pub(super) fn secrets(patient: &Patient<'_>) -> Option<Hop> {
    // That of the configuration is looked at where it is read.
    let files = ["session.json", "login.json"].map(|name| patient.state_dir.join(name));
    let mode = |path: &Path| Some(path.metadata().ok()?.permissions().mode() & 0o777);
    let there: Vec<&PathBuf> = files.iter().filter(|path| path.exists()).collect();
    let open: Vec<&PathBuf> = there
        .iter()
        .copied()
        .filter(|path| mode(path).is_some_and(|mode| mode & 0o077 != 0))
        .collect();
    if there.is_empty() {
        return None;
    }
    Some(if open.is_empty() {
        ok(
            "secrets",
            "what the daemon keeps of the session is for you alone",
        )
    } else {
        let shown: Vec<String> = open.iter().map(|path| path.display().to_string()).collect();
        let mend: Vec<String> = open.iter().map(|path| quoted(path)).collect();
        broken(
            "secrets",
            format!("other users can read {}", shown.join(", ")),
            format!("run: chmod 600 {}", mend.join(" ")),
        )
    })
}

/// Whether the disk takes more.
pub(super) fn disk(patient: &Patient<'_>) -> Hop {
    let mut folder = patient.state_dir.as_path();
    while !folder.exists() {
        match folder.parent() {
            Some(parent) => folder = parent,
            None => break,
        }
    }
    let shown = folder.display();
    let Ok(stat) = rustix::fs::statvfs(folder) else {
        return hint("disk", format!("{shown} cannot be looked at"), None);
    };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let free_mb = free / 1_000_000;
    let detail = format!("{free_mb} MB free for {shown}");
    if free < TOO_LITTLE {
        broken(
            "disk",
            detail,
            format!("free some space on the disk of {shown}; the daemon goes on by itself"),
        )
    } else if free < LITTLE {
        hint("disk", detail, Some("free some space before it is used up"))
    } else {
        ok("disk", detail)
    }
}
