//! What outlives a run of the login: when the password last left, until when it must
//! stay, and why it must not leave again. A restart, however violent, starts from here.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use cozyvtt_proto::control::LoginReason;

use super::print::Print;
use crate::private;
use crate::time::millis;

/// The file's form.
const FORMAT: u32 = 1;

/// The record, as it is on disk. Times are milliseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    format: u32,
    /// When the password last left, whatever became of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sent_ms: Option<u64>,
    /// Until when it must not leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) hold: Option<Hold>,
    /// Why it must not leave at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) block: Option<Block>,
}

/// A cool-down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hold {
    until_ms: u64,
    /// Until when the server itself has asked to stay away, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asked_ms: Option<u64>,
    pub(super) reason: LoginReason,
    pub(super) why: String,
}

/// A block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Block {
    pub(super) reason: LoginReason,
    pub(super) why: String,
    /// Whose block it is; other credentials are not blocked. Without one it is
    /// everybody's: a person has signed out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) account: Option<Print>,
}

impl Hold {
    pub(super) fn new(
        now: SystemTime,
        pause: Duration,
        asked: Option<Duration>,
        reason: LoginReason,
        why: String,
    ) -> Self {
        Self {
            until_ms: millis(now + pause),
            asked_ms: asked.map(|asked| millis(now + asked)),
            reason,
            why,
        }
    }

    /// How long it still holds.
    pub(super) fn left(&self, now: SystemTime) -> Duration {
        until(self.until_ms, now)
    }

    /// How long the server still wants us to stay away.
    pub(super) fn asked_left(&self, now: SystemTime) -> Duration {
        self.asked_ms
            .map_or(Duration::ZERO, |asked| until(asked, now))
    }
}

impl Record {
    /// The password leaves now.
    pub(super) fn note_sent(&mut self, now: SystemTime) {
        self.sent_ms = Some(millis(now));
    }

    /// The password has not left after all; it last did when `before` says.
    pub(super) fn unsend(&mut self, before: &Self) {
        self.sent_ms = before.sent_ms;
    }

    /// Whether a person has signed out.
    pub(super) fn is_signed_out(&self) -> bool {
        let block = self.block.as_ref();
        block.is_some_and(|block| block.reason == LoginReason::SignedOut)
    }

    /// How long ago the password last left; nothing when the time of day has been put
    /// back since, which must not shorten a wait.
    pub(super) fn sent_ago(&self, now: SystemTime) -> Option<Duration> {
        let ago = millis(now).saturating_sub(self.sent_ms?);
        Some(Duration::from_millis(ago))
    }
}

fn until(moment_ms: u64, now: SystemTime) -> Duration {
    Duration::from_millis(moment_ms.saturating_sub(millis(now)))
}

/// Where the record is kept.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
}

impl Store {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Reads the record. One that cannot be read counts as a password that has just
    /// left: better to wait than to send it once too often.
    pub(super) fn read(&self, now: SystemTime) -> Record {
        let record = match std::fs::read(&self.path) {
            Ok(bytes) => serde_json::from_slice::<Record>(&bytes)
                .map_err(|error| error.to_string())
                .and_then(|record| match record.format {
                    FORMAT => Ok(record),
                    other => Err(format!("its format is {other}")),
                }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Record::default()),
            Err(error) => Err(error.to_string()),
        };
        record.unwrap_or_else(|cause| {
            let path = self.path.display();
            tracing::warn!(%path, cause, "the record of the login cannot be used; waiting first");
            let mut record = Record::default();
            record.note_sent(now);
            record
        })
    }

    /// Writes the record down; it is on the disk when this returns.
    ///
    /// # Errors
    ///
    /// What the system said.
    pub(super) fn write(&self, record: &Record) -> io::Result<()> {
        let record = Record {
            format: FORMAT,
            ..record.clone()
        };
        private::write(&self.path, &serde_json::to_vec_pretty(&record)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn store(folder: &tempfile::TempDir) -> Store {
        Store::new(folder.path().join("login.json"))
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let (store, now) = (store(&folder), SystemTime::now());
        assert_eq!(store.read(now), Record::default());
        let mut record = Record::default();
        record.note_sent(now);
        let asked = Some(600 * SECOND);
        record.hold = Some(Hold::new(
            now,
            900 * SECOND,
            asked,
            LoginReason::TooMany,
            "429".into(),
        ));
        store.write(&record).unwrap();
        let later = now + 60 * SECOND;
        let read = store.read(later);
        let hold = read.hold.as_ref().unwrap();
        let near = |left: Duration, seconds| (left.as_secs_f64() - f64::from(seconds)).abs() < 0.01;
        assert!(near(read.sent_ago(later).unwrap(), 60));
        assert!(near(hold.left(later), 840) && near(hold.asked_left(later), 540));
        assert_eq!(hold.left(now + 901 * SECOND), Duration::ZERO);
    }

    #[test]
    fn a_record_that_cannot_be_read_counts_as_an_attempt() {
        let folder = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        for content in ["", "{", "{\"format\":99}"] {
            std::fs::write(folder.path().join("login.json"), content).unwrap();
            let read = store(&folder).read(now);
            assert_eq!(read.sent_ago(now), Some(Duration::ZERO), "{content:?}");
        }
    }

    #[test]
    fn a_time_of_day_that_was_put_back_shortens_no_wait() {
        let now = SystemTime::now();
        let mut record = Record::default();
        record.note_sent(now);
        assert_eq!(record.sent_ago(now - 3600 * SECOND), Some(Duration::ZERO));
    }
}
