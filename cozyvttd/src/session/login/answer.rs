//! What CozyVTT's answers to a sign-in mean. Only its own words are a verdict on the
//! account; a proxy in front may answer as well.

use std::time::{Duration, SystemTime};

use cozyvtt_proto::control::LoginReason;
use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use serde_json::Value;

use super::super::http;
use super::tally::RateLimit;
use super::{LOCKOUT, LONGEST, SPACING};

/// What an attempt came to.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    /// There is a session.
    In(Entered),
    /// Nothing was sent.
    Unreachable(String),
    /// Not before a time.
    Wait(Wait),
    /// Not before a person acts.
    Never(LoginReason, String),
}

/// A session.
#[derive(Debug, PartialEq)]
pub(super) struct Entered {
    /// The account.
    pub(super) user: Value,
    /// What CozyVTT wants the person to know.
    pub(super) notice: Option<String>,
}

/// Why to wait, and how long.
#[derive(Debug, PartialEq)]
pub(super) struct Wait {
    pub(super) pause: Duration,
    /// How long the server itself has asked for.
    pub(super) asked: Option<Duration>,
    pub(super) reason: LoginReason,
    pub(super) why: String,
}

/// Whether a session is alive.
#[derive(Debug, PartialEq)]
pub(super) enum Life {
    /// It is, and this is its account.
    Alive(Value),
    /// It has ended.
    Dead,
    /// Nobody who knows has answered.
    Unclear(String),
}

/// An answer, read.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// `Retry-After`.
    pub(super) wait: Option<Duration>,
    pub(super) rate: Option<RateLimit>,
    json: Option<Value>,
    message: String,
}

impl Answer {
    /// Reads an answer to its end.
    ///
    /// # Errors
    ///
    /// What broke, and how long the head of the answer has asked to stay away.
    pub(super) async fn read(
        response: Response,
        now: SystemTime,
    ) -> Result<Self, (String, Option<Duration>)> {
        let status = response.status();
        let wait = retry_after(response.headers(), now);
        let rate = RateLimit::of(response.headers());
        if status.is_redirection() {
            return Ok(Self {
                status,
                wait,
                rate,
                json: None,
                message: redirected(&response),
            });
        }
        let body = http::body(response, http::MAX_BODY)
            .await
            .map_err(|cause| (cause, wait))?;
        Ok(Self {
            rate,
            ..Self::of(status, wait, &body)
        })
    }

    fn of(status: StatusCode, wait: Option<Duration>, body: &[u8]) -> Self {
        let json: Option<Value> = serde_json::from_slice(body).ok();
        let message = if body.trim_ascii_start().starts_with(b"<") {
            "an HTML page".to_owned()
        } else {
            http::message(json.as_ref(), body, status)
        };
        Self {
            status,
            wait,
            rate: None,
            json,
            message,
        }
    }

    /// The same without a secret that was sent: a page that shows the request which it
    /// answers must not bring it into a message.
    pub(super) fn without(mut self, secret: &str) -> Self {
        let json = serde_json::Value::from(secret).to_string();
        let quoted = json.trim_matches('"');
        let url: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
        for form in [secret, quoted, &url] {
            if !form.is_empty() && self.message.contains(form) {
                self.message = self.message.replace(form, "[secret]");
            }
        }
        self
    }

    /// Whether CozyVTT itself says so: its errors have these keys and no others.
    fn is_own(&self) -> bool {
        let Some(Value::Object(fields)) = &self.json else {
            return false;
        };
        let text = |key| fields.get(key).is_some_and(Value::is_string);
        let known = ["error", "message", "code", "setupUrl", "validationErrors"];
        text("error") && text("message") && fields.keys().all(|key| known.contains(&key.as_str()))
    }

    fn field(&self, key: &str) -> &str {
        let field = self.json.as_ref().and_then(|json| json.get(key)?.as_str());
        field.unwrap_or_default()
    }

