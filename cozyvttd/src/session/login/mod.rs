//! The one login: a state machine that alone may send the password.
//!
//! CozyVTT locks an address out for 15 minutes after five attempts, so attempts are
//! spaced and counted, a rejected password is never sent again, and however many
//! callers need a session at once, one request leaves the machine. What must not be
//! forgotten is on disk before the password leaves; where no disk takes it, this run
//! still knows, and says that the next one will not.

mod answer;
mod attempt;
pub mod glance;
mod print;
mod record;
mod standing;
mod tally;
mod wake;

use std::sync::Arc;
use std::time::Duration;

use cozyvtt_proto::control::LoginReason;
use secrecy::SecretString;
use serde_json::Value;
use thiserror::Error;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::Ground;
use super::clock::Clock;
use super::cookies::Cookies;
use crate::config::Settings;
use crate::lock::lock;
use answer::{Entered, Life, Outcome, Wait};
use attempt::Credentials;
use record::{Block, Hold, Record, Store};
use tally::Tally;
use wake::Wake;

pub(super) use answer::retry_after;

/// Least time between two requests that carry the password.
const SPACING: Duration = Duration::from_secs(180);

/// How long to stay away after "too many attempts" without a time given: the
/// length of CozyVTT's own window.
const LOCKOUT: Duration = Duration::from_secs(15 * 60);

/// Longest wait that is believed.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// For how long it is not asked again whether a session is alive: the calls that meet
/// a 401 together share one answer.
const FRESH: Duration = Duration::from_secs(5);

/// How long CozyVTT is expected to wait for the code of a half-open sign-in.
const HALF_OPEN: Duration = Duration::from_secs(10 * 60);

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
        /// The account, as the server answered it.
        user: Value,
    },
    /// Not before `until`.
    CoolingDown {
        /// When the password may be sent again.
        until: Instant,
        /// What kind of thing happened.
        reason: LoginReason,
        /// What happened.
        why: String,
    },
    /// Not before a person acts.
    Blocked {
        /// What kind of thing happened.
        reason: LoginReason,
        /// What happened.
        why: String,
    },
}

/// Why there is no session.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LoginError {
    /// The server could not be reached, or something else answered in its place; no
    /// password was sent.
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
    /// Not before a person acts.
    #[error("{why} To mend it: {fix}")]
    Blocked {
        /// What happened.
        why: String,
        /// What mends it.
        fix: &'static str,
    },
}

impl LoginError {
    fn blocked(reason: LoginReason, why: String) -> Self {
        let fix = standing::block_fix(reason);
        Self::Blocked { why, fix }
    }
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

/// How a session that a person has ended was ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Farewell {
    /// Why the server does not know of it, if it does not.
    pub untold: Option<String>,
}

/// The login of one account at one instance. It owns the cookies, the record and the
/// tally; whoever has the turn may change them.
#[derive(Debug)]
pub struct Login {
    settings: Settings,
    http: reqwest::Client,
    cookies: Arc<Cookies>,
    clock: Clock,
    store: Arc<Store>,
    tally: Tally,
    wake: Wake,
    state: watch::Sender<LoginState>,
    notice: std::sync::Mutex<Option<String>>,
    /// Why what must not be forgotten is not on disk.
    forgetful: std::sync::Mutex<Option<String>>,
    /// Held by whoever signs in; the others wait and find the outcome.
    turn: Mutex<Turn>,
}

/// What the owner of the turn knows.
#[derive(Debug)]
struct Turn {
    /// What is on disk.
    record: Record,
    sessions: u64,
    /// When the spacing since the password last left is over.
    ready: Option<Instant>,
    pause: Option<Pause>,
    /// The cookies of an earlier run were tried.
    resumed: bool,
    /// The block was found to be of these very credentials.
    compared: bool,
    /// Since when a sign-in waits for its code.
    half_open: Option<Instant>,
    /// When the session was last seen alive.
    checked: Option<Instant>,
    /// When the server was last not reached, and why.
    unreachable: Option<(Instant, String)>,
    /// How long the machine had slept when somebody last had the turn.
    slept: Duration,
}

