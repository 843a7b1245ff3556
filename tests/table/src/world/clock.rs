//! Times as the server writes them.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;

/// The present as ISO-8601 in UTC with milliseconds.
pub(crate) fn now() -> String {
    format!("{:.3}", Timestamp::now())
}

/// The date of a cookie that ends after `age`.
pub(crate) fn cookie_date(age: Duration) -> String {
    let end = Timestamp::now().checked_add(age).unwrap_or(Timestamp::MAX);
    DateTimePrinter::new()
        .timestamp_to_rfc9110_string(&end)
        .unwrap_or_else(|_| "Thu, 01 Jan 1970 00:00:00 GMT".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_look_like_the_servers() {
        let now = now();
        assert_eq!(now.len(), "2026-11-30T15:26:16.348Z".len());
        assert!(now.ends_with('Z'));
        let date = cookie_date(Duration::from_secs(3600));
        assert_eq!(date.len(), "Mon, 30 Nov 2026 16:27:53 GMT".len());
        assert!(date.ends_with(" GMT"));
    }
}
