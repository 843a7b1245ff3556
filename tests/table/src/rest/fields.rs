//! What the front door reads from the head of a request and writes into that
//! of an answer.

use std::net::SocketAddr;

use axum::body::Bytes;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::response::Response;
use serde_json::Value;

use super::answer::Answer;
use crate::limits::Standing;

/// The name of the session's cookie.
pub(super) const COOKIE: &str = "cozyvtt.sid";

/// The client's address: the last hop a proxy names, or the peer.
pub(super) fn address(headers: &HeaderMap, peer: SocketAddr) -> String {
    headers
        .get("x-forwarded-for")
        .and_then(|value| value.to_str().ok())
        .and_then(|list| list.rsplit(',').next())
        .map_or_else(|| peer.ip().to_string(), |one| one.trim().to_owned())
}

/// The value of the session cookie.
pub(super) fn cookie(headers: &HeaderMap) -> Option<String> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == COOKIE)
        .map(|(_, value)| value.to_owned())
}

/// The cross-site check of 1.5.
pub(super) fn from_another_site(parts: &Parts) -> bool {
    let safe = [Method::GET, Method::HEAD, Method::OPTIONS].contains(&parts.method)
        && !parts.uri.path().starts_with("/socket.io");
    let site = parts.headers.get("sec-fetch-site");
    !safe && site.is_some_and(|site| site != "same-origin" && site != "none")
}

pub(super) fn read_body(parts: &Parts, body: &Bytes, old: bool) -> Result<Value, Answer> {
    let cap = if old { 100 * 1024 } else { 1024 * 1024 };
    let json = parts
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|kind| kind.starts_with("application/json"));
    if !json || body.is_empty() {
        return Ok(Value::Null);
    }
    if body.len() > cap {
        return Err(if old {
            Answer::broken()
        } else {
            Answer::too_large()
        });
    }
    serde_json::from_slice(body).map_err(|_| {
        if old {
            Answer::broken()
        } else {
            Answer::bad("Bad Request", "The request body was not valid JSON.")
        }
    })
}

/// The answer of a limiter.
pub(super) fn limited(response: Response, standing: Standing) -> Response {
    let mut response = with_standing(response, Some(standing));
    put(&mut response, "retry-after", &standing.reset.to_string());
    response
}

pub(super) fn with_standing(mut response: Response, standing: Option<Standing>) -> Response {
    if let Some(standing) = standing {
        let limit = standing.allowance.limit;
        let window = standing.allowance.window.as_secs();
        put(
            &mut response,
            "ratelimit-policy",
            &format!("{limit};w={window}"),
        );
        put(&mut response, "ratelimit-limit", &limit.to_string());
        put(
            &mut response,
            "ratelimit-remaining",
            &standing.remaining.to_string(),
        );
        put(
            &mut response,
            "ratelimit-reset",
            &standing.reset.to_string(),
        );
    }
    response
}

fn put(response: &mut Response, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response
            .headers_mut()
            .insert(HeaderName::from_static(name), value);
    }
}
