//! The configuration file: written with everything else in it kept, and cleared again.

use std::path::{Path, PathBuf};

use secrecy::ExposeSecret as _;
use toml_edit::{Array, DocumentMut, Item, value};

use super::answers::Secret;
use super::record::Configuration;
use crate::failure::Failure;

/// Said at the head of a new file.
const HEAD: &str = "# Written by `cozyvttctl setup`. `cozyvttd --check-config` says what it comes to, and\n\
                    # `cozyvttctl reload` makes a running daemon follow it.\n\n";

/// The keys of which one says where the password is.
const PASSWORDS: [&str; 3] = ["password", "password_file", "password_command"];

/// What is to stand in the file.
pub(super) struct Settings<'a> {
    pub(super) url: String,
    pub(super) email: &'a str,
    pub(super) campaign: &'a str,
    pub(super) secret: &'a Secret,
    pub(super) ca_file: Option<&'a Path>,
}

/// Writes them; what is new in the file, and what says something else than before.
///
/// # Errors
///
/// The file cannot be read, understood or written; it is as it was.
pub(super) fn write(path: &Path, settings: &Settings<'_>) -> Result<Configuration, Failure> {
    let before = read(path)?;
    let mut document = parse(path, before.as_deref().unwrap_or_default())?;
    let mut written = Configuration {
        made: before.is_none(),
        ..Configuration::default()
    };
    let mut set = |key: &str, new: toml_edit::Value| {
        let mut had_another = false;
        for other in PASSWORDS.iter().filter(|_| PASSWORDS.contains(&key)) {
            had_another |= *other != key && document.remove(other).is_some();
        }
        match set(&mut document, key, new) {
            Set::Same => {}
            // One kind of password in the place of another is no new thing.
            Set::Added if !had_another => drop(written.added.insert(key.to_owned())),
            Set::Added | Set::Changed => drop(written.changed.insert(key.to_owned())),
        }
    };
    set("url", settings.url.as_str().into());
    set("email", settings.email.into());
    match settings.secret {
        Secret::AsBefore(_) => {}
        Secret::Text(text) => set("password", text.expose_secret().into()),
        Secret::File(file) => set("password_file", file.display().to_string().into()),
        Secret::Command(argv) => {
            let argv: Array = argv.iter().map(String::as_str).collect();
            set("password_command", argv.into());
        }
    }
    set("campaign_id", settings.campaign.into());
    if let Some(file) = settings.ca_file {
        set("ca_file", file.display().to_string().into());
    }
    if written.is_change() {
        let head = if written.made { HEAD } else { "" };
        store(path, &format!("{head}{document}"))?;
    }
    Ok(written)
}

/// What became of the file when setup's part of it was taken out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cleared {
    /// It was not there.
    Absent,
    /// It was made by setup, held nothing else, and is gone.
    Deleted,
    /// It is there, with these keys.
    Kept(Vec<String>),
}

/// Takes out what setup has written into it.
///
/// # Errors
///
/// As [`write()`].
pub(super) fn clear(path: &Path, written: &Configuration) -> Result<Cleared, Failure> {
    let Some(text) = read(path)? else {
        return Ok(Cleared::Absent);
    };
    let mut document = parse(path, &text)?;
    for key in &written.added {
        // The password may be of another kind by now.
        let family = PASSWORDS.contains(&key.as_str());
        let kinds = PASSWORDS.iter().filter(|_| family);
        for key in kinds.chain([&key.as_str()]) {
            document.remove(key);
        }
    }
    let others: Vec<String> = document.iter().map(|(key, _)| key.to_owned()).collect();
    if others.is_empty() && written.made {
        std::fs::remove_file(path).map_err(|error| {
            Failure::failed(format!("{} cannot be removed: {error}", path.display()))
        })?;
        return Ok(Cleared::Deleted);
    }
    if !written.added.is_empty() {
        store(path, &document.to_string())?;
    }
    Ok(Cleared::Kept(others))
}

/// What setting a key was.
enum Set {
    Same,
    Added,
    Changed,
}

