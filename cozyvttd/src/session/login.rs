//! The one login: a state machine that alone may send the password.
//!
//! CozyVTT locks an address out for 15 minutes after five attempts, so
//! attempts are spaced, a rejected password is never sent again, and however
//! many callers need a session at once, one request leaves the machine.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::http::{self, network_cause};
use crate::config::Settings;

/// Least time between two requests that carry the password.
const SPACING: Duration = Duration::from_secs(180);

/// How long to stay away after "too many attempts" without a time given: the
/// length of CozyVTT's own window.
const LOCKOUT: Duration = Duration::from_secs(15 * 60);

/// Longest wait that is believed.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// How long one attempt may take.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Where the login stands.
#[derive(Debug, Clone, PartialEq)]
pub enum LoginState {
    /// Nothing was tried yet, or the server could not be reached at all.
    SignedOut {
        /// Why the last try did not even reach the server.
        why: Option<String>,
    },
    /// The password is on its way.
    SigningIn,
    /// There is a session.
    SignedIn {
        /// Counts the sessions of this run, so that a caller can say which one
        /// was refused.
        session: u64,
        /// The account, as the login answered it.
        user: Value,
    },
    /// Not before `until`.
    CoolingDown {
        /// When the password may be sent again.
        until: Instant,
        /// What happened.
        why: String,
    },
    /// Not again with these credentials.
    Blocked {
        /// What happened, and what mends it.
        why: String,
    },
}

/// Why there is no session.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LoginError {
    /// The server could not be reached; no password was sent.
    #[error("{0}")]
    Unreachable(String),
    /// Not yet.
    #[error("Login cooldown; retry in {retry_in_s:.1}s: {why}")]
    CoolingDown {
        /// Seconds until the password may be sent again.
        retry_in_s: Tenths,
        /// What happened.
        why: String,
    },
    /// Not again with these credentials.
    #[error("{0}")]
    Blocked(String),
}

/// Seconds, to one decimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tenths(u64);

impl std::fmt::Display for Tenths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0 / 10, self.0 % 10)
    }
}

impl From<Duration> for Tenths {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_millis() / 100).unwrap_or(u64::MAX))
    }
}

/// The login of one account at one instance.
#[derive(Debug)]
pub struct Login {
    settings: Settings,
    http: reqwest::Client,
    state: watch::Sender<LoginState>,
    /// Held by whoever signs in; the others wait and find the outcome.
    turn: Mutex<Turn>,
}

#[derive(Debug, Default)]
struct Turn {
    sessions: u64,
    /// When the password last left.
    sent: Option<Instant>,
}

impl Login {
    /// A login that has not been tried yet.
    pub fn new(settings: Settings, http: reqwest::Client) -> Self {
        Self {
            settings,
            http,
            state: watch::Sender::new(LoginState::SignedOut { why: None }),
            turn: Mutex::new(Turn::default()),
        }
    }

    /// Where it stands now, and from now on.
    pub fn watch(&self) -> watch::Receiver<LoginState> {
        self.state.subscribe()
    }

    /// The number of the session, when there is one.
    pub fn session(&self) -> Option<u64> {
        match *self.state.borrow() {
            LoginState::SignedIn { session, .. } => Some(session),
            _ => None,
        }
    }

    /// The account that is signed in.
    pub fn user(&self) -> Option<Value> {
        match &*self.state.borrow() {
            LoginState::SignedIn { user, .. } => Some(user.clone()),
            _ => None,
        }
    }

    /// The number of the session, signing in when there is none.
    ///
    /// # Errors
    ///
    /// [`LoginError`].
    pub async fn ensure(self: &Arc<Self>) -> Result<u64, LoginError> {
        // Without taking the turn: most calls end here.
        match self.session() {
            Some(session) => Ok(session),
            None => self.in_turn(None).await,
        }
    }

