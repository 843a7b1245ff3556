//! What the practice table was asked, as its log has it, and the names by which
//! tests ask for its things.

use anyhow::{Context as _, Result, ensure};
use cozyvtt_table::{Exchange, Table};
use serde_json::Value;

/// The path of the table's campaign.
pub fn campaign_path(table: &Table) -> String {
    format!("/api/campaigns/{}", table.campaign_id())
}

/// A token's map and its own id.
pub fn token(table: &Table, name: &str) -> Result<(String, String)> {
    let (map, token) = table
        .token_named(name)
        .with_context(|| format!("no token {name}"))?;
    let id = token["id"].as_str().context("no id")?;
    Ok((map, id.to_owned()))
}

/// The bodies of the requests of that method and path.
pub fn asked(table: &Table, method: &str, path: &str) -> Vec<Value> {
    let requests = table.log().requests_to(method, path);
    requests.iter().map(Exchange::json).collect()
}

/// The one request of that method and path.
pub fn only(table: &Table, method: &str, path: &str) -> Result<Exchange> {
    let mut requests = table.log().requests_to(method, path);
    ensure!(requests.len() == 1, "{method} {path}: {}", requests.len());
    requests.pop().context("none")
}

/// How often the password was sent.
pub fn logins(table: &Table) -> usize {
    table.log().count("POST", "/api/auth/login")
}
