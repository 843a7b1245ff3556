//! `cozyvttctl call`: a tool, called as an agent would.

use std::io::Read;
use std::time::Duration;

use cozyvtt_proto::client::ClientError;
use cozyvtt_proto::control::{CallParams, CallResult, NoParams, ToolCall, ToolList};
use cozyvtt_proto::jsonrpc::ErrorKind;
use cozyvttd::nearest::nearest;
use serde_json::{Map, Value};
use textwrap::core::display_width;

use crate::bar::Bar;
use crate::daemon::{Daemon, PROMPT};
use crate::failure::{Exit, Failure};
use crate::terminal::Screen;
use crate::text::{json_line, json_pretty};
use crate::tools;

/// How long a tool may take: uploads, a queue of rolls, and waiting for an event among it.
const PATIENCE: Duration = Duration::from_mins(5);

/// What to say when nobody knows how far a call came.
const OUTCOME_UNKNOWN: &str =
    "The tool may have acted all the same: look at the table before you call it again.";

/// Call a tool as an agent would
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Prints what the tool answered; when it refuses, says why on standard error and exits with 1. Mind the quotes: a shell takes braces and double quotes for itself.

Examples:
  cozyvttctl call campaign_get
  cozyvttctl call chat_send '{\"content\": \"The door creaks open.\"}'
  cozyvttctl call dice_roll '{\"expression\": \"2d6+3\"}' --json
  cozyvttctl call document_create - < handout.json")]
pub(crate) struct Args {
    /// The tool's name; `cozyvttctl tools` lists them
    tool: String,

    /// The arguments as a JSON object; `-` reads them from standard input
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    arguments: Option<String>,

    /// Call it in this campaign of the same account, instead of the daemon's own
    #[arg(long, value_name = "ID")]
    campaign: Option<String>,

    /// Print the tool's envelope as JSON: {"ok": true, "data": ...} or {"ok": false, "error": ...}
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, daemon: &Daemon, screen: &mut Screen) -> Result<Exit, Failure> {
    let arguments = match args.arguments.as_deref() {
        None => Map::new(),
        Some("-") => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| Failure::usage(format!("cannot read standard input: {error}")))?;
            parse(&text)?
        }
        Some(text) => parse(text)?,
    };
    let params = CallParams {
        name: args.tool.clone(),
        arguments,
        cwd: std::env::current_dir().ok(),
        campaign: args.campaign,
    };
    let outcome = if Bar::would_be_seen() {
        let bar = Bar::new();
        let heard = |progress| bar.tell(progress);
        daemon
            .try_ask_told::<ToolCall>(params, PATIENCE, heard)
            .await
    } else {
        daemon.try_ask::<ToolCall>(params, PATIENCE).await
    };
    let result = match outcome {
        Ok(result) => result,
        Err(error) => return Err(explain(error, &args.tool, daemon).await),
    };
    if args.json {
        screen.line(&json_line(&result.envelope))?;
        return Ok(if succeeded(&result) {
            Exit::Fine
        } else {
            Exit::Failed
        });
    }
    if succeeded(&result) {
        let data = result.envelope.get("data").unwrap_or(&Value::Null);
        screen.line(&json_pretty(data))?;
        return Ok(Exit::Fine);
    }
    Err(refusal(&result.envelope))
}

fn succeeded(result: &CallResult) -> bool {
    !result.is_error && result.envelope.get("ok") == Some(&Value::Bool(true))
}

/// The tool's own words; what it adds for programs is shown below them.
fn refusal(envelope: &Value) -> Failure {
    let words = envelope.get("error").and_then(Value::as_str);
    let mut failure = Failure::failed(words.map_or_else(|| json_line(envelope), str::to_owned));
    if let Some(data) = envelope.get("data").filter(|data| !data.is_null()) {
        for line in json_pretty(data).lines() {
            failure = failure.show(line);
        }
    }
    failure
}

async fn explain(error: ClientError, tool: &str, daemon: &Daemon) -> Failure {
    match error {
        ClientError::Refused(refused) if refused.data.kind == ErrorKind::UnknownTool => {
            let failure = Failure::failed(refused.message);
            match daemon.ask::<ToolList>(NoParams {}, PROMPT).await {
                Ok(list) => match nearest(tool, list.tools.iter().map(tools::name)) {
                    Some(name) => failure.advise(format!("Did you mean `{name}`?")),
                    None => failure,
                },
                Err(_) => failure,
            }
        }
        ClientError::Silent { .. } => Failure::failed(error.to_string()).advise(OUTCOME_UNKNOWN),
        ClientError::Broken { .. } => daemon.explain(error).await.advise(OUTCOME_UNKNOWN),
        error => daemon.explain(error).await,
    }
}

