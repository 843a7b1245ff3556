//! The roll at the end: from here to the table and back.

use std::time::{Duration, Instant};

use cozyvtt_proto::control::{CallParams, EventPoll, PollParams, ToolCall};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::daemon::Daemon;
use crate::failure::Failure;

/// How long the call, and the result, may take.
const PATIENCE: Duration = Duration::from_secs(40);

const LOOK: Duration = Duration::from_millis(50);

/// What is rolled for, by which the result is found again.
const PURPOSE: &str = "cozyvtt setup";

/// Rolls a d20 in public; what came of it.
///
/// # Errors
///
/// It was not rolled, or its result is not heard.
pub(super) async fn roll(daemon: &Daemon) -> Result<i64, Failure> {
    let arguments = json!({"expression": "1d20", "purpose": PURPOSE});
    let params = CallParams {
        name: "dice_roll".to_owned(),
        arguments: arguments.as_object().cloned().unwrap_or_default(),
        cwd: None,
        campaign: None,
    };
    let called = daemon.ask::<ToolCall>(params, PATIENCE).await?;
    let envelope = called.envelope;
    if envelope["ok"] != true {
        let why = envelope["error"].as_str().unwrap_or("no reason was given");
        return Err(Failure::failed(format!("the roll did not work: {why}")));
    }
    let mut since = envelope["data"]["since"].as_u64().unwrap_or_default();
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let params = PollParams {
            since,
            limit: 100,
            campaign: None,
        };
        let page = daemon.ask::<EventPoll>(params, PATIENCE).await?;
        let rolled = page
            .events
            .iter()
            .find(|record| record.event == "dice.rolled" && record.payload["purpose"] == PURPOSE);
        if let Some(result) = rolled.and_then(|record| result(&record.payload)) {
            return Ok(result);
        }
        since = page.next_seq.max(since);
        sleep(LOOK).await;
    }
    Err(
        Failure::failed("the dice were thrown, and their result was not heard")
            .advise("See `cozyvttctl events`; the roll may have been made."),
    )
}

fn result(payload: &Value) -> Option<i64> {
    payload["result"].as_i64()
}