/// A cool-down.
#[derive(Debug, Clone)]
struct Pause {
    until: Instant,
    /// Until when the server itself has asked to stay away.
    asked: Option<Instant>,
    reason: LoginReason,
    why: String,
}

/// What somebody wants of the login.
#[derive(Debug)]
enum Order {
    /// A session.
    Any,
    /// Another session than this one, which the server has refused.
    InPlaceOf(u64),
    /// A session by a person's word, with the code of a second factor.
    ByHand(Option<SecretString>),
}

impl Login {
    /// The login of the account in `settings`; what it knows from an earlier run is in the
    /// folders of `ground`.
    pub(super) fn new(
        settings: Settings,
        http: reqwest::Client,
        cookies: Arc<Cookies>,
        ground: &Ground,
    ) -> Self {
        let clock = ground.clock.clone();
        let store = Store::new(ground.folder.join("login.json"));
        let now = clock.wall();
        let record = store.read(now);
        let turn = Turn::resume(record, &clock, ground.by_word);
        Self {
            tally: Tally::new(&ground.shared, settings.url.to_string()),
            wake: Wake::new(&clock),
            state: watch::Sender::new(turn.first_state()),
            notice: std::sync::Mutex::default(),
            forgetful: std::sync::Mutex::default(),
            turn: Mutex::new(turn),
            store: Arc::new(store),
            settings,
            http,
            cookies,
            clock,
        }
    }

    /// Where it stands now, and from now on.
    pub fn watch(&self) -> watch::Receiver<LoginState> {
        self.state.subscribe()
    }

    /// Whether it waits for a person.
    pub fn is_blocked(&self) -> bool {
        matches!(*self.state.borrow(), LoginState::Blocked { .. })
    }

