//! What setup has written, so that it can be undone: a small file in the state folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Its name.
pub(super) const NAME: &str = "setup.json";

/// The record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The units, with their texts.
    #[serde(default)]
    pub(super) units: BTreeMap<PathBuf, String>,
    /// The clients' files, with the clients' names.
    #[serde(default)]
    pub(super) clients: BTreeMap<PathBuf, String>,
    /// The clients' files as they were.
    #[serde(default)]
    pub(super) backups: Vec<PathBuf>,
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
}
