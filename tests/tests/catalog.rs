//! The catalog: pinned by a snapshot, chosen by presets, and explaining every
//! wrong argument.

use anyhow::Result;
use cozyvtt_proto::preset::{PRESETS, all_tools};
use cozyvtt_table::Table;
use cozyvtt_tests::agent::{Agent, Era};
use cozyvtt_tests::binaries;
use cozyvtt_tests::daemon::Home;
use rmcp::model::Tool;
use serde_json::{Map, Value, json};

/// Everything that a client with these flags sees, with no configuration at all.
async fn seen_with(flags: &[&str], variable: Option<&str>) -> Result<Vec<Tool>> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut command = home.shim_command();
    command.args(flags);
    if let Some(presets) = variable {
        command.env("COZYVTT_MCP_TOOLSETS", presets);
    }
    let agent = Agent::of_command(command, Era::Handshake).await?;
    Ok(agent.client().list_all_tools().await?)
}

async fn names_with(flags: &[&str], variable: Option<&str>) -> Result<Vec<String>> {
    let tools = seen_with(flags, variable).await?;
    Ok(tools
        .into_iter()
        .map(|tool| tool.name.into_owned())
        .collect())
}

#[tokio::test]
async fn t_set_10_the_catalog_is_what_it_was() -> Result<()> {
    let tools = seen_with(&[], None).await?;
    assert_eq!(tools.len(), 41);
    insta::assert_json_snapshot!("catalog", tools);
    Ok(())
}

#[tokio::test]
async fn t_set_01_each_preset_shows_exactly_its_tools() -> Result<()> {
    for preset in &PRESETS {
        let names = names_with(&["--toolsets", preset.name], None).await?;
        assert_eq!(names, preset.tools, "{}", preset.name);
    }
    let all: Vec<_> = all_tools().into_iter().collect();
    assert_eq!(names_with(&["--toolsets", "all"], None).await?, all);
    Ok(())
}

#[tokio::test]
async fn the_readme_says_how_much_each_preset_weighs() -> Result<()> {
    let readme = include_str!("../../README.md");
    let rows = PRESETS.iter().map(|preset| preset.name).chain(["all"]);
    for name in rows {
        let tools = seen_with(&["--toolsets", name], None).await?;
        let sizes = tools.iter().map(serde_json::to_vec);
        let bytes: usize = sizes.map(|size| Ok(size?.len())).sum::<Result<_>>()?;
        let [kb, rest] = [(bytes + 50) / 1000, (bytes + 50) % 1000 / 100];
        let columns = format!(" | {} | {kb}.{rest} kB |", tools.len());
        let row = |line: &str| {
            let is_of_it = line.starts_with(&format!("| `{name}` |"))
                || line.starts_with(&format!("| {name}, "));
            is_of_it && line.contains(&columns)
        };
        assert!(readme.lines().any(row), "{name} is{columns} now");
    }
    Ok(())
}

#[tokio::test]
async fn t_set_09_the_flag_and_the_variable_choose_without_a_network() -> Result<()> {
    assert_eq!(names_with(&[], None).await?.len(), 41);
    assert_eq!(names_with(&["--toolsets", "play"], None).await?.len(), 20);
    assert_eq!(names_with(&["--toolsets", "docs"], None).await?.len(), 9);
    assert_eq!(names_with(&[], Some("roster")).await?.len(), 7);
    assert_eq!(
        names_with(&["--toolsets", "docs"], Some("play"))
            .await?
            .len(),
        9
    );
    Ok(())
}

#[tokio::test]
async fn t_set_02_a_tool_that_was_not_chosen_cannot_be_called() -> Result<()> {
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut command = home.shim_command();
    command.args(["--toolsets", "docs"]);
    let agent = Agent::of_command(command, Era::Stateless).await?;
    let arguments = json!({"map_id": "m", "token_id": "t"});
    let refusal = agent.call("token_delete", arguments).await.unwrap_err();
    assert!(refusal.to_string().contains("token_delete"), "{refusal}");
    Ok(())
}