    /// Whether nobody is signed in, and nothing is tried before a person acts or time has
    /// passed.
    pub fn is_held_up(&self) -> bool {
        matches!(
            *self.state.borrow(),
            LoginState::Blocked { .. } | LoginState::CoolingDown { .. }
        )
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

    /// Waits until there is a session, whoever brings it about.
    pub async fn signed_in(&self) {
        let mut state = self.watch();
        // The sender lives in `self`, so this ends with a session alone.
        let _ = state
            .wait_for(|state| matches!(state, LoginState::SignedIn { .. }))
            .await;
    }

    /// Whether the machine has slept since the session was last seen alive, so that it
    /// may have run out.
    fn in_doubt(&self) -> bool {
        self.wake.look(&self.clock)
    }

    /// Whether somebody should see to the login now: the machine has slept, or a
    /// cool-down is over, which a sleep may have shortened.
    pub(super) fn is_due(&self) -> bool {
        self.in_doubt() || self.cooling_for().is_some_and(|left| left.is_zero())
    }

    /// The number of the session, signing in when there is none. After the machine has
    /// slept, the session is looked at first.
    ///
    /// # Errors
    ///
    /// [`LoginError`].
    pub async fn ensure(self: &Arc<Self>) -> Result<u64, LoginError> {
        // Without taking the turn: most calls end here.
        match self.session() {
            Some(session) if !self.in_doubt() => Ok(session),
            _ => self.in_turn(Order::Any).await,
        }
    }

    /// A session in place of `refused`, which the server no longer accepts, it seems.
    ///
    /// The present session is given back untouched when another caller has renewed it
    /// already, or the password was sent less than 180 s ago: whatever the refusal is
    /// about then, another password would not mend it (acceptance case T-RST-07 and
    /// contract 4.5 rest on this rule). Otherwise the session is looked at with one
    /// read, and the password is sent only if CozyVTT itself says that it has ended.
    ///
    /// # Errors
    ///
    /// [`LoginError`].
    pub async fn renew(self: &Arc<Self>, refused: u64) -> Result<u64, LoginError> {
        self.in_turn(Order::InPlaceOf(refused)).await
    }

    /// Signs in by a person's word: a block is lifted, the spacing does not count, and
    /// one attempt is made, if CozyVTT has not asked to stay away and its limit on
    /// sign-ins leaves room. `code` is the second factor.
    ///
    /// # Errors
    ///
    /// [`LoginError`].
    pub async fn by_hand(self: &Arc<Self>, code: Option<SecretString>) -> Result<u64, LoginError> {
        self.in_turn(Order::ByHand(code)).await
    }

    /// Ends the session at the server, forgets it and stays signed out until
    /// [`Login::by_hand`]. To be run to its end.
    pub async fn log_out(&self) -> Farewell {
        let mut turn = self.turn.lock().await;
        let why = "Somebody has signed out with `cozyvttctl logout`.";
        let reason = LoginReason::SignedOut;
        // First of all: whatever happens next, no restart signs in again.
        turn.record.block = Some(Block {
            reason,
            why: why.to_owned(),
            account: None,
        });
        turn.half_open = None;
        self.remember(&turn).await;
        self.state.send_replace(LoginState::Blocked {
            reason,
            why: why.to_owned(),
        });
        let untold = if self.cookies.any() {
            self.say_goodbye().await.err()
        } else {
            None
        };
        self.forget_cookies().await;
        tracing::info!("signed out by hand");
        Farewell { untold }
    }

    /// Does what is asked when it is this caller's turn, in a task of its own: a caller
    /// that gives up must not cut a login off that others wait for.
    async fn in_turn(self: &Arc<Self>, order: Order) -> Result<u64, LoginError> {
        let login = Arc::clone(self);
        let asked = Instant::now();
        let attempt = tokio::spawn(async move {
            let mut turn = login.turn.lock().await;
            turn.count_sleep(&login.clock, &login.state);
            login.serve(&mut turn, order, asked).await
        });
        attempt.await.unwrap_or_else(|error| {
            let why = format!("signing in was cut off inside cozyvttd: {error}");
            self.state.send_replace(LoginState::CoolingDown {
                until: self.clock.after(SPACING),
                reason: LoginReason::Failed,
                why: why.clone(),
            });
            Err(LoginError::CoolingDown {
                retry_in_s: SPACING.into(),
                why,
            })
        })
    }

    async fn serve(
        &self,
        turn: &mut Turn,
        order: Order,
        asked: Instant,
    ) -> Result<u64, LoginError> {
        let by_hand = matches!(order, Order::ByHand(_));
        if self.session().is_none() {
            // What is not there cannot have run out.
            self.wake.trust();
        }
        if let Some(session) = self.session() {
            let refused = matches!(order, Order::InPlaceOf(refused) if refused == session);
            let doubt = self.in_doubt();
            let look = by_hand || doubt || (refused && turn.spacing_left(&self.clock).is_none());
            let fresh = turn
                .checked
                .is_some_and(|checked| self.clock.since(checked) < FRESH);
            if !look || (fresh && !by_hand && !doubt) {
                return Ok(session);
            }
            turn.share_trouble(asked)?;
            if self.look(turn).await?.is_some() {
                return Ok(session);
            }
            tracing::info!("the server no longer accepts the session");
        }
        turn.share_trouble(asked)?;
        let kept = !turn.resumed && self.cookies.any() && !turn.record.is_signed_out();
        if kept && let Some(user) = self.look(turn).await? {
            tracing::info!("the kept session is alive");
            let entered = Entered { user, notice: None };
            return self.conclude(turn, Outcome::In(entered), None).await;
        }
        turn.resumed = true;
        match order {
            Order::ByHand(code) => self.sign_in_by_hand(turn, code).await,
            Order::Any | Order::InPlaceOf(_) => self.sign_in(turn).await,
        }
    }

    /// Looks whether the session is alive; gives its account, or none when it is not.
    async fn look(&self, turn: &mut Turn) -> Result<Option<Value>, LoginError> {
        match self.ask_who_we_are().await {
            Life::Alive(user) if user["mustChangePassword"] == true => {
                let why = answer::PASSWORD_CHANGE.to_owned();
                let never = Outcome::Never(LoginReason::PasswordChange, why);
                let account = self.settings.password.reveal().await.ok();
                let account = account.map(|password| Credentials::new(&self.settings, password));
                Err(match self.conclude(turn, never, account).await {
                    Err(error) => error,
                    Ok(_) => LoginError::blocked(
                        LoginReason::PasswordChange,
                        answer::PASSWORD_CHANGE.to_owned(),
                    ),
                })
            }
            Life::Alive(user) => {
                turn.checked = Some(Instant::now());
                self.wake.trust();
                Ok(Some(user))
            }
            Life::Dead => {
                self.wake.trust();
                self.forget_cookies().await;
                self.state.send_replace(LoginState::SignedOut { why: None });
                Ok(None)
            }
            Life::Unclear(why) => {
                tracing::warn!(%why, "the session could not be looked at");
                turn.unreachable = Some((Instant::now(), why.clone()));
                if self.session().is_none() {
                    let why = Some(why.clone());
                    self.state.send_replace(LoginState::SignedOut { why });
                }
                Err(LoginError::Unreachable(why))
            }
        }
    }

    /// Sends the password, if that may be.
    async fn sign_in(&self, turn: &mut Turn) -> Result<u64, LoginError> {
        self.may_send(turn).await?;
        self.state.send_replace(LoginState::SigningIn);
        let (outcome, account) = self.attempt(turn, 1).await;
        self.conclude(turn, outcome, account).await
    }

    async fn sign_in_by_hand(
        &self,
        turn: &mut Turn,
        code: Option<SecretString>,
    ) -> Result<u64, LoginError> {
        let waits_for_code = turn
            .half_open
            .is_some_and(|since| self.clock.since(since) < HALF_OPEN);
        match (&code, &turn.record.block) {
            (Some(code), _) if waits_for_code => {
                if let Some(result) = self.enter_code(turn, code).await {
                    return result;
                }
            }
            (None, Some(block)) if waits_for_code => {
                return Err(LoginError::blocked(block.reason, block.why.clone()));
            }
            _ => {}
        }
        if let Some(pause) = &turn.pause
            && let Some(asked) = pause.asked
            && !self.clock.until(asked).is_zero()
        {
            return Err(LoginError::CoolingDown {
                retry_in_s: self.clock.until(asked).into(),
                why: pause.why.clone(),
            });
        }
        tracing::info!("signing in by hand");
        // A block stays until the server has judged: this one attempt may come to nothing,
        // and the word of a person is for it alone.
        turn.pause = None;
        self.state.send_replace(LoginState::SigningIn);
        let count = 1 + usize::from(code.is_some());
        let (outcome, account) = self.attempt(turn, count).await;
        let result = self.conclude(turn, outcome, account).await;
        match code {
            Some(code) if turn.half_open.is_some() => {
                self.enter_code(turn, &code).await.unwrap_or(result)
            }
            _ => result,
        }
    }

    /// Enters the code of a half-open sign-in; `None` when there turns out to be none.
    async fn enter_code(
        &self,
        turn: &mut Turn,
        code: &SecretString,
    ) -> Option<Result<u64, LoginError>> {
        let outcome = self.send_code(turn, code).await?;
        // The block stays that of the password before it.
        let block = turn.record.block.take();
        if let Outcome::Never(LoginReason::SecondFactor, why) = outcome {
            turn.record.block = block.map(|block| Block {
                why: why.clone(),
                ..block
            });
            self.remember(turn).await;
            self.state.send_replace(LoginState::Blocked {
                reason: LoginReason::SecondFactor,
                why: why.clone(),
            });
            return Some(Err(LoginError::blocked(LoginReason::SecondFactor, why)));
        }
        turn.record.block = block;
        Some(self.conclude(turn, outcome, None).await)
    }

    /// Whether the password may leave now. The state says so when it may not.
    async fn may_send(&self, turn: &mut Turn) -> Result<(), LoginError> {
        if let Some(block) = turn.record.block.clone() {
            if turn.compared || self.is_ours(&block).await {
                turn.compared = true;
                self.state.send_replace(LoginState::Blocked {
                    reason: block.reason,
                    why: block.why.clone(),
                });
                return Err(LoginError::blocked(block.reason, block.why));
            }
            tracing::info!("the credentials are others than those that were blocked");
            turn.record.block = None;
            self.remember(turn).await;
        }
        let left = turn.spacing_left(&self.clock);
        if turn.pause(&self.clock).is_none()
            && let Some(left) = left
        {
            // Whatever became of it, a password that has left has been counted.
            turn.pause = Some(Pause {
                until: self.clock.after(left),
                asked: None,
                reason: LoginReason::Spacing,
                why: "the last sign-in was less than three minutes ago".to_owned(),
            });
        }
        match turn.pause(&self.clock) {
            Some((left, pause)) => {
                self.state.send_replace(pause.state());
                Err(LoginError::CoolingDown {
                    retry_in_s: left.into(),
                    why: pause.why.clone(),
                })
            }
            None => Ok(()),
        }
    }

    /// Notes what an attempt came to, here and on disk.
    async fn conclude(
        &self,
        turn: &mut Turn,
        outcome: Outcome,
        account: Option<Credentials>,
    ) -> Result<u64, LoginError> {
        let (state, result) = match outcome {
            Outcome::In(entered) => {
                turn.enter();
                self.wake.trust();
                self.note(entered.notice);
                self.keep_cookies().await;
                let session = turn.sessions;
                tracing::info!(session, "signed in");
                let user = entered.user;
                (LoginState::SignedIn { session, user }, Ok(session))
            }
            Outcome::Unreachable(why) => {
                tracing::warn!(%why, "the server could not be reached to sign in");
                turn.unreachable = Some((Instant::now(), why.clone()));
                let state = LoginState::SignedOut {
                    why: Some(why.clone()),
                };
                (state, Err(LoginError::Unreachable(why)))
            }
            Outcome::Wait(wait) => self.wait(turn, wait),
            Outcome::Never(reason, why) => {
                tracing::error!(?reason, %why, "signing in was refused");
                let blocked = turn.record.block.take();
                let print = match account {
                    Some(account) => account.print().await,
                    // A code follows a password, whose block it was.
                    None => blocked.and_then(|block| block.account),
                };
                turn.record.block = Some(Block {
                    reason,
                    why: why.clone(),
                    account: print,
                });
                turn.compared = true;
                let now = Instant::now();
                turn.half_open = (reason == LoginReason::SecondFactor).then_some(now);
                let error = LoginError::blocked(reason, why.clone());
                (LoginState::Blocked { reason, why }, Err(error))
            }
        };
        self.remember(turn).await;
        self.state.send_replace(state);
        result
    }

    fn wait(&self, turn: &mut Turn, wait: Wait) -> (LoginState, Result<u64, LoginError>) {
        let Wait {
            pause,
            asked,
            reason,
            why,
        } = wait;
        tracing::warn!(pause_s = pause.as_secs(), ?reason, %why, "signing in failed; cooling down");
        let begun = Pause {
            until: self.clock.after(pause),
            asked: asked.map(|asked| self.clock.after(asked)),
            reason,
            why: why.clone(),
        };
        let state = begun.state();
        turn.pause = Some(begun);
        // These two come about without the password; each finds out anew.
        let of_this_run = matches!(reason, LoginReason::NoPassword | LoginReason::Tally);
        turn.record.hold =
            (!of_this_run).then(|| Hold::new(self.clock.wall(), pause, asked, reason, why.clone()));
        let error = LoginError::CoolingDown {
            retry_in_s: pause.into(),
            why,
        };
        (state, Err(error))
    }

    fn note(&self, notice: Option<String>) {
        *lock(&self.notice) = notice;
    }

    /// What CozyVTT said along with the sign-in, or that a restart would know nothing.
    fn notice(&self) -> Option<String> {
        let taken = |slot: &std::sync::Mutex<Option<String>>| lock(slot).clone();
        let forgetful = taken(&self.forgetful).map(|cause| {
            format!("The state folder takes no record of the login ({cause}), so a restart may send the password again.")
        });
        forgetful.or_else(|| taken(&self.notice))
    }
}

impl Turn {
    /// What is known from an earlier run. By a person's word only what the server has asked
    /// for is waited for.
    fn resume(record: Record, clock: &Clock, by_word: bool) -> Self {
        let now = clock.wall();
        // Waits of the past are at most as long as those that are ever begun.
        let after = |left: Duration| (!left.is_zero()).then(|| clock.after(left.min(LONGEST)));
        let pause = record.hold.as_ref().and_then(|hold| {
            let asked = after(hold.asked_left(now));
            let until = after(hold.left(now));
            Some(Pause {
                until: if by_word { asked? } else { until? },
                asked,
                reason: hold.reason,
                why: hold.why.clone(),
            })
        });
        let spacing = record
            .sent_ago(now)
            .and_then(|ago| SPACING.checked_sub(ago))
            .filter(|_| !by_word);
        Self {
            ready: spacing.and_then(after),
            record,
            sessions: 0,
            pause,
            resumed: false,
            compared: false,
            half_open: None,
            checked: None,
            unreachable: None,
            slept: clock.slept(),
        }
    }

