//! What both faces share: the catalog, the campaigns, the clients, and the calls that
//! are running.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Map, Value};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::audit::{Audit, Verdict};
use crate::campaigns::{Campaign, Campaigns, Trouble};
use crate::clients::{Client, Clients, MOST_CALLS};
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
    /// Cancelled when the daemon is to leave.
    pub stop: CancellationToken,
    /// Cancelled when everything else has left: until then the control socket
    /// answers, so that a program can see when the daemon has gone.
    pub gone: CancellationToken,
    /// Who is connected.
    pub clients: Arc<Clients>,
    audit: Audit,
    catalog: Catalog,
    /// After how long without a client the daemon leaves, if it does.
    pub idle_exit: Option<Duration>,
    calls: TaskTracker,
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
        socket_dir: PathBuf,
        state_dir: PathBuf,
        campaigns: Campaigns,
        audit: Audit,
    ) -> Self {
        Self {
            clients: Arc::new(Clients::new(&instance, &state_dir)),
            audit,
            instance,
            started: Instant::now(),
            socket_dir,
            state_dir,
            campaigns,
            stop: CancellationToken::new(),
            gone: CancellationToken::new(),
            catalog: Catalog::default(),
            idle_exit: None,
            calls: TaskTracker::new(),
        }
    }

    /// The same for a daemon that leaves once it has had no client for so long.
    #[must_use]
    pub fn leaving_after(self, idle_exit: Option<Duration>) -> Self {
        Self { idle_exit, ..self }
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
        let policy = &self.campaigns.config().policy;
        let forbidden = writes::forbidden(state, policy, who.name.as_deref(), &order);
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
