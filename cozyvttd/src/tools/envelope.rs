//! The envelope around every answer, and how errors are put into it.

use cozyvtt_proto::profile::addressed;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use crate::journal::PageError;
use crate::session::TurnError;
use crate::session::live::EmitError;
use crate::session::rest::{ROUTE_MISSING, RestError};

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The arguments did not fit; nothing was done.
    pub is_error: bool,
    /// It is certain that nothing was sent: the same call may be made anew.
    pub nothing_sent: bool,
    /// `{"ok":true,"data":{…}}` or `{"ok":false,"error":"…"}`, the latter with
    /// `data` when the server's own answer is worth seeing.
    pub envelope: Value,
}

/// Why a tool failed.
#[derive(Debug, Clone, Error)]
pub enum ToolError {
    /// There is no session: the configuration or the journal is wrong.
    #[error("{0}")]
    Unavailable(String),
    /// What was asked for cannot be done here; nothing was sent.
    #[error("{0}")]
    Refused(String),
    /// Part of it was done, and the rest was not.
    #[error("{sentence}")]
    Partial {
        /// What was done, what was not, and what not to do now.
        sentence: String,
        /// What is needed to go on from there.
        recovery: Value,
    },
    /// It was not this call's turn.
    #[error(transparent)]
    Turn(#[from] TurnError),
    /// REST failed.
    #[error(transparent)]
    Rest(#[from] RestError),
    /// The event was not sent, or may not have been.
    #[error(transparent)]
    Emit(#[from] EmitError),
    /// The journal cannot be read.
    #[error("{0}")]
    Journal(String),
}

impl ToolError {
    /// Whether nothing was sent, for certain. A tool that has sent one thing and fails at
    /// the next says so in [`Self::Partial`].
    fn is_before_anything(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Refused(_) | Self::Turn(_) => true,
            // The server does not process what is too many.
            Self::Rest(error) => matches!(
                error,
                RestError::NotSignedIn(_)
                    | RestError::Queue(_)
                    | RestError::Ended(_)
                    | RestError::TooLong(_)
                    | RestError::Http { status: 429, .. }
            ),
            Self::Emit(error) => !matches!(error, EmitError::Unknown(_)),
            Self::Partial { .. } | Self::Journal(_) => false,
        }
    }
}

impl From<PageError> for ToolError {
    fn from(error: PageError) -> Self {
        Self::Journal(error.to_string())
    }
}

impl Outcome {
    /// It worked.
    pub fn success(data: Value) -> Self {
        Self {
            is_error: false,
            nothing_sent: false,
            envelope: json!({"ok": true, "data": data}),
        }
    }

    /// It did not work.
    pub fn failure(error: &ToolError) -> Self {
        let (sentence, data) = explain(error);
        let mut envelope = json!({"ok": false, "error": addressed(&sentence)});
        if let Some(data) = data {
            envelope["data"] = data;
        }
        Self {
            is_error: false,
            nothing_sent: error.is_before_anything(),
            envelope,
        }
    }

    /// It was not tried.
    pub fn bad_arguments(sentence: String) -> Self {
        Self {
            is_error: true,
            nothing_sent: true,
            envelope: json!({"ok": false, "error": sentence}),
        }
    }
}

/// The sentence, and the server's own answer where there is one.
fn explain(error: &ToolError) -> (String, Option<Value>) {
    let sentence = error.to_string();
    let rest = match error {
        ToolError::Rest(rest) => rest,
        ToolError::Partial { recovery, .. } => return (sentence, Some(recovery.clone())),
        _ => return (sentence, None),
    };
    let data = |status: u16, upstream: Value| Some(json!({"status": status, "upstream": upstream}));
    match rest {
        RestError::NotSignedIn(_)
        | RestError::Queue(_)
        | RestError::TooLong(_)
        | RestError::Ended(_) => (sentence, None),
        RestError::Relogin(_) => {
            let upstream = json!({"message": sentence});
            (sentence, data(401, upstream))
        }
        RestError::Network { .. } => {
            let upstream = json!({"message": sentence});
            (sentence, data(0, upstream))
        }
        RestError::Invalid { status, reason } => {
            let upstream = json!({"code": "INVALID_RESPONSE", "message": reason});
            (sentence, data(*status, upstream))
        }
        RestError::Http {
            status,
            message,
            body,
        } => {
            let upstream = body.clone().unwrap_or_else(|| json!({"message": message}));
            let sentence = match (*status, message.as_str()) {
                (404, ROUTE_MISSING) => "This CozyVTT instance does not provide this feature; \
                                         upgrade to a supported version and retry."
                    .to_owned(),
                (404, message) => format!(
                    "Resource not found or inaccessible to the current account (HTTP 404): {message}"
                ),
                _ => sentence,
            };
            (sentence, data(*status, upstream))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(error: RestError) -> Value {
        Outcome::failure(&ToolError::Rest(error)).envelope
    }

    fn http(status: u16, body: Value) -> RestError {
        RestError::Http {
            status,
            message: body["message"].as_str().unwrap_or_default().to_owned(),
            body: Some(body),
        }
    }

    #[test]
    fn a_missing_route_and_a_missing_thing_are_told_apart() {
        let body = json!({"error": "Not Found", "message": ROUTE_MISSING});
        let envelope = failed(http(404, body.clone()));
        assert_eq!(
            envelope["error"],
            "This CozyVTT instance does not provide this feature; upgrade to a supported version and retry."
        );
        assert_eq!(envelope["data"], json!({"status": 404, "upstream": body}));
        let envelope = failed(http(404, json!({"message": "Map not found"})));
        assert_eq!(
            envelope["error"],
            "Resource not found or inaccessible to the current account (HTTP 404): Map not found"
        );
    }

    #[test]
    fn the_servers_own_answer_comes_along_whole() {
        let body = json!({"error": "Conflict", "message": "boom", "code": "X", "extra": [1]});
        let envelope = failed(http(500, body.clone()));
        assert_eq!(envelope["error"], "HTTP 500: boom");
        assert_eq!(envelope["data"]["upstream"], body);
    }

    #[test]
    fn an_answer_that_is_none_keeps_its_real_status() {
        let envelope = failed(RestError::Invalid {
            status: 201,
            reason: "the body is not valid JSON".to_owned(),
        });
        let error = envelope["error"].as_str().unwrap();
        assert!(
            error.contains("INVALID_RESPONSE") && error.contains("201"),
            "{error}"
        );
        assert_eq!(envelope["data"]["status"], 201);
        assert_eq!(envelope["data"]["upstream"]["code"], "INVALID_RESPONSE");
    }

    #[test]
    fn a_write_without_an_answer_says_that_its_outcome_is_unknown() {
        let envelope = failed(RestError::Network {
            method: reqwest::Method::POST,
            path: "/api/x".to_owned(),
            cause: "timed out".to_owned(),
            outcome: "; the outcome of this write is unknown",
        });
        let error = envelope["error"].as_str().unwrap();
        assert!(
            error.starts_with("POST /api/x network error: timed out"),
            "{error}"
        );
        assert_eq!(envelope["data"]["status"], 0);
        assert_eq!(envelope["data"]["upstream"]["message"], error);
    }
}
