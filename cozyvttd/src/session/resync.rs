//! After an outage: what the server still tells of it is read again, and the hole
//! is marked.
//!
//! Chat and, from CozyVTT 1.2.2 on, rolls are kept by the server and told by id, so
//! that what was heard already is not taken twice. Everything else that happened
//! meanwhile is over; the campaign and the combat order are read anew in any case.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde_json::{Value, json};
use thiserror::Error;

use super::Session;
use super::clock::Clock;
use super::live::LinkState;
use super::rest::{Expect, ROUTE_MISSING, Request, RestError};
use crate::journal::{Event, JournalError};
use crate::time::seconds;

/// Lines, or rolls, in one page: CozyVTT's most.
const PAGE: usize = 100;

/// Pages that are read of each: what was missed beyond that is told as lost.
const PAGES: usize = 5;

/// How far the server's clock and ours may lie apart, in seconds.
const SKEW: f64 = 120.0;

/// A read that fails is tried again after this.
const AGAIN: Duration = Duration::from_secs(15);

/// How often in all.
const TRIES: usize = 3;

/// How often the rolls are read while the link is up: a secret roll of this account
/// in another window reaches no other socket.
const ROLLS_EVERY: Duration = Duration::from_secs(120);

/// What happens at a table and is told only while it happens.
const FLEETING: [&str; 4] = ["character", "map", "roster", "token"];

/// What was found of one kind.
#[derive(Debug, Default)]
struct Found {
    recovered: u64,
    /// It reaches back to the outage's beginning.
    whole: bool,
}

/// Why something could not be read again.
#[derive(Debug, Error)]
enum Failure {
    #[error(transparent)]
    Rest(#[from] RestError),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Something that the server kept.
struct Kept {
    event: Event,
    /// When it happened, in seconds since 1970.
    at: f64,
    id: String,
}

/// What the server keeps.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Chat,
    Dice,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Dice => "dice",
        }
    }
}

/// Follows the link: after each acceptance but the very first it makes up for what
/// was missed, and reads the rolls now and then.
pub(super) async fn follow(session: Arc<Session>, clock: Clock) {
    let mut link = session.link.watch();
    // A journal that holds something has seen a link before this run's.
    let mut before = session.journal.high_water();
    let mut reader = Reader {
        session: &session,
        clock,
        generation: 0,
        began: None,
        history: None,
    };
    loop {
        let ready = |state: &LinkState| state.authenticated() || state.stopped();
        reader.generation = match link.wait_for(ready).await {
            Ok(state) if !state.stopped() => state.generation,
            Ok(_) | Err(_) => return,
        };
        let generation = reader.generation;
        let elsewhere =
            |state: &LinkState| state.generation != generation || !state.authenticated();
        tokio::select! {
            () = reader.keep_up(before) => {}
            _ = link.wait_for(elsewhere) => {}
        }
        before = session.journal.high_water();
    }
}

/// Reads what the server keeps, during one connection.
struct Reader<'a> {
    session: &'a Session,
    clock: Clock,
    generation: u64,
    /// When the outage began that is not marked yet.
    began: Option<f64>,
    /// Whether the server keeps rolls, as far as it is known.
    history: Option<bool>,
}

