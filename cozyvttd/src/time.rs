//! Times and spans as the numbers that are written down and told.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds since 1970; a time before that counts as 1970.
pub(crate) fn seconds(time: SystemTime) -> f64 {
    since_1970(time).as_secs_f64()
}

/// Milliseconds since 1970; a time before that counts as 1970.
pub(crate) fn millis(time: SystemTime) -> u64 {
    whole_millis(since_1970(time))
}

/// A span in milliseconds.
pub(crate) fn whole_millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A wait in seconds, rounded up: whoever waits so long has waited long enough.
pub(crate) fn seconds_to_wait(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}

fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_never_told_shorter_than_it_is() {
        let told = |millis| seconds_to_wait(Duration::from_millis(millis));
        assert_eq!((told(0), told(1), told(1000), told(1001)), (0, 1, 1, 2));
    }

    #[test]
    fn a_time_before_1970_counts_as_1970() {
        let before = UNIX_EPOCH - Duration::from_secs(5);
        assert_eq!((millis(before), seconds(before).to_bits()), (0, 0));
        assert_eq!(millis(UNIX_EPOCH + Duration::from_millis(1500)), 1500);
    }
}
