//! Reading a tool's arguments, and saying what is wrong with them so that a
//! model can repair the call.

use cozyvtt_proto::text::{is_bidirectional_control, start};
use ring::digest::{SHA256, digest};
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The argument that every write takes beside its own.
const KEY: &str = "idempotency_key";

/// Longest key, in characters.
const LONGEST_KEY: usize = 128;

/// Longest complaint about an argument, in characters.
const LONGEST: usize = 200;

/// The parameters of a tool that has none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NoArguments {}

/// The JSON Schema of a type: 2020-12, one object, nothing in it that a model
/// would pay for and not use.
pub(super) fn schema<T: JsonSchema>() -> Map<String, Value> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.meta_schema = None;
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    RecursiveTransform(|schema: &mut Schema| {
        // Rust's own widths say nothing to a client.
        schema.remove("format");
    })
    .transform(&mut schema);
    let mut object = match schema.to_value() {
        Value::Object(object) => object,
        _ => Map::new(),
    };
    object.remove("title");
    object.remove("description");
    object
        .entry("properties")
        .or_insert_with(|| Value::Object(Map::new()));
    object
}

/// Adds to a write's schema what every write takes.
pub(super) fn admit_key(schema: &mut Map<String, Value>) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        let key = json!({
            "type": ["string", "null"], "minLength": 1, "maxLength": LONGEST_KEY,
            "description": "Makes a repeat safe: within 10 minutes, the same key with the same \
                            arguments gives the first call's outcome and does nothing again.",
        });
        properties.insert(KEY.to_owned(), key);
    }
}

/// Takes the idempotency key out of a write's arguments.
///
/// # Errors
///
/// A sentence that says what it takes.
pub(super) fn take_key(
    tool: &str,
    arguments: &mut Map<String, Value>,
) -> Result<Option<String>, String> {
    match arguments.remove(KEY) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(key)) if (1..=LONGEST_KEY).contains(&key.chars().count()) => {
            Ok(Some(key))
        }
        Some(_) => Err(format!(
            "{tool}: argument {KEY}: it takes a string of 1..{LONGEST_KEY} characters"
        )),
    }
}

/// A name for what a call asks for, whatever the order of its arguments: SHA-256 of their
/// JSON with sorted keys, in hexadecimal.
pub(super) fn fingerprint(arguments: &Map<String, Value>) -> String {
    let mut sorted = Value::Object(arguments.clone());
    sorted.sort_all_objects();
    digest(&SHA256, sorted.to_string().as_bytes())
        .as_ref()
        .iter()
        .fold(String::with_capacity(64), |mut hex, byte| {
            for half in [byte >> 4, byte & 15] {
                hex.extend(char::from_digit(half.into(), 16));
            }
            hex
        })
}

/// Reads the arguments of `tool`.
///
/// # Errors
///
/// A sentence that names the argument, what is wrong with it and what it takes.
pub(super) fn read<T: DeserializeOwned>(
    tool: &str,
    arguments: Map<String, Value>,
    schema: &Map<String, Value>,
) -> Result<T, String> {
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| {
        let path = error.path().to_string();
        let what = cut(&plain(&error.into_inner().to_string()));
        let properties = schema.get("properties").and_then(Value::as_object);
        let name = path.split(['.', '[']).next().unwrap_or_default();
        match properties.and_then(|properties| properties.get(name)) {
            Some(property) => format!(
                "{tool}: argument {path}: {what}; {name} takes {}",
                takes(property, is_required(schema, name))
            ),
            None => format!("{tool}: {what}; {}", all(tool, schema)),
        }
    })
}

/// Serde's names for Rust's things, in the words of JSON. They stand at the ends of
/// its sentences; what lies between may be quoted from the call.
fn plain(message: &str) -> String {
    let message = [
        ("i64", "an integer"),
        ("u64", "a non-negative integer"),
        ("f64", "a number"),
    ]
    .iter()
    .find_map(|(rust, json)| Some(format!("{}{json}", message.strip_suffix(rust)?)))
    .unwrap_or_else(|| message.to_owned());
    ["missing", "unknown", "duplicate"]
        .iter()
        .find_map(|what| {
            let rest = message.strip_prefix(what)?.strip_prefix(" field ")?;
            Some(format!("{what} argument {rest}"))
        })
        .unwrap_or(message)
}

/// A complaint quotes what was given, which may be long, and may hold what a terminal
/// would obey.
fn cut(message: &str) -> String {
    let safe = message.chars().fold(String::new(), |mut safe, c| {
        if c.is_control() || is_bidirectional_control(c) {
            safe.extend(c.escape_unicode());
        } else {
            safe.push(c);
        }
        safe
    });
    start(&safe, LONGEST)
}

/// What all parameters of a tool take.
fn all(tool: &str, schema: &Map<String, Value>) -> String {
    let parameters: Vec<String> = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, property)| format!("{name} ({})", takes(property, is_required(schema, name))))
        .collect();
    if parameters.is_empty() {
        format!("{tool} takes no arguments")
    } else {
        format!("{tool} takes {}", parameters.join(", "))
    }
}