    /// A session in place of `refused`, which the server no longer accepts.
    /// When another caller has renewed it already, or the password was sent less
    /// than 180 s ago, the present session is given back untouched.
    ///
    /// # Errors
    ///
    /// [`LoginError`].
    pub async fn renew(self: &Arc<Self>, refused: u64) -> Result<u64, LoginError> {
        self.in_turn(Some(refused)).await
    }

    /// Signs in when it is this caller's turn, in a task of its own: a caller that
    /// gives up must not cut a login off that others wait for.
    async fn in_turn(self: &Arc<Self>, refused: Option<u64>) -> Result<u64, LoginError> {
        let login = Arc::clone(self);
        let attempt = tokio::spawn(async move {
            let mut turn = login.turn.lock().await;
            login.discard(refused, &turn);
            login.settle(&mut turn).await
        });
        attempt.await.unwrap_or_else(|error| {
            let why = format!("signing in was cut off inside cozyvttd: {error}");
            self.state.send_replace(LoginState::CoolingDown {
                until: Instant::now() + SPACING,
                why: why.clone(),
            });
            Err(LoginError::CoolingDown {
                retry_in_s: SPACING.into(),
                why,
            })
        })
    }

    /// Forgets the session that the server has refused, unless another one is in
    /// place already or the password was sent only just now.
    fn discard(&self, refused: Option<u64>, turn: &Turn) {
        self.state.send_if_modified(|state| {
            let LoginState::SignedIn { session, .. } = state else {
                return false;
            };
            let stale = Some(*session) == refused && !turn.is_recent();
            if stale {
                tracing::info!("the server no longer accepts the session; signing in again");
                *state = LoginState::SignedOut { why: None };
            }
            stale
        });
    }

    async fn settle(&self, turn: &mut Turn) -> Result<u64, LoginError> {
        let state = self.state.borrow().clone();
        match state {
            LoginState::SignedIn { session, .. } => return Ok(session),
            LoginState::Blocked { why } => return Err(LoginError::Blocked(why)),
            LoginState::CoolingDown { until, why } => {
                let left = until.saturating_duration_since(Instant::now());
                if !left.is_zero() {
                    return Err(LoginError::CoolingDown {
                        retry_in_s: left.into(),
                        why,
                    });
                }
            }
            LoginState::SignedOut { .. } | LoginState::SigningIn => {
                // Whatever became of it, a password that has left has been counted.
                if let Some(left) = turn.left() {
                    return Err(LoginError::CoolingDown {
                        retry_in_s: left.into(),
                        why: "the last attempt did not come to an end".to_owned(),
                    });
                }
            }
        }
        self.state.send_replace(LoginState::SigningIn);
        let outcome = self.attempt(turn).await;
        let (state, result) = match outcome {
            Outcome::In(user) => {
                turn.sessions += 1;
                let session = turn.sessions;
                tracing::info!(session, "signed in");
                (LoginState::SignedIn { session, user }, Ok(session))
            }
            Outcome::Unreachable(why) => {
                tracing::warn!(%why, "the server could not be reached to sign in");
                let state = LoginState::SignedOut {
                    why: Some(why.clone()),
                };
                (state, Err(LoginError::Unreachable(why)))
            }
            Outcome::Wait(pause, why) => {
                tracing::warn!(pause_s = pause.as_secs(), %why, "signing in failed; cooling down");
                let state = LoginState::CoolingDown {
                    until: Instant::now() + pause,
                    why: why.clone(),
                };
                let error = LoginError::CoolingDown {
                    retry_in_s: pause.into(),
                    why,
                };
                (state, Err(error))
            }
            Outcome::Never(why) => {
                tracing::error!(%why, "signing in was refused for good");
                (
                    LoginState::Blocked { why: why.clone() },
                    Err(LoginError::Blocked(why)),
                )
            }
        };
        self.state.send_replace(state);
        result
    }

