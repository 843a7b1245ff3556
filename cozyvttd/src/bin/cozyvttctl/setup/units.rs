//! The units of systemd: written, enabled, taken away again.

use std::path::{Path, PathBuf};

use cozyvtt_proto::profile::{self, Profile};

use super::record::Record;
use crate::failure::Failure;
use crate::programs::{self, DAEMON};
use crate::systemctl::systemctl;

/// The texts, as they are in the source.
const UNITS: [(&str, &str); 4] = [
    (
        "cozyvttd.socket",
        include_str!("../../../../../systemd/cozyvttd.socket"),
    ),
    (
        "cozyvttd.service",
        include_str!("../../../../../systemd/cozyvttd.service"),
    ),
    (
        "cozyvttd@.socket",
        include_str!("../../../../../systemd/cozyvttd@.socket"),
    ),
    (
        "cozyvttd@.service",
        include_str!("../../../../../systemd/cozyvttd@.service"),
    ),
];

/// Where the texts have the programs.
const PLACE: &str = "%h/.cargo/bin/";

/// Writes the units of the main daemon, or the templates of profiles; whether anything is
/// another one than before.
///
/// # Errors
///
/// There is no daemon's program, or the files cannot be written.
pub(super) fn write(profile: Option<&Profile>, record: &mut Record) -> Result<bool, Failure> {
    let folder = folder()?;
    let program = programs::find(DAEMON).ok_or_else(|| {
        Failure::failed("cozyvttd is neither beside cozyvttctl nor in PATH").advise(
            "Install it: `cargo install --path cozyvttd` in the source folder, or the package.",
        )
    })?;
    let place = program
        .parent()
        .unwrap_or(Path::new("/"))
        .display()
        .to_string();
    // systemd reads % as a beginning of its own.
    let place = format!("{}/", place.replace('%', "%%"));
    let mut changed = false;
    for (name, text) in UNITS {
        if name.contains('@') != profile.is_some() {
            continue;
        }
        let path = folder.join(name);
        let text = text.replace(PLACE, &place);
        let present = std::fs::read_to_string(&path).ok();
        if present.as_ref() == Some(&text) {
            record.units.insert(path, text);
            continue;
        }
        let by_hand = present.is_some_and(|present| record.units.get(&path) != Some(&present));
        if by_hand {
            return Err(Failure::failed(format!(
                "{} is there already and is not one that setup has written; it was left as it is",
                path.display()
            ))
            .advise("Move it away, or run setup with --no-units."));
        }
        let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, &text));
        written.map_err(|error| {
            Failure::failed(format!(
                "the unit {} cannot be written: {error}",
                path.display()
            ))
        })?;
        record.units.insert(path, text);
        changed = true;
    }
    Ok(changed)
}

/// Has the daemon start now and with every session.
///
/// # Errors
///
/// What systemd says.
pub(super) async fn enable(profile: Option<&Profile>) -> Result<(), Failure> {
    let unit = profile::service(profile);
    for arguments in [&["daemon-reload"][..], &["enable", "--now", &unit]] {
        systemctl(arguments).await.map_err(|error| {
            Failure::failed(error.to_string())
                .advise(format!("Look at it with: systemctl --user status {unit}"))
                .advise("Or run setup with --no-units; the shim then starts the daemon by itself.")
        })?;
    }
    Ok(())
}

/// Has systemd let go of the sockets and stop the daemon, as far as it has either: while it
/// listens, whoever asks for the daemon starts it.
pub(super) async fn halt(profile: Option<&Profile>) {
    let units = [profile::socket(profile), profile::service(profile)];
    let _ = systemctl(&["stop", &units[0], &units[1]]).await;
}

/// Whether the daemon's unit runs it.
pub(super) async fn is_active(profile: Option<&Profile>) -> bool {
    let unit = profile::service(profile);
    systemctl(&["is-active", "--quiet", &unit]).await.is_ok()
}

/// Stops and disables the units, and removes those that are as setup wrote them; those that
/// are not, and those that another profile needs, are answered.
pub(super) async fn remove(profile: Option<&Profile>, record: &mut Record) -> Vec<PathBuf> {
    let units = [profile::service(profile), profile::socket(profile)];
    if !record.units.is_empty() {
        // Where no manager runs, nothing of it runs either.
        let _ = systemctl(&["disable", "--now", &units[0], &units[1]]).await;
    }
    let mut left = Vec::new();
    for (path, text) in std::mem::take(&mut record.units) {
        let present = std::fs::read_to_string(&path).ok();
        match present {
            None => {}
            Some(present) if present == text && std::fs::remove_file(&path).is_ok() => {}
            Some(_) => left.push(path),
        }
    }
    let _ = systemctl(&["daemon-reload"]).await;
    left
}

fn folder() -> Result<PathBuf, Failure> {
    directories::BaseDirs::new()
        .map(|dirs| dirs.config_dir().join("systemd/user"))
        .ok_or_else(|| Failure::failed("no home is known, and so no place for units"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_in_the_units_is_where_setup_puts_its_own() {
        for (name, text) in UNITS {
            let programs = text.lines().filter(|line| line.starts_with("Exec"));
            for line in programs {
                assert!(line.contains(&format!("={PLACE}")), "{name}: {line}");
            }
        }
    }
}
