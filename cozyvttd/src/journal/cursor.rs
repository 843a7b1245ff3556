//! The arithmetic of cursors: which records a page holds and what it says of
//! those it does not hold.

use cozyvtt_proto::control::EventPage;
use thiserror::Error;

use super::JournalError;
use super::view::View;

/// Most records in a page.
const MAX_LIMIT: u32 = 500;

/// How many records a reader without a cursor is taken back.
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

/// A page of at most `limit` records after `since`, of a journal that has given numbers
/// up to `given`. It says nothing yet of what becomes of new records.
pub(super) fn read(view: &View, since: u64, limit: u32, given: u64) -> rusqlite::Result<EventPage> {
    let _moment = view.snapshot()?;
    let high_water_seq = view.newest()?;
    let cursor_reset = since > given;
    let cursor = if cursor_reset { 0 } else { since };
    // Without a cursor of its own a reader is not taken through days of play.
    let from = if cursor == 0 {
        view.back(START_REACH)?
    } else {
        cursor
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    // One more than is shown tells whether there is more. A comparison of numbers would
    // not: the newest ones may have no record any more.
    let mut events = view.after(from, limit.saturating_add(1))?;
    let has_more = events.len() > limit;
    events.truncate(limit);
    let evicted = view.evicted(cursor)?;
    Ok(EventPage {
        next_seq: events.last().map_or(from, |record| record.seq),
        high_water_seq,
        oldest_seq: view.oldest()?.unwrap_or(high_water_seq + 1),
        gap: !evicted.is_empty(),
        evicted,
        cursor_reset,
        has_more,
        events,
        durable: true,
        note: None,
    })
}

#[cfg(test)]
mod tests {
    use cozyvtt_proto::event::EventRecord;
    use proptest::prelude::*;
    use serde_json::Value;

    use super::super::commit::Entry;
    use super::super::moves::Moves;
    use super::super::retention::{self, Keep};
    use super::super::store::Store;
    use super::*;

    fn entry(seq: u64, event: &str) -> Entry {
        Entry {
            record: EventRecord {
                seq,
                ts: 0.0,
                event: event.to_owned(),
                payload: Value::Null,
                generation: 1,
            },
            payload: Value::Null.to_string(),
            origin: None,
            recovered: false,
        }
    }

    /// Five of every kind.
    fn five(name: &str) -> Keep {
        Keep {
            records: 5,
            ..retention::in_file(name)
        }
    }

    fn store(entries: &[Entry]) -> Store {
        let mut store = Store::in_memory().unwrap().keeping(five);
        let taken = store.append(entries, &mut Moves::default(), 0.0).unwrap();
        assert_eq!(taken, vec![true; entries.len()]);
        store
    }

    fn view(entries: &[Entry]) -> View {
        View {
            file: Some(store(entries)),
            memory: None,
        }
    }

    /// Eight records, of which the first three are evicted.
    fn eight() -> View {
        let entries: Vec<_> = (1..=8).map(|seq| entry(seq, "chat.message")).collect();
        view(&entries)
    }

    #[test]
    fn t_buf_02_t_buf_03_what_was_evicted_shows_as_a_gap_once() {
        let view = eight();
        let first = read(&view, 0, 2, 8).unwrap();
        assert!(first.gap && first.has_more && !first.cursor_reset);
        assert_eq!(
            (first.oldest_seq, first.next_seq, first.high_water_seq),
            (4, 5, 8)
        );
        assert_eq!(first.evicted, [("chat.message".to_owned(), 3)].into());
        let next = read(&view, first.next_seq, 500, 8).unwrap();
        assert!(!next.gap && !next.has_more && next.evicted.is_empty());
        assert_eq!(next.next_seq, 8);
        let reset = read(&view, 100, 1, 8).unwrap();
        assert!(reset.cursor_reset && reset.gap);
        assert_eq!(reset.events[0].seq, 4);
    }

    #[test]
    fn a_gap_is_what_was_lost_after_the_cursor_not_what_was_lost_before() {
        let view = eight();
        let lost = |since| read(&view, since, 500, 8).unwrap().evicted;
        assert_eq!(lost(1), [("chat.message".to_owned(), 2)].into());
        assert_eq!(lost(2), [("chat.message".to_owned(), 1)].into());
        assert_eq!(lost(3), [].into());
    }

    #[test]
    fn a_kind_that_is_kept_longer_does_not_hide_what_another_one_lost() {
        let mut entries = vec![entry(1, "dice.rolled")];
        entries.extend((2..=10).map(|seq| entry(seq, "token.moved")));
        let page = read(&view(&entries), 1, 500, 10).unwrap();
        assert_eq!(page.oldest_seq, 1);
        assert!(page.gap);
        assert_eq!(page.evicted, [("token.moved".to_owned(), 4)].into());
    }

    #[test]
    fn numbers_that_were_never_used_are_no_gap() {
        let view = view(&[entry(1, "x"), entry(1001, "x"), entry(5001, "x")]);
        for since in [0, 1, 700, 1001, 3000] {
            assert!(!read(&view, since, 500, 6000).unwrap().gap, "{since}");
        }
        // Given, though nothing has it: a receipt's cursor from before a crash.
        let page = read(&view, 5500, 500, 6000).unwrap();
        assert!(!page.cursor_reset && !page.has_more);
        assert_eq!(page.next_seq, 5500);
    }

    #[test]
    fn a_page_runs_over_from_the_file_into_memory() {
        let view = View {
            file: Some(store(&[entry(1, "x"), entry(2, "x")])),
            memory: Some(store(&[entry(9, "x"), entry(10, "y")])),
        };
        let numbers = |since, limit| -> Vec<u64> {
            let page = read(&view, since, limit, 10).unwrap();
            page.events.iter().map(|record| record.seq).collect()
        };
        assert_eq!(numbers(0, 500), [1, 2, 9, 10]);
        assert_eq!(numbers(1, 2), [2, 9]);
        assert_eq!(numbers(2, 500), [9, 10]);
        let page = read(&view, 1, 2, 10).unwrap();
        assert!(page.has_more);
        assert_eq!((page.oldest_seq, page.high_water_seq), (1, 10));
        assert_eq!(view.back(3).unwrap(), 1);
        assert_eq!(view.back(2).unwrap(), 8);
        assert_eq!(view.back(9).unwrap(), 0);
        assert_eq!(view.latest("x").unwrap().unwrap().seq, 9);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_page_holds_what_its_fields_say(
            steps in prop::collection::vec((1_u64..4, 0_usize..3), 0..40),
            since in 0_u64..130,
            limit in 1_u32..12,
        ) {
            let kinds = ["chat.message", "dice.rolled", "map.changed"];
            let mut seq = 0;
            let all: Vec<(u64, &str)> = steps.iter().map(|(step, kind)| {
                seq += step;
                (seq, kinds[*kind])
            }).collect();
            let entries: Vec<_> = all.iter().map(|(seq, kind)| entry(*seq, kind)).collect();
            let view = view(&entries);
            let page = read(&view, since, limit, seq).unwrap();

            // The five newest of each kind are kept.
            let is_kept = |(place, one): (usize, &(u64, &str))| {
                all[place..].iter().filter(|later| later.1 == one.1).count() <= 5
            };
            let cursor = if since > seq { 0 } else { since };
            let (kept, lost): (Vec<_>, Vec<_>) = all.iter().enumerate()
                .filter(|(_, one)| one.0 > cursor)
                .partition(|one| is_kept(*one));
            let seqs: Vec<u64> = page.events.iter().map(|record| record.seq).collect();
            let wanted: Vec<u64> = kept.iter().map(|one| one.1.0).take(limit as usize).collect();
            prop_assert_eq!(&seqs, &wanted);
            prop_assert_eq!(page.cursor_reset, since > seq);
            prop_assert_eq!(page.high_water_seq, seq);
            prop_assert_eq!(page.gap, !lost.is_empty());
            for kind in kinds {
                let count = lost.iter().filter(|one| one.1.1 == kind).count() as u64;
                prop_assert_eq!(page.evicted.get(kind).copied().unwrap_or(0), count);
            }
            prop_assert_eq!(page.next_seq, seqs.last().copied().unwrap_or(cursor));
            prop_assert_eq!(page.has_more, kept.len() > seqs.len());
        }

        #[test]
        fn pages_one_after_the_other_hold_every_kept_record_once(
            count in 0_u64..40, limit in 1_u32..12,
        ) {
            let entries: Vec<_> = (1..=count)
                .map(|seq| entry(seq, if seq % 3 == 0 { "x" } else { "y" }))
                .collect();
            let view = view(&entries);
            let (mut since, mut seen) = (0, Vec::new());
            loop {
                let page = read(&view, since, limit, count).unwrap();
                seen.extend(page.events.iter().map(|record| record.seq));
                since = page.next_seq;
                if !page.has_more {
                    break;
                }
            }
            let kept = view.after(0, 1000).unwrap();
            let kept: Vec<u64> = kept.iter().map(|record| record.seq).collect();
            prop_assert_eq!(seen, kept);
        }
    }
}
