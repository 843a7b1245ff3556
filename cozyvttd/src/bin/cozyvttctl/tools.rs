//! `cozyvttctl tools`: what agents can do at the table.

use cozyvtt_proto::control::{NoParams, ToolList};
use serde_json::Value;
use textwrap::core::display_width;

use crate::daemon::{Daemon, PROMPT};
use crate::failure::{Exit, Failure};
use crate::terminal::{BAD, CARE, GOOD, Layout, QUIET, STRONG, Screen, remark};
use crate::text::{first_sentence, json_pretty, pad, plain};

/// List the tools that agents have, with what each does to the table
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The second column is what a call does: `reads` leaves the table as it is, `adds` appends something, \
`changes` replaces or uses up something, `deletes` removes something.

Examples:
  cozyvttctl tools
  cozyvttctl tools | grep token
  cozyvttctl tools --json | jq '.[] | select(.name == \"chat_send\").inputSchema'")]
pub(crate) struct Args {
    /// Print the tools as MCP's tools/list shows them: a JSON array of objects
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, daemon: &Daemon, screen: &mut Screen) -> Result<Exit, Failure> {
    let tools = daemon.ask::<ToolList>(NoParams {}, PROMPT).await?.tools;
    if args.json {
        screen.line(&json_pretty(&tools))?;
        return Ok(Exit::Fine);
    }
    if tools.is_empty() {
        remark("The daemon offers no tools.");
    }
    screen.lines(table(&tools, screen.layout))?;
    Ok(Exit::Fine)
}

/// What a call does to the table, from MCP's hints.
fn effect(tool: &Value) -> &'static str {
    let hint = |name: &str| {
        tool.pointer(&format!("/annotations/{name}"))
            .and_then(Value::as_bool)
    };
    match (
        hint("readOnlyHint"),
        hint("destructiveHint"),
        hint("idempotentHint"),
    ) {
        (Some(true), ..) => "reads",
        (_, Some(false), _) => "adds",
        (_, Some(true), Some(true)) => "deletes",
        (_, Some(true), _) => "changes",
        _ => "?",
    }
}

/// The tool's name, as it is.
pub(crate) fn name(tool: &Value) -> &str {
    tool.get("name").and_then(Value::as_str).unwrap_or_default()
}

fn table(tools: &[Value], layout: Layout) -> Vec<String> {
    let names: Vec<String> = tools.iter().map(|tool| plain(name(tool))).collect();
    let name_width = names
        .iter()
        .map(|name| display_width(name))
        .max()
        .unwrap_or(0);
    let effect_width = "changes".len();
    let indent = name_width + 2 + effect_width + 2;
    let column = layout.narrower(indent);
    let mut lines = Vec::new();
    for (tool, name) in tools.iter().zip(&names) {
        let effect = effect(tool);
        let style = match effect {
            "reads" => QUIET,
            "adds" => GOOD,
            "deletes" => BAD,
            _ => CARE,
        };
        let description = tool.get("description").and_then(Value::as_str);
        let sentence = first_sentence(description.unwrap_or_default());
        for (number, text) in column.wrap(&sentence, 0).into_iter().enumerate() {
            lines.push(if number == 0 {
                let (name, effect) = (pad(name, name_width), pad(effect, effect_width));
                format!("{STRONG}{name}{STRONG:#}  {style}{effect}{style:#}  {text}")
            } else {
                format!("{:indent$}{text}", "")
            });
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, hints: [bool; 3], description: &str) -> Value {
        json!({"name": name, "description": description, "annotations": {
            "readOnlyHint": hints[0], "destructiveHint": hints[1], "idempotentHint": hints[2]}})
    }

    fn shown(tools: &[Value], layout: Layout) -> Vec<String> {
        table(tools, layout)
            .iter()
            .map(|line| anstream::adapter::strip_str(line).to_string())
            .collect()
    }

    #[test]
    fn the_hints_become_one_word() {
        assert_eq!(effect(&tool("a", [true, false, true], "")), "reads");
        assert_eq!(effect(&tool("a", [false, false, false], "")), "adds");
        assert_eq!(effect(&tool("a", [false, true, false], "")), "changes");
        assert_eq!(effect(&tool("a", [false, true, true], "")), "deletes");
        assert_eq!(effect(&json!({"name": "a"})), "?");
    }

    #[test]
    fn a_tool_is_its_name_its_effect_and_its_first_sentence() {
        let tools = [
            tool(
                "chat_send",
                [false, false, false],
                "Say something. Details.",
            ),
            tool("map_list", [true, false, true], "List maps."),
        ];
        assert_eq!(
            shown(&tools, Layout::test(80)),
            [
                "chat_send  adds     Say something.",
                "map_list   reads    List maps."
            ]
        );
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let tools = [tool(
            "a_rather_long_tool_name",
            [true, false, true],
            &"word ".repeat(40),
        )];
        for line in shown(&tools, Layout::test(80)) {
            assert!(display_width(&line) <= 80, "{line}");
        }
    }

    #[test]
    fn a_tool_without_a_description_is_listed_all_the_same() {
        assert_eq!(shown(&[json!({"name": "bare"})], Layout::test(80)).len(), 1);
    }
}
