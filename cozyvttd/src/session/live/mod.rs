//! The live link of a campaign: one WebSocket, kept up by one worker, and what
//! the rest of the daemon sees of it.

mod backoff;
mod verdict;
mod worker;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::lock::lock;
use crate::session::patience::{Impatience, Patience};
pub(super) use backoff::jittered;
pub(super) use worker::Worker;

/// How long a caller waits for a link that is coming up.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many names of ignored events are counted: they come from outside.
const IGNORED_NAMES: usize = 64;

/// How many sends may wait for the connection.
const OUTBOX: usize = 64;

/// Where the link stands.
#[derive(Debug, Clone)]
pub enum Phase {
    /// The worker has not begun.
    Idle,
    /// An attempt is under way.
    Connecting,
    /// The campaign has accepted us.
    Authenticated,
    /// The next attempt is at `until`.
    Waiting {
        /// When.
        until: Instant,
        /// The campaign is closed to this account, which only people can change.
        shut_out: bool,
    },
    /// The daemon stops.
    Stopped,
}

/// What is known of the link.
#[derive(Debug, Clone)]
pub struct LinkState {
    /// Where it stands.
    pub phase: Phase,
    /// The WebSocket is up, accepted by the campaign or not yet.
    pub connected: bool,
    /// Grows with every connection; events carry it.
    pub generation: u64,
    /// The account's role, as the campaign's acceptance or a later event says.
    pub role: Option<String>,
    /// The newest trouble; cleared by the next acceptance.
    pub last_error: Option<String>,
    /// How many attempts have ended, well or not.
    attempts: u64,
    /// The campaign has accepted us at least once, in this run or an earlier one.
    accepted_before: bool,
    /// Where sends go; there only while authenticated.
    outbox: Option<mpsc::Sender<Outgoing>>,
}

impl LinkState {
    /// Whether the link has ended for good.
    pub fn stopped(&self) -> bool {
        matches!(self.phase, Phase::Stopped)
    }

    /// Whether the campaign has accepted this connection.
    pub fn authenticated(&self) -> bool {
        matches!(self.phase, Phase::Authenticated)
    }
}

/// One event on its way to the server.
#[derive(Debug)]
struct Outgoing {
    name: &'static str,
    payload: Value,
    sent: oneshot::Sender<Result<u64, EmitError>>,
}

/// Why an event was not sent, or may not have been.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EmitError {
    /// The link is not up; nothing was sent.
    #[error(
        "WS is not authenticated; the background worker will retry: {0}. Nothing was sent; \
         `cozyvttctl status` tells more"
    )]
    NotReady(String),
    /// The connection broke while the event was leaving.
    #[error(
        "the WebSocket broke while this was being sent, so its outcome is unknown: {0}. Look at the events before repeating it"
    )]
    Unknown(String),
    /// It waited in vain; nothing was sent.
    #[error(transparent)]
    Ended(#[from] Impatience),
    /// The event is too large; nothing was sent.
    #[error("{0}; nothing was sent")]
    Refused(String),
}