    async fn attempt(&self, turn: &mut Turn) -> Outcome {
        let before = turn.sent.replace(Instant::now());
        let request = self
            .http
            .post(self.settings.url.under(["api", "auth", "login"]))
            .timeout(TIMEOUT)
            .json(&json!({
                "email": self.settings.email,
                "password": self.settings.password.expose_secret(),
                "rememberMe": true,
            }));
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => {
                let why = format!("Login request network error: {}", network_cause(&error));
                // Without a connection nothing was sent, so nothing was spent.
                if error.is_connect() {
                    turn.sent = before;
                    return Outcome::Unreachable(why);
                }
                return Outcome::Wait(SPACING, why);
            }
        };
        let status = response.status();
        if status.is_redirection() {
            return Outcome::Wait(SPACING, redirected(&response));
        }
        let wait = retry_after(response.headers(), SystemTime::now());
        match http::body(response, http::MAX_BODY).await {
            Ok(body) => judge(status, wait, &body),
            Err(cause) => Outcome::Wait(
                SPACING.max(wait.unwrap_or_default()),
                format!("Login request network error: {cause}"),
            ),
        }
    }
}

impl Turn {
    /// How long until the password may leave again.
    fn left(&self) -> Option<Duration> {
        let left = SPACING.checked_sub(self.sent?.elapsed())?;
        (!left.is_zero()).then_some(left)
    }

    /// The password left only just now.
    fn is_recent(&self) -> bool {
        self.left().is_some()
    }
}

/// What an attempt came to.
#[derive(Debug, PartialEq)]
enum Outcome {
    In(Value),
    Unreachable(String),
    Wait(Duration, String),
    Never(String),
}

/// What to say of a login that is sent elsewhere; the password does not follow.
fn redirected(response: &reqwest::Response) -> String {
    let target = response
        .headers()
        .get(LOCATION)
        .and_then(|location| location.to_str().ok())
        .and_then(|location| response.url().join(location).ok())
        .map_or_else(
            || "somewhere else".to_owned(),
            |url| url.origin().ascii_serialization(),
        );
    format!(
        "Login failed HTTP {}: the server redirects to {target}; if that is the table, put its address \
         into the configuration (url) and restart cozyvttd",
        response.status().as_u16()
    )
}

fn judge(status: StatusCode, wait: Option<Duration>, body: &[u8]) -> Outcome {
    let json: Option<Value> = serde_json::from_slice(body).ok();
    let message = if body.trim_ascii_start().starts_with(b"<") {
        "an HTML page".to_owned()
    } else {
        http::message(json.as_ref(), body, status)
    };
    let pause = SPACING.max(wait.unwrap_or_default());
    // A proxy in front may answer 401 or 403 as well; only CozyVTT's own body
    // is a verdict on the account.
    let own = json
        .as_ref()
        .is_some_and(|body| body.get("error").is_some_and(Value::is_string));
    match status {
        StatusCode::OK => match json {
            Some(body) if body.get("mfaRequired") == Some(&Value::Bool(true)) => Outcome::Never(
                "The account asks for a second factor, which cozyvttd cannot answer; use an account without it."
                    .to_owned(),
            ),
            // Signed in, but every other route and the WebSocket stay closed.
            Some(body) if body.get("mustChangePassword") == Some(&Value::Bool(true)) => Outcome::Never(
                "The account has to change its password before it may do anything else. Change it in CozyVTT's \
                 web page, then put the new one into the configuration and restart cozyvttd."
                    .to_owned(),
            ),
            Some(mut body) => match body.get_mut("user").map(Value::take) {
                Some(user @ Value::Object(_)) => Outcome::In(user),
                _ => Outcome::Wait(pause, "Login response is missing the user object".to_owned()),
            },
            None => Outcome::Wait(pause, "Login response is not valid JSON".to_owned()),
        },
        StatusCode::UNAUTHORIZED if own => Outcome::Never(format!(
            "Login rejected (HTTP 401): {message}. Correct the configured credentials and restart \
             cozyvttd; no further password attempts will be made."
        )),
        StatusCode::UNAUTHORIZED => Outcome::Wait(
            pause,
            "Login failed HTTP 401, answered by something in front of CozyVTT (a proxy?), so the \
             password was not judged"
                .to_owned(),
        ),
        StatusCode::FORBIDDEN if own => Outcome::Never(format!(
            "Login failed HTTP 403: {message}. Settle this in CozyVTT's web page, then restart cozyvttd."
        )),
        StatusCode::TOO_MANY_REQUESTS => Outcome::Wait(
            SPACING.max(wait.unwrap_or(LOCKOUT)),
            format!("Login rate limited (429): {message}"),
        ),
        _ => Outcome::Wait(pause, format!("Login failed HTTP {}: {message}", status.as_u16())),
    }
}

