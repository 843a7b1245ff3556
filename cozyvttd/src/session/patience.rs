//! How long a call waits before anything of it is sent: one limit for all its waits
//! together, and none beyond its caller or the daemon.
//!
//! The patience belongs to the task that carries a call out
//! ([`Patience::rule`]), so that every wait on the way finds it. What the daemon does
//! by itself has a patience of its own for each thing.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::budget::Party;
use crate::lock::lock;

/// How long a call may wait, all in all: with the time that a request takes, within
/// the time limits of MCP clients, which start at 60 s.
pub const LIMIT: Duration = Duration::from_secs(40);

/// How often somebody who wants to know is told how long it still takes.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// A wait that is worth telling.
const NOTICEABLE: Duration = Duration::from_secs(1);

/// Where it is told how a call gets on; `None` until there is something to tell.
pub type Telling = watch::Sender<Option<Progress>>;

/// How a call gets on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It waits for its turn.
    Waiting(Wait),
    /// A file of it is on its way.
    Moving(Transfer),
}

/// A file on its way, as things stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Which way, as in "uploading".
    pub what: &'static str,
    /// Bytes so far.
    pub done: u64,
    /// Bytes in all, where that is known.
    pub of: Option<u64>,
}

/// What a call does before anything of it leaves; false when it cannot, and nothing
/// may leave.
pub type Leaving = Box<dyn FnOnce() -> BoxFuture<'static, bool> + Send>;

/// A wait of a call, as things stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// For what, as in "waiting for its turn to roll".
    pub what: &'static str,
    /// How long the call has been waiting, all in all.
    pub waited: Duration,
    /// How long this wait still takes.
    pub left: Duration,
}

tokio::task_local! {
    static OF_THIS_CALL: Patience;
}

/// The patience of one call.
#[derive(Clone)]
pub struct Patience {
    begun: Instant,
    until: Instant,
    party: Party,
    telling: Option<Telling>,
    /// The most bytes of its file that were told: a second try begins anew, and to whoever
    /// looks on nothing goes back.
    furthest: Arc<AtomicU64>,
    given_up: CancellationToken,
    stopping: CancellationToken,
    /// A part of it is done.
    half_done: Arc<AtomicBool>,
    /// What is still to be done before anything of it leaves.
    leaving: Arc<Mutex<Option<Leaving>>>,
}

/// Why a wait ended in vain. Nothing of what it was for was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Impatience {
    /// It took longer than [`LIMIT`] since the call began.
    #[error(
        "its turn did not come within {} s; nothing was sent, try again later",
        LIMIT.as_secs()
    )]
    TooLong,
    /// Whoever called does not want it any more.
    #[error("the call was cancelled while it waited for its turn; nothing was sent")]
    GivenUp,
    /// The daemon stops.
    #[error("cozyvttd is stopping; nothing was sent")]
    Stopping,
    /// It cannot be entered in the ledger of writes.
    #[error("the ledger of writes takes no entry; nothing was sent, try again later")]
    Unentered,
}

impl Impatience {
    /// Why, without a word about what was sent.
    pub fn reason(self) -> &'static str {
        match self {
            Self::TooLong => "it took too long",
            Self::GivenUp => "the call was cancelled",
            Self::Stopping => "cozyvttd is stopping",
            Self::Unentered => "the ledger of writes takes no entry",
        }
    }
}

impl fmt::Debug for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience")
            .field("party", &self.party)
            .field("left", &self.left())
            .finish_non_exhaustive()
    }
}

impl Patience {
    /// That of a call which begins now. Cancelling `given_up` or `stopping` ends every
    /// wait; it does not end what has been sent.
    pub fn new(given_up: CancellationToken, stopping: CancellationToken) -> Self {
        let begun = Instant::now();
        Self {
            begun,
            until: begun + LIMIT,
            party: 0,
            telling: None,
            furthest: Arc::default(),
            given_up,
            stopping,
            half_done: Arc::default(),
            leaving: Arc::default(),
        }
    }

    /// The same for a call that does `leaving` before anything of it leaves.
    #[must_use]
    pub fn leaving_with(self, leaving: Leaving) -> Self {
        Self {
            leaving: Arc::new(Mutex::new(Some(leaving))),
            ..self
        }
    }

    /// That of a call by `party`; what it waits for is told to `telling`.
    #[must_use]
    pub fn of(self, party: Party, telling: Option<Telling>) -> Self {
        Self {
            party,
            telling,
            ..self
        }
    }

    /// Whose call it is, where budgets are shared; 0 is the daemon itself.
    pub fn party(&self) -> Party {
        self.party
    }

    /// Carries a call out with this patience.
    pub async fn rule<T>(self, call: impl Future<Output = T>) -> T {
        OF_THIS_CALL.scope(self, call).await
    }

    /// That of the call which this task carries out, or a new one.
    pub fn current() -> Self {
        OF_THIS_CALL
            .try_with(Clone::clone)
            .unwrap_or_else(|_| Self::new(CancellationToken::new(), CancellationToken::new()))
    }

