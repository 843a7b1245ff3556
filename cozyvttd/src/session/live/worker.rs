//! The worker that keeps a link up: it alone connects, receives, sends and
//! reconnects. One attempt is one function from the login to the end of the
//! connection.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::backoff::{Backoff, jittered};
use super::verdict::{Verdict, ends_the_sign_in, sentence, verdict};
use super::{EmitError, Link, LinkState, OUTBOX, Outgoing, Phase};
use crate::config::BaseUrl;
use crate::journal::{Event, Journal};
use crate::session::clock::Clock;
use crate::session::facts::Facts;
use crate::session::ids::ResourceId;
use crate::session::login::{Login, LoginError, LoginState};
use crate::session::socketio::{Connection, ServerEvent, SocketError};

/// How long the server may take for `connected` and for `authenticated`.
const STEP: Duration = Duration::from_secs(10);

/// The pause after a cause that only a person can mend.
const SLOW_LANE: Duration = Duration::from_secs(5 * 60);

/// How long the journal may take for an event once the link is to end.
const FAREWELL: Duration = Duration::from_secs(2);

/// The events that are journalled. What a table sends beyond these (presence,
/// fog, lights, walls, pings) is not the agents' business.
const JOURNALLED: [&str; 20] = [
    "chat.message",
    "dice.rolled",
    "dice.rolled.secret",
    "dice.historyCleared",
    "map.changed",
    "map:settings:updated",
    "token.moved",
    "token:appeared",
    "token:disappeared",
    "initiative.state",
    "session.started",
    "session.paused",
    "session.ended",
    "session.resumed",
    "character.hp.updated",
    "character.updated",
    "roster.updated",
    "campaign.dm.transferred",
    "campaign.role.changed",
    "campaign.access.revoked",
];

/// Everything the worker needs.
#[derive(Debug)]
pub(in crate::session) struct Worker {
    pub(in crate::session) url: BaseUrl,
    pub(in crate::session) campaign: ResourceId,
    pub(in crate::session) http: reqwest::Client,
    pub(in crate::session) login: Arc<Login>,
    pub(in crate::session) facts: Arc<Facts>,
    pub(in crate::session) journal: Journal,
    pub(in crate::session) link: Link,
    pub(in crate::session) clock: Clock,
}

/// How an attempt ended.
struct Ended {
    why: String,
    /// When the campaign accepted us, if it did.
    up_since: Option<Instant>,
    next: Next,
}

/// When to try again.
enum Next {
    /// After the usual wait.
    Soon,
    /// After a long one: only a person can mend this.
    Slowly,
    /// The same, since the campaign is closed to this account.
    ShutOut,
    /// When the login allows it.
    At(Instant),
}

impl Ended {
    fn soon(why: impl ToString) -> Self {
        Self {
            why: why.to_string(),
            up_since: None,
            next: Next::Soon,
        }
    }

    fn login(error: &LoginError, login: &Login) -> Self {
        let next = match &*login.watch().borrow() {
            LoginState::CoolingDown { until, .. } => Next::At(*until),
            LoginState::Blocked { .. } => Next::Slowly,
            _ => Next::Soon,
        };
        Self {
            why: error.to_string(),
            up_since: None,
            next,
        }
    }
}

impl Worker {
    /// Runs until the link is stopped.
    pub(in crate::session) async fn run(self) {
        let stop = self.link.stop.clone();
        let mut backoff = Backoff::default();
        let mut reported = None;
        while !stop.is_cancelled() {
            self.set(|state| state.phase = Phase::Connecting);
            let ended = self.attempt(&stop).await;
            self.set(|state| state.connected = false);
            if stop.is_cancelled() {
                break;
            }
            tracing::info!(why = %ended.why, "the link is down");
            if ended.up_since.is_none() && reported.as_ref() != Some(&ended.why) {
                // The same cause over and over is one event.
                self.append(
                    "system.error",
                    json!({"detail": ended.why, "phase": "connect"}),
                )
                .await;
            }
            reported = ended.up_since.is_none().then(|| ended.why.clone());
            let held = ended.up_since.map(|since| self.clock.since(since));
            let usual = backoff.after(held);
            let shut_out = matches!(ended.next, Next::ShutOut);
            let for_login = matches!(ended.next, Next::Slowly | Next::At(_));
            let until = match ended.next {
                Next::Soon => self.clock.after(usual),
                Next::Slowly | Next::ShutOut => self.clock.after(jittered(SLOW_LANE)),
                Next::At(until) => until,
            };
            self.set(|state| {
                state.phase = Phase::Waiting { until, shut_out };
                state.attempts += 1;
                state.last_error = Some(ended.why);
            });
            tokio::select! {
                () = stop.cancelled() => {}
                // A person may sign in meanwhile.
                () = self.login.signed_in(), if for_login => {}
                () = sleep_until(until) => {}
            }
        }
        self.set(|state| {
            state.phase = Phase::Stopped;
            state.outbox = None;
        });
    }

