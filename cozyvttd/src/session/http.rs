//! The HTTP client of a session: one cookie jar, one set of rules for
//! redirects, bodies and error texts, for REST and the WebSocket handshake.

use std::time::Duration;

use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, Response, StatusCode};
use serde_json::Value;

use crate::config::BaseUrl;

/// Largest body that is read, in bytes.
pub(super) const MAX_BODY: usize = 16 * 1024 * 1024;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Most redirects that are followed.
const MAX_REDIRECTS: usize = 5;

/// A client with a cookie jar of its own. HTTP/1.1 alone, since the WebSocket
/// handshake goes through it too; no `Sec-Fetch-*` and no `Origin` headers, which
/// CozyVTT 1.5 reads as a browser's. A proxy from the environment is used, but not
/// to get to this very machine, where no proxy could.
pub(super) fn client(base: &BaseUrl) -> reqwest::Result<Client> {
    // One TLS library for the whole process; a second call changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .user_agent(concat!("cozyvttd/", env!("CARGO_PKG_VERSION")))
        .cookie_store(true)
        .http1_only()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(Policy::custom(same_origin));
    if base.is_loopback() {
        builder.no_proxy().build()
    } else {
        builder.build()
    }
}

/// Follows a redirect only on the same origin: the session's cookie and the
/// password are for this instance and nobody else.
fn same_origin(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let stays = attempt
        .previous()
        .first()
        .is_some_and(|first| first.origin() == attempt.url().origin());
    if stays && attempt.previous().len() <= MAX_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

/// Reads a body of at most `limit` bytes.
pub(super) async fn body(mut response: Response, limit: usize) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(None) => return Ok(body),
            Ok(Some(chunk)) if body.len() + chunk.len() <= limit => body.extend_from_slice(&chunk),
            Ok(Some(_)) => return Err(format!("the answer is larger than {limit} bytes")),
            Err(error) => return Err(network_cause(&error)),
        }
    }
}

/// What a failed answer says: `message`, else `error`, else its first 200
/// characters, else its status.
pub(super) fn message(json: Option<&Value>, body: &[u8], status: StatusCode) -> String {
    json.and_then(|json| {
        ["message", "error"]
            .iter()
            .find_map(|key| json.get(key)?.as_str().filter(|text| !text.is_empty()))
    })
    .map_or_else(
        || {
            let text: String = String::from_utf8_lossy(body)
                .trim()
                .chars()
                .take(200)
                .collect();
            if text.is_empty() {
                format!("status code {}", status.as_u16())
            } else {
                text
            }
        },
        ToOwned::to_owned,
    )
}

/// What went wrong on the way, without the address: its query may hold what a
/// person searched for, and reqwest would print it whole.
pub(super) fn network_cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "timed out".to_owned();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    if error.is_connect() {
        format!("cannot connect: {cause}")
    } else if error.is_redirect() {
        "redirected in a circle".to_owned()
    } else {
        cause.to_string()
    }
}
