//! Reading a tool's arguments, and saying what is wrong with them so that a
//! model can repair the call.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

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
        let what = cut(plain(&error.into_inner().to_string()));
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

/// Serde's names for Rust's types, in the words of JSON.
fn plain(message: &str) -> String {
    message
        .replace("expected i64", "expected an integer")
        .replace("expected u64", "expected a non-negative integer")
        .replace("expected f64", "expected a number")
        .replace("field", "argument")
}

/// A complaint quotes what was given, which may be long.
fn cut(mut message: String) -> String {
    if let Some((end, _)) = message.char_indices().nth(LONGEST) {
        message.truncate(end);
        message.push('…');
    }
    message
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
