//! What the login sends, and what it writes down before and after.

use std::time::Duration;

use bytes::Bytes;
use cozyvtt_proto::control::LoginReason;
use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;

use super::super::http::network_cause;
use super::answer::{Answer, Life, Outcome, Wait};
use super::print::{Account, Print};
use super::record::Block;
use super::tally::RateLimit;
use super::{Login, SPACING, Turn};
use crate::config::{BaseUrl, Settings};
use crate::lock::lock;

/// How long one attempt may take.
const TIMEOUT: Duration = Duration::from_secs(15);

/// How long a look at the session may take.
const LOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// The credentials of one attempt.
pub(super) struct Credentials {
    url: BaseUrl,
    email: String,
    password: SecretString,
}

impl Credentials {
    pub(super) fn new(settings: &Settings, password: SecretString) -> Self {
        Self {
            url: settings.url.clone(),
            email: settings.email.clone(),
            password,
        }
    }

    /// Their fingerprint; `None` when none can be made.
    pub(super) async fn print(self) -> Option<Print> {
        let print = off(move || Account::new(&self.url, &self.email, &self.password).print());
        print
            .await?
            .inspect_err(|error| tracing::error!(error, "no fingerprint of the account"))
            .ok()
    }

    async fn has(self, print: Print) -> bool {
        let same =
            off(move || Account::new(&self.url, &self.email, &self.password).has(&print)).await;
        // What cannot be told apart stays blocked.
        same.unwrap_or(true)
    }
}

/// The body of a sign-in.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SignIn<'a> {
    email: &'a str,
    password: &'a str,
    remember_me: bool,
}

/// The body of a second factor.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum SecondFactor<'a> {
    /// Six digits of an authenticator.
    Token(&'a str),
    BackupCode(&'a str),
}

impl<'a> SecondFactor<'a> {
    fn of(code: &'a str) -> Self {
        if code.len() == 6 && code.bytes().all(|byte| byte.is_ascii_digit()) {
            Self::Token(code)
        } else {
            Self::BackupCode(code)
        }
    }
}

/// A JSON body whose bytes are wiped when it has been sent.
fn body(secret: &impl Serialize) -> serde_json::Result<Bytes> {
    // Room enough for any password, so that growing leaves no copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(4096));
    serde_json::to_writer(&mut *bytes, secret)?;
    Ok(Bytes::from_owner(bytes))
}

/// Runs what would hold other tasks up: the disk, and slow hashes. `None` when it
/// panicked.
async fn off<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let outcome = tokio::task::spawn_blocking(work).await;
    outcome
        .inspect_err(|error| tracing::error!(%error, "something broke inside the login"))
        .ok()
}

impl Login {
    /// Sends the password once. `count` requests that CozyVTT counts are to follow one
    /// another, this one included.
    pub(super) async fn attempt(
        &self,
        turn: &mut Turn,
        count: usize,
    ) -> (Outcome, Option<Credentials>) {
        let password = match self.settings.password.reveal().await {
            Ok(password) => password,
            Err(error) => {
                let wait = Wait {
                    pause: SPACING,
                    asked: None,
                    reason: LoginReason::NoPassword,
                    why: format!("{error}; nothing was sent"),
                };
                return (Outcome::Wait(wait), None);
            }
        };
        if let Err(wait) = self.enter_in_tally(count).await {
            return (Outcome::Wait(wait), None);
        }
        let (before, ready) = (turn.record.clone(), turn.ready);
        turn.record.note_sent(self.clock.wall());
        turn.ready = Some(self.clock.after(SPACING));
        self.remember(turn).await;
        let sign_in = SignIn {
            email: &self.settings.email,
            password: password.expose_secret(),
            remember_me: true,
        };
        let answer = self.send(&["api", "auth", "login"], body(&sign_in)).await;
        let outcome = match answer {
            Ok(answer) => {
                self.hear(&answer).await;
                answer.without(password.expose_secret()).judge()
            }
            Err(outcome @ Outcome::Unreachable(_)) => {
                // Without a connection nothing was sent, so nothing was spent.
                turn.record.unsend(&before);
                turn.ready = ready;
                self.take_out_of_tally().await;
                outcome
            }
            Err(outcome) => outcome,
        };
        (outcome, Some(Credentials::new(&self.settings, password)))
    }

