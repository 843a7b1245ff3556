//! What the daemon keeps: secrets, the journal, and the disk that they are on.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use cozyvtt_proto::control::Hop;
use rusqlite::{Connection, OpenFlags};

use super::{Patient, broken, hint, ok};

/// Less free space than this is a fault, in bytes: a journal commits a few MiB at once.
const TOO_LITTLE: u64 = 16 * 1024 * 1024;

/// Less than this is worth a word.
const LITTLE: u64 = 256 * 1024 * 1024;

/// Whether secrets are for this user alone.
pub(super) fn secrets(patient: &Patient<'_>) -> Option<Hop> {
    let files = [
        patient.state_dir.join("session.json"),
        patient.state_dir.join("login.json"),
        patient.config.file.clone(),
    ];
    let mode = |path: &Path| Some(path.metadata().ok()?.permissions().mode() & 0o777);
    let there: Vec<&PathBuf> = files.iter().filter(|path| path.exists()).collect();
    let open: Vec<String> = there
        .iter()
        .filter(|path| mode(path).is_some_and(|mode| mode & 0o077 != 0))
        .map(|path| path.display().to_string())
        .collect();
    if there.is_empty() {
        return None;
    }
    Some(if open.is_empty() {
        ok("secrets", "configuration and session are for you alone")
    } else {
        broken(
            "secrets",
            format!("other users can read {}", open.join(", ")),
            format!("run: chmod 600 {}", open.join(" ")),
        )
    })
}

/// Whether the journals are whole: the daemon's word, else a look at their files.
pub(super) fn journal(patient: &Patient<'_>) -> Vec<Hop> {
    let mut checks = Vec::new();
    let told = patient.status.iter().flat_map(|status| &status.hops);
    checks.extend(told.filter(|hop| hop.name == "journal").cloned());
    let files = files(&patient.state_dir);
    if checks.is_empty() {
        for file in files.iter().filter(|file| is_journal(file)) {
            checks.push(look(file));
        }
        if checks.is_empty() {
            checks.push(ok("journal", "there is none yet"));
        }
    }
    let set_aside: Vec<String> = files
        .iter()
        .filter(|file| file.to_string_lossy().contains(".corrupt-"))
        .map(|file| file.display().to_string())
        .collect();
    if !set_aside.is_empty() {
        checks.push(hint(
            "set aside",
            format!("damaged files were set aside: {}", set_aside.join(", ")),
            Some("look into them with sqlite3, or remove them"),
        ));
    }
    checks
}

fn is_journal(file: &Path) -> bool {
    let name = file
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    name.starts_with("journal-") && file.extension().is_some_and(|ending| ending == "sqlite")
}

/// Looks into a journal that nobody writes, as into a file that does not change: SQLite
/// would put others beside it.
fn look(file: &Path) -> Hop {
    let shown = file.display().to_string();
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    if Path::new(&log).metadata().is_ok_and(|meta| meta.len() > 0) {
        let detail = format!("{shown} was not closed, or somebody has it open");
        return hint(
            "journal",
            detail,
            Some("start cozyvttd, which brings it in order"),
        );
    }
    let whole = || -> rusqlite::Result<(String, i64)> {
        let address = format!(
            "file:{}?mode=ro&immutable=1",
            shown
                .replace('%', "%25")
                .replace('?', "%3f")
                .replace('#', "%23")
        );
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(address, flags)?;
        let verdict = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        let size = file
            .metadata()
            .map_or(0, |meta| i64::try_from(meta.len()).unwrap_or(i64::MAX));
        Ok((verdict, size))
    };
    match whole() {
        Ok((verdict, size)) if verdict == "ok" => ok(
            "journal",
            format!("{shown}, {:.1} MB, whole", megabytes(size)),
        ),
        Ok((verdict, _)) => damaged(&shown, &verdict),
        Err(error) => damaged(&shown, &error.to_string()),
    }
}

fn damaged(file: &str, why: &str) -> Hop {
    broken(
        "journal",
        format!("{file} is damaged: {why}"),
        "start cozyvttd: it sets the file aside and begins a new one",
    )
}

#[expect(clippy::cast_precision_loss, reason = "one digit of it is shown")]
fn megabytes(bytes: i64) -> f64 {
    bytes as f64 / 1e6
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

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.sort_unstable();
    files
}
