//! Requests to CozyVTT's REST routes: one rule each for a session that ended,
//! for "too many requests", and for answers that are none.

use std::convert::Infallible;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::{Stream, stream};
use reqwest::header::{CONTENT_TYPE, DATE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};
use reqwest::multipart::{Form, Part};
use reqwest::{Method, StatusCode};
use serde_json::Value;
use thiserror::Error;
use tokio::time::{Instant, sleep};
use url::Url;

use super::budget::{Budget, QueueFull, Slot, Use};
use super::features::Feature;
use super::http::{self, network_cause};
use super::login::{self, Login, LoginError};
use super::patience::{Impatience, Patience, Transfer};
use super::pool::{self, Pool};
use crate::config::BaseUrl;
use crate::lock::lock;

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

/// Longest address of a request, in bytes: common proxies take no longer line.
const MAX_URL: usize = 8000;

/// Longest `Retry-After` that a caller is kept waiting for.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long one file may take to be sent or fetched.
const FILE_TIMEOUT: Duration = Duration::from_secs(120);

/// A file leaves in pieces of so many bytes.
const PIECE: usize = 64 * 1024;

/// Largest file that is fetched, in bytes: above CozyVTT's own limit of 50 MiB.
pub const MAX_FILE: usize = 64 * 1024 * 1024;

/// CozyVTT's words for a route that this version of it does not have.
pub const ROUTE_MISSING: &str = "The requested resource does not exist";

/// One request.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// GET, POST, PUT or DELETE.
    pub method: Method,
    /// The path's segments under the instance's address.
    pub path: Vec<&'a str>,
    /// Query parameters.
    pub query: Vec<(&'static str, String)>,
    /// What goes along.
    pub body: Body,
    /// What is to come back.
    pub wants: Wants,
    /// What the answer to it shows of the server.
    pub proves: Option<Feature>,
}

/// What goes along with a request.
#[derive(Debug, Clone)]
pub enum Body {
    /// Nothing.
    None,
    /// A JSON object.
    Json(Value),
    /// A file with fields, as a form.
    Upload(Upload),
}

/// What is to come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wants {
    /// A JSON object.
    Json,
    /// A file, unless it is still the one with this `ETag`.
    File(Option<String>),
}

/// A file with fields.
#[derive(Debug, Clone)]
pub struct Upload {
    /// The fields, in the order in which they are sent: before the file, since the
    /// server's error texts depend on it.
    pub fields: Vec<(&'static str, String)>,
    /// The file's name.
    pub file_name: String,
    /// Its MIME type.
    pub mime: &'static str,
    /// Its content.
    pub content: Bytes,
}

impl<'a> Request<'a> {
    fn new(method: Method, path: impl Into<Vec<&'a str>>, body: Body) -> Self {
        Self {
            method,
            path: path.into(),
            query: Vec::new(),
            body,
            wants: Wants::Json,
            proves: None,
        }
    }

    /// A read.
    pub fn get(path: impl Into<Vec<&'a str>>) -> Self {
        Self::new(Method::GET, path, Body::None)
    }

    /// A file that is fetched, unless it is still the one with this `ETag`.
    pub fn file(path: impl Into<Vec<&'a str>>, etag: Option<String>) -> Self {
        Self {
            wants: Wants::File(etag),
            ..Self::get(path)
        }
    }

    /// An addition.
    pub fn post(path: impl Into<Vec<&'a str>>, body: Value) -> Self {
        Self::new(Method::POST, path, Body::Json(body))
    }

    /// A change.
    pub fn put(path: impl Into<Vec<&'a str>>, body: Value) -> Self {
        Self::new(Method::PUT, path, Body::Json(body))
    }

    /// A removal.
    pub fn delete(path: impl Into<Vec<&'a str>>) -> Self {
        Self::new(Method::DELETE, path, Body::None)
    }

    /// A file that is sent.
    pub fn upload(path: impl Into<Vec<&'a str>>, upload: Upload) -> Self {
        Self::new(Method::POST, path, Body::Upload(upload))
    }