#[tokio::test]
async fn t_set_07_a_wrong_choice_ends_with_2_and_names_every_preset() -> Result<()> {
    let home = Home::empty()?;
    for (flags, variable) in [
        (vec!["--toolsets", "oops"], None),
        (vec![], Some("")),
        (vec![], Some("oops")),
    ] {
        let mut command = home.command(binaries::shim());
        command.args(&flags);
        if let Some(presets) = variable {
            command.env("COZYVTT_MCP_TOOLSETS", presets);
        }
        let output = command.output().await?;
        assert_eq!(output.status.code(), Some(2), "{flags:?} {variable:?}");
        let words = String::from_utf8(output.stderr)?;
        assert!(
            words.contains("play (20 tools)") && words.contains("all (41 tools)"),
            "{words}"
        );
        assert!(output.stdout.is_empty());
    }
    Ok(())
}

#[tokio::test]
async fn t_set_08_the_listing_wins_over_a_wrong_choice() -> Result<()> {
    let home = Home::empty()?;
    let mut command = home.command(binaries::shim());
    command
        .arg("--list-toolsets")
        .env("COZYVTT_MCP_TOOLSETS", "oops");
    let output = command.output().await?;
    assert!(output.status.success());
    let listing = String::from_utf8(output.stdout)?;
    assert!(listing.contains("all (41 tools) [default]: "), "{listing}");
    assert_eq!(listing.lines().count(), 6);
    for tool in all_tools() {
        assert!(listing.contains(tool), "{tool}");
    }
    Ok(())
}

#[tokio::test]
async fn t_set_11_every_tool_has_four_hints_and_every_parameter_a_description() -> Result<()> {
    let reads = [
        "campaign_get",
        "chat_read",
        "events_poll",
        "map_list",
        "initiative_read",
        "character_list",
        "character_get",
        "character_validate",
        "creature_search",
        "document_list",
        "campaign_document_list",
        "document_read",
        "saved_roll_list",
        "session_list",
    ];
    let adds = [
        "chat_send",
        "dice_roll",
        "token_add",
        "character_create",
        "token_place_creature",
        "document_upload",
        "document_create",
        "document_share",
        "saved_roll_create",
        "map_create",
    ];
    let deletes = [
        "document_unshare",
        "document_delete",
        "saved_roll_delete",
        "map_delete",
        "token_delete",
        "character_delete",
    ];
    let mut parameters = 0;
    for tool in seen_with(&[], None).await? {
        let name = tool.name.as_ref();
        let hints = tool.annotations.unwrap();
        let wanted = if reads.contains(&name) {
            (true, false, true)
        } else if adds.contains(&name) {
            (false, false, false)
        } else if deletes.contains(&name) {
            (false, true, true)
        } else {
            (false, true, false)
        };
        let seen = (
            hints.read_only_hint.unwrap(),
            hints.destructive_hint.unwrap(),
            hints.idempotent_hint.unwrap(),
        );
        assert_eq!(seen, wanted, "{name}");
        assert_eq!(hints.open_world_hint, Some(true), "{name}");
        let properties = tool.input_schema["properties"].as_object().unwrap();
        for (parameter, schema) in properties {
            assert!(schema["description"].is_string(), "{name}.{parameter}");
        }
        // What every write takes is not its own.
        parameters += properties.len() - usize::from(properties.contains_key("idempotency_key"));
    }
    assert_eq!(parameters, 100);
    Ok(())
}

#[tokio::test]
async fn t_set_12_no_preset_costs_more_than_those_of_the_bridge_of_today() -> Result<()> {
    let tools = seen_with(&[], None).await?;
    let cost = |names: &[&str]| -> usize {
        tools
            .iter()
            .filter(|tool| names.contains(&tool.name.as_ref()))
            .map(|tool| serde_json::to_vec(tool).unwrap().len())
            .sum()
    };
    let limits = [
        ("play", 30_925),
        ("docs", 13_418),
        ("roster", 9_152),
        ("macros", 4_664),
        ("admin", 1_199),
    ];
    for (preset, (name, limit)) in PRESETS.iter().zip(limits) {
        assert_eq!(preset.name, name);
        let cost = cost(preset.tools);
        assert!(cost <= limit, "{name}: {cost} bytes");
    }
    Ok(())
}