/// The wait that `Retry-After` asks for, in seconds or as a date; past or
/// unreadable ones count as none.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let asked = text.parse().map(Duration::from_secs).ok().or_else(|| {
        httpdate::parse_http_date(text)
            .ok()?
            .duration_since(now)
            .ok()
    });
    // A server that asks for more does not mean it.
    asked.map(|wait| wait.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    const OWN_401: &[u8] =
        br#"{"error":"Authentication Failed","message":"Invalid email or password"}"#;

    #[test]
    fn a_login_rejected_by_cozyvtt_is_final_and_one_rejected_by_a_proxy_is_not() {
        let Outcome::Never(why) = judge(StatusCode::UNAUTHORIZED, None, OWN_401) else {
            panic!("not final");
        };
        assert!(why.starts_with("Login rejected (HTTP 401): Invalid email or password."));
        let html = judge(StatusCode::UNAUTHORIZED, None, b"<html>401</html>");
        assert!(matches!(html, Outcome::Wait(SPACING, _)));
    }

    #[test]
    fn the_longer_of_the_spacing_and_retry_after_holds() {
        let wait = |seconds| match judge(
            StatusCode::SERVICE_UNAVAILABLE,
            Some(Duration::from_secs(seconds)),
            b"",
        ) {
            Outcome::Wait(pause, _) => pause.as_secs(),
            other => panic!("{other:?}"),
        };
        assert_eq!((wait(5), wait(900)), (180, 900));
    }

    #[test]
    fn too_many_attempts_without_a_time_wait_for_the_whole_window() {
        let outcome = judge(StatusCode::TOO_MANY_REQUESTS, None, b"Too many");
        assert!(matches!(outcome, Outcome::Wait(LOCKOUT, why) if why.contains("429")));
    }

    #[test]
    fn an_answer_that_is_no_login_cools_down() {
        for body in [&b"<html>"[..], b"{}", br#"{"user":5}"#] {
            assert!(matches!(
                judge(StatusCode::OK, None, body),
                Outcome::Wait(..)
            ));
        }
        let mfa = judge(StatusCode::OK, None, br#"{"mfaRequired":true}"#);
        assert!(matches!(mfa, Outcome::Never(_)));
        let flagged = judge(
            StatusCode::OK,
            None,
            br#"{"user":{},"mustChangePassword":true}"#,
        );
        assert!(matches!(flagged, Outcome::Never(why) if why.contains("change its password")));
    }

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        let now = httpdate::parse_http_date("Mon, 30 Nov 2026 12:00:00 GMT").unwrap();
        let read = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_static(text));
            retry_after(&headers, now).map(|wait| wait.as_secs())
        };
        assert_eq!(read("812"), Some(812));
        assert_eq!(read("Mon, 30 Nov 2026 12:05:00 GMT"), Some(300));
        assert_eq!(read("Mon, 30 Nov 2026 11:00:00 GMT"), None);
        assert_eq!(read("soon"), None);
        assert_eq!(read("18446744073709551615"), Some(24 * 3600));
    }
}