/// The arguments, from what was typed.
fn parse(text: &str) -> Result<Map<String, Value>, Failure> {
    if text.trim().is_empty() {
        return Err(
            Failure::usage("the arguments are empty; leave them out when there are none")
                .advise("A tool's arguments are a JSON object, such as '{\"map_id\": \"...\"}'."),
        );
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(other) => {
            let kind = match other {
                Value::Array(_) => "an array",
                Value::String(_) => "a string",
                Value::Number(_) => "a number",
                Value::Bool(_) => "a boolean",
                Value::Null | Value::Object(_) => "null",
            };
            Err(Failure::usage(format!(
                "the arguments must be a JSON object such as {{\"map_id\": \"...\"}}, not {kind}"
            )))
        }
        Err(error) => Err(misspelt(text, &error)),
    }
}

/// The sentence that points at the place, and the place.
fn misspelt(text: &str, error: &serde_json::Error) -> Failure {
    /// Columns shown to either side of the place.
    const AROUND: usize = 35;
    let message = error.to_string();
    let reason = message
        .rsplit_once(" at line ")
        .map_or(message.as_str(), |(reason, _)| reason);
    let line = text
        .lines()
        .nth(error.line().saturating_sub(1))
        .unwrap_or_default();
    // serde_json counts bytes, from 1, and stops on the byte that it dislikes.
    let at = line.floor_char_boundary(error.column().saturating_sub(1));
    let column = line[..at].chars().count();
    let start = column.saturating_sub(AROUND);
    let shown: String = line.chars().skip(start).take(2 * AROUND).collect();
    let shown = crate::text::plain(&shown);
    let before: String = shown.chars().take(column - start).collect();
    let place = if text.trim_end().lines().count() > 1 {
        format!("line {}, column {}", error.line(), column + 1)
    } else {
        format!("column {}", column + 1)
    };
    let failure = Failure::usage(format!(
        "the arguments are not valid JSON: {reason} ({place})"
    ))
    .show(shown.as_str())
    .show(format!("{:width$}^", "", width = display_width(&before)));
    if text.contains('"') {
        failure
    } else {
        failure.advise("There is no double quote left in it: put the whole JSON in single quotes for the shell.")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::failure::Told;

    fn refused(text: &str) -> Told {
        match parse(text).unwrap_err() {
            Failure::Told(told) => *told,
            Failure::Output(error) => panic!("{error}"),
        }
    }

    #[test]
    fn an_object_is_taken_as_it_is() {
        assert_eq!(parse(r#"{"a": 1}"#).unwrap()["a"], 1);
    }

    #[test]
    fn a_typing_error_is_pointed_at() {
        let told = refused(r#"{"text" "hi"}"#);
        assert_eq!(told.exit, Exit::Usage);
        assert!(
            told.problem.contains("expected `:` (column 9)"),
            "{}",
            told.problem
        );
        assert_eq!(told.exhibit, [r#"{"text" "hi"}"#, "        ^"]);
    }

    #[test]
    fn the_place_is_found_in_long_and_in_wide_text() {
        let told = refused(&format!(r#"{{"a": "{}" 1}}"#, "x".repeat(500)));
        assert!(told.exhibit[0].len() <= 70, "{:?}", told.exhibit);
        let (caret, text) = (told.exhibit[1].len() - 1, &told.exhibit[0]);
        assert_eq!(&text[caret..=caret], "1");
        let told = refused(r#"{"名": 名}"#);
        assert_eq!(told.exhibit[1], "       ^");
        let told = refused("{\n\"a\": 1,\n}");
        assert!(
            told.problem.contains("line 3, column 1"),
            "{}",
            told.problem
        );
    }

    #[test]
    fn quotes_that_the_shell_ate_are_noticed() {
        let told = refused("{content: hi}");
        assert!(
            told.advice[0].contains("single quotes"),
            "{:?}",
            told.advice
        );
    }

    #[test]
    fn what_is_no_object_is_named() {
        assert!(refused("[1]").problem.contains("not an array"));
        assert!(refused("  ").problem.contains("empty"));
    }

    #[test]
    fn a_refusal_keeps_the_tools_words_and_what_came_with_them() {
        let Failure::Told(told) =
            refusal(&json!({"ok": false, "error": "HTTP 409: taken", "data": {"status": 409}}))
        else {
            panic!("told")
        };
        assert_eq!(told.problem, "HTTP 409: taken");
        assert!(told.exhibit.concat().contains("409"));
    }
}
