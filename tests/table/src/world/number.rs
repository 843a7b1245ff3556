//! Numbers as JavaScript writes them.

use serde_json::{Value, json};

/// A whole number comes without a decimal point.
pub(crate) fn plain(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        #[allow(clippy::cast_possible_truncation)] // within the range just checked
        return json!(value as i64);
    }
    json!(value)
}