    /// Sends the code of a half-open sign-in; `None` when the server knows of none.
    pub(super) async fn send_code(&self, turn: &mut Turn, code: &SecretString) -> Option<Outcome> {
        if let Err(wait) = self.enter_in_tally(1).await {
            return Some(Outcome::Wait(wait));
        }
        let code = Zeroizing::new(code.expose_secret().split_whitespace().collect::<String>());
        let path = ["api", "auth", "mfa", "verify-login"];
        match self.send(&path, body(&SecondFactor::of(&code))).await {
            Ok(answer) if !answer.awaits_code() => {
                turn.half_open = None;
                None
            }
            Ok(answer) => {
                // What is left after a code is another count since 1.3.
                if answer.status == StatusCode::TOO_MANY_REQUESTS {
                    self.hear(&answer).await;
                }
                Some(answer.without(&code).judge_code())
            }
            Err(Outcome::Wait(wait)) => Some(Outcome::Never(
                LoginReason::SecondFactor,
                format!("{}; the code may have been used.", wait.why),
            )),
            Err(outcome) => {
                self.take_out_of_tally().await;
                Some(outcome)
            }
        }
    }

    /// Sends something that CozyVTT counts.
    ///
    /// # Errors
    ///
    /// [`Outcome::Unreachable`] when nothing was sent, [`Outcome::Wait`] when no
    /// answer came.
    async fn send(
        &self,
        path: &[&str],
        body: serde_json::Result<Bytes>,
    ) -> Result<Answer, Outcome> {
        let broken = |cause: String, asked: Option<Duration>| {
            Outcome::Wait(Wait {
                pause: SPACING.max(asked.unwrap_or_default()),
                asked,
                reason: LoginReason::Failed,
                why: format!("Login request network error: {cause}"),
            })
        };
        let body = body.map_err(|error| broken(error.to_string(), None))?;
        let response = self
            .http
            .post(self.settings.url.under(path.iter().copied()))
            .timeout(TIMEOUT)
            .header(CONTENT_TYPE, "application/json")
            .body(body)
            .send()
            .await
            .map_err(|error| {
                let cause = network_cause(&error);
                if error.is_connect() {
                    Outcome::Unreachable(format!("Login request network error: {cause}"))
                } else {
                    broken(cause, None)
                }
            })?;
        let answer = Answer::read(response, self.clock.wall())
            .await
            .map_err(|(cause, asked)| broken(cause, asked))?;
        Ok(answer)
    }

    /// Asks the server who we are, which shows whether the session is alive.
    pub(super) async fn ask_who_we_are(&self) -> Life {
        let url = self.settings.url.under(["api", "auth", "me"]);
        match self.http.get(url).timeout(LOOK_TIMEOUT).send().await {
            Ok(response) => match Answer::read(response, self.clock.wall()).await {
                Ok(answer) => answer.life(),
                Err((cause, _)) => Life::Unclear(format!(
                    "the session could not be looked at: network error: {cause}; no password was sent"
                )),
            },
            Err(error) => Life::Unclear(format!(
                "the session could not be looked at: network error: {}; no password was sent",
                network_cause(&error)
            )),
        }
    }

    /// Ends the session at the server.
    ///
    /// # Errors
    ///
    /// Why the server may not know of it.
    pub(super) async fn say_goodbye(&self) -> Result<(), String> {
        let url = self.settings.url.under(["api", "auth", "logout"]);
        let request = self.http.post(url).timeout(LOOK_TIMEOUT);
        // An object, since the server parses every body.
        match request.json(&serde_json::json!({})).send().await {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => Err(format!("it answered HTTP {}", response.status().as_u16())),
            Err(error) => Err(network_cause(&error)),
        }
    }

