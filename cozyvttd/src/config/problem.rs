//! What can be wrong with a configuration.

use std::path::PathBuf;

use thiserror::Error;

use crate::session::access::AccessProblem;

/// Why there are no usable settings. The sentences are meant for agents and
/// people alike; none contains a value that could be a secret.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
pub enum ConfigProblem {
    /// The file is there and cannot be read.
    #[error("the configuration {} cannot be read: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: String,
    },
    /// `--config`, or `COZYVTT_CONFIG`, names a file that is not there.
    #[error("the configuration {} given with --config or COZYVTT_CONFIG does not exist", path.display())]
    NotThere {
        /// The file.
        path: PathBuf,
    },
    /// The file is no TOML, or has keys or types that are not understood.
    #[error("the configuration {} is wrong{}: {what}", path.display(), in_line(*line))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: Option<usize>,
        /// What is wrong with it.
        what: String,
    },
    /// The file has a key that is not known.
    #[error("the configuration {} is wrong{}: there is no key {key:?} here{} These can stand here: {}", path.display(), in_line(*line), ended(nearest.as_deref()), known.join(", "))]
    NoSuchKey {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: Option<usize>,
        /// What is no key.
        key: String,
        /// The key that may have been meant.
        nearest: Option<String>,
        /// What can stand in its place.
        known: Vec<String>,
    },
    /// The file holds a password, or header fields, and other users can read it.
    #[error("the configuration {} holds a secret and other users can read it; run: chmod 600 {}", path.display(), path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// The policy names a tool that there is not, and so would deny nothing.
    #[error("the configuration {} denies {tool:?} in [policy], and there is no such tool{}; `cozyvttctl tools` lists them", path.display(), meant(nearest.as_deref()))]
    NoSuchTool {
        /// The file.
        path: PathBuf,
        /// What is no tool.
        tool: String,
        /// The tool that may have been meant.
        nearest: Option<String>,
    },
    /// The password's file cannot be used.
    #[error("{0}")]
    PasswordFile(String),
    /// Two places are named for the password.
    #[error("the configuration {} names more than one of password, password_file and password_command; keep one of them", path.display())]
    TwoPasswords {
        /// The file.
        path: PathBuf,
    },
    /// No account is configured.
    #[error("Missing COZYVTT_EMAIL / COZYVTT_PASSWORD environment variables; set them for cozyvttd, put email and password into {}, or run: cozyvttctl setup", path.display())]
    MissingCredentials {
        /// The file where they could stand.
        path: PathBuf,
    },
    /// No campaign is configured.
    #[error("Missing COZYVTT_CAMPAIGN_ID environment variable; set it for cozyvttd, put campaign_id into {}, or run: cozyvttctl setup", path.display())]
    MissingCampaign {
        /// The file where it could stand.
        path: PathBuf,
    },
    /// The address is not one of an instance.
    #[error(
        "the address {value:?} of the CozyVTT instance is not usable: {why}; give something like https://table.example"
    )]
    BadUrl {
        /// The address, without any user name or password in it.
        value: String,
        /// What is wrong with it.
        why: String,
    },
    /// The campaign's id is not an id.
    #[error("campaign_id (COZYVTT_CAMPAIGN_ID) must not be empty or a relative path")]
    BadCampaign,
    /// What is said of the way to the instance is wrong.
    #[error("{0}")]
    BadAccess(#[from] AccessProblem),
}

fn in_line(line: Option<usize>) -> String {
    line.map(|line| format!(" in line {line}"))
        .unwrap_or_default()
}

fn meant(nearest: Option<&str>) -> String {
    nearest
        .map(|nearest| format!("; did you mean {nearest}?"))
        .unwrap_or_default()
}

/// The same at the end of a sentence.
fn ended(nearest: Option<&str>) -> String {
    match nearest {
        Some(_) => meant(nearest),
        None => ".".to_owned(),
    }
}
