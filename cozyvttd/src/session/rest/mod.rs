//! Requests to CozyVTT's REST routes: one rule each for a session that ended,
//! for "too many requests", and for answers that are none.

mod answer;
mod error;
mod request;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};
use reqwest::{Method, StatusCode};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use url::Url;

use super::budget::{Budget, Slot, Use};
use super::http::{self, network_cause};
use super::login::{self, Login};
use super::patience::{Patience, Transfer};
use super::pool::{self, Pool};
use crate::config::BaseUrl;
use crate::lock::lock;
pub use answer::{Expect, Fetched};
use answer::{check, date_of, limit_of, share};
use error::MAX_URL;
pub use error::RestError;
use request::form;
pub use request::{Body, Request, Upload, Wants};

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The pauses before a request that met "too many requests" is sent again;
/// such an answer means that it was not processed.
const BACK_OFF: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

/// CozyVTT takes 300 requests a minute from one address unless its operator says
/// otherwise; its answers tell (`RateLimit-Limit`).
const REQUESTS: usize = 300;
const WINDOW: Duration = Duration::from_secs(60);

/// Requests under way at once, half of them of one client. When a session ends, so many
/// meet it at most.
const POOL: usize = 64;

/// Files under way at once, apart from these: they take their time.
const FILES: usize = 4;

/// Longest `Retry-After` that a caller is kept waiting for.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long one file may take to be sent or fetched.
const FILE_TIMEOUT: Duration = Duration::from_secs(120);

/// Largest file that is fetched, in bytes: above CozyVTT's own limit of 50 MiB.
pub const MAX_FILE: usize = 64 * 1024 * 1024;

/// CozyVTT's words for a route that this version of it does not have.
pub const ROUTE_MISSING: &str = "The requested resource does not exist";

/// When the server last answered, and when it last did not.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    /// The newest answer, of whatever status.
    pub answered: Option<Instant>,
    /// The newest failure to get one, if it is newer than that.
    pub failed: Option<String>,
}

/// The REST side of a session.
#[derive(Debug)]
pub struct Rest {
    http: reqwest::Client,
    base: BaseUrl,
    reach: Mutex<Reach>,
    /// What the server takes in a minute from this address.
    requests: Budget,
    /// What is under way at once.
    pool: Pool,
    files: Pool,
    /// How far the server's clock is ahead of ours, in seconds.
    ahead: AtomicI64,
}