    /// One attempt, from the login to the end of the connection.
    async fn attempt(&self, stop: &CancellationToken) -> Ended {
        let session = tokio::select! {
            () = stop.cancelled() => return Ended::soon("stopping"),
            session = self.login.ensure() => match session {
                Ok(session) => session,
                Err(error) => return Ended::login(&error, &self.login),
            },
        };
        self.set(|state| state.generation += 1);
        // Whatever asked an older connection to end does not mean this one.
        let mut drop_now = self.link.drop_now.subscribe();
        drop_now.mark_unchanged();
        let opening = async {
            let mut connection = Connection::open(&self.http, &self.url)
                .await
                .map_err(Refused::Socket)?;
            self.set(|state| state.connected = true);
            let role = self.introduce(&mut connection).await?;
            Ok::<_, Refused>((connection, role))
        };
        let opened = tokio::select! {
            () = stop.cancelled() => return Ended::soon("stopping"),
            opened = opening => opened,
        };
        let (mut connection, role) = match opened {
            Ok(opened) => opened,
            Err(refused) => return self.refused(refused, session).await,
        };
        let up_since = Instant::now();
        let mut outbox = self.accepted(role).await;
        if let Err(error) = connection
            .emit("initiative.request_state", &Value::Null)
            .await
        {
            return self.down(Ended::soon(error), up_since).await;
        }
        let ended = loop {
            tokio::select! {
                () = stop.cancelled() => {
                    // The hole that begins here is to be seen in the journal.
                    let ended = self.down(Ended::soon("cozyvttd stops"), up_since).await;
                    connection.close().await;
                    return ended;
                }
                why = dropped(&mut drop_now) => {
                    self.append("system.error", json!({"detail": why, "phase": "rest-auth"})).await;
                    connection.close().await;
                    break Ended::soon(why);
                }
                event = connection.next() => match event {
                    Ok(event) => {
                        if let Some(ended) = self.receive(event, session).await {
                            connection.close().await;
                            break ended;
                        }
                    }
                    Err(error) => break Ended::soon(error),
                },
                Some(outgoing) = outbox.recv() => {
                    if let Err(error) = self.send(&mut connection, outgoing).await {
                        break Ended::soon(error);
                    }
                }
            }
        };
        self.down(ended, up_since).await
    }

    /// From the joined namespace to the campaign's acceptance; gives the role.
    async fn introduce(&self, connection: &mut Connection) -> Result<String, Refused> {
        // The server attaches its handlers only after a look-up, and says
        // `connected` then; what is sent earlier is lost without an answer.
        expect(connection, "connected", |_| true).await?;
        let campaign = self.campaign.as_str();
        connection
            .emit("authenticate", &json!({"campaignId": campaign}))
            .await
            .map_err(Refused::Socket)?;
        let accepted = expect(connection, "authenticated", |payload| {
            payload["campaignId"] == campaign
        })
        .await?;
        Ok(accepted["role"].as_str().unwrap_or_default().to_owned())
    }

    async fn accepted(&self, role: String) -> mpsc::Receiver<Outgoing> {
        let (sender, outbox) = mpsc::channel(OUTBOX);
        let generation = self.link.state().generation;
        tracing::info!(generation, role, "the campaign has accepted us");
        if self.link.state().accepted_before {
            self.append("system.reconnected", json!({"generation": generation}))
                .await;
        }
        self.set(|state| {
            state.phase = Phase::Authenticated;
            state.accepted_before = true;
            state.role = (!role.is_empty()).then_some(role);
            state.last_error = None;
            state.outbox = Some(sender);
        });
        outbox
    }

    /// An attempt that did not lead to an acceptance.
    async fn refused(&self, refused: Refused, session: u64) -> Ended {
        match refused {
            // The handshake of a dead session is an HTTP 401 behind some proxies.
            Refused::Socket(error @ SocketError::NoUpgrade { status: 401, .. }) => {
                self.renewed(session, error).await
            }
            Refused::Socket(error) => Ended::soon(error),
            Refused::Server(payload) => {
                let why = sentence(&payload);
                match verdict(&payload) {
                    Verdict::SignedOut => self.renewed(session, why).await,
                    Verdict::LostAccess => Ended {
                        next: Next::ShutOut,
                        ..Ended::soon(why)
                    },
                    Verdict::LostCampaign | Verdict::Business => Ended::soon(why),
                }
            }
        }
    }

    /// How an attempt ends because of `why` once the login has been renewed, or
    /// because that could not be done.
    async fn renewed(&self, session: u64, why: impl ToString) -> Ended {
        match self.login.renew(session).await {
            Ok(_) => Ended::soon(why),
            Err(error) => Ended::login(&error, &self.login),
        }
    }

    /// Takes an event in. Gives how the link ended, when the event ends it.
    async fn receive(&self, event: ServerEvent, session: u64) -> Option<Ended> {
        if event.name == "error" {
            return self.trouble(event.payload, session).await;
        }
        if !JOURNALLED.contains(&event.name.as_str()) {
            self.link.ignored(&event.name);
            return None;
        }
        self.track_role(&event);
        if let ("map.changed", Some(map)) = (event.name.as_str(), event.payload["mapId"].as_str()) {
            self.facts.note_map(map);
        }
        let revoked = (event.name == "campaign.access.revoked").then(|| sentence(&event.payload));
        self.append(&event.name, event.payload).await;
        let why = revoked?;
        self.append("system.error", json!({"detail": why})).await;
        if ends_the_sign_in(&why) {
            return Some(self.renewed(session, why).await);
        }
        Some(Ended {
            next: Next::ShutOut,
            ..Ended::soon(why)
        })
    }

