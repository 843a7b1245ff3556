//! What both faces share: the catalog, the campaigns, the clients, and the calls that
//! are running.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::audit::{Audit, Verdict};
use crate::campaigns::{Campaign, Campaigns, Trouble};
use crate::clients::{Client, Clients, MOST_CALLS};
use crate::config::Config;
use crate::lock::lock;
use crate::options::Source;
use crate::session::patience::{Patience, Telling};
use crate::tools::{Available, Caller, Catalog, Context, Definition, Outcome, ToolError};
use crate::writes::{self, Asked};

/// This program's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Shared by both faces.
#[derive(Debug)]
pub struct Hub {
    /// A random name for this run.
    pub instance: String,
    /// When it began.
    pub started: Instant,
    /// Where it listens.
    pub socket_dir: PathBuf,
    /// Where it keeps its journal.
    pub state_dir: PathBuf,
    /// The campaigns it sits in, and its configuration.
    pub campaigns: Campaigns,
    /// Cancelled when the run is to end.
    pub stop: CancellationToken,
    /// Cancelled when the daemon is to leave altogether; the run ends with it.
    leave: CancellationToken,
    /// What the next run is to begin with, when there is to be one.
    next: Mutex<Option<Next>>,
    /// Where the configuration comes from.
    pub source: Source,
    /// systemd holds the sockets.
    pub activated: bool,
    /// Cancelled when everything else has left: until then the control socket
    /// answers, so that a program can see when the daemon has gone.
    pub gone: CancellationToken,
    /// Who is connected.
    pub clients: Arc<Clients>,
    audit: Audit,
    catalog: Catalog,
    /// After how long without a client the daemon leaves, if it does.
    idle_exit: watch::Sender<Option<Duration>>,
    calls: TaskTracker,
}

/// What a run begins with.
#[derive(Debug)]
pub(crate) struct Next {
    /// The configuration.
    pub(crate) config: Config,
    /// A person has named the account in it just now.
    pub(crate) by_word: bool,
}

/// Whose call it is.
#[derive(Debug)]
pub struct Call {
    /// The client.
    pub client: Arc<Client>,
    /// Where it goes; without, to the main campaign.
    pub campaign: Option<Arc<Campaign>>,
    /// Where its relative paths begin, when that is not what the client has said of
    /// itself.
    pub cwd: Option<PathBuf>,
    /// The id of its JSON-RPC request, as JSON, by which a repeat of it is recognised.
    pub request: Option<String>,
    /// Cancelled when nobody waits for the outcome any more.
    pub given_up: CancellationToken,
    /// Where its waiting is told, if somebody wants to know.
    pub telling: Option<Telling>,
}

impl Hub {
    /// A hub for one run of the daemon.
    pub fn new(
        instance: String,
        (socket_dir, state_dir): (PathBuf, PathBuf),
        campaigns: Campaigns,
        audit: Audit,
        source: Source,
    ) -> Self {
        let leave = CancellationToken::new();
        Self {
            clients: Arc::new(Clients::new(&instance, &state_dir)),
            audit,
            instance,
            started: Instant::now(),
            socket_dir,
            state_dir,
            campaigns,
            stop: leave.child_token(),
            leave,
            next: Mutex::default(),
            source,
            activated: false,
            gone: CancellationToken::new(),
            catalog: Catalog::default(),
            idle_exit: watch::Sender::new(None),
            calls: TaskTracker::new(),
        }
    }

    /// The same for a daemon that leaves when `leave` is cancelled.
    #[must_use]
    pub fn until(self, leave: &CancellationToken) -> Self {
        Self {
            stop: leave.child_token(),
            leave: leave.clone(),
            ..self
        }
    }

    /// The same for a daemon whose sockets are systemd's, or are not.
    #[must_use]
    pub fn activated(self, activated: bool) -> Self {
        Self { activated, ..self }
    }

    /// The same for a daemon that leaves once it has had no client for so long.
    #[must_use]
    pub fn leaving_after(self, idle_exit: Option<Duration>) -> Self {
        self.idle_exit.send_replace(idle_exit);
        self
    }

    /// After how long without a client the daemon leaves, if it does.
    pub fn idle_exit(&self) -> Option<Duration> {
        *self.idle_exit.borrow()
    }

    /// The same from now on.
    pub(crate) fn watch_idle_exit(&self) -> watch::Receiver<Option<Duration>> {
        self.idle_exit.subscribe()
    }

    /// Makes the daemon leave.
    pub fn leave(&self) {
        self.leave.cancel();
    }

    /// Whether the daemon is to leave altogether.
    pub(crate) fn leaves(&self) -> bool {
        self.leave.is_cancelled()
    }

    /// Follows another configuration of the same table from now on.
    pub(crate) fn follow(&self, config: Config) {
        let idle_exit = self.source.options().idle_exit(&config);
        self.idle_exit.send_replace(idle_exit);
        self.campaigns.follow(config);
    }

    /// Ends the run, and has another one begin so. A word about the account that was given
    /// before it holds on.
    pub(crate) fn begin_anew(&self, mut next: Next) {
        let mut pending = lock(&self.next);
        next.by_word |= pending.as_ref().is_some_and(|pending| pending.by_word);
        *pending = Some(next);
        self.stop.cancel();
    }

