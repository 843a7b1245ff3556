//! The report: what was done, what came of it, and the file that says so.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::veil::Veil;
use crate::text::json_pretty;

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    Ok,
    Failed,
    Skipped,
}

/// When a step is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Phase {
    /// Getting to the table.
    Arrive,
    /// Reading everything.
    Before,
    /// Adding a line and a roll.
    Write,
    /// Reading everything again.
    After,
    /// What has changed.
    Compare,
}

/// One step.
#[derive(Debug, Serialize)]
pub(super) struct Step {
    pub(super) phase: Phase,
    pub(super) name: &'static str,
    /// What it sends, as in the plan.
    pub(super) sends: &'static [&'static str],
    pub(super) outcome: Outcome,
    pub(super) detail: String,
    pub(super) duration_ms: u64,
}

/// What the run came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// The run has not come to its end.
    Unfinished,
    /// No check failed.
    Passed,
    /// A check failed.
    Failed,
    /// It was ended with Ctrl-C.
    Interrupted,
}

/// What the operator attested.
#[derive(Debug, Serialize)]
pub(super) struct Server {
    pub(super) instance: String,
    pub(super) version: String,
    pub(super) revision: String,
    pub(super) evidence: String,
}

/// Who was at the table.
#[derive(Debug, Default, Serialize)]
pub(super) struct Who {
    pub(super) campaign_id: String,
    pub(super) campaign_name: Option<String>,
    pub(super) user_id: Option<String>,
    pub(super) role: Option<String>,
}

/// The whole report.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Grows when the form of the report changes.
    pub(super) format: u32,
    pub(super) cozyvttctl: &'static str,
    /// Attested, not asked for.
    pub(super) attested: Server,
    pub(super) mode: &'static str,
    pub(super) started: String,
    pub(super) duration_ms: u64,
    pub(super) table: Who,
    pub(super) steps: Vec<Step>,
    /// What differs between the first reading and the second.
    pub(super) comparison: Value,
    pub(super) verdict: Verdict,
}

impl Report {
    pub(super) fn has_failed(&self) -> bool {
        self.steps
            .iter()
            .any(|step| step.outcome == Outcome::Failed)
    }

    /// As JSON, without anything that must not be shown.
    pub(super) fn veiled(&self, veil: &Veil) -> Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        veil.value(&mut value);
        value
    }
}

/// The time as it stands in a file name and in what is written to the table.
pub(super) fn stamp(now: Timestamp) -> String {
    now.strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// The file of a report: new, and for its owner alone.
#[derive(Debug)]
pub(super) struct ReportFile {
    pub(super) path: PathBuf,
    file: File,
}

impl ReportFile {
    /// Makes the file. One that is there is never overwritten, and a link is not
    /// followed.
    pub(super) fn create(path: PathBuf) -> io::Result<Self> {
        let file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        Ok(Self { path, file })
    }

    /// The usual place of a report.
    pub(super) fn usual(now: Timestamp) -> PathBuf {
        Path::new(&format!("cozyvtt-smoke-{}.json", stamp(now))).to_owned()
    }

    /// Writes the report in place of what the file holds.
    pub(super) fn write(&mut self, report: &Value) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        writeln!(self.file, "{}", json_pretty(report))?;
        self.file.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_is_for_its_owner_alone_and_never_overwrites() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        let mut file = ReportFile::create(path.clone()).unwrap();
        file.write(&json!({"a": "long enough to be cut"})).unwrap();
        file.write(&json!({})).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}\n");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let refusal = ReportFile::create(path).unwrap_err();
        assert_eq!(refusal.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn the_usual_name_carries_the_time_in_utc() {
        let now = "2026-11-30T12:05:09Z".parse().unwrap();
        assert_eq!(
            ReportFile::usual(now),
            Path::new("cozyvtt-smoke-20261130T120509Z.json")
        );
    }
}
