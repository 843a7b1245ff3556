//! The configuration file: written with everything else in it kept, and cleared again.

use std::path::{Path, PathBuf};

use secrecy::ExposeSecret as _;
use toml_edit::{Array, DocumentMut, Item, value};

use super::answers::Secret;
use crate::failure::Failure;

/// Said at the head of a new file.
const HEAD: &str = "# Written by `cozyvttctl setup`. `cozyvttd --check-config` says what it comes to, and\n\
                    # `cozyvttctl reload` makes a running daemon follow it.\n\n";

/// The keys that setup answers for.
const KEYS: [&str; 7] = [
    "url",
    "email",
    "password",
    "password_file",
    "password_command",
    "campaign_id",
    "ca_file",
];

/// What is to stand in the file.
pub(super) struct Settings<'a> {
    pub(super) url: String,
    pub(super) email: String,
    pub(super) campaign: String,
    pub(super) secret: &'a Secret,
    pub(super) ca_file: Option<&'a Path>,
}

/// Writes them; whether anything is another one than before.
///
/// # Errors
///
/// The file cannot be read, understood or written; it is as it was.
pub(super) fn write(path: &Path, settings: &Settings<'_>) -> Result<bool, Failure> {
    let before = read(path)?;
    let mut document = parse(path, before.as_deref().unwrap_or_default())?;
    set(&mut document, "url", Some(settings.url.as_str().into()));
    set(&mut document, "email", Some(settings.email.as_str().into()));
    let password = match settings.secret {
        Secret::AsBefore(_) => None,
        Secret::Text(text) => Some(("password", text.expose_secret().into())),
        Secret::File(file) => Some(("password_file", file.display().to_string().into())),
        Secret::Command(argv) => {
            let argv: Array = argv.iter().map(String::as_str).collect();
            Some(("password_command", argv.into()))
        }
    };
    if let Some((key, password)) = password {
        for other in ["password", "password_file", "password_command"] {
            if other != key {
                document.remove(other);
            }
        }
        set(&mut document, key, Some(password));
    }
    set(
        &mut document,
        "campaign_id",
        Some(settings.campaign.as_str().into()),
    );
    if let Some(file) = settings.ca_file {
        set(
            &mut document,
            "ca_file",
            Some(file.display().to_string().into()),
        );
    }
    let head = if before.is_none() { HEAD } else { "" };
    let after = format!("{head}{document}");
    if before.as_ref() == Some(&after) {
        return Ok(false);
    }
    store(path, &after)?;
    Ok(true)
}

/// What became of the file when its settings were taken out.
pub(super) enum Cleared {
    /// It was not there.
    Absent,
    /// It held nothing else and is gone.
    Deleted,
    /// It holds these keys of the person's own.
    Kept(Vec<String>),
}

/// Takes out what setup answers for.
///
/// # Errors
///
/// As [`write()`].
pub(super) fn clear(path: &Path) -> Result<Cleared, Failure> {
    let Some(text) = read(path)? else {
        return Ok(Cleared::Absent);
    };
    let mut document = parse(path, &text)?;
    for key in KEYS {
        document.remove(key);
    }
    let others: Vec<String> = document.iter().map(|(key, _)| key.to_owned()).collect();
    if others.is_empty() {
        std::fs::remove_file(path).map_err(|error| {
            Failure::failed(format!("{} cannot be removed: {error}", path.display()))
        })?;
        return Ok(Cleared::Deleted);
    }
    store(path, &document.to_string())?;
    Ok(Cleared::Kept(others))
}

/// Sets a key, unless it says the same already; a comment behind it stays.
fn set(document: &mut DocumentMut, key: &str, new: Option<toml_edit::Value>) {
    let Some(mut new) = new else {
        return;
    };
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
        Some(old) if same(old, &new) => {}
        Some(old) => {
            *new.decor_mut() = old.decor().clone();
            *old = new;
        }
        None => document[key] = value(new),
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
            email: "a@b.example".to_owned(),
            campaign: "c1".to_owned(),
            secret,
            ca_file: None,
        }
    }

    #[test]
    fn what_is_not_setup_s_stays_and_the_same_again_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cozyvtt/config.toml");
        let secret = Secret::Text("can\"ary".to_owned().into());
        assert!(write(&path, &settings(&secret)).unwrap());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!write(&path, &settings(&secret)).unwrap());
        let mine =
            "# mine\nurl = 'https://old.example' # why\npassword = 'x'\n[policy]\ndeny = []\n";
        std::fs::write(&path, mine).unwrap();
        let secret = Secret::Command(vec!["pass".to_owned(), "show".to_owned()]);
        assert!(write(&path, &settings(&secret)).unwrap());
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
        assert!(matches!(clear(&path).unwrap(), Cleared::Kept(keys) if keys == ["policy"]));
        assert!(!std::fs::read_to_string(&path).unwrap().contains("email"));
    }
}
