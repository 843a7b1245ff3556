//! Whatever a schema lets through comes back as a clear envelope, and the daemon
//! lives on.

use anyhow::Result;
use cozyvtt_table::Version;
use futures_util::future::try_join_all;
use rmcp::model::Tool;
use serde_json::{Map, Value, json};

use crate::{KEY, Walk, table, takes, with};

/// Bytes of the longest texts: more than 1.1.2 takes in one body.
const LONG: usize = 100 * 1024;

/// Texts of every kind that has broken a program.
fn texts() -> Vec<String> {
    vec![
        String::new(),
        " \u{3000}\u{2003}".to_owned(),
        "Grüße, \u{441}\u{43e}\u{432}\u{430}, \u{9f8d}\u{306e}\u{5bb6}".to_owned(),
        "\u{1f409}\u{1f469}\u{200d}\u{1f469}\u{200d}\u{1f467}\u{1f3fd}".to_owned(),
        "\u{202e}\u{5e9}\u{5dc}\u{5d5}\u{5dd}\u{200f}\u{2066}a\u{2069}".to_owned(),
        (0..0x20)
            .chain([0x7f, 0x85])
            .filter_map(char::from_u32)
            .collect(),
        "\u{feff}\u{0}\u{fffd}\u{ffff}\u{10ffff}".to_owned(),
        "e\u{301}".to_owned() + &"\u{300}".repeat(300),
        "\r\n\r\nGET / HTTP/1.1\r\n".to_owned(),
        "\"}],[{\\u0000\\".to_owned(),
        "a".repeat(LONG),
        "\u{1f409}".repeat(LONG / 4),
    ]
}

/// The numbers at the ends of what JSON, JavaScript and Rust can hold.
fn numbers(integers: bool) -> Vec<Value> {
    let mut numbers = vec![
        json!(i64::MIN),
        json!(-1),
        json!(0),
        json!(i64::from(u32::MAX)),
        json!(9_007_199_254_740_993_i64),
        json!(i64::MAX),
    ];
    if !integers {
        numbers.extend([
            json!(u64::MAX),
            json!(f64::MAX),
            json!(f64::MIN),
            json!(5e-324),
            json!(-0.0),
            json!(0.1 + 0.2),
        ]);
    }
    numbers
}

/// What to put in the place of a parameter: the extremes of its type, bare or
/// within what it takes.
fn extremes(tool: &str, name: &str, property: &Value) -> Vec<Value> {
    let texts = || texts().into_iter();
    if takes(property, "string") {
        texts().map(Value::from).collect()
    } else if takes(property, "array") {
        texts().map(|text| json!([text, "a"])).collect()
    } else if takes(property, "object") {
        let within = |extreme: Value| match tool {
            "character_update" => json!({"name": extreme, "data": {"notes": extreme}}),
            _ => json!({"notes": extreme}),
        };
        let all = texts().map(Value::from).chain(numbers(false));
        all.map(within).collect()
    } else if takes(property, "boolean") {
        Vec::new()
    } else {
        assert!(
            takes(property, "number") || takes(property, "integer"),
            "{tool}.{name}"
        );
        numbers(takes(property, "integer"))
    }
}

/// All calls of a tool with one extreme argument.
fn calls(tool: &Tool, fits: &Map<String, Value>) -> Vec<Map<String, Value>> {
    let properties = tool.input_schema["properties"].as_object();
    let mut calls = Vec::new();
    if tool.name == "dice_roll" {
        // Rolls are rationed, so that all of its texts are extreme at once.
        return texts()
            .into_iter()
            .map(|text| all_of(fits, &["expression", "purpose", "character_name"], &text))
            .collect();
    }
    let properties = properties.into_iter().flatten();
    for (name, property) in properties.filter(|(name, _)| *name != KEY) {
        for value in extremes(&tool.name, name, property) {
            calls.push(with(fits, name, value));
        }
    }
    if tool.name == "initiative_manage" {
        // An action takes no more than its own parameters.
        let other = |action: &str| with(fits, "action", json!(action));
        for value in numbers(false) {
            calls.push(with(&other("set"), "value", value));
        }
        for text in texts() {
            calls.push(with(&other("reorder"), "ordered_token_ids", json!([text])));
            calls.push(all_of(
                &other("roll"),
                &["expression", "character_name"],
                &text,
            ));
        }
    }
    calls
}

fn all_of(fits: &Map<String, Value>, names: &[&str], text: &str) -> Map<String, Value> {
    names.iter().fold(fits.clone(), |arguments, name| {
        with(&arguments, name, json!(text))
    })
}

async fn every_extreme_argument_is_answered(version: Version) -> Result<()> {
    let table = table(version).await?;
    let walk = Walk::begin(&table).await?;
    let fitting = walk.fitting().await?;
    // What a tool waits for is no business of the others.
    let walked = walk
        .tools
        .iter()
        .map(async |tool| -> Result<(usize, usize)> {
            let (mut tried, mut done) = (0, 0);
            for arguments in calls(tool, &fitting(tool)) {
                let envelope = walk.call(&tool.name, &arguments).await?.1;
                tried += 1;
                done += usize::from(envelope["ok"] == true);
            }
            Ok((tried, done))
        });
    let walked = try_join_all(walked).await?;
    let tried: usize = walked.iter().map(|(tried, _)| tried).sum();
    let done: usize = walked.iter().map(|(_, done)| done).sum();
    assert!(tried > 700 && done > 100, "{tried} tried, {done} done");
    walk.end().await
}

#[tokio::test]
async fn every_extreme_argument_is_answered_at_1_1_2() -> Result<()> {
    every_extreme_argument_is_answered(Version::V1_1_2).await
}

#[tokio::test]
async fn every_extreme_argument_is_answered_at_1_5() -> Result<()> {
    every_extreme_argument_is_answered(Version::V1_5).await
}
