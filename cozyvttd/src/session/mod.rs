//! The one session with CozyVTT: the login, REST, the live link and what is
//! known of the campaign, for all agents together.

pub mod budget;
pub mod facts;
mod http;
pub mod ids;
pub mod lanes;
pub mod live;
pub mod login;
pub mod packet;
pub mod rest;
pub mod socketio;

use std::sync::Arc;
use std::time::Duration;

use cozyvtt_proto::event::EventRecord;
use serde_json::Value;
use thiserror::Error;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::config::{BaseUrl, Settings};
use crate::journal::Journal;
use budget::{Budget, QueueFull};
use facts::Facts;
use lanes::{Lane, LaneBusy, Lanes, Right};
use live::{EmitError, Link, LinkState, Worker};
use login::Login;
use rest::{Expect, Fetched, ROUTE_MISSING, Request, Rest, RestError};

/// CozyVTT up to 1.5.0 takes 30 rolls a minute from one account; two are left
/// to the person who plays with the same account in a browser.
const ROLLS: usize = 28;
/// The window of that limit.
const ROLL_WINDOW: Duration = Duration::from_secs(60);
/// How long a roll may wait for its turn: well within the time limits of MCP
/// clients, which start at 60 s.
const ROLL_PATIENCE: Duration = Duration::from_secs(45);

/// How long a lane stays closed after an event whose effect does not show.
const SILENCE: Duration = Duration::from_secs(2);

/// How often the session is kept from running out: CozyVTT may end one after an
/// hour without a request, and the WebSocket counts for none.
const KEEPALIVE: Duration = Duration::from_secs(600);

/// How long after a failed read the campaign is read again.
const ORIENT_AGAIN: Duration = Duration::from_secs(15);

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
    rolls: Budget,
    lanes: Lanes,
    /// Cancelled when nothing new is to be sent.
    draining: CancellationToken,
}