/// Sets a key, unless it says the same already; a comment behind it stays.
fn set(document: &mut DocumentMut, key: &str, mut new: toml_edit::Value) -> Set {
    let same =
        |old: &toml_edit::Value, new: &toml_edit::Value| match (old.as_array(), new.as_array()) {
            (Some(old), Some(new)) => {
                let texts = |array: &Array| -> Vec<Option<String>> {
                    array
                        .iter()
                        .map(|one| one.as_str().map(str::to_owned))
                        .collect()
                };
                texts(old) == texts(new)
            }
            _ => old.as_str().is_some() && old.as_str() == new.as_str(),
        };
    match document.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) if same(old, &new) => Set::Same,
        Some(old) => {
            *new.decor_mut() = old.decor().clone();
            *old = new;
            Set::Changed
        }
        None => {
            document[key] = value(new);
            Set::Added
        }
    }
}

fn read(path: &Path) -> Result<Option<String>, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::failed(format!(
            "the configuration {} cannot be read: {error}; nothing was changed",
            path.display()
        ))),
    }
}

fn parse(path: &Path, text: &str) -> Result<DocumentMut, Failure> {
    text.parse().map_err(|_| {
        // toml_edit's sentence would quote the line, which may hold the password.
        Failure::failed(format!(
            "the configuration {} is no TOML; it was left as it is",
            path.display()
        ))
        .advise("See what is wrong with `cozyvttd --check-config`, or move the file away.")
    })
}

/// Writes the file for its owner alone; it may hold a password.
fn store(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::failed(format!(
            "the configuration {} cannot be written: {error}; it is as it was",
            path.display()
        ))
    };
    // A link stays one.
    let target: PathBuf = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if let Some(folder) = target.parent() {
        cozyvttd::private::make(folder).map_err(failed)?;
    }
    cozyvttd::private::write(&target, text.as_bytes()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn settings(secret: &Secret) -> Settings<'_> {
        Settings {
            url: "https://table.example".to_owned(),
            email: "a@b.example",
            campaign: "c1",
            secret,
            ca_file: None,
        }
    }

    fn keys(all: &std::collections::BTreeSet<String>) -> Vec<&str> {
        all.iter().map(String::as_str).collect()
    }

    #[test]
    fn a_file_that_setup_has_made_comes_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cozyvtt/config.toml");
        let secret = Secret::Text("can\"ary".to_owned().into());
        let written = write(&path, &settings(&secret)).unwrap();
        assert!(written.made && written.changed.is_empty());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!write(&path, &settings(&secret)).unwrap().is_change());
        // The password is of another kind by now.
        let secret = Secret::Command(vec!["pass".to_owned()]);
        let later = write(&path, &settings(&secret)).unwrap();
        assert_eq!(keys(&later.changed), ["password_command"]);
        assert_eq!(clear(&path, &written).unwrap(), Cleared::Deleted);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_not_setup_s_stays_when_it_writes_and_when_it_clears() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        let mine =
            "# mine\nurl = 'https://old.example' # why\npassword = 'x'\n[policy]\ndeny = []\n";
        std::fs::write(&path, mine).unwrap();
        let secret = Secret::Command(vec!["pass".to_owned(), "show".to_owned()]);
        let written = write(&path, &settings(&secret)).unwrap();
        assert!(!written.made);
        assert_eq!(keys(&written.added), ["campaign_id", "email"]);
        assert_eq!(keys(&written.changed), ["password_command", "url"]);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.starts_with("# mine\nurl = \"https://table.example\" # why\n"),
            "{text}"
        );
        assert!(
            text.contains("password_command = [\"pass\", \"show\"]"),
            "{text}"
        );
        assert!(
            !text.contains("password = ") && text.contains("[policy]"),
            "{text}"
        );
        let left = ["url", "password_command", "policy"].map(str::to_owned);
        assert_eq!(clear(&path, &written).unwrap(), Cleared::Kept(left.into()));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("email") && text.contains("pass"), "{text}");
        // Where nothing was written, nothing is touched.
        let nothing = Configuration::default();
        assert!(matches!(clear(&path, &nothing).unwrap(), Cleared::Kept(_)));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}
