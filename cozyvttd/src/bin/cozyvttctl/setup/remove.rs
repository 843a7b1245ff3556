//! `setup --remove`: takes away what setup has written, and names what is left.

use std::path::{Path, PathBuf};

use cozyvtt_proto::control::{AuthLogout, NoParams};
use cozyvttd::config::Config;
use serde_json::json;
use textwrap::core::display_width;

use super::answers::Secret;
use super::record::{self, Record};
use super::settings::Cleared;
use super::table::{Chosen, KEPT, Seat};
use super::{Place, clients, settings, start, units};
use crate::daemon::{Daemon, PROMPT};
use crate::failure::{Exit, Failure};
use crate::terminal::{BAD, GOOD, Screen, remark};
use crate::text::json_pretty;

/// What was done, what was left, and what did not work.
#[derive(Debug, Default)]
struct Account {
    done: Vec<String>,
    left: Vec<String>,
    failed: Vec<String>,
}

impl Account {
    fn session(&mut self, ended: bool) {
        if ended {
            self.done
                .push("The session is ended at the server.".to_owned());
        } else {
            let told = "the session at the server: it could not be told and runs out by itself";
            self.left.push(told.to_owned());
        }
    }

    fn left(&mut self, path: &Path, what: &str) {
        self.left.push(format!("{}: {what}", path.display()));
    }

    fn failed(&mut self, what: impl std::fmt::Display, failure: Failure) {
        let why = match failure {
            Failure::Told(told) => told.problem,
            Failure::Output(error) => error.to_string(),
        };
        self.failed.push(format!("{what}: {why}"));
    }
}

pub(super) async fn run(
    place: &Place<'_>,
    as_json: bool,
    daemon: &Daemon,
    screen: &mut Screen,
) -> Result<Exit, Failure> {
    let mut record = Record::read(place.state_dir);
    let mut account = Account::default();
    take_out_of_clients(place, &mut record, &mut account);
    if start::runs(daemon).await {
        farewell(daemon, &mut account).await;
    } else if place.state_dir.join(KEPT[0]).exists() {
        log_out(place, &mut account).await;
    }
    if record.enabled || !record.units.is_empty() {
        match units::remove(place, &mut record).await {
            Ok(left) => {
                let told = "The daemon's units are stopped and disabled.";
                account.done.push(told.to_owned());
                for (unit, why) in left {
                    account.left(&unit, why);
                }
            }
            Err(failure) => account.failed("the units", failure),
        }
    }
    if let Err(failure) = start::stop(daemon).await {
        account.failed("the daemon", failure);
    }
    clear_configuration(place, &mut record, &mut account);
    for name in KEPT {
        // What cannot be removed is named below.
        let _ = std::fs::remove_file(place.state_dir.join(name));
    }
    if account.failed.is_empty() {
        let _ = std::fs::remove_file(place.state_dir.join(record::NAME));
    } else {
        // What is still to be undone.
        record.write(place.state_dir)?;
    }
    let _ = std::fs::remove_dir(place.socket_dir);
    name_what_is_left(place, &mut account);
    tell(&account, as_json, screen)?;
    Ok(if account.failed.is_empty() {
        Exit::Fine
    } else {
        Exit::Failed
    })
}

/// Takes the entries out of the clients' files.
fn take_out_of_clients(place: &Place<'_>, record: &mut Record, account: &mut Account) {
    for (path, noted) in std::mem::take(&mut record.clients) {
        match clients::withdraw(&path, &noted, place) {
            Ok((change, told)) => {
                if change.name() != "none" {
                    account.done.push(told);
                }
                record
                    .backups
                    .extend(change.backup().map(Path::to_path_buf));
            }
            Err(failure) => {
                account.failed(path.display(), failure);
                record.clients.insert(path, noted);
            }
        }
    }
    record.backups.retain(|backup| backup.exists());
    for backup in &record.backups {
        account.left(backup, "a client's configuration as it was before");
    }
}

