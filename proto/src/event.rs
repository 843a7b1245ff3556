//! One event of the table, as it is journalled, polled and streamed.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One event of the table or of the link to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventRecord {
    /// Position in the campaign's journal: starts at 1, grows, and once readable
    /// is never reused, not even over restarts of the daemon.
    pub seq: u64,
    /// When the daemon received it, in seconds since 1970 (UTC).
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