    fn says(&self, key: &str) -> bool {
        let json = self.json.as_ref();
        json.is_some_and(|json| json.get(key) == Some(&Value::Bool(true)))
    }

    /// The account that the answer brings.
    fn entered(self) -> Option<Entered> {
        let notice = self.field("warning").to_owned();
        let left = self
            .json
            .as_ref()
            .and_then(|json| json.get("remainingBackupCodes"));
        let notice = left.and_then(Value::as_u64).map(|left| {
            let codes = format!("That backup code is used up; {left} are left.");
            format!("{codes} {notice}").trim_end().to_owned()
        });
        match self.json?.get_mut("user").map(Value::take) {
            Some(user) if user["id"].is_string() => Some(Entered { user, notice }),
            _ => None,
        }
    }

    fn later(&self, reason: LoginReason, why: String) -> Outcome {
        Outcome::Wait(Wait {
            pause: SPACING.max(self.wait.unwrap_or_default()),
            asked: self.wait,
            reason,
            why,
        })
    }

    /// What an answer to the password means.
    pub(super) fn judge(self) -> Outcome {
        let status = self.status.as_u16();
        let failed = |answer: &Self, why: String| answer.later(LoginReason::Failed, why);
        match self.status {
            StatusCode::OK if self.says("mfaRequired") => {
                Outcome::Never(LoginReason::SecondFactor, SECOND_FACTOR.to_owned())
            }
            // Signed in, but every other route and the WebSocket stay closed.
            StatusCode::OK if self.says("mustChangePassword") => {
                Outcome::Never(LoginReason::PasswordChange, PASSWORD_CHANGE.to_owned())
            }
            StatusCode::OK => {
                let lacks = if self.json.is_some() {
                    "Login response is missing the user object"
                } else {
                    "Login response is not valid JSON"
                };
                let lacking = failed(&self, lacks.to_owned());
                self.entered().map_or(lacking, Outcome::In)
            }
            StatusCode::UNAUTHORIZED if self.is_own() => Outcome::Never(
                LoginReason::Rejected,
                format!(
                    "Login rejected (HTTP 401): {}. With these credentials no further password attempts will be made.",
                    self.message.trim_end_matches('.')
                ),
            ),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if !self.is_own() => failed(
                &self,
                format!(
                    "Login failed HTTP {status}, answered by something in front of CozyVTT (a proxy?), so the \
                     password was not judged"
                ),
            ),
            StatusCode::FORBIDDEN => self.forbidden(),
            StatusCode::TOO_MANY_REQUESTS => Outcome::Wait(Wait {
                pause: SPACING.max(self.wait.unwrap_or(LOCKOUT)),
                asked: Some(self.wait.unwrap_or(LOCKOUT)),
                reason: LoginReason::TooMany,
                why: format!("Login rate limited (429): {}", self.message),
            }),
            _ if self.status.is_redirection() => failed(
                &self,
                format!(
                    "Login failed HTTP {status}: the server redirects to {}; if that is the table, put its \
                     address into the configuration (url) and run: cozyvttctl reload",
                    self.message
                ),
            ),
            _ => failed(
                &self,
                format!("Login failed HTTP {status}: {}", self.message),
            ),
        }
    }

    /// A refusal of an account whose password is right.
    fn forbidden(&self) -> Outcome {
        if self.field("code") == "PASSWORD_CHANGE_REQUIRED" {
            return Outcome::Never(LoginReason::PasswordChange, PASSWORD_CHANGE.to_owned());
        }
        let message = self.message.trim_end_matches('.');
        let reason = if self.field("error") == "Account Pending Approval" {
            LoginReason::Approval
        } else {
            LoginReason::Refused
        };
        Outcome::Never(reason, format!("Login failed HTTP 403: {message}."))
    }

