//! Why a request got no usable answer.

use reqwest::Method;
use serde_json::Value;
use thiserror::Error;

use crate::session::budget::QueueFull;
use crate::session::login::LoginError;
use crate::session::patience::Impatience;

/// Longest address of a request, in bytes: common proxies take no longer line.
pub(super) const MAX_URL: usize = 8000;

/// Why a request got no usable answer.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum RestError {
    /// There is no session; this request was not sent.
    #[error("not signed in, so nothing was sent: {0}")]
    NotSignedIn(LoginError),
    /// It waited in vain; it was not sent, or the server did not process it.
    #[error(transparent)]
    Ended(#[from] Impatience),
    /// What was asked for does not fit into an address; nothing was sent.
    #[error(
        "this request's address would be {0} bytes long, and servers take {MAX_URL} at most: shorten \
         the longest argument; nothing was sent"
    )]
    TooLong(usize),
    /// Too many requests are waiting for their turn; this one was not sent.
    #[error("REST {0}")]
    Queue(QueueFull),
    /// The session ended and could not be renewed.
    #[error("HTTP 401: Re-login failed: {0}")]
    Relogin(LoginError),
    /// The server answered with an error.
    #[error("HTTP {status}: {message}")]
    Http {
        /// The status.
        status: u16,
        /// The server's words.
        message: String,
        /// The whole body, when it is JSON.
        body: Option<Value>,
    },
    /// The answer says that it worked and is not what it should be.
    #[error(
        "INVALID_RESPONSE: HTTP {status}, but {reason}; if this was a write, its outcome is unknown: \
         look before repeating it"
    )]
    Invalid {
        /// The status.
        status: u16,
        /// What is wrong with it.
        reason: String,
    },
    /// No answer came.
    #[error("{method} {path} network error: {cause}{outcome}")]
    Network {
        /// The method.
        method: Method,
        /// The path, without its query.
        path: String,
        /// What happened.
        cause: String,
        /// What is to be said of a write whose answer got lost.
        outcome: &'static str,
    },
}

impl RestError {
    /// Whether a write that was answered so may still happen: the answer got lost, is
    /// none, or came from a proxy that waits no longer.
    pub fn may_still_happen(&self) -> bool {
        match self {
            Self::Network { outcome, .. } => !outcome.is_empty(),
            Self::Invalid { .. } => true,
            Self::Http { status, .. } => matches!(status, 502..=504),
            Self::NotSignedIn(_)
            | Self::Relogin(_)
            | Self::Queue(_)
            | Self::TooLong(_)
            | Self::Ended(_) => false,
        }
    }
}
