//! The library of creatures.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::gate::SRD_CREATURES;
use super::{Context, Hints, Tool, ToolError};
use crate::session::rest::{Expect, Request};

/// Most creatures in a page; the server takes no more.
const MAX_LIMIT: i64 = 100;

/// `creature_search`
pub(super) struct Search;

/// What to look for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchArguments {
    /// Part of the name; "" for all.
    #[serde(default)]
    search: String,
    /// Where from: `srd` (D&D 5e alone), `custom` (the campaign's own), or "" for all that the system has.
    #[serde(default)]
    source: String,
    /// The challenge rating, exactly, such as `1/4`; "" for any.
    #[serde(default)]
    cr: String,
    /// Creatures in the page, 100 at most.
    #[serde(default = "SearchArguments::default_limit")]
    limit: i64,
    /// Creatures passed over.
    #[serde(default)]
    offset: i64,
}

impl SearchArguments {
    fn default_limit() -> i64 {
        20
    }

    fn source(&self) -> Result<Source, String> {
        match self.source.trim().to_ascii_lowercase().as_str() {
            "srd" => Ok(Source::Srd),
            "custom" => Ok(Source::Custom),
            "" => Ok(Source::Any),
            _ => Err("source must be srd, custom, or an empty string".to_owned()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Srd,
    Custom,
    Any,
}

impl Tool for Search {
    const NAME: &'static str = "creature_search";
    const TITLE: &'static str = "Search creatures";
    const DESCRIPTION: &'static str = "Searches the library of creatures by name, origin and challenge \
        rating; the answer holds their statistics. To put one on a map use token_place_creature. Changes \
        nothing; from server 1.5 on only the DM may. The D&D library is there in D&D 5e campaigns alone, \
        after the DM has loaded it; other systems search the campaign's own.";
    const HINTS: Hints = Hints::READS;
    type Arguments = SearchArguments;

    fn check(arguments: &SearchArguments) -> Result<(), String> {
        arguments.source().map(drop)
    }

    async fn run(arguments: SearchArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        // `check` has refused everything else.
        let source = match arguments.source().map_err(ToolError::Refused)? {
            Source::Srd => {
                SRD_CREATURES.pass(session).await?;
                Some("srd")
            }
            Source::Any if SRD_CREATURES.allows(session.system().await?.as_deref()) => None,
            // Systems without the D&D library have the campaign's own alone.
            Source::Any | Source::Custom => Some("custom"),
        };
        let mut request = Request::get(session.in_campaign(&["creatures"]))
            .query("limit", arguments.limit.min(MAX_LIMIT))
            .query("offset", arguments.offset);
        if !arguments.search.is_empty() {
            request = request.query("search", arguments.search);
        }
        if let Some(source) = source {
            request = request.query("source", source);
        }
        if !arguments.cr.is_empty() {
            request = request.query("cr", arguments.cr);
        }
        Ok(session.request(&request, Expect::Has("creatures")).await?)
    }
}
