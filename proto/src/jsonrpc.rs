//! The JSON-RPC 2.0 envelope that `POST /rpc` carries.

use crate::profile::addressed;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A request. `params` is an object or absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Always `"2.0"`.
    pub jsonrpc: String,
    /// Echoed in the answer; a string or a number.
    pub id: Value,
    /// One of the names in [`crate::control`].
    pub method: String,
    /// The method's parameters.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub params: Value,
}

/// An answer: exactly one of `result` and `error` is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// Always `"2.0"`.
    pub jsonrpc: String,
    /// The request's id, `null` when it could not be read.
    pub id: Value,
    /// The method's result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why there is no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RpcError>,
}

impl Response {
    /// The answer of a call that worked.
    pub fn success(id: Value, result: Value) -> Self {
        Self {
            jsonrpc: "2.0".into(),
            id,
            result: Some(result),
            error: None,
        }
    }

    /// The answer of a call that did not.
    pub fn failure(id: Value, error: RpcError) -> Self {
        Self {
            jsonrpc: "2.0".into(),
            id,
            result: None,
            error: Some(error),
        }
    }
}

/// Why a call did not work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RpcError {
    /// JSON-RPC's own number for the class of error.
    pub code: i64,
    /// One sentence for a person: what failed and what to do.
    pub message: String,
    /// For programs.
    pub data: ErrorData,
}

/// The part of an error that programs look at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorData {
    /// Which error it is; stable over versions.
    pub kind: ErrorKind,
}

/// The errors that the control socket answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The body is no JSON (-32700).
    ParseError,
    /// The body is no JSON-RPC 2.0 request (-32600).
    InvalidRequest,
    /// There is no such method (-32601).
    MethodNotFound,
    /// The parameters do not fit the method (-32602).
    InvalidParams,
    /// There is no such tool (-32602).
    UnknownTool,
    /// No client of that number or name is connected (-32602).
    UnknownClient,
    /// The daemon lacks a usable configuration (-32000).
    NotConfigured,
    /// The daemon is stopping (-32000).
    Stopping,
    /// Something broke inside the daemon (-32603).
    Internal,
    /// A kind that this version does not know.
    #[serde(other)]
    Unknown,
}

impl ErrorKind {
    /// JSON-RPC's number for it.
    pub fn code(self) -> i64 {
        match self {
            Self::ParseError => -32700,
            Self::InvalidRequest => -32600,
            Self::MethodNotFound => -32601,
            Self::InvalidParams | Self::UnknownTool | Self::UnknownClient => -32602,
            Self::Internal => -32603,
            Self::NotConfigured | Self::Stopping | Self::Unknown => -32000,
        }
    }

    /// The error of this kind with `message`.
    pub fn error(self, message: impl Into<String>) -> RpcError {
        RpcError {
            code: self.code(),
            message: addressed(&message.into()).into_owned(),
            data: ErrorData { kind: self },
        }
    }
}
