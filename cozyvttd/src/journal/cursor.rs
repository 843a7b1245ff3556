//! The arithmetic of cursors: which records a page holds and what it says of
//! those it does not hold.

use cozyvtt_proto::control::EventPage;
use thiserror::Error;

use super::JournalError;
use super::store::Store;

/// Most records in a page.
const MAX_LIMIT: u32 = 500;

/// How far back a reader without a cursor is taken.
const START_REACH: u64 = 500;

/// Why there is no page.
#[derive(Debug, Error)]
pub enum PageError {
    /// The limit is not allowed.
    #[error("since must be >= 0 and limit must be in 1..{MAX_LIMIT}")]
    Bounds,
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

pub(super) fn check(limit: u32) -> Result<(), PageError> {
    if (1..=MAX_LIMIT).contains(&limit) {
        Ok(())
    } else {
        Err(PageError::Bounds)
    }
}

pub(super) fn read(store: &Store, since: u64, limit: u32) -> Result<EventPage, PageError> {
    check(limit)?;
    // One snapshot for the bounds and the records.
    let snapshot = store.snapshot()?;
    let high_water_seq = snapshot.newest()?;
    let oldest_seq = snapshot.oldest()?.unwrap_or(high_water_seq + 1);
    let cursor_reset = since > high_water_seq;
    let cursor = if cursor_reset { 0 } else { since };
    // Without a cursor of its own a reader is not taken through days of play.
    let from = if cursor == 0 {
        high_water_seq.saturating_sub(START_REACH)
    } else {
        cursor
    };
    let events = snapshot.after(from, limit)?;
    let next_seq = events.last().map_or(from, |record| record.seq);
    Ok(EventPage {
        next_seq,
        high_water_seq,
        oldest_seq,
        gap: cursor < oldest_seq.saturating_sub(1),
        cursor_reset,
        has_more: next_seq < high_water_seq,
        events,
    })
}
