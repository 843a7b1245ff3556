//! A budget of sends in a sliding window, shared fairly between those who send: a short
//! burst goes out at once, what exceeds the window waits its turn, and what would wait too
//! long is refused.
//!
//! Fair is: whoever has had least of the window goes first, and one party leaves a slot for
//! each of the others. So somebody with fifty rolls in the queue does not keep another from
//! their one.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::lock::lock;
use crate::time::seconds_to_wait;

/// Who sends: a client's number, or 0 for the daemon itself and the person in charge of it.
pub type Party = u64;

/// The budget of one kind of send, shared by all clients.
#[derive(Debug)]
pub struct Budget {
    sends: AtomicUsize,
    window: Duration,
    /// How many clients there are to share it.
    parties: AtomicUsize,
    queue: Mutex<Queue>,
}

/// The queue is so long that the caller is told rather than kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the queue is full: this one would wait {} s; nothing was sent, try again then", seconds_to_wait(*wait))]
pub struct QueueFull {
    /// How long it would have waited.
    pub wait: Duration,
}

/// A time to send at. Given up before it has come, it is free for others.
#[derive(Debug)]
pub struct Slot<'a> {
    budget: &'a Budget,
    ticket: u64,
    party: Party,
    used: bool,
}

/// How much of a budget is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// Sends within the window, those that wait included.
    pub sends: usize,
    /// Sends that the window holds.
    pub of: usize,
    /// The window.
    pub window: Duration,
    /// How long the next one would wait.
    pub wait: Duration,
}

#[derive(Debug, Default)]
struct Queue {
    /// Slots that were used, or have come and are not used yet; oldest first, none of them
    /// in the future.
    taken: VecDeque<Taken>,
    /// Slots that are still to come, in the order in which they were asked for.
    waiting: Vec<Waiter>,
    tickets: u64,
}

#[derive(Debug, Clone, Copy)]
struct Taken {
    ticket: u64,
    party: Party,
    at: Instant,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    party: Party,
    /// How long after the one before it.
    spacing: Duration,
    /// When it is to come, as things stand: others come and go.
    at: Instant,
    moved: Arc<Notify>,
}

/// What bounds the queue.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    sends: usize,
    window: Duration,
    /// What one party may have of a window.
    share: usize,
}

impl Slot<'_> {
    /// Waits until it has come.
    pub async fn come(&self) {
        loop {
            let (at, moved) = {
                let mut queue = self.budget.queue();
                let Some(place) = queue.place(self.ticket) else {
                    return;
                };
                let waiter = &queue.waiting[place];
                if waiter.at <= Instant::now() {
                    queue.admit(place);
                    return;
                }
                (waiter.at, Arc::clone(&waiter.moved))
            };
            tokio::select! {
                () = sleep_until(at) => {}
                () = moved.notified() => {}
            }
        }
    }

    /// How long it is until it comes, as things stand.
    pub fn left(&self) -> Duration {
        let queue = self.budget.queue();
        queue.place(self.ticket).map_or(Duration::ZERO, |place| {
            queue.waiting[place]
                .at
                .saturating_duration_since(Instant::now())
        })
    }

    /// Uses it: from now on it counts, even when the send fails, for the server may
    /// have counted it. One that was kept for a while counts from now.
    pub fn spend(mut self) {
        self.used = true;
        let now = Instant::now();
        let mut queue = self.budget.queue();
        if let Some(place) = queue.place(self.ticket) {
            queue.admit(place);
        }
        // One that was kept for longer than the window is no longer there.
        let kept = queue.withdraw(self.ticket);
        queue.insert(Taken {
            ticket: self.ticket,
            party: self.party,
            at: kept.map_or(now, |slot| slot.at.max(now)),
        });
        queue.plan(now, self.budget.bounds());
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if !self.used {
            let mut queue = self.budget.queue();
            queue.withdraw(self.ticket);
            queue.waiting.retain(|waiter| waiter.ticket != self.ticket);
            queue.plan(Instant::now(), self.budget.bounds());
        }
    }
}

impl Queue {
    /// Where a slot waits, if it does.
    fn place(&self, ticket: u64) -> Option<usize> {
        self.waiting
            .iter()
            .position(|waiter| waiter.ticket == ticket)
    }

    /// Whether whoever comes now can have a slot at once, without a plan: nobody waits,
    /// and even if all of the window were theirs it would be less than their share. So it
    /// costs the same whether the server takes 300 in a minute or 100,000.
    fn is_free(&self, now: Instant, spacing: Duration, bounds: Bounds) -> bool {
        self.waiting.is_empty()
            && self.taken.len() < bounds.share
            && self
                .taken
                .back()
                .is_none_or(|newest| newest.at + spacing <= now)
    }

