//! Lanes for writes. CozyVTT reads a map's tokens, or a sheet, changes the whole
//! and writes it back without a lock, so of two writes at once one is lost. Here
//! one write at a time goes to each; reads are not held up, but for the few whose
//! answer could be taken for a write's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use thiserror::Error;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock as Turn};

use super::patience;

use crate::lock::lock;

/// How many lanes may be remembered before those that nobody uses are forgotten.
const REMEMBERED: usize = 256;

/// What a write changes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// The game's chat.
    Chat,
    /// The account's saved rolls, whose quota is counted before it is written.
    SavedRolls,
    /// A character's sheet.
    Character(String),
    /// The combat order.
    Initiative,
    /// Which map the table is on.
    CurrentMap,
    /// A map: its tokens and their initiative.
    Map(String),
}

/// The lanes in use.
#[derive(Debug, Default)]
pub struct Lanes(Mutex<HashMap<Lane, Weak<Turn<()>>>>);

/// The right to write; given back when this value goes.
#[derive(Debug)]
pub struct Right(#[expect(dead_code, reason = "held for its lock")] OwnedRwLockWriteGuard<()>);

/// The right to read while nobody writes; given back when this value goes.
#[derive(Debug)]
pub struct Look(#[expect(dead_code, reason = "held for its lock")] OwnedRwLockReadGuard<()>);

/// The writes before this one took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "other writes to the same thing have been running for {} s; nothing was sent, try again later",
    patience::LIMIT.as_secs()
)]
pub struct LaneBusy;

impl Lanes {
    /// Waits for the turn in `lane`; first come, first served.
    pub async fn take(&self, lane: Lane) -> Right {
        Right(self.turn(lane).write_owned().await)
    }

    /// Waits until nobody writes in `lane`; others may look as well.
    pub async fn look(&self, lane: Lane) -> Look {
        Look(self.turn(lane).read_owned().await)
    }

    fn turn(&self, lane: Lane) -> Arc<Turn<()>> {
        let mut lanes = lock(&self.0);
        if let Some(turn) = lanes.get(&lane).and_then(Weak::upgrade) {
            return turn;
        }
        if lanes.len() >= REMEMBERED {
            lanes.retain(|_, turn| turn.strong_count() > 0);
        }
        let turn = Arc::default();
        lanes.insert(lane, Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn map(id: &str) -> Lane {
        Lane::Map(id.to_owned())
    }

    #[tokio::test]
    async fn one_write_at_a_time_goes_to_a_map_and_others_are_not_held_up() {
        let lanes = Lanes::default();
        let first = lanes.take(map("a")).await;
        lanes.take(map("b")).await;
        lanes.take(Lane::Character("a".to_owned())).await;
        assert!(lanes.take(map("a")).now_or_never().is_none());
        assert!(lanes.look(map("a")).now_or_never().is_none());
        drop(first);
        lanes.take(map("a")).await;
    }

    #[tokio::test]
    async fn many_look_at_once_and_a_write_waits_for_them() {
        let lanes = Lanes::default();
        let looks = (
            lanes.look(Lane::Initiative).await,
            lanes.look(Lane::Initiative).await,
        );
        assert!(lanes.take(Lane::Initiative).now_or_never().is_none());
        drop(looks);
        lanes.take(Lane::Initiative).await;
    }

    #[tokio::test]
    async fn lanes_that_nobody_uses_are_forgotten() {
        let lanes = Lanes::default();
        let held = lanes.take(map("held")).await;
        for number in 0..3 * REMEMBERED {
            lanes.take(map(&number.to_string())).await;
        }
        assert!(lanes.0.lock().unwrap().len() <= REMEMBERED);
        drop(held);
    }
}
