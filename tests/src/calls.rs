//! Calls to a daemon, and what tests want of their answers.

use anyhow::{Context as _, Result, ensure};
use cozyvtt_proto::control::{Hop, Status};
use serde_json::{Value, json};

use crate::daemon::Home;
use crate::until;

/// Calls a tool that has to succeed; gives the `data` of its envelope.
pub async fn data(home: &Home, tool: &str, arguments: Value) -> Result<Value> {
    let result = home.call(tool, arguments).await?;
    let envelope = result.envelope;
    ensure!(
        envelope["ok"] == true && !result.is_error,
        "{tool} failed: {envelope}"
    );
    Ok(envelope["data"].clone())
}

/// Calls a tool that has to fail at its work; gives the whole envelope.
pub async fn failure(home: &Home, tool: &str, arguments: Value) -> Result<Value> {
    let result = home.call(tool, arguments).await?;
    ensure!(
        result.envelope["ok"] == false && !result.is_error,
        "{tool} did not fail: {result:?}"
    );
    Ok(result.envelope)
}

/// Calls a tool that has to refuse its arguments; gives the sentence.
pub async fn refusal(home: &Home, tool: &str, arguments: Value) -> Result<String> {
    let asked = arguments.to_string();
    let result = home.call(tool, arguments).await?;
    ensure!(
        result.is_error && result.envelope["ok"] == false,
        "{tool} took {asked}: {result:?}"
    );
    Ok(result.envelope["error"]
        .as_str()
        .with_context(|| format!("no sentence: {}", result.envelope))?
        .to_owned())
}

/// The records after `since`, page by page.
pub async fn events(home: &Home, since: u64) -> Result<Vec<Value>> {
    let mut since = json!(since);
    let mut records = Vec::new();
    loop {
        let page = data(home, "events_poll", json!({"since": since, "limit": 500})).await?;
        records.extend(page["events"].as_array().cloned().unwrap_or_default());
        since = page["next_seq"].clone();
        if page["has_more"] != true {
            return Ok(records);
        }
    }
}

/// Waits for the first record after `since` of that name.
pub async fn event(home: &Home, since: u64, name: &str) -> Value {
    until(&format!("{name} is journalled"), || async {
        let records = events(home, since).await.ok()?;
        records.into_iter().find(|record| record["event"] == name)
    })
    .await
}

/// The newest number in the journal.
pub async fn high_water(home: &Home) -> Result<u64> {
    let page = data(home, "events_poll", json!({"since": 0, "limit": 1})).await?;
    page["high_water_seq"].as_u64().context("no number")
}

/// The names of records.
pub fn names(records: &[Value]) -> Vec<&str> {
    records
        .iter()
        .filter_map(|record| record["event"].as_str())
        .collect()
}

/// One stage of a status.
pub fn hop<'a>(status: &'a Status, name: &str) -> Result<&'a Hop> {
    let hop = status.hops.iter().find(|hop| hop.name == name);
    hop.with_context(|| format!("no hop {name}: {:?}", status.hops))
}

/// CozyVTT's own words for a route that it does not have.
pub const NO_ROUTE: &str = "The requested resource does not exist";

/// The sentence and the data of an HTTP error.
pub fn http(status: u16, upstream: &Value) -> Value {
    let message = upstream["message"].as_str().unwrap_or_default();
    let error = match status {
        404 if message == NO_ROUTE => "This CozyVTT instance does not provide this feature; \
                                       upgrade to a supported version and retry."
            .to_owned(),
        404 => format!(
            "Resource not found or inaccessible to the current account (HTTP 404): {message}"
        ),
        _ => format!("HTTP {status}: {message}"),
    };
    json!({"ok": false, "error": error, "data": {"status": status, "upstream": upstream}})
}
