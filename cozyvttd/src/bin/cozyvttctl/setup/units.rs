//! The units of systemd: written, enabled, taken away again.

use std::path::{Path, PathBuf};

use cozyvtt_proto::profile::{self, Profile};

use super::Place;
use super::record::Record;
use crate::failure::Failure;
use crate::programs::{self, DAEMON};
use crate::systemctl::{self, systemctl};

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

/// Where a package of the system installs units.
const PACKAGED: &str = "/usr/lib/systemd/user";

/// Writes the units of the main daemon, or the templates of profiles; whether anything is
/// another one than before. All of them are looked at before the first is written. Units that
/// came with the programs, in a package, are left to it.
///
/// # Errors
///
/// There is no daemon's program, a unit is somebody else's, or a file cannot be written.
pub(super) fn write(profile: Option<&Profile>, record: &mut Record) -> Result<bool, Failure> {
    let folder = folder()?;
    let program = programs::find(DAEMON).ok_or_else(|| {
        Failure::failed("cozyvttd is neither beside cozyvttctl nor in PATH").advise(
            "Install it: `cargo install --path cozyvttd` in the source folder, or the package.",
        )
    })?;
    let place = program.parent().unwrap_or(Path::new("/"));
    let mut new = Vec::new();
    for (name, text) in UNITS {
        if name.contains('@') != profile.is_some() {
            continue;
        }
        let path = folder.join(name);
        let text = with_programs_in(place, text);
        let present = std::fs::read_to_string(&path).ok();
        match present {
            Some(present) if present == text => drop(record.units.insert(path, text)),
            Some(present) if record.units.get(&path) != Some(&present) => {
                return Err(Failure::failed(format!(
                    "{} is there already and is not one that setup has written; it was left as it is",
                    path.display()
                ))
                .advise("Move it away, or run setup with --no-units."));
            }
            None if place == Path::new("/usr/bin") && Path::new(PACKAGED).join(name).exists() => {}
            _ => new.push((path, text)),
        }
    }
    let changed = !new.is_empty();
    for (path, text) in new {
        let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, &text));
        written.map_err(|error| {
            Failure::failed(format!(
                "the unit {} cannot be written: {error}",
                path.display()
            ))
        })?;
        record.units.insert(path, text);
    }
    Ok(changed)
}

/// How this version writes the unit of that file, if it is one of setup's.
pub(crate) fn as_written(file: &Path) -> Option<String> {
    if file.parent() != folder().ok().as_deref() {
        return None;
    }
    let name = file.file_name()?.to_str()?;
    let (_, text) = UNITS.iter().find(|(unit, _)| *unit == name)?;
    let program = programs::find(DAEMON)?;
    Some(with_programs_in(program.parent()?, text))
}

/// A unit's text with the programs where they are.
fn with_programs_in(place: &Path, text: &str) -> String {
    let lines = text.split_inclusive('\n').map(|line| {
        let program = line.split_once(PLACE);
        let Some((setting, rest)) = program.filter(|_| line.starts_with("Exec")) else {
            return line.to_owned();
        };
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (name, arguments) = rest.split_at(end);
        format!("{setting}{}{arguments}", quoted(&place.join(name)))
    });
    lines.collect()
}

/// A path as systemd.service(5) has it: percent signs doubled, and in quotes where blanks or
/// quotes are in it.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string().replace('%', "%%");
    let is_plain = |c: char| !c.is_whitespace() && !matches!(c, '"' | '\'' | '\\' | ';');
    if path.chars().all(is_plain) {
        return path;
    }
    format!("\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\""))
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
/// stay, each with the reason.
///
/// # Errors
///
/// systemd does not let go of them; they are as they were.
pub(super) async fn remove(
    place: &Place<'_>,
    record: &mut Record,
) -> Result<Vec<(PathBuf, &'static str)>, Failure> {
    let units = [
        profile::service(place.profile),
        profile::socket(place.profile),
    ];
    // Where no manager runs, nothing of it runs either.
    if systemctl::manager_runs().await {
        let disabled = systemctl(&["disable", "--now", &units[0], &units[1]]).await;
        disabled.map_err(|error| Failure::failed(error.to_string()))?;
    }
    let others = Record::units_of_others(place.state_dir);
    let mut left = Vec::new();
    for (path, text) in std::mem::take(&mut record.units) {
        let present = std::fs::read_to_string(&path).ok();
        match present {
            None => {}
            Some(_) if others.contains(&path) => left.push((path, "other profiles use it")),
            Some(present) if present != text => {
                left.push((path, "a unit that was changed by hand"));
            }
            Some(_) => {
                if let Err(error) = std::fs::remove_file(&path) {
                    let failure = format!("{} cannot be removed: {error}", path.display());
                    record.units.insert(path, text);
                    return Err(Failure::failed(failure));
                }
            }
        }
    }
    record.enabled = false;
    let _ = systemctl(&["daemon-reload"]).await;
    if let Ok(folder) = folder() {
        for folder in folder.ancestors().take(2) {
            // Only an empty one goes.
            let _ = std::fs::remove_dir(folder);
        }
    }
    Ok(left)
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

    #[test]
    fn programs_in_a_folder_with_blanks_are_quoted() {
        let text = "[Service]\nExecStart=%h/.cargo/bin/cozyvttd --profile %i\n# %h/.cargo/bin/\n";
        let placed = |place: &str| with_programs_in(Path::new(place), text);
        assert_eq!(
            placed("/opt/50%"),
            "[Service]\nExecStart=/opt/50%%/cozyvttd --profile %i\n# %h/.cargo/bin/\n"
        );
        assert_eq!(
            placed("/my \"own\"/bin").lines().nth(1),
            Some(r#"ExecStart="/my \"own\"/bin/cozyvttd" --profile %i"#)
        );
    }
}