/// What one parameter takes, in a few words.
fn takes(property: &Value, required: bool) -> String {
    let mut words = match &property["type"] {
        Value::String(kind) => vec![kind.clone()],
        Value::Array(kinds) => {
            let kinds: Vec<_> = kinds.iter().filter_map(Value::as_str).collect();
            vec![kinds.join(" or ")]
        }
        _ => Vec::new(),
    };
    match (property.get("minimum"), property.get("maximum")) {
        (Some(least), Some(most)) => words.push(format!("{least}..{most}")),
        (Some(least), None) => words.push(format!("at least {least}")),
        (None, Some(most)) => words.push(format!("at most {most}")),
        (None, None) => {}
    }
    if let Some(most) = property.get("maxLength") {
        words.push(format!("at most {most} characters"));
    }
    if let Some(values) = property.get("enum") {
        words.push(format!("one of {values}"));
    }
    words.push(match property.get("default") {
        Some(default) if !required => format!("default {default}"),
        _ if required => "required".to_owned(),
        _ => "optional".to_owned(),
    });
    words.join(", ")
}

fn is_required(schema: &Map<String, Value>, name: &str) -> bool {
    schema
        .get("required")
        .and_then(Value::as_array)
        .is_some_and(|required| required.iter().any(|required| required == name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        /// What to say.
        #[expect(dead_code, reason = "only its reading is tested")]
        content: String,
        /// How many.
        #[serde(default = "ten")]
        #[schemars(range(min = 1, max = 20))]
        #[expect(dead_code, reason = "only its reading is tested")]
        limit: i64,
    }

    fn ten() -> i64 {
        10
    }

    fn refusal(arguments: Value) -> String {
        let Value::Object(arguments) = arguments else {
            panic!("no object");
        };
        read::<Sample>("sample", arguments, &schema::<Sample>()).unwrap_err()
    }

    #[test]
    fn a_wrong_type_names_the_argument_and_what_it_takes() {
        assert_eq!(
            refusal(json!({"content": "a", "limit": 1.5})),
            "sample: argument limit: invalid type: floating point `1.5`, expected an integer; \
             limit takes integer, 1..20, default 10"
        );
        assert!(refusal(json!({"content": 5})).contains("content takes string, required"));
    }

    #[test]
    fn what_a_terminal_would_obey_is_quoted_harmlessly() {
        let refusal = refusal(json!({"content": "a", "limit": "\u{1b}[2J\u{202e}x"}));
        assert!(refusal.contains("\\u{1b}[2J\\u{202e}x"), "{refusal}");
        assert!(!refusal.contains('\u{1b}'), "{refusal}");
    }

    #[test]
    fn what_was_given_is_quoted_as_it_is() {
        let refusal = refusal(json!({"content": "a", "limit": "a field of i64"}));
        assert!(refusal.contains("a field of i64"), "{refusal}");
    }

    #[test]
    fn a_missing_and_an_unknown_argument_list_what_there_is() {
        let all = "sample takes content (string, required), limit (integer, 1..20, default 10)";
        assert_eq!(
            refusal(json!({})),
            format!("sample: missing argument `content`; {all}")
        );
        let unknown = refusal(json!({"content": "a", "offset": 1}));
        assert!(unknown.contains("unknown argument `offset`"), "{unknown}");
        assert!(
            unknown.ends_with("takes string, required") || unknown.ends_with(all),
            "{unknown}"
        );
    }

    #[test]
    fn a_key_is_taken_out_and_has_to_be_one() {
        let mut arguments = Map::new();
        assert_eq!(take_key("t", &mut arguments), Ok(None));
        arguments.insert(KEY.to_owned(), json!("k".repeat(128)));
        assert_eq!(take_key("t", &mut arguments), Ok(Some("k".repeat(128))));
        assert!(arguments.is_empty());
        for wrong in [json!(""), json!("k".repeat(129)), json!(5)] {
            arguments.insert(KEY.to_owned(), wrong);
            let refusal = take_key("t", &mut arguments).unwrap_err();
            assert!(refusal.ends_with("1..128 characters"), "{refusal}");
        }
    }

    #[test]
    fn the_same_wish_has_the_same_fingerprint_whatever_its_order() {
        let of = |value: Value| fingerprint(value.as_object().unwrap());
        assert_eq!(
            of(json!({"a": 1, "b": {"c": 2, "d": 3}})),
            of(json!({"b": {"d": 3, "c": 2}, "a": 1}))
        );
        assert_ne!(of(json!({"a": 1})), of(json!({"a": 2})));
        // As `printf '{}' | sha256sum` has it.
        assert_eq!(
            of(json!({})),
            "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
        );
    }

    #[test]
    fn a_schema_holds_what_a_model_needs_and_no_more() {
        assert_eq!(
            Value::Object(schema::<Sample>()),
            json!({
                "type": "object",
                "additionalProperties": false,
                "required": ["content"],
                "properties": {
                    "content": {"type": "string", "description": "What to say."},
                    "limit": {
                        "type": "integer", "description": "How many.",
                        "minimum": 1, "maximum": 20, "default": 10
                    }
                }
            })
        );
        assert_eq!(schema::<NoArguments>()["properties"], json!({}));
    }
}