    /// What an answer to a second factor means.
    pub(super) fn judge_code(self) -> Outcome {
        match self.status {
            StatusCode::UNAUTHORIZED if self.is_own() => {
                let why = format!(
                    "CozyVTT did not accept the code: {}.",
                    self.message.trim_end_matches('.')
                );
                Outcome::Never(LoginReason::SecondFactor, why)
            }
            StatusCode::BAD_REQUEST => Outcome::Never(
                LoginReason::SecondFactor,
                format!(
                    "CozyVTT could not read the code: {}.",
                    self.message.trim_end_matches('.')
                ),
            ),
            _ => self.judge(),
        }
    }

    /// Whether there is a sign-in that waits for a code.
    pub(super) fn awaits_code(&self) -> bool {
        self.status != StatusCode::UNAUTHORIZED || self.field("error") != "Unauthorized"
    }

    /// What an answer to `GET /api/auth/me` says of the session.
    pub(super) fn life(self) -> Life {
        let (status, own) = (self.status, self.is_own());
        if status == StatusCode::UNAUTHORIZED && own {
            return Life::Dead;
        }
        let message = self.message.clone();
        match self.entered() {
            Some(entered) if status == StatusCode::OK => Life::Alive(entered.user),
            _ if status == StatusCode::UNAUTHORIZED => Life::Unclear(
                "something in front of CozyVTT (a proxy?) answered HTTP 401, so the session could not be \
                 looked at; no password was sent"
                    .to_owned(),
            ),
            _ => Life::Unclear(format!(
                "the session could not be looked at: HTTP {}: {message}; no password was sent",
                status.as_u16()
            )),
        }
    }
}

pub(super) const SECOND_FACTOR: &str = "The account asks for a second factor.";

pub(super) const PASSWORD_CHANGE: &str =
    "The account has to change its password before it may do anything else.";

/// Where a redirect leads; the password does not follow.
fn redirected(response: &Response) -> String {
    response
        .headers()
        .get(LOCATION)
        .and_then(|location| location.to_str().ok())
        .and_then(|location| response.url().join(location).ok())
        .map_or_else(
            || "somewhere else".to_owned(),
            |url| url.origin().ascii_serialization(),
        )
}