    /// A slot has come.
    fn admit(&mut self, place: usize) {
        let Waiter {
            ticket, party, at, ..
        } = self.waiting.remove(place);
        self.insert(Taken { ticket, party, at });
    }

    fn insert(&mut self, slot: Taken) {
        let place = self.taken.partition_point(|other| other.at <= slot.at);
        self.taken.insert(place, slot);
    }

    fn withdraw(&mut self, ticket: u64) -> Option<Taken> {
        // It is mostly one of the newest.
        let place = self.taken.iter().rposition(|slot| slot.ticket == ticket)?;
        self.taken.remove(place)
    }

    /// Gives every waiting slot its time: the next free one each to whoever can have it
    /// first, and among equals to the party that has had least.
    fn plan(&mut self, now: Instant, bounds: Bounds) {
        // The newest one stays: what has to be apart is so from it.
        while self.taken.len() > 1
            && (self.taken.front()).is_some_and(|slot| slot.at + bounds.window <= now)
        {
            self.taken.pop_front();
        }
        if self.waiting.is_empty() {
            return;
        }
        let mut timetable = Timetable::new(&self.taken, now, bounds);
        // Of each party the one that asked first; the others follow when it has its time.
        let mut lines: HashMap<Party, VecDeque<usize>> = HashMap::new();
        for (place, waiter) in self.waiting.iter().enumerate() {
            lines.entry(waiter.party).or_default().push_back(place);
        }
        let next = |lines: &HashMap<Party, VecDeque<usize>>, timetable: &Timetable| {
            lines
                .values()
                .filter_map(|line| {
                    let place = *line.front()?;
                    let Waiter { party, spacing, .. } = self.waiting[place];
                    let at = timetable.earliest(party, spacing);
                    // Places are in the order of arrival.
                    Some((at, timetable.had(party, at), place))
                })
                .min()
        };
        let mut times = Vec::with_capacity(self.waiting.len());
        while let Some((at, _, place)) = next(&lines, &timetable) {
            let party = self.waiting[place].party;
            timetable.add(party, at);
            if let Some(line) = lines.get_mut(&party) {
                line.pop_front();
            }
            times.push((place, at));
        }
        for (place, at) in times {
            let waiter = &mut self.waiting[place];
            if waiter.at != at {
                waiter.at = at;
                waiter.moved.notify_one();
            }
        }
    }
}

/// The times that are given so far, each list oldest first.
struct Timetable {
    all: Vec<Instant>,
    of: HashMap<Party, Vec<Instant>>,
    now: Instant,
    bounds: Bounds,
}

impl Timetable {
    fn new(taken: &VecDeque<Taken>, now: Instant, bounds: Bounds) -> Self {
        let mut timetable = Self {
            all: Vec::with_capacity(taken.len()),
            of: HashMap::new(),
            now,
            bounds,
        };
        for slot in taken {
            timetable.add(slot.party, slot.at);
        }
        timetable
    }

    /// The first time that a party can have. It is never before one that was given.
    fn earliest(&self, party: Party, spacing: Duration) -> Instant {
        let Bounds {
            sends,
            window,
            share,
        } = self.bounds;
        // Whatever stands this far from the end has to have left the window.
        let free = |times: &[Instant], of: usize| {
            let place = times.len().checked_sub(of)?;
            times.get(place).map(|at| *at + window)
        };
        let mut at = self.now.max(free(&self.all, sends).unwrap_or(self.now));
        if party != 0
            && let Some(own) = self.of.get(&party)
        {
            at = at.max(free(own, share).unwrap_or(at));
        }
        match self.all.last() {
            Some(newest) if !spacing.is_zero() => at.max(*newest + spacing),
            _ => at,
        }
    }

    /// How much a party has of the window that ends at `at`.
    fn had(&self, party: Party, at: Instant) -> usize {
        self.of.get(&party).map_or(0, |own| {
            own.len() - own.partition_point(|slot| *slot + self.bounds.window < at)
        })
    }

    fn add(&mut self, party: Party, at: Instant) {
        self.all.push(at);
        self.of.entry(party).or_default().push(at);
    }
}

impl Budget {
    /// `sends` in every `window`.
    pub fn new(sends: usize, window: Duration) -> Self {
        Self {
            sends: AtomicUsize::new(sends),
            window,
            parties: AtomicUsize::new(1),
            queue: Mutex::default(),
        }
    }

    /// From now on `sends` in every window, and at least one.
    pub fn resize(&self, sends: usize) {
        self.sends.store(sends.max(1), Ordering::Relaxed);
    }

