//! Requests to CozyVTT's REST routes: one rule each for a session that ended,
//! for "too many requests", and for answers that are none.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use reqwest::{Method, StatusCode};
use serde_json::Value;
use thiserror::Error;
use tokio::time::Instant;

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

/// One request.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// GET, POST, PUT or DELETE.
    pub method: Method,
    /// The path's segments under the instance's address.
    pub path: Vec<&'a str>,
    /// Query parameters.
    pub query: Vec<(&'static str, String)>,
    /// A JSON body.
    pub body: Option<Value>,
}

impl<'a> Request<'a> {
    /// A read.
    pub fn get(path: impl Into<Vec<&'a str>>) -> Self {
        Self {
            method: Method::GET,
            path: path.into(),
            query: Vec::new(),
            body: None,
        }
    }

    /// Adds a query parameter.
    #[must_use]
    pub fn query(mut self, key: &'static str, value: impl ToString) -> Self {
        self.query.push((key, value.to_string()));
        self
    }
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
    /// answers it, which holds `key`. `unauthorized` is told of every 401.
    ///
    /// # Errors
    ///
    /// [`RestError`].
    pub async fn json(
        &self,
        login: &Arc<Login>,
        request: &Request<'_>,
        key: &str,
        unauthorized: &(dyn Fn() + Sync),
    ) -> Result<Value, RestError> {
        let answer = self.authorized(login, request, unauthorized).await?;
        let invalid = |reason: String| RestError::Invalid {
            status: answer.status.as_u16(),
            reason,
        };
        let body: Value = serde_json::from_slice(&answer.body)
            .map_err(|_| invalid("the body is not valid JSON".to_owned()))?;
        match body.get(key) {
            Some(Value::Object(_) | Value::Array(_)) => Ok(body),
            _ => Err(invalid(format!("the body has no {key:?}"))),
        }
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
        let mut builder = self
            .http
            .request(request.method.clone(), url)
            .timeout(TIMEOUT);
        if !request.query.is_empty() {
            builder = builder.query(&request.query);
        }
        if let Some(body) = &request.body {
            builder = builder.json(body);
        }
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
        let asked = login::retry_after(response.headers(), SystemTime::now());
        let body = http::body(response, http::MAX_BODY)
            .await
            .map_err(|cause| failed(cause, true))?;
        self.note(Ok(()));
        if status.is_success() {
            return Ok(Exchange::Answer(Answer { status, body }));
        }
        let json = serde_json::from_slice::<Value>(&body).ok();
        let error = RestError::Http {
            status: status.as_u16(),
            message: http::message(json.as_ref(), &body, status),
            body: json,
        };
        if status == StatusCode::TOO_MANY_REQUESTS {
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
