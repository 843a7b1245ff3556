//! A look at what earlier runs have written down against signing in; nothing is changed.

use std::path::Path;
use std::time::{Duration, SystemTime};

use cozyvtt_proto::control::LoginReason;

use super::print::Account;
use super::record::Store;
use crate::config::Settings;

/// What stands against signing in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// Not before a person acts.
    Blocked {
        /// What kind of thing happened.
        reason: LoginReason,
        /// What happened.
        why: String,
        /// It is of these very credentials, where that could be compared; a program is not
        /// asked for the password.
        of_these: Option<bool>,
    },
    /// Not yet.
    Waiting {
        /// What happened.
        why: String,
        /// How long.
        left: Duration,
    },
}

/// What the runs in `folder` have written down, if anything stands against signing in.
pub async fn glance(folder: &Path, settings: &Settings) -> Option<Kept> {
    let store = Store::new(folder.join("login.json"));
    let now = SystemTime::now();
    let record = store.read(now);
    if let Some(block) = record.block {
        let of_these = match block.account {
            // It is everybody's.
            None => Some(true),
            Some(_) if !settings.password.is_at_hand() => None,
            Some(print) => match settings.password.reveal().await {
                Ok(password) => {
                    Some(Account::new(&settings.url, &settings.email, &password).has(&print))
                }
                Err(_) => None,
            },
        };
        return Some(Kept::Blocked {
            reason: block.reason,
            why: block.why,
            of_these,
        });
    }
    let hold = record.hold?;
    let left = hold.left(now);
    (!left.is_zero()).then_some(Kept::Waiting {
        why: hold.why,
        left,
    })
}
