//! The one account: its login, its cookies, REST, and what the server allows it, for all
//! the campaigns that it sits in.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::budget::{Budget, Use};
use super::cookies::Cookies;
use super::features::Features;
use super::http::{self, ClientError};
use super::ids::ResourceId;
use super::login::{Farewell, Login};
use super::rest::{Expect, Request, Rest, RestError};
use super::{Ground, Session, keepalive};
use crate::config::{BaseUrl, Origin, Settings};
use crate::journal::Journal;
use crate::lock::lock;

/// CozyVTT up to 1.5.0 takes 30 rolls a minute from one account; two are left
/// to the person who plays with the same account in a browser.
const ROLLS: usize = 28;
/// CozyVTT from 1.5.1 on takes 300 lines of chat a minute from one account.
const LINES: usize = 280;
/// The window of these limits.
const WINDOW: Duration = Duration::from_secs(60);

/// An account at an instance, shared by the sessions of its campaigns.
#[derive(Debug)]
pub struct Account {
    pub(super) settings: Settings,
    pub(super) ground: Ground,
    pub(super) http: reqwest::Client,
    pub(super) login: Arc<Login>,
    pub(super) cookies: Arc<Cookies>,
    pub(super) rest: Rest,
    pub(super) features: Features,
    pub(super) rolls: Budget,
    pub(super) lines: Budget,
    /// Cancelled when nothing new is to be sent.
    pub(super) draining: CancellationToken,
    /// Whose links end with the login.
    sessions: Mutex<Vec<Weak<Session>>>,
}

impl Account {
    /// The account of these settings. It keeps itself signed in from the first need of it
    /// on, until [`Account::drain`].
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub fn start(settings: Settings, ground: Ground) -> Result<Arc<Self>, ClientError> {
        let cookies = Arc::new(match settings.origin {
            Origin::Configured => {
                let kept = ground.folder.join("session.json");
                Cookies::open(kept, &settings.url, &settings.email)
            }
            Origin::Offered => Cookies::in_memory(&settings.url, &settings.email),
        });
        let http = http::client(&settings, Arc::clone(&cookies))?;
        let login = Login::new(
            settings.clone(),
            http.clone(),
            Arc::clone(&cookies),
            &ground,
        );
        let account = Arc::new(Self {
            login: Arc::new(login),
            cookies,
            rest: Rest::new(http.clone(), settings.url.clone()),
            features: Features::open(&ground.folder, &settings.url),
            rolls: Budget::new(ROLLS, WINDOW),
            lines: Budget::new(LINES, WINDOW),
            draining: CancellationToken::new(),
            sessions: Mutex::default(),
            http,
            settings,
            ground,
        });
        tokio::spawn(keepalive::run(Arc::clone(&account)));
        Ok(account)
    }

    /// Sits down in a campaign, whose events go to `journal`: its session, and the link's
    /// worker, which begins at once and goes on until [`Session::stop`].
    pub fn sit(
        self: &Arc<Self>,
        campaign: ResourceId,
        journal: Journal,
    ) -> (Arc<Session>, JoinHandle<()>) {
        let (session, worker) = Session::of(Arc::clone(self), campaign, journal);
        let mut sessions = lock(&self.sessions);
        sessions.retain(|session| session.strong_count() > 0);
        sessions.push(Arc::downgrade(&session));
        (session, worker)
    }

    /// What it was made of.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The instance.
    pub fn url(&self) -> &BaseUrl {
        &self.settings.url
    }

    /// The login.
    pub fn login(&self) -> &Arc<Login> {
        &self.login
    }

    /// Whether what answers at the address is a CozyVTT.
    ///
    /// # Errors
    ///
    /// [`RestError`].
    pub async fn is_instance(&self) -> Result<bool, RestError> {
        self.rest.is_instance().await
    }

    /// What the server says of its own health; `None` where a proxy in front of it does not
    /// pass the question on.
    ///
    /// # Errors
    ///
    /// [`RestError`]; HTTP 503 from a server without its database.
    pub async fn health(&self) -> Result<Option<Value>, RestError> {
        self.rest.health().await
    }

    /// How far the server's clock is ahead of ours, in seconds, once it has answered.
    pub fn clock_ahead(&self) -> i64 {
        self.rest.ahead()
    }

    /// A look with the kept session alone: no password is sent, and nothing is renewed.
    ///
    /// # Errors
    ///
    /// [`RestError::Http`] with 401 when the session is none any more, and others.
    pub async fn look(&self, path: &[&str]) -> Result<Value, RestError> {
        self.rest.glance(&Request::get(path.to_vec())).await
    }

    /// Whether a session is kept.
    pub fn has_kept_session(&self) -> bool {
        self.cookies.any()
    }

    /// The campaigns that the account is in, as `GET /api/campaigns` tells them.
    ///
    /// # Errors
    ///
    /// [`RestError`].
    pub async fn campaigns(&self) -> Result<Vec<Value>, RestError> {
        let request = Request::get(["api", "campaigns"]);
        let expect = Expect::Has("campaigns");
        let answer = self.rest.json(&self.login, &request, expect, &|| {});
        Ok(match answer.await?["campaigns"].take() {
            Value::Array(campaigns) => campaigns,
            _ => Vec::new(),
        })
    }

    /// Lets calls that wait for their turn go, each with the word that nothing was
    /// sent.
    pub fn drain(&self) {
        self.draining.cancel();
    }

    /// Cancelled when nothing new is to be sent.
    pub fn draining(&self) -> &CancellationToken {
        &self.draining
    }

    /// How much of what the server allows is used, by name.
    pub fn budgets(&self) -> [(&'static str, Use); 3] {
        [
            ("requests", self.rest.requests()),
            ("rolls", self.rolls.used()),
            ("chat", self.lines.used()),
        ]
    }

    /// From now on `clients` share what the server allows.
    pub fn share_between(&self, clients: usize) {
        self.rest.share_between(clients);
        self.rolls.share_between(clients);
        self.lines.share_between(clients);
    }

    /// Ends the session at the server by a person's word, and every link with it: 1.1.2
    /// would leave its socket open.
    pub async fn log_out(&self) -> Farewell {
        let farewell = self.login.log_out().await;
        self.end_links("signed out with `cozyvttctl logout`");
        farewell
    }

    /// A 401 says that the session has ended, and with it every authority that
    /// came from it.
    pub(super) fn unauthorized(&self) {
        self.end_links("REST returned 401; previous WS authentication has been invalidated");
    }

    fn end_links(&self, why: &str) {
        for session in lock(&self.sessions).iter().filter_map(Weak::upgrade) {
            session.facts.clear();
            session.link.invalidate(why);
        }
    }
}
