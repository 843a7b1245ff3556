//! One event of the table, as it is journalled, polled and streamed.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One event of the table or of the link to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventRecord {
    /// Position in the campaign's journal: starts at 1, grows, and is never given
    /// twice, not even over a crash of the daemon or of the machine. It does not
    /// always grow by one: a crash leaves the numbers out that were reserved, and
    /// of a token's moves within 500 ms only the last one stays. Such a hole is no
    /// loss; a loss is told by `gap` in [`EventPage`](crate::control::EventPage).
    pub seq: u64,
    /// When the daemon received it, in seconds since 1970 (UTC); of a record that
    /// was read again after an outage, when it happened. So it need not grow.
    pub ts: f64,
    /// The event's name: CozyVTT's own (`dice.rolled`), or `system.…` for what
    /// the daemon itself reports (`system.error`, `system.reconnected`,
    /// `system.disconnected`).
    pub event: String,
    /// What came with it, unchanged; `null` for an event without a payload.
    pub payload: Value,
    /// Which connection of the link brought it; grows with every reconnect within
    /// one run of the daemon.
    pub generation: u64,
}
