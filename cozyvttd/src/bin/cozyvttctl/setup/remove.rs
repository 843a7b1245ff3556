//! `setup --remove`: takes away what setup has written, and names what is left.

use std::path::{Path, PathBuf};

use cozyvtt_proto::control::{AuthLogout, NoParams};
use cozyvtt_proto::profile::Profile;
use cozyvttd::config::Config;
use serde_json::json;

use super::answers::Secret;
use super::settings::Cleared;
use super::table::{KEPT, Seat};
use super::{Place, record, settings, start, units};
use crate::client_config::client::Client;
use crate::client_config::entry::Entry;
use crate::client_config::file::{self, Change};
use crate::daemon::{Daemon, PROMPT};
use crate::failure::{Exit, Failure};
use crate::terminal::{GOOD, Screen, remark};
use crate::text::json_pretty;
use clap::ValueEnum as _;

/// What was done, and what was left.
#[derive(Debug, Default)]
struct Account {
    done: Vec<String>,
    left: Vec<String>,
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
}

pub(super) async fn run(
    place: &Place<'_>,
    as_json: bool,
    daemon: &Daemon,
    screen: &mut Screen,
) -> Result<Exit, Failure> {
    let mut record = record::Record::read(place.state_dir);
    let mut account = Account::default();
    for (path, name) in std::mem::take(&mut record.clients) {
        client(&path, &name, place.profile, &mut account);
    }
    for backup in std::mem::take(&mut record.backups) {
        if backup.exists() {
            account.left(&backup, "a client's configuration as it was before");
        }
    }
    if start::runs(daemon).await {
        farewell(daemon, &mut account).await;
    } else if place.state_dir.join(KEPT[0]).exists() {
        log_out(place, &mut account).await;
    }
    let had_units = !record.units.is_empty();
    for unit in units::remove(place.profile, &mut record).await {
        account.left(&unit, "a unit that was changed by hand");
    }
    if had_units {
        account
            .done
            .push("The units are disabled and removed.".to_owned());
    }
    start::stop(daemon).await?;
    let file = place.config_file;
    match settings::clear(file)? {
        Cleared::Absent => {}
        Cleared::Deleted => account.done.push(format!("{} is removed.", file.display())),
        Cleared::Kept(keys) => {
            account.left(file, &format!("keys of your own: {}", keys.join(", ")));
        }
    }
    for name in KEPT.iter().chain([&record::NAME]) {
        let path = place.state_dir.join(name);
        // What cannot be removed is named below.
        let _ = std::fs::remove_file(path);
    }
    for folder in [file.parent(), file.parent().and_then(Path::parent)] {
        if let Some(folder) =
            folder.filter(|folder| folder.ends_with("cozyvtt") || folder.ends_with("profiles"))
        {
            // Only an empty one goes, here and below.
            let _ = std::fs::remove_dir(folder);
        }
    }
    let _ = std::fs::remove_dir(place.socket_dir);
    for path in files_below(place.state_dir) {
        account.left(&path, what_it_is(&path));
    }
    if let Some(shared) = cozyvtt_proto::paths::shared_state_dir() {
        for path in files_below(&shared) {
            let line = format!("{}: {}", path.display(), what_it_is(&path));
            if !account.left.contains(&line) {
                account.left.push(line);
            }
        }
    }
    if place.socket_dir.exists() && !place.socket_dir.starts_with(place.state_dir) {
        account.left(
            place.socket_dir,
            "the folder of the sockets, until you log out",
        );
    }
    tell(&account, as_json, screen)?;
    Ok(Exit::Fine)
}

/// Takes the entry out of a client's file.
fn client(path: &Path, name: &str, profile: Option<&Profile>, account: &mut Account) {
    let Ok(client) = Client::from_str(name, false) else {
        return account.left(path, "the entry of a client that is not known any more");
    };
    let entry = Entry::name_for(profile);
    match file::take(path, client, &entry) {
        Ok(Change::None) => {}
        Ok(change) => {
            account
                .done
                .push(change.told(client, &path.display().to_string()));
            if let Some(backup) = change.backup() {
                account.left(backup, "a client's configuration as it was before");
            }
        }
        Err(_) => account.left(path, "it could not be changed; take the entry out by hand"),
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
            let secret = Secret::AsBefore(known.password);
            let seat = Seat::take(
                known.url,
                known.email,
                &secret,
                known.access,
                place.state_dir,
            );
            match seat {
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
    } else if name.starts_with("sign-ins") {
        "the tally of sign-ins, which keeps you from being locked out"
    } else {
        "a file of the daemon's"
    }
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
        let told = json!({"removed": account.done, "left": account.left});
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
    if account.done.is_empty() {
        screen.line("There was nothing that setup has written.")?;
    }
    if account.left.is_empty() {
        screen.line("Nothing is left but the programs.")?;
        return Ok(());
    }
    screen.line("Left:")?;
    // Whole lines: they are there to be copied.
    screen.lines(account.left.iter().map(|line| format!("  {line}")))?;
    remark("Journal, logs and documents are yours, to keep or to remove file by file.");
    Ok(())
}
