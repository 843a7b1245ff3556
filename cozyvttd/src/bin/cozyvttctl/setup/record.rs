//! What setup has written, so that it can be undone: a small file in the state folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Its name.
pub(super) const NAME: &str = "setup.json";

/// The record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Record {
    /// What of the configuration is setup's.
    pub(super) configuration: Configuration,
    /// systemd was asked to start the daemon.
    pub(super) enabled: bool,
    /// The units, with their texts.
    pub(super) units: BTreeMap<PathBuf, String>,
    /// The clients' files that the shim was put into.
    pub(super) clients: BTreeMap<PathBuf, ClientFile>,
    /// The clients' files as they were.
    pub(super) backups: Vec<PathBuf>,
}

/// What was written into a configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Configuration {
    /// The file was made.
    pub(super) made: bool,
    /// The keys that were not there before.
    pub(super) added: BTreeSet<String>,
    /// The keys of the person's own that say something else now.
    pub(super) changed: BTreeSet<String>,
}

impl Configuration {
    /// Counts one more change in: what was added once stays so.
    pub(super) fn take_in(&mut self, written: &Self) {
        self.made |= written.made;
        self.added.extend(written.added.iter().cloned());
        let changed = written.changed.iter().cloned();
        self.changed
            .extend(changed.filter(|key| !self.added.contains(key)));
    }

    /// Whether anything is another one than before.
    pub(super) fn is_change(&self) -> bool {
        self.made || !self.added.is_empty() || !self.changed.is_empty()
    }
}

/// A client's file that the shim was put into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClientFile {
    /// The client's name.
    pub(super) client: String,
    /// The file, or the uppermost folder of it, that was made.
    #[serde(default)]
    pub(super) made: Option<PathBuf>,
}

impl Record {
    /// What an earlier setup has written; nothing where that cannot be read.
    pub(super) fn read(state_dir: &Path) -> Self {
        let text = std::fs::read(state_dir.join(NAME)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Keeps it.
    ///
    /// # Errors
    ///
    /// The folder takes no file.
    pub(super) fn write(&self, state_dir: &Path) -> Result<(), Failure> {
        let failed = |error: String| {
            Failure::failed(format!(
                "what setup has written cannot be noted in {}: {error}",
                state_dir.display()
            ))
        };
        cozyvttd::private::ensure(state_dir).map_err(|error| failed(error.to_string()))?;
        let text = serde_json::to_vec_pretty(self).map_err(|error| failed(error.to_string()))?;
        cozyvttd::private::write(&state_dir.join(NAME), &text)
            .map_err(|error| failed(error.to_string()))
    }

    /// The units that other profiles have from setup, whose state folders lie beside this
    /// one.
    pub(super) fn units_of_others(state_dir: &Path) -> BTreeSet<PathBuf> {
        let beside = state_dir.parent().map(std::fs::read_dir);
        let folders = beside
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()));
        folders
            .filter(|folder| folder != state_dir)
            .flat_map(|folder| Self::read(&folder).units.into_keys())
            .collect()
    }
}
