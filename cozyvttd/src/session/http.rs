//! The HTTP client of a session: one cookie jar, one set of rules for
//! redirects, bodies and error texts, for REST and the WebSocket handshake.

use std::sync::Arc;
use std::time::Duration;

use cozyvtt_proto::text::start;
use reqwest::cookie::CookieStore;
use reqwest::redirect::{Action, Attempt, Policy};
use reqwest::{Client, Response, StatusCode};
use serde_json::Value;
use thiserror::Error;

use super::access::AccessProblem;
use crate::config::{BaseUrl, Settings};

/// Largest body that is read, in bytes.
pub(super) const MAX_BODY: usize = 16 * 1024 * 1024;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections that are kept for the next request; a burst's others are let go.
const IDLE: usize = 4;

/// Most redirects that are followed.
const MAX_REDIRECTS: usize = 5;

/// Why there is no HTTP client.
#[derive(Debug, Error)]
pub enum ClientError {
    /// What the configuration says of the way to the instance is wrong.
    #[error(transparent)]
    Access(#[from] AccessProblem),
    /// The library refuses, for want of usable TLS roots, say.
    #[error("the HTTP client cannot be set up: {0}")]
    Library(#[from] reqwest::Error),
}

/// A client whose cookies are `jar`'s. HTTP/1.1 alone, since the WebSocket
/// handshake goes through it too; no `Sec-Fetch-*` and no `Origin` headers, which
/// CozyVTT 1.5 reads as a browser's. A proxy from the environment is used, but not
/// to get to this very machine, where no proxy could.
pub(super) fn client(
    settings: &Settings,
    jar: Arc<impl CookieStore + 'static>,
) -> Result<Client, ClientError> {
    let base = settings.url.clone();
    // One TLS library for the whole process; a second call changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .user_agent(concat!("cozyvttd/", env!("CARGO_PKG_VERSION")))
        .default_headers(settings.access.header_map())
        .tls_certs_merge(settings.access.certificates()?)
        .cookie_provider(jar)
        .http1_only()
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_max_idle_per_host(IDLE)
        .redirect(Policy::custom(move |attempt| within(&base, attempt)));
    let builder = if settings.url.is_loopback() {
        builder.no_proxy()
    } else {
        builder
    };
    Ok(builder.build()?)
}

/// Follows a redirect only within the instance: the session's cookie and the header
/// fields are for it and nobody else. One of a sign-in is never followed, since every
/// step would send the password, or the code, once more.
fn within(base: &BaseUrl, attempt: Attempt<'_>) -> Action {
    let first = attempt.previous().first();
    let signs_in = first.is_some_and(|first| {
        let path = first.path();
        path.ends_with("/api/auth/login") || path.contains("/api/auth/mfa/")
    });
    if base.holds(attempt.url()) && !signs_in && attempt.previous().len() <= MAX_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

/// Reads a body of at most `limit` bytes.
pub(super) async fn body(response: Response, limit: usize) -> Result<Vec<u8>, String> {
    body_telling(response, limit, |_| {}).await
}

/// The same; `heard` is told how many bytes have come so far.
pub(super) async fn body_telling(
    mut response: Response,
    limit: usize,
    heard: impl Fn(usize),
) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(None) => return Ok(body),
            Ok(Some(chunk)) if body.len() + chunk.len() <= limit => {
                body.extend_from_slice(&chunk);
                heard(body.len());
            }
            Ok(Some(_)) => return Err(format!("the answer is larger than {limit} bytes")),
            Err(error) => return Err(network_cause(&error)),
        }
    }
}

/// What a failed answer says: `message`, else `error`, else its text, each of at most
/// so many characters, else its status.
pub(super) fn message(json: Option<&Value>, body: &[u8], status: StatusCode) -> String {
    json.and_then(|json| {
        ["message", "error"]
            .iter()
            .find_map(|key| json.get(key)?.as_str().filter(|text| !text.is_empty()))
    })
    .map_or_else(
        || {
            let text = start(String::from_utf8_lossy(body).trim(), 200);
            if text.is_empty() {
                format!("status {}", status.as_u16())
            } else {
                text
            }
        },
        |text| start(text, 500),
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
    let cause = cause.to_string();
    if cause.contains("UnknownIssuer") {
        format!(
            "cannot connect: {cause}: nobody known vouches for the server's certificate; when the \
             table has an authority of its own, name its file with ca_file in the configuration"
        )
    } else if error.is_connect() {
        format!("cannot connect: {cause}")
    } else if error.is_redirect() {
        "redirected in a circle".to_owned()
    } else {
        cause
    }
}