/// The wait that `Retry-After` asks for, in seconds or as a date; past or
/// unreadable ones count as none.
pub(in crate::session) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
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

    fn judge(status: u16, wait: Option<u64>, body: &[u8]) -> Outcome {
        let status = StatusCode::from_u16(status).unwrap();
        Answer::of(status, wait.map(Duration::from_secs), body).judge()
    }

    #[test]
    fn a_login_rejected_by_cozyvtt_is_final_and_one_rejected_by_a_proxy_is_not() {
        let Outcome::Never(LoginReason::Rejected, why) = judge(401, None, OWN_401) else {
            panic!("not final");
        };
        assert!(why.starts_with("Login rejected (HTTP 401): Invalid email or password."));
        for body in [
            &b"<html>401</html>"[..],
            b"",
            br#"{"error":"invalid_token"}"#,
            br#"{"status":401,"error":"Unauthorized","message":"no","path":"/"}"#,
        ] {
            let Outcome::Wait(wait) = judge(401, None, body) else {
                panic!("final: {body:?}");
            };
            assert_eq!((wait.pause, wait.asked), (SPACING, None));
            assert!(wait.why.contains("in front of CozyVTT"), "{}", wait.why);
        }
    }

    #[test]
    fn each_refusal_of_a_right_password_has_its_own_reason() {
        let reason = |status, body: &str| match judge(status, None, body.as_bytes()) {
            Outcome::Never(reason, why) => (reason, why),
            other => panic!("{other:?}"),
        };
        let pending =
            r#"{"error":"Account Pending Approval","message":"Your account is pending approval."}"#;
        let (approval, why) = reason(403, pending);
        assert_eq!(approval, LoginReason::Approval);
        assert!(why.ends_with("pending approval."), "{why}");
        let change = r#"{"error":"Password Change Required","code":"PASSWORD_CHANGE_REQUIRED","message":"x"}"#;
        assert_eq!(reason(403, change).0, LoginReason::PasswordChange);
        let setup = r#"{"error":"Setup Required","message":"x","setupUrl":"/setup"}"#;
        assert_eq!(reason(403, setup).0, LoginReason::Refused);
        let mfa = r#"{"mfaRequired":true,"message":"x"}"#;
        assert_eq!(reason(200, mfa).0, LoginReason::SecondFactor);
        let flagged = r#"{"user":{},"mustChangePassword":true}"#;
        assert_eq!(reason(200, flagged).0, LoginReason::PasswordChange);
        let proxy = judge(403, None, b"<html>");
        assert!(matches!(proxy, Outcome::Wait(_)));
    }

    #[test]
    fn a_page_that_shows_the_request_brings_no_secret_into_a_message() {
        let secret = "can\"ary pass";
        for shown in ["can\"ary pass", r#"can\"ary pass"#, "can%22ary+pass"] {
            let page = format!("You sent: password={shown}");
            let answer = Answer::of(StatusCode::BAD_GATEWAY, None, page.as_bytes());
            let Outcome::Wait(wait) = answer.without(secret).judge() else {
                panic!("no wait");
            };
            assert!(wait.why.contains("[secret]"), "{}", wait.why);
            assert!(!wait.why.contains("ary"), "{}", wait.why);
        }
    }

    #[test]
    fn the_longer_of_the_spacing_and_retry_after_holds() {
        let wait = |seconds| match judge(503, Some(seconds), b"") {
            Outcome::Wait(wait) => (wait.pause.as_secs(), wait.asked.unwrap().as_secs()),
            other => panic!("{other:?}"),
        };
        assert_eq!((wait(5), wait(900)), ((180, 5), (900, 900)));
    }

    #[test]
    fn too_many_attempts_without_a_time_wait_for_the_whole_window() {
        let Outcome::Wait(wait) = judge(429, None, b"Too many") else {
            panic!("no wait");
        };
        assert_eq!((wait.pause, wait.reason), (LOCKOUT, LoginReason::TooMany));
        assert!(wait.why.contains("429"));
    }

    #[test]
    fn an_answer_that_is_no_login_cools_down() {
        for body in [&b"<html>"[..], b"{}", br#"{"user":5}"#] {
            assert!(matches!(judge(200, None, body), Outcome::Wait(_)));
        }
    }

    #[test]
    fn a_wrong_code_asks_for_another_one_and_used_up_codes_are_told() {
        let code = |status, body: &str| {
            Answer::of(StatusCode::from_u16(status).unwrap(), None, body.as_bytes()).judge_code()
        };
        let wrong = code(401, r#"{"error":"Invalid Code","message":"Try again."}"#);
        assert!(
            matches!(wrong, Outcome::Never(LoginReason::SecondFactor, why) if why.ends_with("Try again."))
        );
        let body = r#"{"user":{"id":"u"},"remainingBackupCodes":2,"warning":"Few are left."}"#;
        let Outcome::In(entered) = code(200, body) else {
            panic!("not in");
        };
        let notice = "That backup code is used up; 2 are left. Few are left.";
        assert_eq!(entered.notice.as_deref(), Some(notice));
    }

    #[test]
    fn only_cozyvtts_own_401_says_that_a_session_is_dead() {
        let life = |status, body: &str| {
            Answer::of(StatusCode::from_u16(status).unwrap(), None, body.as_bytes()).life()
        };
        let own = r#"{"error":"Unauthorized","message":"Not authenticated"}"#;
        assert_eq!(life(401, own), Life::Dead);
        assert!(matches!(
            life(200, r#"{"user":{"id":"u"}}"#),
            Life::Alive(_)
        ));
        for (status, body) in [(401, "<html>"), (503, own), (200, "<html>"), (302, "")] {
            assert!(matches!(life(status, body), Life::Unclear(_)), "{status}");
        }
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