    /// Whether a file goes one way or the other: larger and slower than anything else.
    fn is_file(&self) -> bool {
        matches!(self.wants, Wants::File(_)) || matches!(self.body, Body::Upload(_))
    }

    /// Adds a query parameter.
    #[must_use]
    pub fn query(mut self, key: &'static str, value: impl ToString) -> Self {
        self.query.push((key, value.to_string()));
        self
    }

    /// Says what the answer shows of the server: a success that it has `feature`,
    /// the words of a missing route that it has not.
    #[must_use]
    pub fn proves(mut self, feature: Feature) -> Self {
        self.proves = Some(feature);
        self
    }
}

/// What an answer that says it worked has to look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// A JSON object with what is named: an array when the name is a plural or
    /// `roster`, else an object.
    Has(&'static str),
    /// A JSON object with a sentence `message`; none at all will do.
    Message,
    /// A JSON object; none at all will do for a write.
    Object,
}

/// A file, or the word that it has not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// It has not changed since the given `ETag`.
    NotModified,
    /// The file.
    File {
        /// The MIME type, in lower case and without parameters.
        mime: String,
        /// The charset, when one was given.
        charset: Option<String>,
        /// The `ETag`, as it came.
        etag: Option<String>,
        /// The content.
        content: Vec<u8>,
    },
}

/// Why a request got no usable answer.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum RestError {
    /// There is no session; this request was not sent.
    #[error("not signed in, so nothing was sent: {0}")]
    NotSignedIn(LoginError),
    /// It waited in vain; it was not sent, or the server did not process it.
    #[error(transparent)]
    Ended(#[from] Impatience),
    /// What was asked for does not fit into an address; nothing was sent.
    #[error(
        "this request's address would be {0} bytes long, and servers take {MAX_URL} at most: shorten \
         the longest argument; nothing was sent"
    )]
    TooLong(usize),
    /// Too many requests are waiting for their turn; this one was not sent.
    #[error("REST {0}")]
    Queue(QueueFull),
    /// The session ended and could not be renewed.
    #[error("HTTP 401: Re-login failed: {0}")]
    Relogin(LoginError),
    /// The server answered with an error.
    #[error("HTTP {status}: {message}")]
    Http {
        /// The status.
        status: u16,
        /// The server's words.
        message: String,
        /// The whole body, when it is JSON.
        body: Option<Value>,
    },
    /// The answer says that it worked and is not what it should be.
    #[error(
        "INVALID_RESPONSE: HTTP {status}, but {reason}; if this was a write, its outcome is unknown: \
         look before repeating it"
    )]
    Invalid {
        /// The status.
        status: u16,
        /// What is wrong with it.
        reason: String,
    },
    /// No answer came.
    #[error("{method} {path} network error: {cause}{outcome}")]
    Network {
        /// The method.
        method: Method,
        /// The path, without its query.
        path: String,
        /// What happened.
        cause: String,
        /// What is to be said of a write whose answer got lost.
        outcome: &'static str,
    },
}

impl RestError {
    /// Whether a write that was answered so may still happen: the answer got lost, is
    /// none, or came from a proxy that waits no longer.
    pub fn may_still_happen(&self) -> bool {
        match self {
            Self::Network { outcome, .. } => !outcome.is_empty(),
            Self::Invalid { .. } => true,
            Self::Http { status, .. } => matches!(status, 502..=504),
            Self::NotSignedIn(_)
            | Self::Relogin(_)
            | Self::Queue(_)
            | Self::TooLong(_)
            | Self::Ended(_) => false,
        }
    }
}

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

fn form(upload: &Upload, patience: &Patience) -> Form {
    let form = upload
        .fields
        .iter()
        .fold(Form::new(), |form, (name, value)| {
            form.text(*name, value.clone())
        });
    let size = upload.content.len() as u64;
    let content = reqwest::Body::wrap_stream(told(&upload.content, patience.clone()));
    let file = Part::stream_with_length(content, size).file_name(upload.file_name.clone());
    // A constant of ours, so this cannot fail.
    match file.mime_str(upload.mime) {
        Ok(file) => form.part("file", file),
        Err(_) => form,
    }
}

