//! Every tool, with the arguments that nobody means: empty and blank ones, the ends
//! of the integers, what is a character too long or a hundred thousand, other
//! scripts, and characters that cannot be seen.
//!
//! What the contract refuses never reaches the wire ([`refused`]); whatever is left
//! comes back as a clear envelope ([`legal`]), and an id stays within its segment of
//! the path, whatever it holds ([`segments`]). Arguments that are missing, unknown or
//! of a wrong type are walked in the suite of the catalog.

mod legal;
mod refused;
mod segments;

use std::time::Duration;

use anyhow::{Context as _, Result};
use cozyvtt_table::{Table, Version};
use cozyvtt_tests::agent::{Agent, Era};
use cozyvtt_tests::calls::data;
use cozyvtt_tests::daemon::Seated;
use cozyvtt_tests::seat::sit_settled;
use rmcp::model::Tool;
use serde_json::{Map, Value, json};

/// The id of nothing.
const NOBODYS: &str = "3b0c9a52-7d0e-4f0a-9c55-0f6f3f1b7a11";

/// A table that never says that it is asked too often.
async fn table(version: Version) -> Result<Table> {
    let table = Table::builder().version(version);
    table
        .write_hold(Duration::ZERO)
        .api_limit(1_000_000)
        .upload_limit(1_000_000)
        .start()
        .await
}

/// The DM's seat, with an agent and every tool there is.
struct Walk<'a> {
    table: &'a Table,
    agent: Agent,
    tools: Vec<Tool>,
    home: Seated,
}

impl<'a> Walk<'a> {
    /// Takes the seat; the daemon says nothing of its own any more.
    async fn begin(table: &'a Table) -> Result<Self> {
        let home = sit_settled(table, "dm").await?;
        let agent = Agent::on_the_socket(&home, Era::Handshake).await?;
        let tools = agent.client().list_all_tools().await?;
        assert_eq!(tools.len(), 41);
        Ok(Self {
            table,
            agent,
            tools,
            home,
        })
    }

    /// Calls a tool; gives whether it refused its arguments, and the envelope, which
    /// is a clear one: `data`, or a sentence that can be read.
    async fn call(&self, tool: &str, arguments: &Map<String, Value>) -> Result<(bool, Value)> {
        let named = format!("{} {tool} {}", self.table.version(), told(arguments));
        let result = self
            .agent
            .call(tool, Value::Object(arguments.clone()))
            .await
            .with_context(|| named.clone())?;
        let refused = result.is_error == Some(true);
        let envelope = result
            .structured_content
            .with_context(|| format!("{named}: no structured content"))?;
        if envelope["ok"] == true {
            assert!(envelope["data"].is_object() && !refused, "{named}");
        } else {
            assert_eq!(envelope["ok"], false, "{named}");
            let sentence = envelope["error"].as_str().unwrap_or_default();
            let length = sentence.chars().count();
            assert!((15..2_000).contains(&length), "{named}: {sentence:.2000}");
        }
        Ok((refused, envelope))
    }

    /// Arguments with which the tool has something to work on, one for each parameter.
    async fn fitting(&self) -> Result<impl Fn(&Tool) -> Map<String, Value> + use<>> {
        let table = self.table;
        let map = table.current_map().context("no map")?;
        let token = table.tokens(&map)[0]["id"].clone();
        let character = table.character_ids()[0].clone();
        let creatures = table.creatures();
        let creature = creatures.iter().find(|one| one["imageUrl"].is_string());
        let creature = creature.context("no creature with a picture")?["id"].clone();
        let note = self.home.path().join("note.txt");
        std::fs::write(&note, "low 04:12\n")?;
        let evening = table.active_session().context("no session")?;
        let mut ids = (json!(NOBODYS), json!(NOBODYS));
        if table.version() == Version::V1_5 {
            let text = json!({"name": "Tides", "format": "txt", "content": "low 04:12"});
            let document = data(&self.home, "document_create", text).await?;
            let roll = json!({"name": "Fall", "expression": "2d6"});
            let roll = data(&self.home, "saved_roll_create", roll).await?;
            ids = (document["asset"]["id"].clone(), roll["macro"]["id"].clone());
        }
        let (document, roll) = ids;
        Ok(move |tool: &Tool| {
            let properties = tool.input_schema["properties"].as_object();
            let fit = |name: &str, property: &Value| match name {
                "map_id" => json!(map),
                "token_id" => token.clone(),
                "character_id" => json!(character),
                "creature_id" => creature.clone(),
                "document_id" => document.clone(),
                "macro_id" => roll.clone(),
                "session_id" => json!(evening),
                "file_path" => json!(note),
                "expression" => json!("1d20"),
                "action" if tool.name == "session_manage" => json!("end"),
                "action" => json!("add"),
                "source" => json!("custom"),
                "layer" => json!("token"),
                "format" => json!("txt"),
                "scope" => json!("USER"),
                "type" => json!("PLAYER"),
                "data" if tool.name == "character_update" => json!({"name": "Wren"}),
                // What stands for nothing is left to the tool.
                "campaign_id" | "controlled_by" | "cursor" | "data" | "etag" => Value::Null,
                "tags" | "ordered_token_ids" => json!(["a"]),
                _ if takes(property, "string") => json!("a"),
                _ if takes(property, "boolean") => json!(true),
                _ => json!(1),
            };
            properties
                .into_iter()
                .flatten()
                // Every call is one of its own here; the ledger's suite is about keys.
                .filter(|(name, _)| *name != KEY)
                .map(|(name, property)| (name.clone(), fit(name, property)))
                .collect()
        })
    }

    /// The daemon has lived through it, and its link as well.
    async fn end(&self) -> Result<()> {
        data(&self.home, "campaign_get", json!({})).await?;
        let log = self.home.log();
        assert!(!log.contains("panicked"), "{log}");
        // What one call asks for is no reason to leave the table and come back.
        let handshakes = self.table.log().count("GET", "/socket.io/");
        assert!(handshakes <= 1, "the link was given up");
        Ok(())
    }
}

/// The parameter with which a call is known for the same one.
const KEY: &str = "idempotency_key";

/// Whether a parameter takes values of that type, by its schema.
fn takes(property: &Value, kind: &str) -> bool {
    match &property["type"] {
        Value::String(only) => only == kind,
        Value::Array(kinds) => kinds.iter().any(|one| one == kind),
        _ => false,
    }
}

/// The parameters that name a segment of a path, as their schemas have it.
fn segments_of(tool: &Tool) -> Vec<String> {
    let properties = tool.input_schema["properties"].as_object();
    properties
        .into_iter()
        .flatten()
        .filter(|(name, property)| name.ends_with("_id") && property["minLength"] == 1)
        .map(|(name, _)| name.clone())
        .collect()
}

/// The same arguments but for one of them.
fn with(fits: &Map<String, Value>, name: &str, value: Value) -> Map<String, Value> {
    let mut arguments = fits.clone();
    arguments.insert(name.to_owned(), value);
    arguments
}

/// Arguments for the eyes of whoever reads a failure: each one's beginning.
fn told(arguments: &Map<String, Value>) -> String {
    let short = |value: &Value| value.to_string().chars().take(60).collect::<String>();
    let arguments = arguments.iter();
    let told = arguments.map(|(name, value)| format!("{name}: {}", short(value)));
    told.collect::<Vec<_>>().join(", ")
}
