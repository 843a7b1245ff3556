//! The session with CozyVTT: one account, with its login and REST ([`account`]), and for
//! each campaign that it sits in the live link, the lanes and what is known of it; for
//! all agents together.

pub mod access;
pub mod account;
pub mod budget;
pub mod clock;
mod cookies;
pub mod facts;
pub mod features;
mod http;
pub mod ids;
mod keepalive;
pub mod lanes;
pub mod live;
pub mod login;
pub mod packet;
pub mod patience;
mod pool;
pub mod rest;
mod resync;
pub mod socketio;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cozyvtt_proto::event::EventRecord;
use serde_json::Value;
use thiserror::Error;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::config::{BaseUrl, Settings};
use crate::journal::Journal;
use account::Account;
use budget::{QueueFull, Slot};
use clock::Clock;
use facts::Facts;
use features::Feature;
pub use http::ClientError;
use ids::ResourceId;
use lanes::{Lane, LaneBusy, Lanes, Look, Right};
use live::{EmitError, Link, LinkState, Worker};
use login::Login;
use patience::{Impatience, Patience};
use rest::{Expect, Fetched, ROUTE_MISSING, Request, Rest, RestError};

/// How long a lane stays closed after a write whose effect does not show: longer
/// than a server that is well takes to read, change and write back.
const SILENCE: Duration = Duration::from_secs(2);

/// How long after a failed read the campaign is read again.
const ORIENT_AGAIN: Duration = Duration::from_secs(15);

/// A session in one campaign, shared by everything that talks to it.
#[derive(Debug)]
pub struct Session {
    account: Arc<Account>,
    campaign: ResourceId,
    facts: Arc<Facts>,
    /// The live link.
    pub link: Link,
    /// The campaign's events.
    pub journal: Journal,
    lanes: Lanes,
    /// One clone for each event that was sent and whose effect is waited for.
    unsettled: Arc<()>,
}

/// What a session stands on: the time, and the folders it keeps things in.
#[derive(Debug, Clone)]
pub struct Ground {
    /// The time.
    pub clock: Clock,
    /// The folder of this daemon's state: the kept session, the record of the login.
    pub folder: PathBuf,
    /// The folder that all daemons of the user share, whatever their profile: the tally
    /// of sign-ins.
    pub shared: PathBuf,
    /// A person has named the account just now: what the login would wait for by itself
    /// before it sends the password is not waited for, but what the server has asked for is.
    pub by_word: bool,
}

/// Why it is not a call's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TurnError {
    /// Too many rolls are waiting.
    #[error("dice {0}")]
    Rolls(QueueFull),
    /// Too many lines are waiting.
    #[error("chat {0}")]
    Lines(QueueFull),
    /// Other writes to the same thing take too long.
    #[error(transparent)]
    Lane(#[from] LaneBusy),
    /// The wait ended for a reason of the caller's or the daemon's.
    #[error(transparent)]
    Ended(#[from] Impatience),
}

impl TurnError {
    fn lane(why: Impatience) -> Self {
        match why {
            Impatience::TooLong => Self::Lane(LaneBusy),
            other => Self::Ended(other),
        }
    }
}

/// A turn that has come and is not used yet.
#[derive(Debug)]
pub struct Turn<'a> {
    slot: Slot<'a>,
    /// How long it took to come.
    pub waited: Duration,
}

impl<'a> Turn<'a> {
    async fn come(
        what: &'static str,
        slot: Slot<'a>,
        patience: &Patience,
    ) -> Result<Self, TurnError> {
        let began = Instant::now();
        patience.wait_for(what, || slot.left(), slot.come()).await?;
        Ok(Self {
            waited: began.elapsed(),
            slot,
        })
    }

    /// Uses it: what is sent from now on counts. Gives how long it took to come.
    pub fn used(self) -> Duration {
        self.slot.spend();
        self.waited
    }
}

impl Session {
    /// A session with these settings, of an account of its own, and its link's worker,
    /// which begins at once: it signs in, connects, and goes on until [`Session::stop`].
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub fn start(
        settings: Settings,
        journal: Journal,
        ground: Ground,
    ) -> Result<(Arc<Self>, JoinHandle<()>), ClientError> {
        let campaign = settings.campaign.clone();
        Ok(Account::start(settings, ground)?.sit(campaign, journal))
    }

