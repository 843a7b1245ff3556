//! Whether a sheet may be saved, and what becomes of it when it is.

use serde_json::{Value, json};

use super::answer::Answer;
use super::sheet_shapes::{Field, Shape, sheet};
use crate::world::{GameSystem, User, name_key};

/// What is wrong with the sheet, as the server lists it; empty for nothing.
/// A flexible sheet is never wrong.
pub(super) fn faults(system: Option<GameSystem>, data: &Value) -> Vec<Value> {
    let mut faults = Vec::new();
    if let Some(system) = system {
        look(&sheet(system), Some(data), "", &mut faults);
    }
    faults
}

/// The 400 of a sheet that is wrong.
pub(super) fn check(system: Option<GameSystem>, data: &Value) -> Result<(), Answer> {
    let faults = faults(system, data);
    if faults.is_empty() {
        return Ok(());
    }
    Err(
        Answer::invalid("Character data does not match game system schema")
            .with("validationErrors", Value::Array(faults)),
    )
}

/// Drops the keys the system's sheet does not know, as 1.5 does.
pub(super) fn prune(system: Option<GameSystem>, data: &mut Value) {
    if let Some(system) = system {
        cut(&sheet(system), data);
    }
}

/// Writes the names of the character and of the player into a new sheet that
/// leaves them out, as 1.5 does.
pub(super) fn sign(system: Option<GameSystem>, data: &mut Value, name: &str, player: &User) {
    let Some((key, Value::Object(sheet))) = name_key(system).map(|key| (key, data)) else {
        return;
    };
    for (key, text) in [(key, name), ("playerName", player.display_name.as_str())] {
        let blank = match sheet.get(key) {
            None | Some(Value::Null) => true,
            Some(value) => value == "",
        };
        if blank {
            sheet.insert(key.to_owned(), json!(text));
        }
    }
}

fn cut(shape: &Shape, value: &mut Value) {
    let (Shape::Block(fields), Value::Object(found)) = (shape, value) else {
        return;
    };
    if fields.is_empty() {
        return;
    }
    found.retain(|key, _| fields.iter().any(|field| field.name == key));
    for field in fields {
        if let Some(inner) = found.get_mut(field.name) {
            cut(&field.shape, inner);
        }
    }
}

fn look(shape: &Shape, value: Option<&Value>, path: &str, faults: &mut Vec<Value>) {
    let found = kind(value);
    let wanted = match shape {
        Shape::Any => return,
        Shape::Text | Shape::Word => "string",
        Shape::Flag => "boolean",
        Shape::List => "array",
        Shape::Number | Shape::Between(..) | Shape::AtLeast(_) => "number",
        Shape::Block(_) => "object",
    };
    if found != wanted {
        let message = format!("Invalid input: expected {wanted}, received {found}");
        faults.push(json!({ "path": path, "message": message, "code": "invalid_type" }));
        return;
    }
    let number = value.and_then(Value::as_f64).unwrap_or_default();
    let mut complain = |message: String, code: &str| {
        faults.push(json!({ "path": path, "message": message, "code": code }));
    };
    #[allow(clippy::cast_precision_loss)] // small bounds
    match shape {
        Shape::Word if value.is_some_and(|text| text == "") => complain(
            "Too small: expected string to have >=1 characters".to_owned(),
            "too_small",
        ),
        Shape::Between(least, _) | Shape::AtLeast(least) if number < *least as f64 => complain(
            format!("Too small: expected number to be >={least}"),
            "too_small",
        ),
        Shape::Between(_, most) if number > *most as f64 => complain(
            format!("Too big: expected number to be <={most}"),
            "too_big",
        ),
        Shape::Block(fields) => {
            for Field {
                name,
                shape,
                required,
            } in fields
            {
                let inner = value.and_then(|value| value.get(name));
                if *required || inner.is_some() {
                    let path = if path.is_empty() {
                        (*name).to_owned()
                    } else {
                        format!("{path}.{name}")
                    };
                    look(shape, inner, &path, faults);
                }
            }
        }
        _ => {}
    }
}

fn kind(value: Option<&Value>) -> &'static str {
    match value {
        None => "undefined",
        Some(Value::Null) => "null",
        Some(Value::Bool(_)) => "boolean",
        Some(Value::Number(_)) => "number",
        Some(Value::String(_)) => "string",
        Some(Value::Array(_)) => "array",
        Some(Value::Object(_)) => "object",
    }
}
