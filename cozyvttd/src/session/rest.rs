//! Requests to CozyVTT's REST routes: one rule each for a session that ended,
//! for "too many requests", and for answers that are none.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};
use reqwest::multipart::{Form, Part};
use reqwest::{Method, StatusCode};
use serde_json::Value;
use thiserror::Error;
use tokio::time::Instant;

use super::facts::Feature;
use super::http::{self, network_cause};
use super::login::{self, Login, LoginError};
use crate::config::BaseUrl;

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The pauses before a request that met "too many requests" is sent again;
/// such an answer means that it was not processed.
const BACK_OFF: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

/// Longest `Retry-After` that a caller is kept waiting for.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long one file may take to be sent or fetched.
const FILE_TIMEOUT: Duration = Duration::from_secs(120);

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
        }
    }

    /// When the server last answered.
    pub fn reach(&self) -> Reach {
        self.reach
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
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

    /// Whether the session is alive (`GET /api/auth/ping`).
    ///
    /// # Errors
    ///
    /// [`RestError`].
    pub async fn ping(&self, login: &Arc<Login>) -> Result<(), RestError> {
        login.ensure().await.map_err(RestError::NotSignedIn)?;
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
        let mut session = login.ensure().await.map_err(RestError::NotSignedIn)?;
        let mut renewed = false;
        loop {
            match self.patient(request).await {
                Err(RestError::Http { status: 401, .. }) if !renewed => {
                    unauthorized();
                    session = login.renew(session).await.map_err(RestError::Relogin)?;
                    renewed = true;
                }
                Err(error) => {
                    if matches!(error, RestError::Http { status: 401, .. }) {
                        unauthorized();
                    }
                    return Err(error);
                }
                Ok(answer) => return Ok(answer),
            }
        }
    }

    /// Sends a request, and again after a pause when there were too many.
    async fn patient(&self, request: &Request<'_>) -> Result<Answer, RestError> {
        for pause in BACK_OFF {
            match self.exchange(request).await? {
                Exchange::Answer(answer) => return Ok(answer),
                Exchange::TooMany { asked, error } => {
                    let pause = pause.max(asked.unwrap_or_default());
                    if pause > PATIENCE {
                        return Err(error);
                    }
                    tracing::debug!(pause_s = pause.as_secs(), "too many requests; waiting");
                    tokio::time::sleep(pause).await;
                }
            }
        }
        self.once(request).await
    }

    async fn once(&self, request: &Request<'_>) -> Result<Answer, RestError> {
        match self.exchange(request).await? {
            Exchange::Answer(answer) => Ok(answer),
            Exchange::TooMany { error, .. } => Err(error),
        }
    }

    async fn exchange(&self, request: &Request<'_>) -> Result<Exchange, RestError> {
        let url = self.base.under(request.path.iter().copied());
        let path = url.path().to_owned();
        // Files are larger and slower than anything else.
        let fetched = matches!(request.wants, Wants::File(_));
        let file = fetched || matches!(request.body, Body::Upload(_));
        let mut builder = self
            .http
            .request(request.method.clone(), url)
            .timeout(if file { FILE_TIMEOUT } else { TIMEOUT });
        if !request.query.is_empty() {
            builder = builder.query(&request.query);
        }
        if let Wants::File(Some(etag)) = &request.wants {
            builder = builder.header(IF_NONE_MATCH, etag);
        }
        builder = match &request.body {
            Body::None => builder,
            Body::Json(body) => builder.json(body),
            Body::Upload(upload) => builder.multipart(form(upload)),
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
        let body = http::body(response, limit)
            .await
            .map_err(|cause| failed(cause, true))?;
        self.note(Ok(()));
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
        let mut reach = self
            .reach
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match outcome {
            Ok(()) => {
                reach.answered = Some(Instant::now());
                reach.failed = None;
            }
            Err(cause) => reach.failed = Some(cause.to_owned()),
        }
    }
}

fn form(upload: &Upload) -> Form {
    let form = upload
        .fields
        .iter()
        .fold(Form::new(), |form, (name, value)| {
            form.text(*name, value.clone())
        });
    let size = upload.content.len() as u64;
    let file =
        Part::stream_with_length(upload.content.clone(), size).file_name(upload.file_name.clone());
    // A constant of ours, so this cannot fail.
    match file.mime_str(upload.mime) {
        Ok(file) => form.part("file", file),
        Err(_) => form,
    }
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