    /// Whether a block is of these very credentials.
    pub(super) async fn is_ours(&self, block: &Block) -> bool {
        let Some(print) = block.account.clone() else {
            return true;
        };
        match self.settings.password.reveal().await {
            Ok(password) => Credentials::new(&self.settings, password).has(print).await,
            Err(error) => {
                tracing::warn!(%error, "the password cannot be compared with the blocked one");
                true
            }
        }
    }

    /// Enters in the shared tally what leaves now, if there is room.
    ///
    /// # Errors
    ///
    /// How long there is none.
    async fn enter_in_tally(&self, count: usize) -> Result<(), Wait> {
        let (tally, now) = (self.tally.clone(), self.clock.wall());
        match off(move || tally.take(now, count)).await {
            Some(Err(left)) => Err(Wait {
                pause: left.max(Duration::from_secs(1)),
                asked: Some(left),
                reason: LoginReason::Tally,
                why: "CozyVTT locks an address out after five sign-ins in 15 minutes, so nothing was sent"
                    .to_owned(),
            }),
            Some(Ok(())) | None => Ok(()),
        }
    }

    async fn take_out_of_tally(&self) {
        let (tally, now) = (self.tally.clone(), self.clock.wall());
        off(move || tally.give_back(now)).await;
    }

    /// Hears how many sign-ins the server leaves.
    async fn hear(&self, answer: &Answer) {
        let too_many = answer.status == StatusCode::TOO_MANY_REQUESTS;
        let said = match (answer.rate, answer.wait) {
            (_, Some(wait)) if too_many => RateLimit::none_for(wait),
            (Some(said), _) => said,
            _ => return,
        };
        let (tally, now) = (self.tally.clone(), self.clock.wall());
        off(move || tally.hear(now, said)).await;
    }

    /// Writes the record down. A disk that takes nothing keeps nobody from the table:
    /// this run still knows, and log and status say that the next one will not.
    pub(super) async fn remember(&self, turn: &Turn) {
        let (store, record) = (self.store.clone(), turn.record.clone());
        let trouble = off(move || store.write(&record))
            .await
            .and_then(Result::err);
        if let Some(error) = &trouble {
            tracing::error!(%error, "the record of the login cannot be kept; a restart would not know of it");
        }
        let mut forgetful = lock(&self.forgetful);
        *forgetful = trouble.map(|error| error.to_string());
    }

    /// Writes the cookies down; gives whether that worked.
    pub(in crate::session) async fn keep_cookies(&self) -> bool {
        let cookies = self.cookies.clone();
        let failed = off(move || cookies.save()).await.and_then(Result::err);
        if let Some(error) = &failed {
            tracing::warn!(%error, "the session cannot be kept; a restart will need the password");
        }
        failed.is_none()
    }

    pub(super) async fn forget_cookies(&self) {
        let cookies = self.cookies.clone();
        if let Some(Err(error)) = off(move || cookies.forget()).await {
            tracing::warn!(%error, "the file of the session cannot be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bodies_are_as_the_contract_has_them() {
        let sign_in = SignIn {
            email: "a@b",
            password: "p\"q",
            remember_me: true,
        };
        let text = br#"{"email":"a@b","password":"p\"q","rememberMe":true}"#;
        assert_eq!(&body(&sign_in).unwrap()[..], text);
        let code = |code| body(&SecondFactor::of(code)).unwrap();
        assert_eq!(&code("012345")[..], br#"{"token":"012345"}"#);
        assert_eq!(&code("ABCD1234")[..], br#"{"backupCode":"ABCD1234"}"#);
        assert_eq!(&code("12345678")[..], br#"{"backupCode":"12345678"}"#);
    }
}
