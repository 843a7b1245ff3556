//! Puts an entry into a client's configuration, or takes it out, and leaves everything
//! else as it is, comments and blanks included.

use std::str::FromStr as _;

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::Value;
use yaml_edit::Document;

use super::client::{Client, Format};
use super::entry::Entry;

/// The file's text with the entry in it; what the entry has besides, such as `env`, stays.
///
/// # Errors
///
/// Why the text cannot be edited, one sentence.
pub(crate) fn put(text: &str, client: Client, entry: &Entry) -> Result<String, String> {
    match client.format() {
        Format::Json(key) => {
            let root = json(text)?;
            let servers = root
                .object_value_or_create()
                .and_then(|whole| whole.object_value_or_create(key))
                .ok_or_else(|| format!("{key:?} in it is no object"))?;
            let server = servers
                .object_value_or_create(&entry.name)
                .ok_or_else(|| format!("{:?} in it is no object", entry.name))?;
            for (name, value) in entry.fields(client) {
                set(&server, name, &value);
            }
            Ok(root.to_string())
        }
        Format::Yaml(key) => {
            let edited = put_yaml(text, key, client, entry)?;
            kept(text, &edited, key, &entry.name)?;
            Ok(edited)
        }
        Format::Toml(_) => Err("it is not one that is written".to_owned()),
    }
}

/// The file's text without the entry; `None` when there is none. A list of servers that is
/// empty then goes as well.
///
/// # Errors
///
/// As [`put`].
pub(crate) fn take(text: &str, client: Client, name: &str) -> Result<Option<String>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    match client.format() {
        Format::Json(key) => {
            let root = json(text)?;
            let servers = root.object_value().and_then(|whole| whole.get(key));
            let Some(servers) = servers else {
                return Ok(None);
            };
            let Some(object) = servers.object_value() else {
                return Ok(None);
            };
            let Some(server) = object.get(name) else {
                return Ok(None);
            };
            server.remove();
            if object.properties().is_empty() {
                servers.remove();
            }
            Ok(Some(root.to_string()))
        }
        Format::Yaml(key) => {
            let document = yaml(text)?;
            let Some(servers) = document.get_mapping(key) else {
                return Ok(None);
            };
            if servers.remove(name).is_none() {
                return Ok(None);
            }
            if servers.is_empty() {
                document.remove(key);
            }
            let edited = document.to_string();
            kept(text, &edited, key, name)?;
            Ok(Some(edited))
        }
        Format::Toml(_) => Ok(None),
    }
}

/// Whether nothing is said in a file.
pub(crate) fn is_empty(text: &str, client: Client) -> bool {
    match client.format() {
        Format::Json(_) => text.split_whitespace().collect::<String>() == "{}",
        _ => text.trim().is_empty() || text.trim() == "{}",
    }
}

/// Comments and commas at an end are kept, since editors write them; anything looser is
/// not JSON to the client either.
fn json(text: &str) -> Result<CstRootNode, String> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    CstRootNode::parse(text, &options).map_err(|error| format!("it is no JSON: {error}"))
}

/// Sets a field, unless it says the same already.
fn set(object: &CstObject, name: &str, value: &Value) {
    match object.get(name) {
        Some(field)
            if field.value().and_then(|now| now.to_serde_value()).as_ref() == Some(value) => {}
        Some(field) => field.set_value(input(value)),
        None => {
            object.append(name, input(value));
        }
    }
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Array(all) => CstInputValue::Array(all.iter().map(input).collect()),
        Value::String(text) => CstInputValue::String(text.clone()),
        other => CstInputValue::String(other.to_string()),
    }
}

fn yaml(text: &str) -> Result<Document, String> {
    Document::from_str(text).map_err(|error| format!("it is no YAML: {error}"))
}

