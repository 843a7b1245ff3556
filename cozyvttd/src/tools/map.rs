//! Maps.

use serde_json::Value;

use super::arguments::NoArguments;
use super::{Hints, Tool, ToolError};
use crate::session::Session;
use crate::session::rest::Request;

/// `map_list`
pub(super) struct List;

impl Tool for List {
    const NAME: &'static str = "map_list";
    const TITLE: &'static str = "List the maps";
    const DESCRIPTION: &'static str = "The campaign's maps with their ids, names and sizes in grid \
        squares, newest first. Which of them the table is on is in campaign_get (`current_map`). \
        Changes nothing; any member may call it, but from server 1.5 on players and spectators see \
        the current map alone. Fails when the account is no member of the campaign.";
    const HINTS: Hints = Hints::READS;
    type Arguments = NoArguments;

    async fn run(_: NoArguments, session: &Session) -> Result<Value, ToolError> {
        let request = Request::get(session.in_campaign(&["maps"]));
        Ok(session.request(&request, "maps").await?)
    }
}