    fn first_state(&self) -> LoginState {
        match (&self.record.block, &self.pause) {
            (Some(block), _) if self.record.is_signed_out() => LoginState::Blocked {
                reason: block.reason,
                why: block.why.clone(),
            },
            (_, Some(pause)) => pause.state(),
            _ => LoginState::SignedOut { why: None },
        }
    }

    /// A session begins.
    fn enter(&mut self) {
        self.sessions += 1;
        self.resumed = true;
        self.checked = Some(Instant::now());
        self.half_open = None;
        self.unreachable = None;
        self.pause = None;
        self.record.hold = None;
        self.record.block = None;
    }

    /// Those who have waited while the server was not reached share the outcome: each
    /// trying for itself, the last one would wait for minutes.
    fn share_trouble(&self, asked: Instant) -> Result<(), LoginError> {
        match &self.unreachable {
            Some((ended, why)) if *ended >= asked => Err(LoginError::Unreachable(why.clone())),
            _ => Ok(()),
        }
    }

    /// How long until the password may leave again because it has left before.
    fn spacing_left(&self, clock: &Clock) -> Option<Duration> {
        let left = clock.until(self.ready?);
        (!left.is_zero()).then_some(left)
    }

    /// The cool-down, if there is one, and how long it still takes.
    fn pause(&self, clock: &Clock) -> Option<(Duration, &Pause)> {
        let pause = self.pause.as_ref()?;
        let left = clock.until(pause.until);
        (!left.is_zero()).then_some((left, pause))
    }

    /// Takes the time in which the machine has slept off all waits: the server did not
    /// sleep, and timers stood still.
    fn count_sleep(&mut self, clock: &Clock, state: &watch::Sender<LoginState>) {
        let span = clock.slept().saturating_sub(self.slept);
        // The two clocks behind it are read one after the other.
        if span < Duration::from_secs(1) {
            return;
        }
        self.slept += span;
        let sooner = |moment: &mut Instant| *moment = clock.earlier(*moment, span);
        if let Some(ready) = &mut self.ready {
            sooner(ready);
        }
        if let Some(pause) = &mut self.pause {
            sooner(&mut pause.until);
            if let Some(asked) = &mut pause.asked {
                sooner(asked);
            }
        }
        state.send_if_modified(|state| match state {
            LoginState::CoolingDown { until, .. } => {
                sooner(until);
                true
            }
            _ => false,
        });
    }
}

impl Pause {
    fn state(&self) -> LoginState {
        LoginState::CoolingDown {
            until: self.until,
            reason: self.reason,
            why: self.why.clone(),
        }
    }
}
