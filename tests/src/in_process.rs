//! A session in the test's own process, so that the test can hold its clock.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use cozyvtt_table::{Table, Version};
use cozyvttd::config::Config;
use cozyvttd::journal::Journal;
use cozyvttd::session::clock::{Clock, Hand};
use cozyvttd::session::login::LoginState;
use cozyvttd::session::{Ground, Session};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::until;

/// The session in this process, so that a test can hold its clock.
pub struct InProcess {
    /// The session.
    pub session: Arc<Session>,
    /// Moves its time of day, and lets the machine sleep.
    pub hand: Hand,
    worker: JoinHandle<()>,
    _folder: TempDir,
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.session.stop();
        self.worker.abort();
    }
}

impl InProcess {
    /// Takes the seat of an account; signing in begins at once.
    pub fn start(table: &Table, account: &str) -> Result<Self> {
        let folder = TempDir::new()?;
        let settings = configured(table, account, folder.path())?.settings?;
        let journal = Journal::open(&folder.path().join("journal.db"))?;
        let (ground, hand) = ground(folder.path());
        let (session, worker) = Session::start(settings, journal, ground)?;
        Ok(Self {
            session,
            hand,
            worker,
            _folder: folder,
        })
    }

    /// Waits until the campaign has accepted us.
    pub async fn linked(&self) {
        until("the link is up", || async {
            self.session.link.state().authenticated().then_some(())
        })
        .await;
    }

    /// Waits until the campaign has accepted us with the login of that number.
    pub async fn authenticated(&self, login: u64) {
        until("the link is up", || async {
            let watch = self.session.login().watch();
            let signed_in = matches!(
                &*watch.borrow(),
                LoginState::SignedIn { session, .. } if *session == login
            );
            (signed_in && self.session.link.state().authenticated()).then_some(())
        })
        .await;
    }
}

/// The configuration of a daemon for this account of the table.
pub fn configured(table: &Table, account: &str, folder: &Path) -> Result<Config> {
    let file = folder.join("config.toml");
    std::fs::write(&file, "")?;
    let account = table.account(account);
    let environment = |name: &str| {
        let value = match name {
            "COZYVTT_URL" => table.url(),
            "COZYVTT_EMAIL" => &account.email,
            "COZYVTT_PASSWORD" => &account.password,
            "COZYVTT_CAMPAIGN_ID" => table.campaign_id(),
            _ => return None,
        };
        Some(value.to_owned())
    };
    Ok(Config::resolve(Some(&file), None, &environment))
}

/// What a daemon in this process stands on, and what moves its time of day, which follows
/// the clock that a test lets jump.
pub fn ground(folder: &Path) -> (Ground, Hand) {
    let (clock, hand) = Clock::held();
    let ground = Ground {
        clock,
        folder: folder.to_owned(),
        shared: folder.to_owned(),
        by_word: false,
    };
    (ground, hand)
}

/// Lets the clock of this process jump; the network and the table stay alive.
pub async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// A table whose sockets do not mind a clock that jumps.
pub async fn patient_table(version: Version) -> Result<Table> {
    Table::builder()
        .version(version)
        .ping_interval(Duration::from_secs(3600))
        .start()
        .await
}
