//! Maps.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::arguments::NoArguments;
use super::receipt::receipt;
use super::{Context, Hints, Tool, ToolError};
use crate::session::ids::ResourceId;
use crate::session::lanes::Lane;
use crate::session::rest::{Expect, Request};

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

    async fn run(_: NoArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        let request = Request::get(session.in_campaign(&["maps"]));
        Ok(session.request(&request, Expect::Has("maps")).await?)
    }
}

/// `map_switch`
pub(super) struct Switch;

/// Which map.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SwitchArguments {
    /// The map's id, from map_list.
    map_id: ResourceId,
}

impl Tool for Switch {
    const NAME: &'static str = "map_switch";
    const TITLE: &'static str = "Switch the map";
    const DESCRIPTION: &'static str = "Makes a map the current one, and then tells everybody's \
        screen. Two steps: the first is stored, the second is only sent, and a poll shows map.changed \
        after `broadcast.since`. Only the DM may. When the second step fails the map is switched all \
        the same: never repeat the call for that; calling it again sends the news again.";
    const HINTS: Hints = Hints::CHANGES;
    type Arguments = SwitchArguments;

    async fn run(arguments: SwitchArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        let id = arguments.map_id.as_str();
        // The server tells the table of the current map alone, so the two steps of
        // one switch must not mix with those of another.
        let lanes = [Lane::CurrentMap, Lane::Map(id.to_owned())];
        let mut rights = session.lanes(lanes).await?;
        let request = Request::put(session.in_campaign(&["maps", id, "set-current"]), json!({}));
        let response = session.write(&mut rights, &request, Expect::Object).await?;
        session.facts().note_map(id);
        let wanted = id.to_owned();
        let sent = session
            .emit_in(rights, "map.change", json!({"mapId": id}), move |event| {
                event.event == "map.changed" && event.payload["mapId"] == wanted.as_str()
            })
            .await;
        let mut outcome = json!({
            "persisted": true,
            "response": response,
            "broadcast_pending": sent.is_ok(),
            "confirmed": false,
        });
        match sent {
            Ok(since) => {
                outcome["broadcast"] = receipt(since, json!({}));
                Ok(outcome)
            }
            Err(cause) => Err(ToolError::Partial {
                sentence: format!(
                    "Current map saved, but broadcast dispatch failed; do not replay the REST write: {cause}"
                ),
                recovery: outcome,
            }),
        }
    }
}

/// `map_create`
pub(super) struct Create;

/// A new map.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateArguments {
    /// Its name; not blank.
    name: String,
    /// Its picture: the id or address of an image asset of type MAP that is on the server already.
    image_url: String,
    /// Its width in grid squares; servers from 1.5.1 on take 500 at most.
    #[schemars(range(min = 1))]
    width: i64,
    /// Its height in grid squares; servers from 1.5.1 on take 500 at most.
    #[schemars(range(min = 1))]
    height: i64,
    /// Pixels per square; servers from 1.5.1 on take 10 to 500 and may put 50 in place of others.
    #[serde(default = "CreateArguments::default_grid_size")]
    #[schemars(range(min = 1))]
    grid_size: i64,
    /// The picture of the spirit plane.
    #[serde(default)]
    spirit_layer_url: Option<String>,
}

impl CreateArguments {
    fn default_grid_size() -> i64 {
        50
    }
}

impl Tool for Create {
    const NAME: &'static str = "map_create";
    const TITLE: &'static str = "Create a map";
    const DESCRIPTION: &'static str = "Adds a map that shows an image which is on the server already; \
        it uploads nothing and does not switch to the map (map_switch does). Each success adds another \
        map. Only the DM may. Fails for sizes and images that the server does not take.";
    const HINTS: Hints = Hints::ADDS;
    type Arguments = CreateArguments;

    fn check(arguments: &CreateArguments) -> Result<(), String> {
        if arguments.name.trim().is_empty() || arguments.image_url.is_empty() {
            return Err("name must be nonblank and image_url must not be empty".to_owned());
        }
        for (field, value) in [
            ("width", arguments.width),
            ("height", arguments.height),
            ("grid_size", arguments.grid_size),
        ] {
            if value < 1 {
                return Err(format!("{field} must be a positive integer"));
            }
        }
        Ok(())
    }

    async fn run(arguments: CreateArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        let mut map = json!({
            "name": arguments.name,
            "imageUrl": arguments.image_url,
            "width": arguments.width,
            "height": arguments.height,
            "gridSize": arguments.grid_size,
        });
        if let Some(spirit) = arguments.spirit_layer_url {
            map["spiritLayerUrl"] = spirit.into();
        }
        let request = Request::post(session.in_campaign(&["maps"]), map);
        Ok(session.request(&request, Expect::Has("map")).await?)
    }
}

/// `map_delete`
pub(super) struct Delete;

impl Tool for Delete {
    const NAME: &'static str = "map_delete";
    const TITLE: &'static str = "Delete a map";
    const DESCRIPTION: &'static str = "Deletes a map with all its tokens, for good. The current map \
        cannot be deleted: switch to another one first (map_switch); nothing is switched by itself. \
        Only the DM may. Deleting it once more answers that it was not found.";
    const HINTS: Hints = Hints::DELETES;
    type Arguments = SwitchArguments;

    async fn run(arguments: SwitchArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        let id = arguments.map_id.as_str();
        let mut rights = session.lanes([Lane::Map(id.to_owned())]).await?;
        let request = Request::delete(session.in_campaign(&["maps", id]));
        Ok(session
            .write(&mut rights, &request, Expect::Message)
            .await?)
    }
}
