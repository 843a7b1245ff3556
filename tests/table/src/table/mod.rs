//! The handle of a running table.

mod acts;
mod looks;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

pub use looks::{ChatLine, Document, RollLine};

use crate::builder::{Options, TableBuilder};
use crate::faults::Faults;
use crate::hub::Hub;
use crate::lock;
use crate::log::Log;
use crate::scene::{Scene, Set, set};
use crate::server::{self, Running};
use crate::tls::{self, Tls};
use crate::version::Version;

/// A person who can sign in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The address to sign in with.
    pub email: String,
    /// The password.
    pub password: String,
    /// The server's id of the user.
    pub user_id: String,
    /// The name others see.
    pub display_name: String,
}

/// A running stand-in server. Dropping it kills it.
pub struct Table {
    hub: Arc<Hub>,
    accounts: BTreeMap<String, Account>,
    campaign_id: String,
    url: String,
    port: u16,
    tls: Option<Tls>,
    running: Mutex<Option<Running>>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("url", &self.url)
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starting, stopping, and the facts about the table.
impl Table {
    /// Sets up a table.
    pub fn builder() -> TableBuilder {
        TableBuilder::default()
    }

    /// A table to practise at: the default scene, release 1.5, and no limit on
    /// how often one may sign in.
    ///
    /// # Errors
    ///
    /// Loopback is not to be had.
    pub async fn practice() -> anyhow::Result<Self> {
        Self::builder().login_limit(u32::MAX).start().await
    }

    pub(crate) async fn open(options: Options, scene: Scene) -> anyhow::Result<Self> {
        let Set {
            world,
            accounts,
            campaign_id,
        } = set(&scene, &options)?;
        let tls = options.tls.then(tls::make).transpose()?;
        let listener = server::listen(options.port).await?;
        let port = listener.local_addr()?.port();
        let scheme = if options.tls { "https" } else { "http" };
        let url = format!("{scheme}://127.0.0.1:{port}{}", options.base_path);
        let hub = Arc::new(Hub::new(options, world));
        let config = tls.as_ref().map(|tls| tls.config.clone());
        let running = server::serve(&hub, listener, config)?;
        Ok(Self {
            hub,
            accounts,
            campaign_id,
            url,
            port,
            tls,
            running: Mutex::new(Some(running)),
        })
    }

    /// The address to give a client, base path included, without a final slash.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The port the table listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The release it behaves like.
    pub fn version(&self) -> Version {
        self.hub.version()
    }

    /// The id of the first campaign.
    pub fn campaign_id(&self) -> &str {
        &self.campaign_id
    }

    /// The id of the campaign of that name.
    pub fn campaign_named(&self, name: &str) -> Option<String> {
        let world = self.hub.world();
        let found = world.campaigns.iter().find(|one| one.name == name)?;
        Some(found.id.clone())
    }

    /// The accounts by their keys.
    pub fn accounts(&self) -> &BTreeMap<String, Account> {
        &self.accounts
    }

    /// The account of a key: `dm`, `player1`, `player2`, `spectator`,
    /// `outsider`, or one the scene added.
    ///
    /// # Panics
    ///
    /// Nobody has that key: a slip of the test that asks.
    #[track_caller]
    pub fn account(&self, key: &str) -> &Account {
        #[allow(clippy::panic)] // documented; an error would only be unwrapped
        self.accounts
            .get(key)
            .unwrap_or_else(|| panic!("nobody at the table has the key {key:?}"))
    }

    /// What went over the wire.
    pub fn log(&self) -> Log {
        self.hub.log.clone()
    }

    /// The switchboard of the faults.
    pub fn faults(&self) -> Faults {
        self.hub.faults.clone()
    }

    /// The certificate of the table's authority, with TLS.
    pub fn ca_pem(&self) -> Option<&str> {
        self.tls.as_ref().map(|tls| tls.ca_pem.as_str())
    }

    /// A file with the same; it goes away with the table.
    pub fn ca_file(&self) -> Option<&Path> {
        self.tls.as_ref().map(|tls| tls.ca_file.path())
    }

    /// Stops serving, letting answers under way finish. Harmless when stopped.
    pub async fn stop(&self) {
        let running = lock(&self.running).take();
        if let Some(running) = running {
            running.stop(&self.hub).await;
        }
    }

    /// Stops serving on the spot, as if the process were killed.
    pub fn kill(&self) {
        if let Some(running) = lock(&self.running).take() {
            running.kill(&self.hub);
        }
    }

    /// The server goes down: connections are refused until [`Self::resume`].
    pub async fn pause(&self) {
        self.stop().await;
    }

    /// The server comes up again on the same port. Sessions, chat and maps are
    /// as they were; limiters and fights are forgotten.
    ///
    /// # Errors
    ///
    /// Somebody else has taken the port meanwhile.
    pub async fn resume(&self) -> anyhow::Result<()> {
        if lock(&self.running).is_some() {
            return Ok(());
        }
        let listener = server::listen(self.port).await?;
        let config = self.tls.as_ref().map(|tls| tls.config.clone());
        *lock(&self.running) = Some(server::serve(&self.hub, listener, config)?);
        Ok(())
    }

    /// Down and up again.
    ///
    /// # Errors
    ///
    /// As for [`Self::resume`].
    pub async fn restart(&self) -> anyhow::Result<()> {
        self.pause().await;
        self.resume().await
    }
}