#[tokio::test]
async fn t_set_13_old_names_are_not_known() -> Result<()> {
    let names = names_with(&[], None).await?;
    for old in [
        "campaign_status",
        "initiative_state",
        "token_hp",
        "saved_roll_get",
    ] {
        assert!(!names.iter().any(|name| name == old), "{old}");
    }
    Ok(())
}

/// Arguments that fit a schema, one value for each parameter.
fn fitting(schema: &Map<String, Value>) -> Map<String, Value> {
    let value = |name: &str, property: &Value| match (name, &property["enum"]) {
        (_, Value::Array(values)) => values.last().cloned().unwrap_or_default(),
        ("data", _) => json!({"name": "x"}),
        ("tags" | "ordered_token_ids", _) => json!(["a"]),
        _ if property["type"].to_string().contains("string") => json!("a"),
        _ if property["type"] == "boolean" => json!(true),
        _ => json!(1),
    };
    let properties = schema["properties"].as_object();
    properties
        .into_iter()
        .flatten()
        .map(|(name, property)| (name.clone(), value(name, property)))
        .collect()
}

#[tokio::test]
async fn every_wrong_argument_of_every_tool_is_explained_and_never_reaches_the_wire() -> Result<()>
{
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let agent = Agent::through_shim(&home, Era::Handshake).await?;
    let tools = agent.client().list_all_tools().await?;
    let (requests, frames) = (table.log().requests().len(), sent(&table));
    let mut tried = 0;
    for tool in &tools {
        let fits = fitting(&tool.input_schema);
        let required: Vec<&str> = tool
            .input_schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut wrong = vec![with(&fits, "no_such_argument\u{202e}", json!(1))];
        for name in fits.keys() {
            if required.contains(&name.as_str()) {
                let mut missing = fits.clone();
                missing.remove(name);
                wrong.push(missing);
            }
            // No parameter of any tool takes one of these.
            for value in [json!([[]]), json!([{"deep": "\u{1f409}"}])] {
                wrong.push(with(&fits, name, value));
            }
            let property = &tool.input_schema["properties"][name];
            if property["type"].to_string().contains("string") {
                wrong.push(with(&fits, name, json!(5)));
            } else {
                wrong.push(with(&fits, name, json!("\u{1f409}".repeat(5000))));
            }
            if property["type"] == "integer" {
                wrong.push(with(&fits, name, json!(1.5)));
                wrong.push(with(&fits, name, json!(true)));
                wrong.push(with(&fits, name, json!(1e300)));
            }
        }
        for arguments in wrong {
            let told = Value::Object(arguments.clone()).to_string();
            let told: String = told.chars().take(120).collect();
            let result = agent.call(&tool.name, Value::Object(arguments)).await?;
            let envelope = result.structured_content.unwrap();
            assert_eq!(
                result.is_error,
                Some(true),
                "{} {told}: {envelope}",
                tool.name
            );
            assert_eq!(envelope["ok"], false);
            let sentence = envelope["error"].as_str().unwrap();
            assert!(
                sentence.len() > 15 && sentence.len() < 2_000,
                "{}: {sentence}",
                tool.name
            );
            tried += 1;
        }
    }
    assert!(tried > 300, "{tried}");
    assert_eq!(table.log().requests().len(), requests);
    assert_eq!(sent(&table), frames);
    Ok(())
}

fn with(fits: &Map<String, Value>, name: &str, value: Value) -> Map<String, Value> {
    let mut arguments = fits.clone();
    arguments.insert(name.to_owned(), value);
    arguments
}

/// Events that the daemon has sent, heartbeats aside.
fn sent(table: &Table) -> usize {
    let frames = table.log().frames();
    frames.iter().filter(|frame| frame.event.is_some()).count()
}