impl Reader<'_> {
    /// Makes up for what was missed since the record `before`, then reads the rolls
    /// every now and then.
    async fn keep_up(&mut self, before: u64) {
        if before > 0
            && let Err(error) = self.make_up(before).await
        {
            tracing::error!(%error, "what was missed could not be written down");
        }
        let mut since = seconds(SystemTime::now());
        loop {
            self.clock.sleep(ROLLS_EVERY).await;
            if self.history == Some(false) {
                continue;
            }
            let now = seconds(SystemTime::now());
            match self.rolls(since).await {
                Ok(_) => since = now,
                Err(error) => tracing::warn!(%error, "the rolls could not be read"),
            }
        }
    }

    /// Reads again what was missed since the record `before`, and marks the hole:
    /// when it began and how long it was, what came back and what may not, and the map
    /// that the table is on now.
    async fn make_up(&mut self, before: u64) -> Result<(), JournalError> {
        // A link that comes and goes leaves one hole, from its first end on.
        let began = match self.began {
            Some(began) => began,
            None => outage(self.session, before).await?,
        };
        self.began = Some(began);
        let mut lost: BTreeSet<&str> = FLEETING.into();
        let mut recovered = serde_json::Map::new();
        for kind in [Kind::Chat, Kind::Dice] {
            let found = self.patiently(kind, began).await;
            if !found.whole {
                lost.insert(kind.name());
            }
            recovered.insert(kind.name().to_owned(), found.recovered.into());
        }
        let down_for = (seconds(SystemTime::now()) - began).max(0.0);
        let resync = json!({
            "since": began,
            "down_for": (down_for * 10.0).round() / 10.0,
            "recovered": recovered,
            "may_be_lost": lost,
            "current_map": self.session.current_map().await.ok().flatten(),
        });
        let event = Event::new("system.resync", resync, self.generation);
        self.session.journal.append(event).await?;
        self.began = None;
        Ok(())
    }

    /// Reads until it works, or gives up on it.
    async fn patiently(&mut self, kind: Kind, since: f64) -> Found {
        for left in (0..TRIES).rev() {
            let read = match kind {
                Kind::Chat => self.lines(since).await,
                Kind::Dice => self.rolls(since).await,
            };
            match read {
                Ok(found) => return found,
                Err(error) => {
                    tracing::warn!(kind = kind.name(), left, %error, "what was missed could not be read");
                }
            }
            if left > 0 {
                self.clock.sleep(AGAIN).await;
            }
        }
        Found::default()
    }

    /// What has happened since, on the server's clock.
    fn missed_since(&self, since: f64) -> Missed {
        let ahead = i32::try_from(self.session.rest().ahead()).unwrap_or_default();
        Missed::since(since + f64::from(ahead))
    }

    /// Reads the chat back to `since`.
    async fn lines(&self, since: f64) -> Result<Found, Failure> {
        let (session, generation) = (self.session, self.generation);
        let mut missed = self.missed_since(since);
        let mut cursor: Option<String> = None;
        for page in 0..PAGES {
            let mut request = Request::get(session.in_campaign(&["messages"])).query("limit", PAGE);
            if let Some(cursor) = cursor.take() {
                request = request.query("cursor", cursor);
            } else if page > 0 {
                // CozyVTT up to 1.3 counts instead.
                request = request.query("offset", page * PAGE);
            }
            let body = session.request(&request, Expect::Has("messages")).await?;
            if missed.take(&body, "messages", "createdAt", |line| {
                // The table's own lines come as events of other names.
                let told = matches!(line["type"].as_str(), Some("PLAYER" | "DM"));
                told.then(|| {
                    let payload = json!({
                        "id": line["id"],
                        "userId": line["userId"],
                        "userName": line["userName"],
                        "content": line["content"],
                        "type": line["type"],
                        "timestamp": line["createdAt"],
                        "recovered": true,
                    });
                    Event::new("chat.message", payload, generation)
                })
            }) {
                break;
            }
            cursor = body["pagination"]["nextCursor"]
                .as_str()
                .map(ToOwned::to_owned);
        }
        Ok(missed.write_down(session).await?)
    }

    /// Reads the rolls back to `since`.
    async fn rolls(&mut self, since: f64) -> Result<Found, Failure> {
        let (session, generation) = (self.session, self.generation);
        let me = session.user_id();
        let mut missed = self.missed_since(since);
        for page in 0..PAGES {
            let request = Request::get(session.in_campaign(&["dice-rolls"]))
                .query("limit", PAGE)
                .query("offset", page * PAGE);
            let body = match session.request(&request, Expect::Has("rolls")).await {
                Ok(body) => body,
                Err(RestError::Http {
                    status: 404,
                    message,
                    ..
                }) if message == ROUTE_MISSING => {
                    self.history = Some(false);
                    return Ok(Found::default());
                }
                Err(error) => return Err(error.into()),
            };
            self.history = Some(true);
            if missed.take(&body, "rolls", "timestamp", |roll| {
                let ours = roll["userId"].as_str() == me.as_deref();
                let name = if roll["secret"] == true && !ours {
                    "dice.rolled.secret"
                } else {
                    "dice.rolled"
                };
                let mut payload = roll.clone();
                payload["recovered"] = true.into();
                Some(Event::new(name, payload, generation))
            }) {
                break;
            }
        }
        Ok(missed.write_down(session).await?)
    }
}

/// When the outage began, in seconds since 1970: with the link's end, or when that
/// could not be written down any more, with the newest record.
async fn outage(session: &Session, before: u64) -> Result<f64, JournalError> {
    let ended = session.journal.latest("system.disconnected").await?;
    let joined = session.journal.latest("system.resync").await?;
    let after = joined.map_or(0, |event| event.seq);
    if let Some(ended) = ended.filter(|event| event.seq > after) {
        return Ok(ended.ts);
    }
    let newest = session.journal.last_until(before).await?;
    Ok(newest.map_or_else(|| seconds(SystemTime::now()), |event| event.ts))
}

/// What is gathered page by page, newest first.
struct Missed {
    since: f64,
    kept: Vec<Kept>,
    whole: bool,
}

impl Missed {
    fn since(since: f64) -> Self {
        Self {
            since,
            kept: Vec::new(),
            whole: false,
        }
    }

    /// Takes the page `body` in; gives whether it was the last that matters.
    fn take(
        &mut self,
        body: &Value,
        list: &str,
        time: &str,
        event: impl Fn(&Value) -> Option<Event>,
    ) -> bool {
        for entry in body[list].as_array().into_iter().flatten() {
            let at = entry[time]
                .as_str()
                .and_then(|text| text.parse::<Timestamp>().ok())
                .map_or(self.since, |at| at.as_duration().as_secs_f64());
            if at < self.since - SKEW {
                self.whole = true;
                return true;
            }
            if let (Some(event), Some(id)) = (event(entry), entry["id"].as_str()) {
                let id = id.to_owned();
                self.kept.push(Kept { event, at, id });
            }
        }
        self.whole = body["pagination"]["hasMore"] != true;
        self.whole
    }

    async fn write_down(self, session: &Session) -> Result<Found, JournalError> {
        let mut recovered = 0;
        for Kept { event, at, id } in self.kept.into_iter().rev() {
            let taken = session.journal.append_unless_known(event, at, &id).await?;
            recovered += u64::from(taken.is_some());
        }
        Ok(Found {
            recovered,
            whole: self.whole,
        })
    }
}
