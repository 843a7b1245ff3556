//! What a server has or lacks, as its own answers have shown. It is remembered per
//! instance and over restarts: the server does not change with ours.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::config::BaseUrl;
use crate::lock::lock;
use crate::private;

/// The file in the folder of the state.
const FILE: &str = "features.json";

/// Something that a server has or lacks, as its own routes show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    /// Documents (CozyVTT >= 1.4).
    Documents,
    /// Saved rolls (CozyVTT >= 1.4).
    SavedRolls,
    /// Handing the DM's seat on (CozyVTT >= 1.4).
    DmTransfer,
    /// The list of sessions and their notes (CozyVTT >= 1.3).
    Sessions,
}

type Shown = BTreeMap<Feature, bool>;

/// What one instance has shown.
#[derive(Debug)]
pub struct Features {
    file: PathBuf,
    instance: String,
    shown: Mutex<Shown>,
}

impl Features {
    /// What the instance at `url` has shown so far, as `folder` remembers it.
    pub fn open(folder: &Path, url: &BaseUrl) -> Self {
        let file = folder.join(FILE);
        let instance = url.to_string();
        let shown = read(&file).remove(&instance).unwrap_or_default();
        Self {
            file,
            instance,
            shown: Mutex::new(shown),
        }
    }

    /// Whether the server has a feature, if an answer has shown it.
    pub fn get(&self, feature: Feature) -> Option<bool> {
        let shown = lock(&self.shown);
        shown.get(&feature).copied()
    }

    /// Notes that an answer has shown a feature, or its absence.
    pub fn note(&self, feature: Feature, has: bool) {
        let mut shown = lock(&self.shown);
        if shown.insert(feature, has) == Some(has) {
            return;
        }
        let mut all = read(&self.file);
        all.insert(self.instance.clone(), shown.clone());
        let written = serde_json::to_vec_pretty(&all)
            .map_err(std::io::Error::from)
            .and_then(|text| private::write(&self.file, &text));
        if let Err(error) = written {
            tracing::warn!(file = %self.file.display(), %error, "what the server has cannot be remembered");
        }
    }
}

/// What the file holds. It spares a question and nothing depends on it, so that one
/// that cannot be read counts as empty.
fn read(file: &Path) -> BTreeMap<String, Shown> {
    std::fs::read(file)
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path, url: &str) -> Features {
        Features::open(folder, &BaseUrl::parse(url).unwrap())
    }

    #[test]
    fn what_an_instance_has_shown_is_remembered_for_it_alone() {
        let folder = tempfile::tempdir().unwrap();
        let one = open(folder.path(), "https://one.example");
        assert_eq!(one.get(Feature::Documents), None);
        one.note(Feature::Documents, false);
        open(folder.path(), "https://other.example").note(Feature::SavedRolls, true);
        let again = open(folder.path(), "https://one.example/");
        assert_eq!(again.get(Feature::Documents), Some(false));
        assert_eq!(again.get(Feature::SavedRolls), None);
        // The server was brought up to date.
        again.note(Feature::Documents, true);
        let later = open(folder.path(), "https://one.example");
        assert_eq!(later.get(Feature::Documents), Some(true));
    }

    #[test]
    fn a_file_that_cannot_be_read_counts_as_empty() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(
            folder.path().join(FILE),
            "{\"https://one.example\": {\"magic\": 1}}",
        )
        .unwrap();
        let one = open(folder.path(), "https://one.example");
        one.note(Feature::Sessions, true);
        assert_eq!(one.get(Feature::Sessions), Some(true));
    }
}
