//! What the operator vouches for: which CozyVTT runs at the instance. A server
//! does not say so itself, and nothing here guesses.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use cozyvttd::config::BaseUrl;
use serde::Deserialize;
use thiserror::Error;

/// Largest evidence file that is read, in bytes.
const MAX_EVIDENCE: u64 = 64 * 1024;

/// A release of CozyVTT: three numbers that compare as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(super) u32, pub(super) u32, pub(super) u32);

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut numbers = text.split('.').map(|part| {
            let digits = part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse::<u32>().ok().filter(|_| digits)
        });
        match (
            numbers.next().flatten(),
            numbers.next().flatten(),
            numbers.next().flatten(),
            numbers.next(),
        ) {
            (Some(major), Some(minor), Some(patch), None) => Ok(Self(major, minor, patch)),
            _ => Err("a version is three numbers, such as 1.5.3".to_owned()),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// The commit that a server was built from: 40 hexadecimal digits, lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Revision(String);

impl FromStr for Revision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            Ok(Self(text.to_ascii_lowercase()))
        } else {
            Err("a revision is all 40 hexadecimal digits of a commit".to_owned())
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The file that the operator made on the server. Other keys (who, when) are
/// the operator's own affair.
#[derive(Debug, Deserialize)]
struct Evidence {
    version: String,
    revision: String,
    instance: String,
}

/// Why nothing may be sent.
#[derive(Debug, Error)]
pub(super) enum Unattested {
    #[error(
        "--deployed-version, --deployed-revision and --evidence are all needed: what runs at an \
         instance is attested by its operator and never guessed"
    )]
    Missing,
    #[error("the evidence file {} cannot be read: {cause}", path.display())]
    Unreadable { path: PathBuf, cause: String },
    #[error(
        "the evidence file {} is not {{\"version\":\"…\",\"revision\":\"…\",\"instance\":\"…\"}}: {cause}",
        path.display()
    )]
    Malformed { path: PathBuf, cause: String },
    #[error("the evidence file says {key} {evidence:?}, {source_of_other} {other:?}")]
    Mismatch {
        key: &'static str,
        evidence: String,
        source_of_other: &'static str,
        other: String,
    },
}

/// A version and a revision that the evidence agrees with.
#[derive(Debug)]
pub(super) struct Attested {
    pub(super) version: Version,
    pub(super) revision: Revision,
    pub(super) evidence: PathBuf,
    instance: String,
}

impl Attested {
    /// Checks the flags against the evidence file.
    pub(super) fn check(
        version: Option<Version>,
        revision: Option<&Revision>,
        evidence: Option<&Path>,
    ) -> Result<Self, Unattested> {
        let (Some(version), Some(revision), Some(path)) = (version, revision, evidence) else {
            return Err(Unattested::Missing);
        };
        let found = read(path)?;
        let mismatch = |key, evidence: String, other: String| Unattested::Mismatch {
            key,
            evidence,
            source_of_other: "the command line says",
            other,
        };
        if found.version.parse() != Ok(version) {
            return Err(mismatch("version", found.version, version.to_string()));
        }
        if found.revision.parse().as_ref() != Ok(revision) {
            return Err(mismatch("revision", found.revision, revision.to_string()));
        }
        Ok(Self {
            version,
            revision: revision.clone(),
            evidence: path.to_owned(),
            instance: found.instance,
        })
    }

    /// Checks that the evidence is about the configured instance.
    pub(super) fn is_about(&self, url: &BaseUrl) -> Result<(), Unattested> {
        let instance = BaseUrl::parse(&self.instance);
        if instance.as_ref() == Ok(url) {
            return Ok(());
        }
        Err(Unattested::Mismatch {
            key: "instance",
            // What is no address may be anything, a password among it.
            evidence: instance.map_or_else(|_| "…".to_owned(), |instance| instance.to_string()),
            source_of_other: "the configuration says",
            other: url.to_string(),
        })
    }
}

fn read(path: &Path) -> Result<Evidence, Unattested> {
    let unreadable = |cause: String| Unattested::Unreadable {
        path: path.to_owned(),
        cause,
    };
    let size = path
        .metadata()
        .map_err(|error| unreadable(error.to_string()))?;
    if size.len() > MAX_EVIDENCE {
        return Err(unreadable(format!(
            "it is larger than {MAX_EVIDENCE} bytes"
        )));
    }
    let text = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| Unattested::Malformed {
        path: path.to_owned(),
        cause: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REVISION: &str = "0123456789abcdef0123456789ABCDEF01234567";

    fn check(evidence: &str) -> Result<Attested, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("evidence.json");
        std::fs::write(&path, evidence).unwrap();
        let revision = REVISION.parse().unwrap();
        Attested::check(Some(Version(1, 5, 3)), Some(&revision), Some(&path))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn versions_compare_as_numbers_and_are_exactly_three() {
        let version = |text: &str| text.parse::<Version>();
        assert!(version("1.10.0").unwrap() > version("1.9.12").unwrap());
        for bad in ["", "1.5", "1.5.3.1", "v1.5.3", "1.5.+3", "1.5.x"] {
            assert!(version(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn t_smk_03_a_short_revision_is_none() {
        assert!("0123456".parse::<Revision>().is_err());
        assert!("g".repeat(40).parse::<Revision>().is_err());
        assert!(REVISION.parse::<Revision>().is_ok());
    }

    #[test]
    fn t_smk_03_the_evidence_has_to_agree_in_all_three() {
        let evidence = |version: &str, revision: &str, instance: &str| {
            format!(r#"{{"version":"{version}","revision":"{revision}","instance":"{instance}"}}"#)
        };
        let url = BaseUrl::parse("https://table.example/vtt").unwrap();
        let good = check(&evidence("1.5.3", REVISION, "https://table.example/vtt/")).unwrap();
        good.is_about(&url).unwrap();
        let other = check(&evidence("1.5.3", REVISION, "https://other.example")).unwrap();
        assert!(
            other
                .is_about(&url)
                .unwrap_err()
                .to_string()
                .contains("instance")
        );
        let why = check(&evidence("1.5.2", REVISION, "https://table.example/vtt")).unwrap_err();
        assert!(why.contains("version \"1.5.2\""), "{why}");
        let why = check(&evidence("1.5.3", &"0".repeat(40), "x")).unwrap_err();
        assert!(why.contains("revision"), "{why}");
        assert!(check("[]").unwrap_err().contains("is not {\"version\""));
        assert!(Attested::check(None, None, None).is_err());
    }
}