    /// To be waited for before something leaves that changes the table.
    ///
    /// # Errors
    ///
    /// [`Impatience::Unentered`]; nothing may leave then.
    pub async fn leave(&self) -> Result<(), Impatience> {
        // Only for the first thing; one call sends one after the other.
        let leaving = lock(&self.leaving).take();
        let Some(leaving) = leaving else {
            return Ok(());
        };
        if leaving().await {
            return Ok(());
        }
        // Nor may what comes after it.
        *lock(&self.leaving) = Some(Box::new(|| ready(false).boxed()));
        Err(Impatience::Unentered)
    }

    /// Notes that the server has done a part of what the call is about: from now on only
    /// time ends its waits, so that the rest of it follows.
    pub fn carry_on(&self) {
        self.half_done.store(true, Ordering::Relaxed);
    }

    /// How much of it is left.
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Tells how far a file is.
    pub fn moved(&self, mut transfer: Transfer) {
        if let Some(telling) = &self.telling {
            let before = self.furthest.fetch_max(transfer.done, Ordering::Relaxed);
            transfer.done = transfer.done.max(before);
            telling.send_replace(Some(Progress::Moving(transfer)));
        }
    }

    /// Waits for `turn`.
    ///
    /// # Errors
    ///
    /// [`Impatience`].
    pub async fn wait<T>(&self, turn: impl Future<Output = T>) -> Result<T, Impatience> {
        let may_end = !self.half_done.load(Ordering::Relaxed);
        tokio::select! {
            biased;
            () = self.given_up.cancelled(), if may_end => Err(Impatience::GivenUp),
            () = self.stopping.cancelled(), if may_end => Err(Impatience::Stopping),
            turn = turn => Ok(turn),
            () = sleep_until(self.until) => Err(Impatience::TooLong),
        }
    }

    /// Waits for `turn`, of which `left` says how long it still takes, and tells it to
    /// whoever wants to know.
    ///
    /// # Errors
    ///
    /// [`Impatience`].
    pub async fn wait_for<T>(
        &self,
        what: &'static str,
        left: impl Fn() -> Duration,
        turn: impl Future<Output = T>,
    ) -> Result<T, Impatience> {
        let told = async {
            tokio::pin!(turn);
            loop {
                let left = left();
                if left >= NOTICEABLE
                    && let Some(telling) = &self.telling
                {
                    telling.send_replace(Some(Progress::Waiting(Wait {
                        what,
                        waited: self.begun.elapsed(),
                        left,
                    })));
                }
                tokio::select! {
                    turn = &mut turn => return turn,
                    () = sleep(TELL_EVERY) => {}
                }
            }
        };
        self.wait(told).await
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    fn patience() -> (Patience, CancellationToken) {
        let given_up = CancellationToken::new();
        let patience = Patience::new(given_up.clone(), CancellationToken::new());
        (patience, given_up)
    }

    #[tokio::test(start_paused = true)]
    async fn all_waits_of_a_call_share_one_limit() {
        let (patience, _) = patience();
        let start = Instant::now();
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(patience.wait(ready(1)).await, Ok(1));
        assert_eq!(
            patience.wait(pending::<()>()).await,
            Err(Impatience::TooLong)
        );
        assert_eq!(start.elapsed(), LIMIT);
    }

    #[tokio::test]
    async fn a_caller_that_gives_up_waits_no_longer_wherever_it_waits() {
        let (patience, given_up) = patience();
        given_up.cancel();
        let deep_down = async { Patience::current().wait(pending::<()>()).await };
        assert_eq!(patience.rule(deep_down).await, Err(Impatience::GivenUp));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_half_done_goes_on_whoever_gives_it_up() {
        let (patience, given_up) = patience();
        given_up.cancel();
        assert_eq!(patience.wait(ready(1)).await, Err(Impatience::GivenUp));
        patience.clone().carry_on();
        assert_eq!(patience.wait(ready(1)).await, Ok(1));
    }

    #[tokio::test]
    async fn what_cannot_be_entered_does_not_leave_and_nothing_after_it() {
        let (patience, _) = patience();
        let entered = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&entered);
        let good = patience.clone().leaving_with(Box::new(move || {
            told.store(true, Ordering::Relaxed);
            ready(true).boxed()
        }));
        assert_eq!(good.leave().await, Ok(()));
        assert!(entered.load(Ordering::Relaxed));
        assert_eq!(good.leave().await, Ok(()), "it is entered once");
        let bad = patience.leaving_with(Box::new(|| ready(false).boxed()));
        for _ in 0..2 {
            assert_eq!(bad.leave().await, Err(Impatience::Unentered));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_wants_to_know_is_told_every_five_seconds_how_long_it_still_takes() {
        let (telling, mut told) = watch::channel(None);
        let (patience, _) = patience();
        let patience = patience.of(1, Some(telling));
        let start = Instant::now();
        let twelve = Duration::from_secs(12);
        let left = || twelve.saturating_sub(start.elapsed());
        let listening = async {
            let mut heard = Vec::new();
            while told.changed().await.is_ok() {
                let Progress::Waiting(wait) = told.borrow_and_update().unwrap() else {
                    panic!("nothing moves here")
                };
                heard.push((wait.waited.as_secs(), wait.left.as_secs()));
            }
            heard
        };
        let waiting = async {
            let turn = patience.wait_for("its turn", left, sleep(twelve)).await;
            drop(patience);
            turn
        };
        let (heard, turn) = tokio::join!(listening, waiting);
        assert_eq!(turn, Ok(()));
        assert_eq!(heard, [(0, 12), (5, 7), (10, 2)]);
    }
}
