//! The one session with CozyVTT: the login, REST, the live link and what is
//! known of the campaign, for all agents together.

pub mod budget;
pub mod facts;
mod http;
pub mod ids;
pub mod live;
pub mod login;
pub mod packet;
pub mod rest;
pub mod socketio;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinHandle;

use crate::config::{BaseUrl, Settings};
use crate::journal::Journal;
use budget::Budget;
use facts::Facts;
use live::{Link, LinkState, Phase, Worker};
use login::Login;
use rest::{Request, Rest, RestError};

/// CozyVTT up to 1.5.0 takes 30 rolls a minute from one account; two are left
/// to the person who plays with the same account in a browser.
const ROLLS: usize = 28;
/// The window of that limit.
const ROLL_WINDOW: Duration = Duration::from_secs(60);
/// How long a roll may wait for its turn: well within the time limits of MCP
/// clients, which start at 60 s.
const ROLL_PATIENCE: Duration = Duration::from_secs(45);

/// A session, shared by everything that talks to the table.
#[derive(Debug)]
pub struct Session {
    settings: Settings,
    login: Arc<Login>,
    rest: Rest,
    facts: Arc<Facts>,
    /// The live link.
    pub link: Link,
    /// The campaign's events.
    pub journal: Journal,
    /// The rolls of all agents.
    pub rolls: Budget,
}

impl Session {
    /// A session with these settings and its link's worker, which begins at
    /// once: it signs in, connects, and goes on until [`Session::stop`].
    ///
    /// # Errors
    ///
    /// When the HTTP client cannot be set up (no usable TLS roots, say).
    pub fn start(
        settings: Settings,
        journal: Journal,
    ) -> Result<(Arc<Self>, JoinHandle<()>), reqwest::Error> {
        let http = http::client(&settings.url)?;
        let session = Arc::new(Self {
            login: Arc::new(Login::new(settings.clone(), http.clone())),
            rest: Rest::new(http.clone(), settings.url.clone()),
            facts: Arc::default(),
            link: Link::new(),
            journal,
            rolls: Budget::new(ROLLS, ROLL_WINDOW, ROLL_PATIENCE),
            settings,
        });
        let worker = Worker {
            settings: session.settings.clone(),
            http,
            login: Arc::clone(&session.login),
            facts: Arc::clone(&session.facts),
            journal: session.journal.clone(),
            link: session.link.clone(),
        };
        tokio::spawn(orient(Arc::clone(&session)));
        Ok((session, tokio::spawn(worker.run())))
    }

    /// Ends the link; its worker says goodbye and finishes.
    pub fn stop(&self) {
        self.link.stop();
    }

    /// The instance.
    pub fn url(&self) -> &BaseUrl {
        &self.settings.url
    }

    /// The campaign's id.
    pub fn campaign(&self) -> &str {
        self.settings.campaign.as_str()
    }

    /// The login.
    pub fn login(&self) -> &Arc<Login> {
        &self.login
    }

    /// The REST side.
    pub fn rest(&self) -> &Rest {
        &self.rest
    }

    /// What is known of the campaign.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The path under the campaign's own.
    pub fn in_campaign<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        let mut path = vec!["api", "campaigns", self.campaign()];
        path.extend(rest);
        path
    }

    /// Sends a request within the session; the answer is a JSON object that
    /// holds an object or array `key`.
    ///
    /// # Errors
    ///
    /// [`RestError`].
    pub async fn request(&self, request: &Request<'_>, key: &str) -> Result<Value, RestError> {
        // A 401 says that the session has ended, and with it every authority
        // that came from it.
        let unauthorized = || {
            self.facts.clear();
            self.link
                .invalidate("REST returned 401; previous WS authentication has been invalidated");
        };
        self.rest
            .json(&self.login, request, key, &unauthorized)
            .await
    }

    /// Reads the campaign and notes what it shows.
    ///
    /// # Errors
    ///
    /// [`RestError`].
    pub async fn read_campaign(&self) -> Result<Value, RestError> {
        let began = self.facts.epoch();
        let request = Request::get(self.in_campaign(&[]));
        let mut body = self.request(&request, "campaign").await?;
        let campaign = body["campaign"].take();
        let user = self.login.user();
        let user = user.as_ref().and_then(|user| user["id"].as_str());
        self.facts.note_campaign(began, &campaign, user);
        Ok(campaign)
    }
}

/// Reads the campaign once after every acceptance, so that its name and our role
/// in it are known before the first call asks.
async fn orient(session: Arc<Session>) {
    let mut link = session.link.watch();
    loop {
        if link.wait_for(LinkState::authenticated).await.is_err() {
            return;
        }
        if session.facts.known().role.is_none()
            && let Err(error) = session.read_campaign().await
        {
            tracing::warn!(%error, "the campaign could not be read");
        }
        let down = |state: &LinkState| !state.authenticated();
        match link.wait_for(down).await.map(|state| state.phase.clone()) {
            Ok(Phase::Stopped) | Err(_) => return,
            Ok(_) => {}
        }
    }
}