fn put_yaml(text: &str, key: &str, client: Client, entry: &Entry) -> Result<String, String> {
    if text.trim().is_empty() {
        return Ok(format!("{text}{}", entry.snippet(client)));
    }
    let document = yaml(text)?;
    let whole = document
        .as_mapping()
        .ok_or_else(|| "it is no mapping".to_owned())?;
    if !whole.contains_key(key) {
        // A block of its own at the end disturbs nothing.
        let line = if text.ends_with('\n') { "" } else { "\n" };
        return Ok(format!("{text}{line}{}", entry.snippet(client)));
    }
    let servers = document
        .get_mapping(key)
        .ok_or_else(|| format!("{key:?} in it is no mapping"))?;
    let snippet = yaml(&entry.snippet(client))?;
    let fields = snippet
        .get_mapping(key)
        .and_then(|servers| servers.get_mapping(&entry.name))
        .ok_or_else(|| "the entry cannot be written in YAML".to_owned())?;
    match servers.get_mapping(&entry.name) {
        Some(server) => {
            for name in ["command", "args"] {
                let (now, wanted) = (server.get(name), fields.get(name));
                let same =
                    now.map(|now| now.to_string()) == wanted.as_ref().map(ToString::to_string);
                if let (false, Some(wanted)) = (same, wanted) {
                    server.set(name, wanted);
                }
            }
        }
        None => servers.set(entry.name.as_str(), fields),
    }
    Ok(document.to_string())
}

/// Makes sure that an edit has changed nothing but the entry: a file of somebody else is not
/// trusted to a library alone.
fn kept(before: &str, after: &str, key: &str, name: &str) -> Result<(), String> {
    yaml(after)?;
    let (before, after) = (others(before, key, name), others(after, key, name));
    let different = before.iter().zip(&after).find(|(one, other)| one != other);
    let longer = || before.get(after.len()).or(after.get(before.len()));
    match different.map(|(line, _)| line).or_else(longer) {
        None => Ok(()),
        Some(line) => Err(format!("its line {line:?} would not stay as it is")),
    }
}

