//! Answers that are made up or spoilt because a fault says so.

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::Value;

use super::front::BODY_CAP;
use crate::faults::{Fault, Reply};

/// A ready-made answer.
pub(super) fn instead(reply: &Reply) -> Response {
    let mut response = Response::new(Body::from(reply.body.clone()));
    *response.status_mut() =
        StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in &reply.headers {
        if let (Ok(name), Ok(value)) = (
            HeaderName::from_bytes(name.as_bytes()),
            HeaderValue::from_str(value),
        ) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// Spoils the body of an answer.
pub(super) async fn spoil(fault: Fault, response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let body = to_bytes(body, BODY_CAP).await.unwrap_or_default();
    let mut kind = None;
    let spoilt = match fault {
        Fault::TruncatedJson => body.slice(..body.len() / 2),
        Fault::Html => {
            kind = Some("text/html; charset=utf-8");
            Bytes::from_static(
                b"<!doctype html><html><head><title>Gateway</title></head><body>Hello</body></html>",
            )
        }
        Fault::WrongTypes => {
            let value = serde_json::from_slice(&body).unwrap_or(Value::Null);
            Bytes::from(twist(value).to_string())
        }
        Fault::BigBody(bytes) => {
            let mut value: Value = serde_json::from_slice(&body).unwrap_or_default();
            if let Value::Object(fields) = &mut value {
                fields.insert("padding".to_owned(), Value::from("x".repeat(bytes)));
            }
            Bytes::from(value.to_string())
        }
        _ => body,
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    if let Some(kind) = kind {
        parts
            .headers
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    Response::from_parts(parts, Body::from(spoilt))
}

/// The same keys, every value of another type.
fn twist(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| (key, twist(value)))
            .collect(),
        Value::Array(_) => Value::from("a list"),
        Value::String(_) => Value::from(7),
        Value::Number(_) => Value::from("seven"),
        Value::Bool(_) => Value::from([true]),
        Value::Null => Value::from(false),
    }
}
