//! Answers, as the routes give them.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::limits::Standing;

/// What becomes of the caller's session with this answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionChange {
    /// The cookie of this session is set.
    Set(String),
    /// The cookie is cleared.
    Cleared,
}

/// A status and a JSON body.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    status: StatusCode,
    body: Value,
    session: Option<SessionChange>,
    standing: Option<Standing>,
}

/// What a route gives: an answer either way.
pub(crate) type Outcome = Result<Answer, Answer>;

impl Answer {
    pub(crate) fn new(status: StatusCode, body: Value) -> Self {
        Self {
            status,
            body,
            session: None,
            standing: None,
        }
    }

    pub(crate) fn ok(body: Value) -> Self {
        Self::new(StatusCode::OK, body)
    }

    pub(crate) fn created(body: Value) -> Self {
        Self::new(StatusCode::CREATED, body)
    }

    fn error(status: StatusCode, error: &str, message: &str) -> Self {
        Self::new(status, json!({ "error": error, "message": message }))
    }

    /// 400 of the kind most checks give.
    pub(crate) fn invalid(message: &str) -> Self {
        Self::bad("Validation Error", message)
    }

    /// 400 of another kind.
    pub(crate) fn bad(error: &str, message: &str) -> Self {
        Self::error(StatusCode::BAD_REQUEST, error, message)
    }

    pub(crate) fn unauthorized(error: &str, message: &str) -> Self {
        Self::error(StatusCode::UNAUTHORIZED, error, message)
    }

    pub(crate) fn forbidden(message: &str) -> Self {
        Self::error(StatusCode::FORBIDDEN, "Forbidden", message)
    }

    /// 403 of another kind.
    pub(crate) fn refused(error: &str, message: &str) -> Self {
        Self::error(StatusCode::FORBIDDEN, error, message)
    }

    pub(crate) fn missing(message: &str) -> Self {
        Self::error(StatusCode::NOT_FOUND, "Not Found", message)
    }

    /// The answer of a route that does not exist.
    pub(crate) fn no_route() -> Self {
        Self::missing("The requested resource does not exist")
    }

    pub(crate) fn conflict(code: &str, message: &str) -> Self {
        Self::error(StatusCode::CONFLICT, "Conflict", message).with("code", json!(code))
    }

    /// 400 without the usual two keys.
    pub(crate) fn odd(body: Value) -> Self {
        Self::new(StatusCode::BAD_REQUEST, body)
    }

    /// 500, with the sentence the server shows for anything unexpected.
    pub(crate) fn broken() -> Self {
        Self::failed("An unexpected error occurred")
    }

    /// 500 with a sentence of its own.
    pub(crate) fn failed(message: &str) -> Self {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Self::error(status, "Internal Server Error", message)
    }

    pub(crate) fn too_large() -> Self {
        Self::error(
            StatusCode::PAYLOAD_TOO_LARGE,
            "Payload Too Large",
            "The request body is too large.",
        )
    }

    pub(crate) fn too_many_requests() -> Self {
        Self::error(
            StatusCode::TOO_MANY_REQUESTS,
            "Too Many Requests",
            "Rate limit exceeded. Please slow down.",
        )
    }

    /// Adds a key to the body.
    pub(crate) fn with(mut self, key: &str, value: Value) -> Self {
        self.body[key] = value;
        self
    }

    /// Says how the caller stands with a limiter of the route's own.
    pub(crate) fn standing(mut self, standing: Standing) -> Self {
        self.standing = Some(standing);
        self
    }

    /// Says what becomes of the session.
    pub(crate) fn session(mut self, change: SessionChange) -> Self {
        self.session = Some(change);
        self
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body.to_string()));
        *response.status_mut() = self.status;
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json; charset=utf-8"),
        );
        if let Some(change) = self.session {
            response.extensions_mut().insert(change);
        }
        if let Some(standing) = self.standing {
            response.extensions_mut().insert(standing);
        }
        response
    }
}
