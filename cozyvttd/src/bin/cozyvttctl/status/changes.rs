//! `status --watch --json`: a line for a program whenever something is another one.

use cozyvtt_proto::control::NoParams;
use serde_json::Value;
use tokio::time::{MissedTickBehavior, interval};

use super::watch::LOOK;
use super::{as_json, unreachable};
use crate::daemon::{Daemon, PROMPT, RawStatus};
use crate::failure::{Exit, Failure};
use crate::terminal::Screen;
use crate::text::json_line;

/// Prints it until nobody reads on.
pub(super) async fn print(daemon: &Daemon, screen: &mut Screen) -> Result<Exit, Failure> {
    let mut due = interval(LOOK);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = Value::Null;
    loop {
        due.tick().await;
        let answer = daemon.try_ask::<RawStatus>(NoParams {}, PROMPT).await;
        let now = answer.map_or_else(|error| unreachable(daemon, &error), as_json);
        let what = lasting(&now);
        if what != told {
            screen.line(&json_line(&now))?;
            told = what;
        }
    }
}

/// What is no other one just because time goes by.
fn lasting(status: &Value) -> Value {
    let mut status = status.clone();
    if let Some(fields) = status.as_object_mut() {
        fields.remove("uptime_s");
    }
    for hop in status["hops"].as_array_mut().into_iter().flatten() {
        // How long ago the server has answered, or how soon it is asked again.
        let counts = matches!(
            hop["name"].as_str(),
            Some("rest" | "login" | "websocket" | "campaign")
        );
        if let Some(fields) = hop.as_object_mut().filter(|_| counts) {
            fields.remove("detail");
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_clock_that_goes_on_is_no_change_and_a_hop_that_breaks_is_one() {
        let status = |uptime, ago: &str, state: &str| {
            let hop = json!({"name": "rest", "state": state, "detail": ago});
            lasting(&json!({"uptime_s": uptime, "hops": [hop], "clients": 1}))
        };
        let before = status(1, "answered 1 s ago", "ok");
        assert_eq!(before, status(2, "answered 2 s ago", "ok"));
        assert_ne!(before, status(2, "answered 2 s ago", "broken"));
    }
}
