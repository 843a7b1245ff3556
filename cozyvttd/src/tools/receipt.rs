//! The receipt of an event that was sent: CozyVTT acknowledges nothing, so it
//! says where to look and claims no result.

use std::time::Duration;

use serde_json::{Map, Value, json};

/// What every receipt advises.
const NOTE: &str =
    "Dispatch only; poll for business results and system.error. Do not blindly retry writes.";

/// A wait that is worth telling: less is what any call takes.
const NOTICEABLE: Duration = Duration::from_secs(1);

/// A receipt: whatever the event causes has a larger sequence number than
/// `since`. `details` are the tool's own fields.
pub(super) fn receipt(since: u64, details: Value) -> Value {
    let mut receipt = Map::new();
    receipt.insert("sent".into(), true.into());
    receipt.insert("confirmed".into(), false.into());
    receipt.insert("status".into(), "pending".into());
    receipt.insert("since".into(), json!(since));
    receipt.insert("note".into(), NOTE.into());
    if let Value::Object(details) = details {
        receipt.extend(details);
    }
    Value::Object(receipt)
}

/// The receipt of what had to wait its turn: a noticeable wait is told in
/// `waited_s`, in whole seconds.
pub(super) fn receipt_after(waited: Duration, since: u64, details: Value) -> Value {
    let mut receipt = receipt(since, details);
    if waited >= NOTICEABLE {
        receipt["waited_s"] = waited.as_secs().into();
    }
    receipt
}
