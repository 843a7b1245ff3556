//! Ids of the server's things, each of which names exactly one path segment.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use thiserror::Error;

/// An id that can stand as one segment of a path. Whatever it holds is
/// percent-encoded when a path is built ([`crate::config::BaseUrl::under`]); the
/// three texts that would change the path nonetheless cannot be held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceId(String);

/// The text cannot name one path segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("Resource ID must not be empty or a relative path")]
pub struct BadId;

impl ResourceId {
    /// Reads an id.
    ///
    /// # Errors
    ///
    /// [`BadId`] for an empty text, `.` and `..`.
    pub fn parse(text: &str) -> Result<Self, BadId> {
        if matches!(text, "" | "." | "..") {
            return Err(BadId);
        }
        Ok(Self(text.to_owned()))
    }

    /// The id as the server gave it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for ResourceId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for ResourceId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ResourceId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "minLength": 1})
    }

    fn inline_schema() -> bool {
        true
    }
}

impl std::fmt::Display for ResourceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_leave_its_segment_is_no_id() {
        for bad in ["", ".", ".."] {
            assert_eq!(ResourceId::parse(bad), Err(BadId), "{bad:?}");
        }
        for good in ["a", "...", "a/b", "%2e%2e", " "] {
            assert_eq!(ResourceId::parse(good).unwrap().as_str(), good);
        }
    }
}