/// Takes what setup has written out of the configuration, and what is the person's own not.
fn clear_configuration(place: &Place<'_>, record: &mut Record, account: &mut Account) {
    let (file, written) = (place.config_file, &record.configuration);
    match settings::clear(file, written) {
        Err(failure) => return account.failed(file.display(), failure),
        Ok(Cleared::Absent) => {}
        Ok(Cleared::Deleted) => account.done.push(format!("{} is removed.", file.display())),
        Ok(Cleared::Kept(keys)) => {
            let mut what = format!("your own configuration, with {}", keys.join(", "));
            if keys.is_empty() {
                "your own configuration, without any key".clone_into(&mut what);
            }
            let changed: Vec<&str> = written.changed.iter().map(String::as_str).collect();
            if !changed.is_empty() {
                what = format!("{what}; of these setup has changed {}", changed.join(", "));
            }
            account.left(file, &what);
        }
    }
    record.configuration = record::Configuration::default();
    for folder in file.ancestors().skip(1).take(2) {
        if folder.ends_with("cozyvtt") || folder.ends_with("profiles") {
            // Only an empty one goes.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Names the daemon's files; those of other profiles stay out of it.
fn name_what_is_left(place: &Place<'_>, account: &mut Account) {
    let others = place.state_dir.join("profiles");
    for path in files_below(place.state_dir) {
        if !path.starts_with(&others) {
            account.left(&path, what_it_is(&path));
        }
    }
    if others.is_dir() {
        account.left(&others, "what the daemons of other profiles keep");
    }
    let shared = cozyvtt_proto::paths::shared_state_dir();
    if let Some(shared) = shared.filter(|shared| shared != place.state_dir) {
        for path in files_below(&shared) {
            if is_tally(&path) {
                account.left(&path, what_it_is(&path));
            }
        }
    }
    if place.socket_dir.exists() && !place.socket_dir.starts_with(place.state_dir) {
        account.left(
            place.socket_dir,
            "the folder of the sockets, until you log out",
        );
    }
}

/// Has the daemon end the session at the server.
async fn farewell(daemon: &Daemon, account: &mut Account) {
    let farewell = daemon.try_ask::<AuthLogout>(NoParams {}, PROMPT).await;
    account.session(farewell.is_ok_and(|farewell| farewell.ended_at_server));
}

/// Ends the kept session at the server where no daemon runs.
async fn log_out(place: &Place<'_>, account: &mut Account) {
    let config = Config::resolve(Some(place.config_file), place.profile, &|_| None);
    let ended = match config.settings {
        Ok(known) => {
            let chosen = Chosen {
                url: known.url,
                email: known.email,
                secret: Secret::AsBefore(known.password),
                ca_file: None,
            };
            match Seat::take(chosen, known.access, place.state_dir) {
                Ok(seat) => seat.leave().await,
                Err(_) => false,
            }
        }
        Err(_) => false,
    };
    account.session(ended);
}

fn what_it_is(path: &Path) -> &'static str {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let inside = |folder: &str| path.components().any(|part| part.as_os_str() == folder);
    if inside("documents") {
        "a document that was fetched"
    } else if inside("logs") {
        "the log"
    } else if name.starts_with("journal-") {
        "the journal of a campaign"
    } else if name.starts_with("ledger-") {
        "the ledger of writes"
    } else if name.starts_with("audit") {
        "the audit log"
    } else if name == record::NAME {
        "what is still to be undone"
    } else if is_tally(path) {
        "the tally of sign-ins, which keeps you from being locked out"
    } else {
        "a file of the daemon's"
    }
}

/// Whether a file counts sign-ins, for all daemons of the person.
fn is_tally(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("sign-ins"))
}

/// Every file below a folder, and every folder that is empty.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        let paths: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        if paths.is_empty() {
            found.push(folder);
            continue;
        }
        for path in paths {
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort_unstable();
    found
}

fn tell(account: &Account, as_json: bool, screen: &mut Screen) -> Result<(), Failure> {
    if as_json {
        let told = json!({
            "removed": account.done,
            "left": account.left,
            "failed": account.failed,
        });
        screen.line(&json_pretty(&told))?;
        return Ok(());
    }
    let layout = screen.layout;
    let wrapped = |line: &String| layout.wrap(line, 2);
    screen.lines(
        account
            .done
            .iter()
            .flat_map(wrapped)
            .map(|line| format!("{GOOD}{line}{GOOD:#}")),
    )?;
    screen.lines(
        account
            .failed
            .iter()
            .flat_map(wrapped)
            .map(|line| format!("{BAD}{line}{BAD:#}")),
    )?;
    if !account.failed.is_empty() {
        remark(
            "What did not work stays noted: mend it, then run `cozyvttctl setup --remove` again.",
        );
    } else if account.done.is_empty() {
        screen.line("There was nothing that setup has written.")?;
    }
    if account.left.is_empty() {
        screen.line("Nothing is left but the programs.")?;
        return Ok(());
    }
    screen.line("Left:")?;
    // Paths stay whole: they are there to be copied.
    let width = layout.width.unwrap_or(usize::MAX);
    screen.lines(
        account
            .left
            .iter()
            .flat_map(|line| match line.rsplit_once(": ") {
                Some((path, what)) if path.starts_with('/') && display_width(line) + 2 > width => {
                    vec![format!("  {what}:"), format!("    {path}")]
                }
                _ => vec![format!("  {line}")],
            }),
    )?;
    remark("Journal, logs and documents are yours, to keep or to remove file by file.");
    Ok(())
}
