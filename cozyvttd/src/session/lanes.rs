//! Lanes for writes. CozyVTT reads a map's tokens, or a sheet, changes the whole
//! and writes it back without a lock, so of two writes at once one is lost. Here
//! one write at a time goes to each; reads are not held up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};
use tokio::time::timeout;

/// How long a write waits for its turn: well within the time limits of MCP
/// clients, which start at 60 s.
const PATIENCE: Duration = Duration::from_secs(45);

/// How many lanes may be remembered before those that nobody uses are forgotten.
const REMEMBERED: usize = 256;

/// What a write changes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Lane {
    /// A map: its tokens and their initiative.
    Map(String),
    /// A character's sheet.
    Character(String),
    /// The game's chat.
    Chat,
    /// The combat order.
    Initiative,
    /// The account's saved rolls, whose quota is counted before it is written.
    SavedRolls,
}

/// The lanes in use.
#[derive(Debug, Default)]
pub struct Lanes(Mutex<HashMap<Lane, Weak<Turn<()>>>>);

/// The right to write; given back when this value goes.
#[derive(Debug)]
pub struct Right(#[expect(dead_code, reason = "held for its lock")] OwnedMutexGuard<()>);

/// The writes before this one took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "other writes to the same thing have been running for {} s; nothing was sent, try again later",
    PATIENCE.as_secs()
)]
pub struct LaneBusy;

impl Lanes {
    /// Waits for the turn in `lane`; first come, first served.
    ///
    /// # Errors
    ///
    /// [`LaneBusy`] when the turn does not come in time.
    pub async fn take(&self, lane: Lane) -> Result<Right, LaneBusy> {
        let turn = self.turn(lane);
        timeout(PATIENCE, turn.lock_owned())
            .await
            .map(Right)
            .map_err(|_| LaneBusy)
    }

    fn turn(&self, lane: Lane) -> Arc<Turn<()>> {
        let mut lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
    use super::*;

    fn map(id: &str) -> Lane {
        Lane::Map(id.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn one_write_at_a_time_goes_to_a_map_and_others_are_not_held_up() {
        let lanes = Lanes::default();
        let first = lanes.take(map("a")).await.unwrap();
        lanes.take(map("b")).await.unwrap();
        lanes.take(Lane::Character("a".to_owned())).await.unwrap();
        assert_eq!(lanes.take(map("a")).await.unwrap_err(), LaneBusy);
        drop(first);
        lanes.take(map("a")).await.unwrap();
    }

    #[tokio::test]
    async fn lanes_that_nobody_uses_are_forgotten() {
        let lanes = Lanes::default();
        let held = lanes.take(map("held")).await.unwrap();
        for number in 0..3 * REMEMBERED {
            lanes.take(map(&number.to_string())).await.unwrap();
        }
        assert!(lanes.0.lock().unwrap().len() <= REMEMBERED);
        drop(held);
    }
}
