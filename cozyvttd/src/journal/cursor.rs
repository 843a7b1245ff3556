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

#[cfg(test)]
mod tests {
    use cozyvtt_proto::event::EventRecord;
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn store(count: u64, evicted: u64) -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(&dir.path().join("journal.sqlite")).unwrap();
        let records: Vec<_> = (1..=count)
            .map(|seq| EventRecord {
                seq,
                ts: 0.0,
                event: "chat.message".to_owned(),
                payload: Value::Null,
                generation: 1,
            })
            .collect();
        store.append(&records).unwrap();
        store.evict(evicted);
        (dir, store)
    }

    #[test]
    fn t_buf_03_what_was_evicted_shows_as_a_gap_once() {
        let (_dir, store) = store(8, 3);
        let first = read(&store, 0, 2).unwrap();
        assert!(first.gap && first.has_more && !first.cursor_reset);
        assert_eq!(
            (first.oldest_seq, first.next_seq, first.high_water_seq),
            (4, 5, 8)
        );
        let next = read(&store, first.next_seq, 500).unwrap();
        assert!(!next.gap && !next.has_more);
        assert_eq!(next.next_seq, 8);
        let reset = read(&store, 100, 1).unwrap();
        assert!(reset.cursor_reset && reset.gap);
        assert_eq!(reset.events[0].seq, 4);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_page_holds_what_its_fields_say(
            count in 0_u64..40, gone in 0_u64..45, since in 0_u64..60, limit in 1_u32..12,
        ) {
            let evicted = gone.min(count);
            let (_dir, store) = store(count, evicted);
            let page = read(&store, since, limit).unwrap();
            let cursor = if since > count { 0 } else { since };
            let seqs: Vec<u64> = page.events.iter().map(|record| record.seq).collect();
            let wanted: Vec<u64> = (cursor.max(evicted) + 1..=count).take(limit as usize).collect();
            prop_assert_eq!(&seqs, &wanted);
            prop_assert_eq!(page.cursor_reset, since > count);
            prop_assert_eq!(page.high_water_seq, count);
            prop_assert_eq!(page.oldest_seq, evicted + 1);
            prop_assert_eq!(page.gap, cursor < evicted);
            prop_assert_eq!(page.next_seq, seqs.last().copied().unwrap_or(cursor));
            prop_assert_eq!(page.has_more, page.next_seq < count);
        }

        #[test]
        fn pages_one_after_the_other_hold_every_kept_record_once(
            count in 0_u64..40, gone in 0_u64..40, limit in 1_u32..12,
        ) {
            let evicted = gone.min(count);
            let (_dir, store) = store(count, evicted);
            let (mut since, mut seen) = (0, Vec::new());
            loop {
                let page = read(&store, since, limit).unwrap();
                seen.extend(page.events.iter().map(|record| record.seq));
                since = page.next_seq;
                if page.events.is_empty() || !page.has_more {
                    break;
                }
            }
            let kept: Vec<u64> = (evicted + 1..=count).collect();
            prop_assert_eq!(seen, kept);
        }
    }
}