/// An answer with a status that says it worked.
#[derive(Debug)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Rest {
    /// The REST side of the instance at `base`.
    pub fn new(http: reqwest::Client, base: BaseUrl) -> Self {
        Self {
            http,
            base,
            reach: Mutex::default(),
            requests: Budget::new(share(REQUESTS), WINDOW),
            pool: Pool::new(POOL),
            files: Pool::new(FILES),
            ahead: AtomicI64::new(0),
        }
    }

    /// How much of what the server takes in a minute is used.
    pub fn requests(&self) -> Use {
        self.requests.used()
    }

    /// How far the server's clock is ahead of ours, in seconds, to the second; behind
    /// is negative.
    pub fn ahead(&self) -> i64 {
        self.ahead.load(Ordering::Relaxed)
    }

    fn hear_the_time(&self, theirs: SystemTime) {
        let since_1970 = |time: SystemTime| {
            time.duration_since(SystemTime::UNIX_EPOCH)
                .ok()
                .and_then(|span| i64::try_from(span.as_secs()).ok())
        };
        if let (Some(theirs), Some(ours)) = (since_1970(theirs), since_1970(SystemTime::now())) {
            self.ahead.store(theirs - ours, Ordering::Relaxed);
        }
    }

    /// From now on `clients` share what the server takes in a minute.
    pub fn share_between(&self, clients: usize) {
        self.requests.share_between(clients);
    }

    /// When the server last answered.
    pub fn reach(&self) -> Reach {
        lock(&self.reach).clone()
    }

    /// Sends a request within the session and gives back the JSON object that
    /// answers it. `unauthorized` is told of every 401.
    ///
    /// # Errors
    ///
    /// [`RestError`].
    pub async fn json(
        &self,
        login: &Arc<Login>,
        request: &Request<'_>,
        expect: Expect,
        unauthorized: &(dyn Fn() + Sync),
    ) -> Result<Value, RestError> {
        let answer = self.authorized(login, request, unauthorized).await?;
        let reads = request.method == Method::GET;
        check(&answer.body, expect, reads).map_err(|reason| RestError::Invalid {
            status: answer.status.as_u16(),
            reason,
        })
    }

    /// Fetches the file that a [`Request::file`] asks for.
    ///
    /// # Errors
    ///
    /// [`RestError`].
    pub async fn fetch(
        &self,
        login: &Arc<Login>,
        request: &Request<'_>,
        unauthorized: &(dyn Fn() + Sync),
    ) -> Result<Fetched, RestError> {
        let answer = self.authorized(login, request, unauthorized).await?;
        if answer.status == StatusCode::NOT_MODIFIED {
            return Ok(Fetched::NotModified);
        }
        let header = |name| {
            answer
                .headers
                .get(name)
                .and_then(|value: &HeaderValue| value.to_str().ok())
        };
        let kind = header(CONTENT_TYPE).unwrap_or("application/octet-stream");
        let (mime, parameters) = kind.split_once(';').unwrap_or((kind, ""));
        Ok(Fetched::File {
            mime: mime.trim().to_ascii_lowercase(),
            charset: parameters.split(';').find_map(|parameter| {
                let (name, value) = parameter.trim().split_once('=')?;
                name.eq_ignore_ascii_case("charset")
                    .then(|| value.trim_matches('"').to_ascii_lowercase())
            }),
            etag: header(ETAG).map(ToOwned::to_owned),
            content: answer.body,
        })
    }

    /// `GET /health`, outside of any session: the answer's JSON object, or none
    /// when something else answered with success (a proxy's page, which CozyVTT
    /// up to 1.4 puts there).
    ///
    /// # Errors
    ///
    /// [`RestError::Http`] and [`RestError::Network`].
    pub async fn health(&self) -> Result<Option<Value>, RestError> {
        let answer = self.once(&Request::get(["health"])).await?;
        Ok(serde_json::from_slice(&answer.body)
            .ok()
            .filter(Value::is_object))
    }

    /// Whether what answers at the address is a CozyVTT (`GET /api/config`, outside of any
    /// session): proxies of instances up to 1.4 answer `/health` with a page.
    ///
    /// # Errors
    ///
    /// [`RestError::Http`] and [`RestError::Network`].
    pub async fn is_instance(&self) -> Result<bool, RestError> {
        let answer = match self.once(&Request::get(["api", "config"])).await {
            Err(RestError::Http { status: 404, .. }) => return Ok(false),
            answer => answer?,
        };
        let config = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
        Ok(config["uploadLimits"].is_object())
    }

    /// The JSON that answers a read with the cookies that there are, whatever they are
    /// worth: nobody signs in for it.
    ///
    /// # Errors
    ///
    /// [`RestError`].
    pub async fn glance(&self, request: &Request<'_>) -> Result<Value, RestError> {
        let answer = self.once(request).await?;
        Ok(serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    /// Whether the session is alive (`GET /api/auth/ping`).
    ///
    /// # Errors
    ///
    /// [`RestError`].
    pub async fn ping(&self, login: &Arc<Login>) -> Result<(), RestError> {
        ensure(login, &Patience::current()).await?;
        self.once(&Request::get(["api", "auth", "ping"]))
            .await
            .map(drop)
    }

    async fn authorized(
        &self,
        login: &Arc<Login>,
        request: &Request<'_>,
        unauthorized: &(dyn Fn() + Sync),
    ) -> Result<Answer, RestError> {
        let patience = Patience::current();
        let url = self.url(request)?;
        let mut session = ensure(login, &patience).await?;
        let mut renewed = false;
        let mut pauses = BACK_OFF.into_iter();
        loop {
            let place = self.place(request, &patience).await?;
            if login.session() != Some(session) {
                // It ended while this one waited, and another is on its way.
                drop(place);
                session = ensure(login, &patience).await?;
                continue;
            }
            if request.method != Method::GET {
                patience.leave().await?;
            }
            match self.exchange(request, url.clone(), place).await {
                Ok(Exchange::Answer(answer)) => {
                    if request.method != Method::GET {
                        patience.carry_on();
                    }
                    return Ok(answer);
                }
                Ok(Exchange::TooMany { asked, error }) => {
                    let Some(pause) = pauses.next() else {
                        return Err(error);
                    };
                    let pause = pause.max(asked.unwrap_or_default());
                    if pause > PATIENCE.min(patience.left()) {
                        return Err(error);
                    }
                    tracing::debug!(pause_s = pause.as_secs(), "too many requests; waiting");
                    patience.wait(sleep(pause)).await?;
                }
                Err(RestError::Http { status: 401, .. }) if !renewed => {
                    unauthorized();
                    let anew = patience.wait(login.renew(session)).await?;
                    session = anew.map_err(RestError::Relogin)?;
                    renewed = true;
                }
                Err(error) => {
                    if matches!(error, RestError::Http { status: 401, .. }) {
                        unauthorized();
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Waits until a request may be sent: for its turn in the minute, and for its
    /// place among those under way.
    async fn place(
        &self,
        request: &Request<'_>,
        patience: &Patience,
    ) -> Result<Place<'_>, RestError> {
        let turn = self.requests.take(patience.party(), patience.left());
        let turn = turn.map_err(RestError::Queue)?;
        patience
            .wait_for("its turn to ask the server", || turn.left(), turn.come())
            .await?;
        let pool = if request.is_file() {
            &self.files
        } else {
            &self.pool
        };
        let place = patience.wait(pool.take(patience.party())).await?;
        Ok(Place {
            turn,
            _place: place,
        })
    }

    /// The address of a request, with its query.
    fn url(&self, request: &Request<'_>) -> Result<Url, RestError> {
        let mut url = self.base.under(request.path.iter().copied());
        if !request.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&request.query);
        }
        match url.as_str().len() {
            0..=MAX_URL => Ok(url),
            length => Err(RestError::TooLong(length)),
        }
    }

    async fn once(&self, request: &Request<'_>) -> Result<Answer, RestError> {
        let url = self.url(request)?;
        let place = self.place(request, &Patience::current()).await?;
        match self.exchange(request, url, place).await? {
            Exchange::Answer(answer) => Ok(answer),
            Exchange::TooMany { error, .. } => Err(error),
        }
    }

    async fn exchange(
        &self,
        request: &Request<'_>,
        url: Url,
        place: Place<'_>,
    ) -> Result<Exchange, RestError> {
        let Place { turn, _place } = place;
        turn.spend();
        let path = url.path().to_owned();
        let fetched = matches!(request.wants, Wants::File(_));
        let file = request.is_file();
        let mut builder = self
            .http
            .request(request.method.clone(), url)
            .timeout(if file { FILE_TIMEOUT } else { TIMEOUT });
        if let Wants::File(Some(etag)) = &request.wants {
            builder = builder.header(IF_NONE_MATCH, etag);
        }
        builder = match &request.body {
            Body::None => builder,
            Body::Json(body) => builder.json(body),
            Body::Upload(upload) => builder.multipart(form(upload, &Patience::current())),
        };
        let failed = |cause: String, sent: bool| {
            self.note(Err(&cause));
            RestError::Network {
                method: request.method.clone(),
                path: path.clone(),
                cause,
                outcome: if sent && request.method != Method::GET {
                    "; the outcome of this write is unknown: look before repeating it"
                } else {
                    ""
                },
            }
        };
        let response = builder
            .send()
            .await
            .map_err(|error| failed(network_cause(&error), !error.is_connect()))?;
        let status = response.status();
        let headers = response.headers().clone();
        let limit = if file { MAX_FILE } else { http::MAX_BODY };
        let patience = Patience::current();
        let of = response.content_length();
        let heard = |done: usize| {
            if fetched {
                let done = done as u64;
                let what = "fetching";
                patience.moved(Transfer { what, done, of });
            }
        };
        let body = http::body_telling(response, limit, heard)
            .await
            .map_err(|cause| failed(cause, true))?;
        self.note(Ok(()));
        if let Some(now) = date_of(&headers) {
            self.hear_the_time(now);
        }
        // Writes, and other routes, may be counted by limits of their own.
        if request.method == Method::GET
            && request.path.starts_with(&["api", "campaigns"])
            && let Some(limit) = limit_of(&headers)
        {
            self.requests.resize(share(limit));
        }
        if status.is_success() || (status == StatusCode::NOT_MODIFIED && fetched) {
            return Ok(Exchange::Answer(Answer {
                status,
                headers,
                body,
            }));
        }
        let json = serde_json::from_slice::<Value>(&body).ok();
        let error = RestError::Http {
            status: status.as_u16(),
            message: http::message(json.as_ref(), &body, status),
            body: json,
        };
        if status == StatusCode::TOO_MANY_REQUESTS {
            let asked = login::retry_after(&headers, SystemTime::now());
            Ok(Exchange::TooMany { asked, error })
        } else {
            Err(error)
        }
    }

    fn note(&self, outcome: Result<(), &str>) {
        let mut reach = lock(&self.reach);
        match outcome {
            Ok(()) => {
                reach.answered = Some(Instant::now());
                reach.failed = None;
            }
            Err(cause) => reach.failed = Some(cause.to_owned()),
        }
    }
}

async fn ensure(login: &Arc<Login>, patience: &Patience) -> Result<u64, RestError> {
    let session = patience.wait(login.ensure()).await?;
    session.map_err(RestError::NotSignedIn)
}

/// The right to send one request.
struct Place<'a> {
    turn: Slot<'a>,
    _place: pool::Place,
}

/// What came back.
enum Exchange {
    Answer(Answer),
    /// "Too many requests": it was not processed.
    TooMany {
        /// `Retry-After`.
        asked: Option<Duration>,
        error: RestError,
    },
}