    /// From now on there are `parties` clients to share it: each leaves a slot for each of
    /// the others, half of the budget at most.
    pub fn share_between(&self, parties: usize) {
        if self.parties.swap(parties, Ordering::Relaxed) != parties {
            self.queue().plan(Instant::now(), self.bounds());
        }
    }

    /// Takes the next slot for `party`.
    ///
    /// # Errors
    ///
    /// [`QueueFull`] when the slot is more than `patience` away.
    pub fn take(&self, party: Party, patience: Duration) -> Result<Slot<'_>, QueueFull> {
        self.take_apart(party, Duration::ZERO, patience)
    }

    /// Takes the next slot for `party` that is at least `spacing` after the one before it.
    ///
    /// # Errors
    ///
    /// [`QueueFull`] when the slot is more than `patience` away.
    pub fn take_apart(
        &self,
        party: Party,
        spacing: Duration,
        patience: Duration,
    ) -> Result<Slot<'_>, QueueFull> {
        let now = Instant::now();
        let mut queue = self.queue();
        queue.tickets += 1;
        let ticket = queue.tickets;
        if queue.is_free(now, spacing, self.bounds()) {
            queue.insert(Taken {
                ticket,
                party,
                at: now,
            });
            return Ok(Slot {
                budget: self,
                ticket,
                party,
                used: false,
            });
        }
        queue.waiting.push(Waiter {
            ticket,
            party,
            spacing,
            at: now,
            moved: Arc::default(),
        });
        queue.plan(now, self.bounds());
        // It was pushed just now.
        let place = queue.waiting.len() - 1;
        let wait = queue.waiting[place].at - now;
        if wait > patience {
            queue.waiting.pop();
            queue.plan(now, self.bounds());
            return Err(QueueFull { wait });
        }
        if wait.is_zero() {
            queue.admit(place);
        }
        Ok(Slot {
            budget: self,
            ticket,
            party,
            used: false,
        })
    }

    /// How much of it is used now.
    pub fn used(&self) -> Use {
        let queue = self.queue();
        let now = Instant::now();
        let bounds = self.bounds();
        let mut timetable = Timetable::new(&queue.taken, now, bounds);
        let mut waiting: Vec<_> = queue.waiting.iter().map(|waiter| waiter.at).collect();
        waiting.sort();
        for at in waiting {
            timetable.add(0, at);
        }
        Use {
            sends: timetable
                .all
                .iter()
                .filter(|at| **at + self.window > now)
                .count(),
            of: bounds.sends,
            window: self.window,
            wait: timetable.earliest(0, Duration::ZERO) - now,
        }
    }

    fn bounds(&self) -> Bounds {
        let sends = self.sends.load(Ordering::Relaxed);
        let others = self.parties.load(Ordering::Relaxed).saturating_sub(1);
        Bounds {
            sends,
            window: self.window,
            share: sends - others.min(sends / 2),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// Takes a slot and uses it when it has come; gives how long that took.
    async fn take(budget: &Budget, patience: Duration) -> Duration {
        let began = Instant::now();
        let slot = budget.take(1, patience).unwrap();
        slot.come().await;
        slot.spend();
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_goes_out_at_once_and_the_next_one_waits_for_the_window() {
        let budget = Budget::new(28, MINUTE);
        let start = Instant::now();
        for _ in 0..28 {
            take(&budget, MINUTE).await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert_eq!(budget.used().wait, MINUTE);
        let waited = take(&budget, MINUTE).await;
        assert_eq!((start.elapsed().as_secs(), waited.as_secs()), (60, 60));
    }

    #[tokio::test(start_paused = true)]
    async fn no_window_ever_holds_more_than_the_budget() {
        let budget = Budget::new(3, MINUTE);
        let mut times = Vec::new();
        for number in 0..12_u64 {
            tokio::time::advance(Duration::from_secs(number % 5)).await;
            if number % 4 == 2 {
                // What is given up in between changes nothing.
                drop(budget.take(1, 10 * MINUTE).unwrap());
            }
            take(&budget, 10 * MINUTE).await;
            times.push(Instant::now());
        }
        for four in times.windows(4) {
            assert!(four[3] - four[0] >= MINUTE);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_would_wait_too_long_is_refused_at_once_with_the_wait() {
        let budget = Budget::new(1, MINUTE);
        let patience = Duration::from_secs(30);
        take(&budget, patience).await;
        let refusal = budget.take(1, patience).unwrap_err();
        assert_eq!(refusal.wait, MINUTE);
        tokio::time::advance(Duration::from_secs(31)).await;
        take(&budget, patience).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_that_is_given_up_is_free_again() {
        let budget = Budget::new(1, MINUTE);
        take(&budget, MINUTE).await;
        let waiting = budget.take(1, MINUTE).unwrap();
        assert!(budget.take(1, MINUTE).is_err());
        drop(waiting);
        assert_eq!(take(&budget, MINUTE).await, MINUTE);
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_to_be_apart_goes_out_apart() {
        let budget = Budget::new(100, MINUTE);
        let five = Duration::from_secs(5);
        let first = budget.take_apart(1, five, MINUTE).unwrap();
        let second = budget.take_apart(1, five, MINUTE).unwrap();
        let start = Instant::now();
        first.come().await;
        first.spend();
        second.come().await;
        second.spend();
        assert_eq!(start.elapsed(), five);
        // Longer than the window as well.
        let later = budget.take_apart(1, 2 * MINUTE, 5 * MINUTE).unwrap();
        later.come().await;
        assert_eq!(start.elapsed(), five + 2 * MINUTE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_that_was_kept_counts_from_when_it_is_used() {
        let budget = Budget::new(1, MINUTE);
        let slot = budget.take(1, MINUTE).unwrap();
        tokio::time::advance(MINUTE / 2).await;
        slot.spend();
        assert_eq!(budget.used().wait, MINUTE);
    }

    #[tokio::test(start_paused = true)]
    async fn fifty_in_the_queue_of_one_do_not_keep_another_from_its_one() {
        let budget = Budget::new(28, MINUTE);
        budget.share_between(3);
        let start = Instant::now();
        let mut first = Vec::new();
        while let Ok(slot) = budget.take(1, 10 * MINUTE) {
            first.push(slot);
            if first.len() == 50 {
                break;
            }
        }
        assert_eq!(
            first.iter().filter(|slot| slot.left().is_zero()).count(),
            26
        );
        for other in [2, 3] {
            let one = budget.take(other, MINUTE).unwrap();
            one.come().await;
            one.spend();
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_had_least_goes_first_whoever_asked_first() {
        let budget = Budget::new(2, MINUTE);
        for _ in 0..2 {
            take(&budget, MINUTE).await;
        }
        let mine: Vec<_> = (0..4)
            .map(|_| budget.take(1, 10 * MINUTE).unwrap())
            .collect();
        assert_eq!(mine[0].left(), MINUTE);
        let theirs = budget.take(2, 10 * MINUTE).unwrap();
        assert_eq!(theirs.left(), MINUTE);
        theirs.come().await;
        theirs.spend();
        mine[0].come().await;
        // The others have moved back by one.
        let left: Vec<_> = mine.iter().map(|slot| slot.left().as_secs()).collect();
        assert_eq!(left, [0, 60, 60, 120]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_comes_earlier_when_one_before_it_is_given_up() {
        let budget = Budget::new(1, MINUTE);
        take(&budget, MINUTE).await;
        let before = budget.take(1, 10 * MINUTE).unwrap();
        let after = budget.take(2, 10 * MINUTE).unwrap();
        // Whoever has had less is first, so that the one that asked first is behind.
        assert_eq!((before.left(), after.left()), (2 * MINUTE, MINUTE));
        let start = Instant::now();
        let given_up = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(after);
        };
        tokio::join!(before.come(), given_up);
        assert_eq!(start.elapsed(), MINUTE);
    }

    proptest::proptest! {
        #[test]
        fn whoever_asks_no_window_holds_more_than_the_budget(
            parties in proptest::collection::vec((0_u64..4, 0_u64..20, 0_u64..3), 1..60)
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap();
            let sent = runtime.block_on(async {
                let budget = Budget::new(4, MINUTE);
                budget.share_between(3);
                let sent = Mutex::new(Vec::new());
                let calls = parties.iter().scan(0, |at, (party, pause, gives_up)| {
                    *at += pause;
                    let (budget, sent, at) = (&budget, &sent, *at);
                    Some(async move {
                        tokio::time::sleep(Duration::from_secs(at)).await;
                        let Ok(slot) = budget.take(*party, 100 * MINUTE) else { return };
                        if *gives_up == 0 {
                            let patience = Duration::from_secs(30);
                            if tokio::time::timeout(patience, slot.come()).await.is_err() {
                                return;
                            }
                        } else {
                            slot.come().await;
                        }
                        slot.spend();
                        sent.lock().unwrap().push(Instant::now());
                    })
                });
                futures_util::future::join_all(calls).await;
                sent.into_inner().unwrap()
            });
            for window in sent.windows(5) {
                proptest::prop_assert!(window[4] - window[0] >= MINUTE, "{sent:?}");
            }
        }
    }
}
