//! The receipt of an event that was sent: CozyVTT acknowledges nothing, so it
//! says where to look and claims no result.

use serde_json::{Map, Value, json};

/// What every receipt advises.
const NOTE: &str =
    "Dispatch only; poll for business results and system.error. Do not blindly retry writes.";

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