    async fn trouble(&self, payload: Value, session: u64) -> Option<Ended> {
        let why = sentence(&payload);
        let meaning = verdict(&payload);
        self.set(|state| state.last_error = Some(why.clone()));
        self.append("system.error", json!({"detail": payload}))
            .await;
        match meaning {
            Verdict::Business => None,
            Verdict::LostCampaign => Some(Ended::soon(why)),
            Verdict::LostAccess => Some(Ended {
                next: Next::ShutOut,
                ..Ended::soon(why)
            }),
            Verdict::SignedOut => Some(self.renewed(session, why).await),
        }
    }

    /// Follows the events that change who may do what.
    fn track_role(&self, event: &ServerEvent) {
        let user = self.login.user();
        let me = user.as_ref().and_then(|user| user["id"].as_str());
        let payload = &event.payload;
        let role = match event.name.as_str() {
            "campaign.dm.transferred" if payload["newDmId"].as_str() == me => Some("DM"),
            "campaign.dm.transferred" if payload["previousDmId"].as_str() == me => Some("PLAYER"),
            "campaign.role.changed" if payload["userId"].as_str() == me => payload["role"].as_str(),
            "campaign.dm.transferred" | "campaign.role.changed" => None,
            _ => return,
        };
        self.facts.clear();
        if let (Some(role), Some(_)) = (role, me) {
            self.set(|state| state.role = Some(role.to_owned()));
        }
    }

    async fn send(
        &self,
        connection: &mut Connection,
        outgoing: Outgoing,
    ) -> Result<(), SocketError> {
        if outgoing.sent.is_closed() {
            // Its caller was cancelled while it stood in the queue.
            return Ok(());
        }
        let since = self.journal.high_water();
        let sent = connection.emit(outgoing.name, &outgoing.payload).await;
        let (answer, outcome) = match sent {
            Ok(()) => (Ok(since), Ok(())),
            Err(error @ SocketError::TooLarge(_)) => {
                (Err(EmitError::Refused(error.to_string())), Ok(()))
            }
            Err(error) => (Err(EmitError::Unknown(error.to_string())), Err(error)),
        };
        // A caller that no longer waits has been cancelled.
        let _ = outgoing.sent.send(answer);
        outcome
    }

    /// The end of a connection that had been accepted.
    async fn down(&self, ended: Ended, up_since: Instant) -> Ended {
        self.facts.clear();
        self.set(|state| {
            state.phase = Phase::Connecting;
            state.role = None;
            state.outbox = None;
            state.last_error = Some(ended.why.clone());
        });
        self.append("system.disconnected", json!({"reason": ended.why}))
            .await;
        Ended {
            up_since: Some(up_since),
            ..ended
        }
    }

    async fn append(&self, name: &str, payload: Value) {
        let event = Event::new(name, payload, self.link.state().generation);
        // A journal that takes nothing holds the link up, but not its end.
        let patience = async {
            self.link.stop.cancelled().await;
            sleep(FAREWELL).await;
        };
        tokio::select! {
            appended = self.journal.append(event) => {
                if let Err(error) = appended {
                    tracing::error!(%error, event = name, "an event was lost");
                }
            }
            () = patience => tracing::error!(event = name, "an event was lost: the journal takes none"),
        }
    }

    fn set(&self, change: impl FnOnce(&mut LinkState)) {
        self.link.state.send_modify(change);
    }
}

/// Why a connection was not accepted.
enum Refused {
    Socket(SocketError),
    /// The payload of the server's `error` event.
    Server(Value),
}

/// Waits for an event and lets others pass; an `error` event is a refusal.
async fn expect(
    connection: &mut Connection,
    name: &'static str,
    accept: impl Fn(&Value) -> bool,
) -> Result<Value, Refused> {
    let wait = async {
        loop {
            let event = connection.next().await.map_err(Refused::Socket)?;
            if event.name == "error" {
                return Err(Refused::Server(event.payload));
            }
            if event.name == name && accept(&event.payload) {
                return Ok(event.payload);
            }
        }
    };
    timeout(STEP, wait).await.unwrap_or_else(|_| {
        Err(Refused::Socket(SocketError::Slow(if name == "connected" {
            "WS connection"
        } else {
            "WS campaign authentication"
        })))
    })
}

/// Waits until the connection is to be dropped; gives why.
async fn dropped(drop_now: &mut watch::Receiver<Option<String>>) -> String {
    loop {
        if drop_now.changed().await.is_err() {
            // The link's handle lives in this worker, so this cannot happen.
            std::future::pending::<()>().await;
        }
        if let Some(why) = drop_now.borrow_and_update().clone() {
            return why;
        }
    }
}