    /// The configuration that another run is to begin with, when there is to be one.
    pub(crate) fn pending(&self) -> Option<Arc<Config>> {
        let pending = lock(&self.next);
        Some(Arc::new(pending.as_ref()?.config.clone()))
    }

    /// What the next run is to begin with, when there is to be one. To be asked when nobody
    /// can give a word any more: one that comes later would be lost.
    pub(crate) fn next_run(&self) -> Option<Next> {
        lock(&self.next).take()
    }

    /// The tools' definitions, in the order in which they are listed.
    pub fn definitions(&self) -> impl Iterator<Item = &Definition> {
        self.catalog.definitions()
    }

    /// Whether there is a tool of this name that changes nothing.
    pub fn reads(&self, name: &str) -> bool {
        self.definitions()
            .any(|tool| tool.name == name && tool.hints.read_only)
    }

    /// Calls a tool; `None` when there is none of that name. What has been begun is
    /// carried through even when nobody waits for it any more, reads aside: a write that was
    /// cut off halfway would be known to nobody. Dropping the returned future, or cancelling
    /// [`Call::given_up`], only ends the waiting for a turn.
    pub async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        call: Call,
    ) -> Option<Outcome> {
        let _gone = call.given_up.clone().drop_guard();
        let order = self.catalog.order(name, arguments)?;
        let Call { client, .. } = &call;
        let Some(_calling) = client.calls(order.tool) else {
            return Some(Outcome::failure(&ToolError::Refused(format!(
                "{MOST_CALLS} calls of this client are not answered yet; nothing was sent. Wait for \
                 their answers, then call again"
            ))));
        };
        let who = client.who();
        let label = who.label();
        let span = tracing::info_span!(
            "call",
            client = client.number,
            name = label,
            tool = order.tool
        );
        let asked = Asked::of(client, &who, call.request.as_deref(), &order);
        let state = self.clients.state(client);
        let config = self.campaigns.config();
        let forbidden = writes::forbidden(state, &config.policy, who.name.as_deref(), &order);
        if forbidden.is_some() {
            span.in_scope(|| tracing::info!("a call that a person forbids"));
        }
        if asked.is_none() && forbidden.is_some() {
            return forbidden;
        }
        let campaign = call.campaign.map_or_else(|| self.campaigns.main(), Ok);
        let account = campaign
            .as_ref()
            .ok()
            .map(|campaign| campaign.session.account());
        if let Some(account) = account {
            account.share_between(self.clients.count());
        }
        let stopping = account.map(|account| account.draining().clone());
        let patience = Patience::new(call.given_up, stopping.unwrap_or_default())
            .of(call.client.number, call.telling);
        let ledger = campaign
            .as_ref()
            .ok()
            .map(|campaign| campaign.ledger.clone());
        let available = available(campaign, call.cwd.or(who.cwd), who.id);
        let (audit, whose) = (self.audit.clone(), asked.clone());
        // One broken tool must not leave its caller waiting for ever.
        let outcome = match whose {
            // What only reads may end with whoever asks.
            None => {
                let work = patience.rule(order.carry_out(available)).instrument(span);
                let work = AssertUnwindSafe(self.calls.track_future(work));
                work.catch_unwind()
                    .await
                    .map_err(|_| "it panicked".to_owned())
            }
            Some(whose) => {
                let (clients, client) = (Arc::clone(&self.clients), call.client);
                let standing: writes::Standing = Arc::new(move || clients.state(&client));
                let work = async move {
                    let (outcome, verdict) = writes::carry_out(
                        &whose,
                        order,
                        available,
                        ledger.as_ref(),
                        forbidden,
                        standing,
                    )
                    .await;
                    writes::audit(&audit, whose, &outcome, verdict).await;
                    outcome
                };
                let work = self.calls.spawn(patience.rule(work).instrument(span));
                work.await.map_err(|error| error.to_string())
            }
        };
        Some(match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                tracing::error!(tool = name, %error, "a tool broke");
                let mut outcome = Outcome::failure(&ToolError::Unavailable(
                    "something broke inside cozyvttd, so the outcome is unknown: look before \
                     repeating it. Its log tells more; please report this."
                        .to_owned(),
                ));
                outcome.nothing_sent = false;
                if let Some(asked) = asked {
                    writes::audit(&self.audit, asked, &outcome, Verdict::Unknown).await;
                }
                outcome
            }
        })
    }

    /// Calls that are running now.
    pub fn running(&self) -> u64 {
        self.calls.len() as u64
    }

    /// Waits until no call is running.
    pub async fn idle(&self) {
        self.calls.close();
        self.calls.wait().await;
    }
}

/// What a call works with.
fn available(
    campaign: Result<Arc<Campaign>, Trouble>,
    cwd: Option<PathBuf>,
    id: String,
) -> Available {
    match campaign {
        Ok(campaign) => Ok(Context {
            session: Arc::clone(&campaign.session),
            caller: Arc::new(Caller { cwd, id }),
            files: Arc::clone(&campaign.files),
        }),
        Err(trouble) => Err(ToolError::Unavailable(trouble.to_string())),
    }
}