    /// The session of `account` in `campaign`, and its link's worker.
    fn of(
        account: Arc<Account>,
        campaign: ResourceId,
        journal: Journal,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let session = Arc::new(Self {
            facts: Arc::default(),
            // A journal that holds something has seen a link before this one.
            link: Link::new(journal.high_water() > 0),
            journal,
            lanes: Lanes::default(),
            unsettled: Arc::default(),
            campaign,
            account,
        });
        let Account {
            settings,
            ground,
            http,
            login,
            ..
        } = &*session.account;
        let worker = Worker {
            url: settings.url.clone(),
            campaign: session.campaign.clone(),
            http: http.clone(),
            login: Arc::clone(login),
            facts: Arc::clone(&session.facts),
            journal: session.journal.clone(),
            link: session.link.clone(),
            clock: ground.clock.clone(),
        };
        tokio::spawn(orient(Arc::clone(&session)));
        tokio::spawn(resync::follow(Arc::clone(&session), ground.clock.clone()));
        let worker = tokio::spawn(worker.run());
        (session, worker)
    }

    /// The account.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Waits for the turn to roll: all agents share what the server allows.
    ///
    /// # Errors
    ///
    /// [`TurnError`].
    pub async fn roll_turn(&self) -> Result<Turn<'_>, TurnError> {
        let patience = Patience::current();
        let slot = self.account.rolls.take(patience.party(), patience.left());
        let slot = slot.map_err(TurnError::Rolls)?;
        Turn::come("its turn to roll", slot, &patience).await
    }

    /// Waits for the turn to say something in the chat, which a campaign may slow
    /// down.
    ///
    /// # Errors
    ///
    /// [`TurnError`].
    pub async fn chat_turn(&self) -> Result<Turn<'_>, TurnError> {
        let apart = self.facts.known().chat_cooldown.unwrap_or_default();
        let patience = Patience::current();
        let slot = self
            .account
            .lines
            .take_apart(patience.party(), apart, patience.left());
        let slot = slot.map_err(TurnError::Lines)?;
        Turn::come("its turn to speak", slot, &patience).await
    }

    /// Waits for the turn to write in all of `lanes`.
    ///
    /// # Errors
    ///
    /// [`TurnError`].
    pub async fn lanes(&self, lanes: impl Into<Vec<Lane>>) -> Result<Vec<Right>, TurnError> {
        let patience = Patience::current();
        let mut lanes = lanes.into();
        // In the same order for every call, so that no two wait for each other.
        lanes.sort();
        let mut rights = Vec::with_capacity(lanes.len());
        for lane in lanes {
            let right = patience.wait(self.lanes.take(lane)).await;
            rights.push(right.map_err(TurnError::lane)?);
        }
        Ok(rights)
    }

    /// Waits until nobody writes in `lane`.
    ///
    /// # Errors
    ///
    /// [`TurnError`].
    pub async fn look(&self, lane: Lane) -> Result<Look, TurnError> {
        let look = Patience::current().wait(self.lanes.look(lane)).await;
        look.map_err(TurnError::lane)
    }

    /// Ends the link; its worker says goodbye and finishes.
    pub fn stop(&self) {
        self.link.stop();
    }

    /// The instance.
    pub fn url(&self) -> &BaseUrl {
        self.account.url()
    }

    /// The campaign's id.
    pub fn campaign(&self) -> &str {
        self.campaign.as_str()
    }

    /// The login.
    pub fn login(&self) -> &Arc<Login> {
        self.account.login()
    }

    /// Waits until there is a session.
    ///
    /// # Errors
    ///
    /// [`RestError::NotSignedIn`].
    pub async fn signed_in(&self) -> Result<(), RestError> {
        let session = Patience::current().wait(self.login().ensure()).await?;
        session.map(drop).map_err(RestError::NotSignedIn)
    }

    /// The account's id, once it has signed in.
    pub fn user_id(&self) -> Option<String> {
        self.login().user()?["id"].as_str().map(ToOwned::to_owned)
    }

    /// The REST side.
    pub fn rest(&self) -> &Rest {
        &self.account.rest
    }

    /// What is known of the campaign.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Whether the server has a feature, if an answer has ever shown it.
    pub fn feature(&self, feature: Feature) -> Option<bool> {
        self.account.features.get(feature)
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
        let Account { rest, login, .. } = &*self.account;
        let answer = rest
            .json(login, request, expect, &|| self.account.unauthorized())
            .await;
        self.learn(request, &answer);
        // Other campaigns may be asked about as well, and say nothing about this one.
        if request.path.starts_with(&self.in_campaign(&[]))
            && let Err(RestError::Http { message, .. }) = &answer
        {
            // Up to 1.3 the live link of a removed member stays; a new one tells.
            self.link.doubt(message);
        }
        answer
    }

    /// Fetches the file that a [`Request::file`] asks for.
    ///
    /// # Errors
    ///
    /// [`RestError`].
    pub async fn fetch(&self, request: &Request<'_>) -> Result<Fetched, RestError> {
        let Account { rest, login, .. } = &*self.account;
        let answer = rest
            .fetch(login, request, &|| self.account.unauthorized())
            .await;
        // No document is an HTML page, but what a proxy puts in its place is.
        let page = matches!(&answer, Ok(Fetched::File { mime, .. }) if mime == "text/html");
        if !page {
            self.learn(request, &answer);
        }
        answer
    }

    /// Sends a write within `rights`. When its answer gets lost, or is none, they are
    /// kept for 2 s, since the server may still be at it.
    ///
    /// # Errors
    ///
    /// [`RestError`].
    pub async fn write(
        &self,
        rights: &mut Vec<Right>,
        request: &Request<'_>,
        expect: Expect,
    ) -> Result<Value, RestError> {
        let answer = self.request(request, expect).await;
        if answer.as_ref().is_err_and(RestError::may_still_happen) {
            keep(std::mem::take(rights));
        }
        answer
    }

    /// Sends an event, and keeps `rights` until the table has shown its effect:
    /// an event that `effect` accepts. A refusal names no request, so it counts
    /// as the effect only when nothing else is waited for. A table that stays silent
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
        let unsettled = Arc::clone(&self.unsettled);
        let since = match self.link.emit(name, payload).await {
            Ok(since) => since,
            Err(error) => {
                if matches!(error, EmitError::Unknown(_)) {
                    keep((rights, unsettled));
                }
                return Err(error);
            }
        };
        let journal = self.journal.clone();
        tokio::spawn(async move {
            // The session's own one, and this one.
            let alone = || Arc::strong_count(&unsettled) <= 2;
            let silent = Instant::now() + SILENCE;
            let seen = journal
                .find(since, SILENCE, |event| {
                    effect(event) || (is_refusal(event) && alone())
                })
                .await;
            if seen.is_none() {
                // A journal that cannot be read ends the search early.
                sleep_until(silent).await;
            }
            drop(rights);
        });
        Ok(since)
    }

    fn learn<T>(&self, request: &Request<'_>, answer: &Result<T, RestError>) {
        let Some(feature) = request.proves else {
            return;
        };
        match answer {
            Ok(_) => self.account.features.note(feature, true),
            Err(RestError::Http {
                status: 404,
                message,
                ..
            }) if message == ROUTE_MISSING => self.account.features.note(feature, false),
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

    /// The map that the table is on, if there is one, read when it is not known.
    ///
    /// # Errors
    ///
    /// [`RestError`].
    pub async fn current_map(&self) -> Result<Option<String>, RestError> {
        if let Some(map) = self.facts.known().current_map {
            return Ok(map);
        }
        let campaign = self.read_campaign().await?;
        Ok(campaign["currentMapId"].as_str().map(ToOwned::to_owned))
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
        let user = self.login().user();
        let user = user.as_ref().and_then(|user| user["id"].as_str());
        self.facts.note_campaign(began, &campaign, user);
        Ok(campaign)
    }
}

/// Keeps what a write held whose outcome is unknown, for as long as the server may
/// still be at it.
fn keep(held: impl Send + 'static) {
    tokio::spawn(async move {
        sleep(SILENCE).await;
        drop(held);
    });
}

/// Whether the server has refused something that was sent. What the link itself
/// reports of its attempts carries their phase.
fn is_refusal(event: &EventRecord) -> bool {
    event.event == "system.error" && event.payload.get("phase").is_none()
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