/// The content in pieces, each told when it leaves.
fn told(
    content: &Bytes,
    patience: Patience,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static {
    let content = content.clone();
    let of = Some(content.len() as u64);
    let pieces = (0..content.len()).step_by(PIECE);
    stream::iter(pieces.map(move |start| {
        let end = content.len().min(start + PIECE);
        patience.moved(Transfer {
            what: "uploading",
            done: end as u64,
            of,
        });
        Ok(content.slice(start..end))
    }))
}

/// What is ours of a limit: the person at the browser shares the address.
fn share(limit: usize) -> usize {
    limit - limit / 10
}

/// The server's time of day.
fn date_of(headers: &HeaderMap) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()
}

/// The limit that an answer tells, when it is one per minute.
fn limit_of(headers: &HeaderMap) -> Option<usize> {
    let number = |name| headers.get(name)?.to_str().ok()?.trim().parse().ok();
    let policy = headers.get("ratelimit-policy")?.to_str().ok()?;
    let per_minute = policy
        .split(';')
        .any(|part| part.trim() == format!("w={}", WINDOW.as_secs()));
    per_minute.then(|| number("ratelimit-limit"))?
}

/// The object in a body, if it is what was expected; else what is wrong with it.
fn check(body: &[u8], expect: Expect, reads: bool) -> Result<Value, String> {
    if body.trim_ascii().is_empty() && !reads && !matches!(expect, Expect::Has(_)) {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let body: Value =
        serde_json::from_slice(body).map_err(|_| "the body is not valid JSON".to_owned())?;
    if !body.is_object() {
        return Err("the body is no JSON object".to_owned());
    }
    let fits = match expect {
        Expect::Object => true,
        // Lists are named in the plural, objects in the singular.
        Expect::Has(key) if is_list(key) => body.get(key).is_some_and(Value::is_array),
        Expect::Has(key) => body.get(key).is_some_and(Value::is_object),
        Expect::Message => matches!(body.get("message"), Some(Value::String(_))),
    };
    match expect {
        _ if fits => Ok(body),
        Expect::Has(key) => Err(format!("the body has no {key:?}")),
        Expect::Message | Expect::Object => Err("the body has no \"message\"".to_owned()),
    }
}

fn is_list(key: &str) -> bool {
    key.ends_with('s') || key == "roster"
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_servers_own_limit_is_believed_when_it_is_one_per_minute() {
        let answer = |policy: &'static str, limit: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("ratelimit-policy", HeaderValue::from_static(policy));
            headers.insert("ratelimit-limit", HeaderValue::from_static(limit));
            limit_of(&headers)
        };
        assert_eq!(answer("300;w=60", "300"), Some(300));
        assert_eq!(answer("5;w=900", "5"), None);
        assert_eq!(answer("300;w=60", "many"), None);
        assert_eq!(limit_of(&HeaderMap::new()), None);
        assert_eq!((share(300), share(5), share(1)), (270, 5, 1));
    }

    #[test]
    fn an_empty_body_will_do_for_a_write_and_not_for_a_read() {
        assert_eq!(check(b"", Expect::Object, false), Ok(json!({})));
        assert_eq!(check(b" ", Expect::Message, false), Ok(json!({})));
        assert!(check(b"", Expect::Object, true).is_err());
        assert!(check(b"", Expect::Has("token"), false).is_err());
    }

    #[test]
    fn an_answer_has_to_be_an_object_with_what_was_asked_for() {
        for body in ["<html>", "[1]", "5", "{\"maps\":5}", "{\"maps\":{}}", "{}"] {
            assert!(
                check(body.as_bytes(), Expect::Has("maps"), true).is_err(),
                "{body}"
            );
        }
        assert!(check(br#"{"maps":[]}"#, Expect::Has("maps"), true).is_ok());
        assert!(check(br#"{"character":[]}"#, Expect::Has("character"), true).is_err());
        assert!(check(br#"{"character":{}}"#, Expect::Has("character"), true).is_ok());
        assert!(check(br#"{"message":"done"}"#, Expect::Message, false).is_ok());
        assert!(check(br#"{"message":5}"#, Expect::Message, false).is_err());
    }
}