/// The handle on the link. Clones share it.
#[derive(Debug, Clone)]
pub struct Link {
    state: Arc<watch::Sender<LinkState>>,
    /// Cancelled to drop the present connection; the worker replaces it.
    drop_now: watch::Sender<Option<String>>,
    stop: CancellationToken,
    ignored: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Link {
    /// A link whose worker has not begun.
    /// `accepted_before` says whether an earlier run was in this campaign.
    pub(super) fn new(accepted_before: bool) -> Self {
        Self {
            state: Arc::new(watch::Sender::new(LinkState {
                phase: Phase::Idle,
                connected: false,
                generation: 0,
                role: None,
                last_error: None,
                attempts: 0,
                accepted_before,
                outbox: None,
            })),
            drop_now: watch::Sender::new(None),
            stop: CancellationToken::new(),
            ignored: Arc::default(),
        }
    }

    /// What is known of the link now.
    pub fn state(&self) -> LinkState {
        self.state.borrow().clone()
    }

    /// What is known of the link from now on.
    pub fn watch(&self) -> watch::Receiver<LinkState> {
        self.state.subscribe()
    }

    /// Drops the present connection, because of `why`; the worker makes a new one.
    pub(super) fn invalidate(&self, why: &str) {
        let was_up = self.state.send_if_modified(|state| {
            let up = state.authenticated();
            if up {
                state.phase = Phase::Connecting;
                state.role = None;
                state.outbox = None;
                state.last_error = Some(why.to_owned());
            }
            up
        });
        if was_up {
            self.drop_now.send_replace(Some(why.to_owned()));
        }
    }

    /// Drops the present connection when an answer's `sentence` says that the
    /// campaign is closed to this account.
    pub(super) fn doubt(&self, sentence: &str) {
        if verdict::closes_the_campaign(sentence) {
            self.invalidate(sentence);
        }
    }

    /// Counts an event of the server that is not journalled.
    fn ignored(&self, name: &str) {
        let mut ignored = lock(&self.ignored);
        if let Some(count) = ignored.get_mut(name) {
            *count += 1;
        } else if ignored.len() < IGNORED_NAMES {
            ignored.insert(name.to_owned(), 1);
        }
    }

    /// How many events of which names came and were not journalled, since the start;
    /// of the first 64 names.
    pub fn ignored_events(&self) -> BTreeMap<String, u64> {
        lock(&self.ignored).clone()
    }

    /// Ends the link for good, with a goodbye to the server.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until the first attempt has ended, for 10 s at most.
    pub async fn settled(&self) {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.state.subscribe();
        let first = state.wait_for(|state| {
            state.attempts > 0 || state.authenticated() || matches!(state.phase, Phase::Stopped)
        });
        let _ = timeout_at(deadline, first).await;
    }

    /// Waits until the link is up, as long as that makes sense.
    ///
    /// # Errors
    ///
    /// [`EmitError::NotReady`].
    pub async fn up(&self) -> Result<(), EmitError> {
        self.ready().await.map(drop)
    }

    /// Sends an event once the link is up. Gives the newest sequence number from
    /// before the send: whatever the event causes has a larger one.
    ///
    /// # Errors
    ///
    /// [`EmitError`].
    pub async fn emit(&self, name: &'static str, payload: Value) -> Result<u64, EmitError> {
        let patience = Patience::current();
        let outbox = self.ready().await?;
        patience.leave().await?;
        let (sent, outcome) = oneshot::channel();
        let outgoing = Outgoing {
            name,
            payload,
            sent,
        };
        // An event that the worker has not taken out of the queue was not sent.
        let not_taken = || EmitError::NotReady("the connection was lost".to_owned());
        let queued = patience.wait(outbox.send(outgoing)).await?;
        queued.map_err(|_| not_taken())?;
        // The worker may be at it right now.
        patience.carry_on();
        match patience.wait(outcome).await {
            Ok(outcome) => outcome.unwrap_or_else(|_| Err(not_taken())),
            Err(why) => Err(EmitError::Unknown(why.reason().to_owned())),
        }
    }

    /// Waits for the link as long as it makes sense: not beyond [`PATIENCE`], nor
    /// beyond a failed attempt, nor when the next attempt is later than that.
    async fn ready(&self) -> Result<mpsc::Sender<Outgoing>, EmitError> {
        let patience = Patience::current();
        let deadline = Instant::now() + PATIENCE.min(patience.left());
        let mut states = self.state.subscribe();
        let attempts = states.borrow_and_update().attempts;
        let settled = states.wait_for(|state| {
            state.outbox.is_some()
                || state.attempts > attempts
                || match state.phase {
                    Phase::Waiting { until, .. } => until > deadline,
                    Phase::Stopped => true,
                    Phase::Idle | Phase::Connecting | Phase::Authenticated => false,
                }
        });
        let state = match patience.wait(timeout_at(deadline, settled)).await? {
            Ok(Ok(state)) => state.clone(),
            Ok(Err(_)) | Err(_) => self.state(),
        };
        state.outbox.ok_or_else(|| {
            EmitError::NotReady(
                state
                    .last_error
                    .unwrap_or_else(|| "connection timed out".to_owned()),
            )
        })
    }
}
