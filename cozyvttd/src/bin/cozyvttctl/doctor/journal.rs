//! The journals: whether they are whole and can be written, and how far they reach.

use std::path::{Path, PathBuf};

use cozyvtt_proto::control::{EventPoll, Hop, HopState, PollParams};
use rusqlite::{Connection, OpenFlags};

use super::{Patient, broken, hint, ok, quoted};
use crate::daemon::PROMPT;
use crate::events;

/// The times of the oldest and the newest record, in seconds since 1970.
type Reach = (Option<f64>, Option<f64>);

/// Whether the journals are whole and can be written: the daemon's word, else a look at
/// their files.
pub(super) async fn checks(patient: &Patient<'_>) -> Vec<Hop> {
    let mut checks = Vec::new();
    let files = files(&patient.state_dir);
    let told = patient.status.iter().flat_map(|status| &status.hops);
    if let Some(hop) = told.into_iter().find(|hop| hop.name == "journal") {
        let mut hop = hop.clone();
        if hop.state == HopState::Ok {
            let span = span(patient).await.unwrap_or_default();
            let journals = files.iter().filter(|file| is_journal(file));
            let sizes = journals.filter_map(|file| Some(file.metadata().ok()?.len()));
            let size = sizes.sum::<u64>() / 1000;
            hop.detail = format!("{}, {size} kB{span}", hop.detail);
        }
        checks.push(hop);
    } else {
        checks.extend(
            files
                .iter()
                .filter(|file| is_journal(file))
                .map(|file| look(file)),
        );
        if checks.is_empty() {
            checks.push(none(&patient.state_dir));
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

/// From when to when the daemon's journal reaches.
async fn span(patient: &Patient<'_>) -> Option<String> {
    let page = async |since| {
        let params = PollParams {
            since,
            limit: 1,
            campaign: None,
        };
        let page = patient.daemon.try_ask::<EventPoll>(params, PROMPT).await;
        page.ok()?.events.pop()
    };
    // Without a cursor it is the newest one.
    let (oldest, newest) = (page(1).await?, page(0).await?);
    Some(format!(", from {} to {}", day(oldest.ts), day(newest.ts)))
}

/// Where there is no journal yet: whether there can be one.
fn none(folder: &Path) -> Hop {
    let fault = folder.exists().then(|| unwritable(folder)).flatten();
    fault.unwrap_or_else(|| ok("journal", "there is none yet"))
}

/// What keeps the person's programs from writing there, if anything does.
fn unwritable(path: &Path) -> Option<Hop> {
    let fix = match rustix::fs::access(path, rustix::fs::Access::WRITE_OK) {
        Ok(()) => return None,
        Err(rustix::io::Errno::ROFS) => {
            "the disk takes no writes: see `findmnt` and the system's log why".to_owned()
        }
        Err(_) => format!(
            "give it back to yourself: run: sudo chown -R \"$USER\" {0} && chmod -R u+rwX {0}",
            quoted(path)
        ),
    };
    let detail = format!("{} cannot be written by you", path.display());
    Some(broken("journal", detail, fix))
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
    if let Some(fault) = unwritable(file) {
        return fault;
    }
    let whole = || -> rusqlite::Result<(String, Reach)> {
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
        let reach = connection.query_row("SELECT min(ts), max(ts) FROM events", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
        Ok((verdict, reach))
    };
    match whole() {
        Ok((verdict, reach)) if verdict == "ok" => {
            let size = file.metadata().map_or(0, |meta| meta.len());
            let reach = match reach {
                (Some(oldest), Some(newest)) => {
                    format!(", from {} to {}", day(oldest), day(newest))
                }
                _ => ", no events yet".to_owned(),
            };
            ok(
                "journal",
                format!("{shown}, {} kB, whole{reach}", size / 1000),
            )
        }
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

/// The local day and minute of a time in seconds since 1970.
fn day(seconds: f64) -> String {
    let moment = events::moment(seconds, &jiff::tz::TimeZone::system());
    moment.map_or_else(
        || "a time that is none".to_owned(),
        |moment| moment.strftime("%Y-%m-%d %H:%M").to_string(),
    )
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.sort_unstable();
    files
}