/// The lines of a file that are not about the entry. A list of servers that has no other
/// one is not counted either, nor are blank lines: both come and go with the entry.
fn others<'a>(text: &'a str, key: &str, name: &str) -> Vec<&'a str> {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let is = |line: &str, key: &str| {
        let line = line.trim_start();
        let bare = line.trim_start_matches(['"', '\'']);
        let rest = bare.strip_prefix(key);
        rest.is_some_and(|rest| rest.trim_start_matches(['"', '\'']).starts_with(':'))
    };
    let mut lines: Vec<&str> = Vec::new();
    let (mut among_servers, mut entry) = (false, None);
    let says_something = |line: &&str| !matches!(line.trim(), "" | "{}");
    for line in text.lines().filter(says_something) {
        if let Some(own) = entry {
            // A list may stand as deep as the key that it belongs to.
            if depth(line) > own {
                continue;
            }
            entry = None;
        }
        if depth(line) == 0 && !line.starts_with('#') {
            among_servers = is(line, key);
        } else if among_servers && is(line, name) {
            entry = Some(depth(line));
            continue;
        }
        lines.push(line);
    }
    // The key of a list that is empty without the entry.
    let alone = lines
        .iter()
        .position(|line| depth(line) == 0 && is(line, key));
    if let Some(alone) = alone {
        let value = lines[alone].split_once(':').map_or("", |(_, value)| value);
        let no_value = matches!(value.trim(), "" | "{}");
        let next = lines.get(alone + 1);
        if no_value && next.is_none_or(|next| depth(next) == 0) {
            lines.remove(alone);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry {
            name: "cozyvtt".to_owned(),
            command: "/bin/cozyvtt-shim".to_owned(),
            args: vec!["--read-only".to_owned()],
        }
    }

    #[test]
    fn json_keeps_everything_else_and_the_same_again_changes_nothing() {
        let text = "{\n  // mine\n  \"theme\": \"dark\",\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" },\n  },\n}\n";
        let once = put(text, Client::ClaudeDesktop, &entry()).unwrap();
        assert!(
            once.contains("// mine") && once.contains("\"other\": { \"command\": \"x\" }"),
            "{once}"
        );
        assert!(once.contains("/bin/cozyvtt-shim"), "{once}");
        assert_eq!(put(&once, Client::ClaudeDesktop, &entry()).unwrap(), once);
        let gone = take(&once, Client::ClaudeDesktop, "cozyvtt")
            .unwrap()
            .unwrap();
        assert!(
            !gone.contains("cozyvtt") && gone.contains("// mine"),
            "{gone}"
        );
        assert_eq!(take(text, Client::ClaudeDesktop, "cozyvtt").unwrap(), None);
    }

    #[test]
    fn json_of_an_earlier_entry_keeps_its_environment() {
        let text = r#"{"mcpServers": {"cozyvtt": {"command": "old", "env": {"A": "b"}}}}"#;
        let now = put(text, Client::ClaudeCode, &entry()).unwrap();
        let now: Value = serde_json::from_str(&now).unwrap();
        let server = &now["mcpServers"]["cozyvtt"];
        assert_eq!(server["command"], "/bin/cozyvtt-shim");
        assert_eq!(
            (&server["env"]["A"], &server["type"]),
            (&"b".into(), &"stdio".into())
        );
    }

    #[test]
    fn a_file_that_is_new_or_nothing_but_ours_comes_and_goes() {
        for client in [Client::ClaudeCode, Client::Hermes] {
            let once = put("", client, &entry()).unwrap();
            assert!(once.contains("cozyvtt-shim"), "{once}");
            let gone = take(&once, client, "cozyvtt").unwrap().unwrap();
            assert!(is_empty(&gone, client), "{gone:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        assert!(put("{", Client::ClaudeCode, &entry()).is_err());
        assert!(put("[]", Client::ClaudeCode, &entry()).is_err());
        assert!(put("{'a': 1}", Client::ClaudeCode, &entry()).is_err());
        assert!(put("{\"a\": 1 \"b\": 2}", Client::ClaudeCode, &entry()).is_err());
        assert!(put("- a\n", Client::Hermes, &entry()).is_err());
        assert!(put("mcp_servers: [a]\n", Client::Hermes, &entry()).is_err());
    }

    #[test]
    fn yaml_keeps_comments_and_the_same_again_changes_nothing() {
        let texts = [
            "# mine\nmodel: x  # best\n",
            "# mine\nmcp_servers:\n  # theirs\n  other:\n    command: y\n    args: []\nmodel: x  # best\n",
        ];
        for text in texts {
            let once = put(text, Client::Hermes, &entry()).unwrap();
            for line in text.lines() {
                assert!(
                    once.lines().any(|other| other == line),
                    "{line:?} in\n{once}"
                );
            }
            let read = yaml(&once).unwrap();
            let server = read
                .get_mapping("mcp_servers")
                .unwrap()
                .get_mapping("cozyvtt")
                .unwrap();
            assert!(
                server
                    .get("command")
                    .unwrap()
                    .to_string()
                    .contains("/bin/cozyvtt-shim")
            );
            assert_eq!(put(&once, Client::Hermes, &entry()).unwrap(), once);
            let gone = take(&once, Client::Hermes, "cozyvtt").unwrap().unwrap();
            assert_eq!(gone.trim_end(), text.trim_end());
        }
    }

    #[test]
    fn an_edit_that_changes_another_line_is_found() {
        let text = "model: x\nmcp_servers:\n  other:\n    command: y\n  cozyvtt:\n    command: old\n    args: []\nlast: 1\n";
        let is_kept = |after: &str| kept(text, after, "mcp_servers", "cozyvtt").is_ok();
        assert!(is_kept(&text.replace("command: old", "command: new")));
        assert!(is_kept(
            &text.replace("  cozyvtt:\n    command: old\n    args: []\n", "")
        ));
        for (mine, other) in [
            ("command: y", "command: z"),
            ("last: 1\n", ""),
            ("model: x", "model: cozyvtt"),
        ] {
            assert!(!is_kept(&text.replace(mine, other)), "{mine}");
        }
    }
}
