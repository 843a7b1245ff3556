//! How many requests are under way at once, shared fairly between those who ask: one
//! party has half of the places at most, and a free one goes to whoever has fewest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use super::budget::Party;
use crate::lock::lock;

/// Places for requests. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Pool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    places: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How many places each party has; none of these is zero.
    taken: HashMap<Party, usize>,
    /// Those who wait for one, in the order in which they came.
    waiting: Vec<(Party, oneshot::Sender<Place>)>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    pool: Pool,
    party: Party,
}

impl Pool {
    /// So many places.
    pub(super) fn new(places: usize) -> Self {
        Self(Arc::new(Inner {
            places,
            state: Mutex::default(),
        }))
    }

    /// Waits for a place for `party`; whoever stops waiting gives up the turn.
    pub(super) async fn take(&self, party: Party) -> Place {
        let turn = {
            let mut state = lock(&self.0.state);
            if self.0.has_room_for(&state, party) {
                return self.give(&mut state, party);
            }
            let (tell, turn) = oneshot::channel();
            state.waiting.push((party, tell));
            turn
        };
        match turn.await {
            Ok(place) => place,
            // Nobody forgets somebody who waits.
            Err(_) => std::future::pending().await,
        }
    }

    fn give(&self, state: &mut State, party: Party) -> Place {
        *state.taken.entry(party).or_default() += 1;
        Place {
            pool: self.clone(),
            party,
        }
    }

    /// Gives free places to those who wait.
    fn hand_out(&self) {
        loop {
            let (tell, place) = {
                let mut state = lock(&self.0.state);
                state.waiting.retain(|(_, tell)| !tell.is_closed());
                let taken = |party: &Party| state.taken.get(party).copied().unwrap_or_default();
                let next = (0..state.waiting.len())
                    .filter(|at| self.0.has_room_for(&state, state.waiting[*at].0))
                    .min_by_key(|at| taken(&state.waiting[*at].0));
                let Some(next) = next else {
                    return;
                };
                let (party, tell) = state.waiting.remove(next);
                (tell, self.give(&mut state, party))
            };
            // Who has gone just now gives it back by that.
            drop(tell.send(place));
        }
    }
}

impl Inner {
    fn has_room_for(&self, state: &State, party: Party) -> bool {
        let all: usize = state.taken.values().sum();
        let own = state.taken.get(&party).copied().unwrap_or_default();
        all < self.places && own < self.places.div_ceil(2)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        {
            let mut state = lock(&self.pool.0.state);
            if let Some(taken) = state.taken.get_mut(&self.party) {
                *taken -= 1;
                if *taken == 0 {
                    state.taken.remove(&self.party);
                }
            }
        }
        self.pool.hand_out();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn at_once(pool: &Pool, party: Party) -> Option<Place> {
        pool.take(party).now_or_never()
    }

    #[test]
    fn one_party_has_half_of_the_places_and_the_others_the_rest() {
        let pool = Pool::new(4);
        let own = [at_once(&pool, 1), at_once(&pool, 1)];
        assert!(own.iter().all(Option::is_some));
        assert!(at_once(&pool, 1).is_none());
        let theirs = [at_once(&pool, 2), at_once(&pool, 3)];
        assert!(theirs.iter().all(Option::is_some));
        assert!(at_once(&pool, 4).is_none(), "all are taken");
    }

    #[tokio::test]
    async fn a_free_place_goes_to_whoever_has_fewest() {
        let pool = Pool::new(4);
        let mut busy = vec![pool.take(1).await, pool.take(1).await];
        let others = [pool.take(2).await, pool.take(2).await];
        let greedy = tokio::spawn({
            let pool = pool.clone();
            async move { pool.take(1).await }
        });
        tokio::task::yield_now().await;
        let modest = tokio::spawn({
            let pool = pool.clone();
            async move { pool.take(3).await }
        });
        tokio::task::yield_now().await;
        busy.pop();
        let _modest = modest.await.unwrap();
        assert!(!greedy.is_finished());
        drop(others);
        greedy.await.unwrap();
    }

    #[tokio::test]
    async fn who_stops_waiting_leaves_its_turn_to_the_next() {
        let pool = Pool::new(1);
        let only = pool.take(1).await;
        let gone = tokio::spawn({
            let pool = pool.clone();
            async move { pool.take(2).await }
        });
        tokio::task::yield_now().await;
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
        drop(only);
        assert!(at_once(&pool, 3).is_some());
    }
}