/// Why it is not a call's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TurnError {
    /// Too many rolls are waiting.
    #[error("dice {0}")]
    Rolls(#[from] QueueFull),
    /// Other writes to the same thing take too long.
    #[error(transparent)]
    Lane(#[from] LaneBusy),
    /// The daemon stops.
    #[error("cozyvttd is stopping; nothing was sent")]
    Stopping,
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
            // A journal that holds something has seen a link before this one.
            link: Link::new(journal.high_water() > 0),
            draining: CancellationToken::new(),
            journal,
            rolls: Budget::new(ROLLS, ROLL_WINDOW, ROLL_PATIENCE),
            lanes: Lanes::default(),
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
        tokio::spawn(keep_alive(Arc::clone(&session)));
        Ok((session, tokio::spawn(worker.run())))
    }

    /// Lets calls that wait for their turn go, each with the word that nothing was
    /// sent.
    pub fn drain(&self) {
        self.draining.cancel();
    }

    /// Waits for the turn to roll: all agents share what the server allows.
    ///
    /// # Errors
    ///
    /// [`TurnError`].
    pub async fn roll_turn(&self) -> Result<(), TurnError> {
        tokio::select! {
            () = self.draining.cancelled() => Err(TurnError::Stopping),
            turn = self.rolls.take() => Ok(turn?),
        }
    }

    /// Waits for the turn to write in `lane`.
    ///
    /// # Errors
    ///
    /// [`TurnError`].
    pub async fn lane(&self, lane: Lane) -> Result<Right, TurnError> {
        tokio::select! {
            () = self.draining.cancelled() => Err(TurnError::Stopping),
            right = self.lanes.take(lane) => Ok(right?),
        }
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

    /// Waits until there is a session.
    ///
    /// # Errors
    ///
    /// [`RestError::NotSignedIn`].
    pub async fn signed_in(&self) -> Result<(), RestError> {
        let session = self.login.ensure().await;
        session.map(drop).map_err(RestError::NotSignedIn)
    }

    /// The account's id, once it has signed in.
    pub fn user_id(&self) -> Option<String> {
        self.login.user()?["id"].as_str().map(ToOwned::to_owned)
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

    /// Sends a request within the session; the answer is a JSON object of the
    /// expected form.
    ///
    /// # Errors
    ///
    /// [`RestError`].
    pub async fn request(&self, request: &Request<'_>, expect: Expect) -> Result<Value, RestError> {
        let answer = self
            .rest
            .json(&self.login, request, expect, &|| self.unauthorized())
            .await;
        self.learn(request, &answer);
        answer
    }

    /// Fetches the file that a [`Request::file`] asks for.
    ///
    /// # Errors
    ///
    /// [`RestError`].
    pub async fn fetch(&self, request: &Request<'_>) -> Result<Fetched, RestError> {
        let answer = self
            .rest
            .fetch(&self.login, request, &|| self.unauthorized())
            .await;
        // No document is an HTML page, but what a proxy puts in its place is.
        let page = matches!(&answer, Ok(Fetched::File { mime, .. }) if mime == "text/html");
        if !page {
            self.learn(request, &answer);
        }
        answer
    }

    /// Sends an event, and keeps `rights` until the table has shown its effect:
    /// an event that `effect` accepts, or a refusal. A table that stays silent
    /// keeps the lane closed for 2 s at most. Gives the newest sequence
    /// number from before the send.
    ///
    /// # Errors
    ///
    /// [`EmitError`].
    pub async fn emit_in(
        &self,
        rights: Vec<Right>,
        name: &'static str,
        payload: Value,
        effect: impl Fn(&EventRecord) -> bool + Send + Sync + 'static,
    ) -> Result<u64, EmitError> {
        let since = self.link.emit(name, payload).await?;
        let journal = self.journal.clone();
        tokio::spawn(async move {
            journal
                .find(since, SILENCE, |event| {
                    event.event == "system.error" || effect(event)
                })
                .await;
            drop(rights);
        });
        Ok(since)
    }

    /// A 401 says that the session has ended, and with it every authority that
    /// came from it.
    fn unauthorized(&self) {
        self.facts.clear();
        self.link
            .invalidate("REST returned 401; previous WS authentication has been invalidated");
    }

    fn learn<T>(&self, request: &Request<'_>, answer: &Result<T, RestError>) {
        let Some(feature) = request.proves else {
            return;
        };
        match answer {
            Ok(_) => self.facts.note_feature(feature, true),
            Err(RestError::Http {
                status: 404,
                message,
                ..
            }) if message == ROUTE_MISSING => self.facts.note_feature(feature, false),
            Err(_) => {}
        }
    }

    /// The campaign's game system, read when it is not known; `None` is a
    /// flexible campaign.
    ///
    /// # Errors
    ///
    /// [`RestError`].
    pub async fn system(&self) -> Result<Option<String>, RestError> {
        if let Some(system) = self.facts.known().system {
            return Ok(system);
        }
        let campaign = self.read_campaign().await?;
        Ok(campaign["gameSystem"].as_str().map(ToOwned::to_owned))
    }

    /// Reads the campaign and notes what it shows.
    ///
    /// # Errors
    ///
    /// [`RestError`].
    pub async fn read_campaign(&self) -> Result<Value, RestError> {
        let began = self.facts.epoch();
        let request = Request::get(self.in_campaign(&[]));
        let mut body = self.request(&request, Expect::Has("campaign")).await?;
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
        let ready = |state: &LinkState| state.authenticated() || state.stopped();
        let generation = match link.wait_for(ready).await {
            Ok(state) if !state.stopped() => state.generation,
            Ok(_) | Err(_) => return,
        };
        if session.facts.known().role.is_none()
            && let Err(error) = session.read_campaign().await
        {
            tracing::warn!(%error, "the campaign could not be read");
            sleep(ORIENT_AGAIN).await;
            continue;
        }
        let other = |state: &LinkState| {
            state.generation != generation || !state.authenticated() || state.stopped()
        };
        if link.wait_for(other).await.is_err() {
            return;
        }
    }
}

/// Shows now and then that the session is used, and renews it when it has run out.
async fn keep_alive(session: Arc<Session>) {
    loop {
        tokio::select! {
            () = session.draining.cancelled() => return,
            () = sleep(KEEPALIVE) => {}
        }
        let Some(number) = session.login.session() else {
            continue;
        };
        match session.rest.ping(&session.login).await {
            Ok(()) => {}
            Err(RestError::Http { status: 401, .. }) => {
                session.unauthorized();
                if let Err(error) = session.login.renew(number).await {
                    tracing::warn!(%error, "the session has run out and could not be renewed");
                }
            }
            Err(error) => tracing::warn!(%error, "the session could not be kept alive"),
        }
    }
}
