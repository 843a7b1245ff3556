//! Puts the shim into the MCP clients, and takes it out again.

use std::path::{Path, PathBuf};

use clap::ValueEnum as _;

use super::answers::{self, Asking};
use super::record::{ClientFile, Record};
use super::steps::Steps;
use super::{Args, Place};
use crate::client_config::client::Client;
use crate::client_config::entry::{Entry, Wishes};
use crate::client_config::file::{self, Change};
use crate::failure::Failure;
use crate::terminal::Screen;

/// Puts the shim into the clients that are chosen, or prints what they need.
///
/// # Errors
///
/// A client's file cannot be changed; it is as it was.
pub(super) fn introduce(
    args: &Args,
    place: &Place<'_>,
    asking: Asking,
    steps: &mut Steps,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let clients = answers::clients(args, asking)?;
    if clients.is_empty() {
        steps.hint("`cozyvttctl client-config CLIENT` prints what an MCP client needs.");
        return Ok(());
    }
    let socket_dir = (!place.usual_sockets).then_some(place.socket_dir);
    let entry = Entry::new(place.profile, socket_dir, &Wishes::default())?;
    let mut record = Record::read(place.state_dir);
    for client in clients {
        let path = client.file(&|name| std::env::var_os(name).map(PathBuf::from));
        let Some(path) = path.filter(|_| client.can_be_written()) else {
            let title = client.title();
            steps.show(screen, &format!("{title}:\n{}", entry.snippet(client)))?;
            continue;
        };
        let change = file::put(&path, client, &entry)?;
        if let Change::Written { backup, made } = &change {
            let noted = record
                .clients
                .entry(path.clone())
                .or_insert_with(|| ClientFile {
                    client: client.name().to_owned(),
                    made: made.clone(),
                });
            client.name().clone_into(&mut noted.client);
            record.backups.extend(backup.clone());
            record.write(place.state_dir)?;
        }
        let told = change.told(client, &path.display().to_string());
        steps.done(screen, told.trim_end_matches('.'))?;
        if matches!(change, Change::Written { .. }) {
            steps.hint(client.after());
        }
    }
    Ok(())
}

/// Takes the entry out of a client's file again; what was done.
///
/// # Errors
///
/// It could not be changed; it is as it was.
pub(super) fn withdraw(
    path: &Path,
    noted: &ClientFile,
    place: &Place<'_>,
) -> Result<(Change, String), Failure> {
    let client = Client::from_str(&noted.client, false)
        .map_err(|_| Failure::failed("its client is not known any more"))?;
    let entry = Entry::name_for(place.profile);
    let change = file::take(path, client, &entry, noted.made.as_deref())?;
    let told = change.told(client, &path.display().to_string());
    Ok((change, told))
}
