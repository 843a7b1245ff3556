//! The numbers of records: none is ever given twice.
//!
//! A number is given to an event before the event is committed, and clients may
//! learn it then (the `since` of a receipt). So the file cannot tell by its records
//! which numbers were given. It remembers a mark instead, in blocks: up to this
//! number, any may have been given. The mark is on the disk before a number below it
//! is given, and a journal that was not closed in order goes on above its mark. That
//! leaves numbers out that nothing has; no reader takes these for lost records, since
//! those are counted one by one.
//!
//! Without a file that can remember a mark, numbers go on from the clock:
//! milliseconds since 1970, which lie above the numbers of every run before. A later
//! run with a file that knows nothing of them finds such a cursor too large, and says
//! so (`cursor_reset`).

use std::time::SystemTime;

use crate::time::millis;

/// How many numbers are reserved at once, and their marks' multiple: large enough
/// that a burst waits for the disk seldom, small enough to be seen as a hole.
const BLOCK: u64 = 1000;

/// Which numbers were given, and which may be.
#[derive(Debug)]
pub(super) struct Numbers {
    newest: u64,
    /// No number below this one is given any more.
    floor: u64,
    /// The file's mark; `None` while no file remembers one.
    mark: Option<u64>,
}

impl Numbers {
    /// Goes on after `newest`, up to the file's mark.
    pub(super) fn new(newest: u64, mark: Option<u64>) -> Self {
        Self {
            newest,
            floor: 0,
            mark,
        }
    }

    /// The newest number given.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// The next number, unless it has to be reserved first.
    pub(super) fn give(&mut self) -> Option<u64> {
        let next = (self.newest + 1).max(self.floor);
        if self.mark.is_some_and(|mark| next > mark) {
            return None;
        }
        self.newest = next;
        Some(next)
    }

    /// The mark that is to be set, when there is none or few numbers are left.
    pub(super) fn wanted(&self) -> Option<u64> {
        let left = self.mark.map(|mark| mark.saturating_sub(self.newest));
        left.is_none_or(|left| left < BLOCK / 2)
            .then(|| mark_above(self.newest))
    }

    /// The file remembers `mark`, on the disk. When more was given meanwhile the
    /// mark is too low, and [`Self::wanted`] asks for another one.
    pub(super) fn reserved(&mut self, mark: u64) {
        if mark >= self.newest {
            self.mark = Some(mark);
        }
    }

    /// No file remembers a mark from here on, and numbers come from the clock.
    pub(super) fn unreserved(&mut self, clock: u64) {
        if self.mark.take().is_some() {
            self.floor = clock;
        }
    }

    /// Gives no number any more; the newest one given.
    pub(super) fn close(&mut self) -> u64 {
        self.mark = Some(self.newest);
        self.newest
    }

    /// Whether a file remembers the mark.
    pub(super) fn are_reserved(&self) -> bool {
        self.mark.is_some()
    }
}

/// The mark for numbers after `newest`: half a block of them at least.
pub(super) fn mark_above(newest: u64) -> u64 {
    ((newest + BLOCK / 2) / BLOCK + 1) * BLOCK
}

/// A number above all those of earlier runs: milliseconds since 1970. It stays below
/// 2^53, which a JSON number holds, for two hundred thousand years.
pub(super) fn from_clock() -> u64 {
    millis(SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_beyond_the_mark_waits_for_the_next_mark() {
        let mut numbers = Numbers::new(998, Some(1000));
        assert_eq!(numbers.wanted(), Some(2000));
        assert_eq!((numbers.give(), numbers.give()), (Some(999), Some(1000)));
        assert_eq!(numbers.give(), None);
        numbers.reserved(2000);
        assert_eq!(numbers.give(), Some(1001));
        assert_eq!(numbers.wanted(), None);
    }

    #[test]
    fn a_mark_leaves_half_a_block_at_least() {
        for newest in 0..5 * BLOCK {
            let mark = mark_above(newest);
            assert!(mark - newest >= BLOCK / 2 && mark.is_multiple_of(BLOCK));
        }
    }

    #[test]
    fn without_a_file_numbers_come_from_the_clock_and_a_mark_catches_up_with_them() {
        let mut numbers = Numbers::new(7, Some(1000));
        numbers.unreserved(1_700_000);
        assert_eq!(numbers.give(), Some(1_700_000));
        // The clock is no reason to go back.
        numbers.unreserved(5);
        assert_eq!(numbers.give(), Some(1_700_001));
        numbers.reserved(1000);
        assert!(!numbers.are_reserved(), "a mark below what was given");
        numbers.reserved(numbers.wanted().unwrap());
        assert!(numbers.are_reserved());
        assert_eq!(numbers.give(), Some(1_700_002));
    }
}
