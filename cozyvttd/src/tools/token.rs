//! Tokens: what stands on a map.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Number, Value, json};

use super::receipt::receipt;
use super::{Context, Hints, Tool, ToolError};
use crate::session::facts;
use crate::session::ids::ResourceId;
use crate::session::lanes::Lane;
use crate::session::rest::{Expect, Request};

/// Largest side of a token, in squares.
const MAX_SIDE: i64 = 10;

/// `token_add`
pub(super) struct Add;

/// A new token.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AddArguments {
    /// The map's id, from map_list.
    map_id: ResourceId,
    /// Its name; not empty.
    name: String,
    /// Its picture: the id or address of a token image on the server; "" for a placeholder.
    image_url: String,
    /// Its column, from 0 at the left; a whole square on newer servers.
    #[schemars(with = "f64")]
    x: Number,
    /// Its row, from 0 at the bottom; a whole square on newer servers.
    #[schemars(with = "f64")]
    y: Number,
    /// The character that it stands for; "" for none.
    #[serde(default)]
    character_id: String,
    /// Squares it is wide.
    #[serde(default = "AddArguments::default_side")]
    #[schemars(range(min = 1, max = 10))]
    width: i64,
    /// Squares it is high.
    #[serde(default = "AddArguments::default_side")]
    #[schemars(range(min = 1, max = 10))]
    height: i64,
    /// The plane it is on: `token` or `spirit`.
    #[serde(default = "AddArguments::default_layer")]
    layer: String,
    /// Whether players see it.
    #[serde(default = "AddArguments::default_visible")]
    visible: bool,
    /// The user id of the player who may move it.
    #[serde(default)]
    controlled_by: Option<String>,
}

impl AddArguments {
    fn default_side() -> i64 {
        1
    }

    fn default_layer() -> String {
        "token".to_owned()
    }

    fn default_visible() -> bool {
        true
    }
}

impl Tool for Add {
    const NAME: &'static str = "token_add";
    const TITLE: &'static str = "Add a token";
    const DESCRIPTION: &'static str = "Places a token of your own making on a map; for one from the \
        creature library use token_place_creature. Each success adds another token. It is stored, but \
        nobody's screen is told until the map is sent again (map_switch to the current map). Only the \
        DM may. The server may pull a token back onto the map: go by the coordinates in the answer.";
    const HINTS: Hints = Hints::ADDS;
    type Arguments = AddArguments;

    fn check(arguments: &AddArguments) -> Result<(), String> {
        let allowed = 1..=MAX_SIDE;
        if allowed.contains(&arguments.width) && allowed.contains(&arguments.height) {
            Ok(())
        } else {
            Err("width/height must be integers in 1..10".to_owned())
        }
    }

    async fn run(arguments: AddArguments, context: &Context) -> Result<Value, ToolError> {
        let map = arguments.map_id.as_str();
        let mut token = json!({
            "name": arguments.name,
            "imageUrl": arguments.image_url,
            "position": {"x": arguments.x, "y": arguments.y},
            "size": {"width": arguments.width, "height": arguments.height},
            "layer": arguments.layer,
            "visible": arguments.visible,
        });
        if !arguments.character_id.is_empty() {
            token["characterId"] = arguments.character_id.into();
        }
        if let Some(user) = arguments.controlled_by {
            token["controlledBy"] = user.into();
        }
        let mut answer = place(context, map, token).await?;
        answer["persisted"] = true.into();
        answer["broadcast_confirmed"] = false.into();
        Ok(answer)
    }
}

async fn place(context: &Context, map: &str, token: Value) -> Result<Value, ToolError> {
    let session = &context.session;
    let mut rights = session.lanes([Lane::Map(map.to_owned())]).await?;
    let request = Request::post(session.in_campaign(&["maps", map, "tokens"]), token);
    let expect = Expect::Has("token");
    Ok(session.write(&mut rights, &request, expect).await?)
}

/// `token_move`
pub(super) struct Move;

/// Where to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MoveArguments {
    /// The map's id, from map_list.
    map_id: ResourceId,
    /// The token's id.
    token_id: ResourceId,
    /// The column it is to stand in, from 0 at the left.
    #[schemars(with = "f64")]
    x: Number,
    /// The row it is to stand in, from 0 at the bottom.
    #[schemars(with = "f64")]
    y: Number,
}

impl Tool for Move {
    const NAME: &'static str = "token_move";
    const TITLE: &'static str = "Move a token";
    const DESCRIPTION: &'static str = "Puts a token that is on a map to an absolute place on it. It is \
        stored, but nobody's screen is told until the map is sent again (map_switch to the current \
        map). The DM moves any token, a player those that are theirs on the current map; a spectator \
        none. The server may pull it back onto the map: go by the coordinates in the answer.";
    const HINTS: Hints = Hints::CHANGES;
    type Arguments = MoveArguments;

    async fn run(arguments: MoveArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        let (map, token) = (arguments.map_id.as_str(), arguments.token_id.as_str());
        let mut rights = session.lanes([Lane::Map(map.to_owned())]).await?;
        // Read anew right before the write, since roles change and the server says
        // little about why it refuses a move.
        let campaign = session.read_campaign().await?;
        let role = facts::role(&campaign, session.user_id().as_deref());
        if !matches!(role.as_deref(), Some("DM" | "PLAYER")) {
            return Err(ToolError::Refused(format!(
                "token_move requires DM/PLAYER; current role: {}. SPECTATOR cannot move tokens",
                role.as_deref().unwrap_or("unknown")
            )));
        }
        let request = Request::put(
            session.in_campaign(&["maps", map, "tokens", token]),
            json!({"position": {"x": arguments.x, "y": arguments.y}}),
        );
        let mut answer = session.write(&mut rights, &request, Expect::Object).await?;
        answer["persisted"] = true.into();
        answer["broadcast_confirmed"] = false.into();
        answer["note"] = "Persisted; broadcast not confirmed. REST updates do not automatically emit map.changed.".into();
        Ok(answer)
    }
}

/// `token_delete`
pub(super) struct Delete;

/// Which token.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteArguments {
    /// The map's id, from map_list.
    map_id: ResourceId,
    /// The token's id.
    token_id: ResourceId,
}

impl Tool for Delete {
    const NAME: &'static str = "token_delete";
    const TITLE: &'static str = "Remove a token";
    const DESCRIPTION: &'static str = "Takes a token off a map for good; the character's sheet, its hit \
        points and a place in the combat order stay (initiative_manage removes that). Nobody's screen \
        is told until the map is sent again. Only the DM may. Removing it once more answers that it \
        was not found.";
    const HINTS: Hints = Hints::DELETES;
    type Arguments = DeleteArguments;

    async fn run(arguments: DeleteArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        let (map, token) = (arguments.map_id.as_str(), arguments.token_id.as_str());
        let mut rights = session.lanes([Lane::Map(map.to_owned())]).await?;
        let request = Request::delete(session.in_campaign(&["maps", map, "tokens", token]));
        Ok(session
            .write(&mut rights, &request, Expect::Message)
            .await?)
    }
}

/// `token_hp_update`
pub(super) struct HpUpdate;

/// Whose hit points, and by how much.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HpUpdateArguments {
    /// The character's id (not the token's), from character_list.
    character_id: String,
    /// What is added: negative for damage, positive for healing.
    delta: i64,
}

impl Tool for HpUpdate {
    const NAME: &'static str = "token_hp_update";
    const TITLE: &'static str = "Change hit points";
    const DESCRIPTION: &'static str = "Adds to or takes from the hit points on a character's sheet; the \
        server keeps them between 0 and the maximum. Each call counts. The DM may for all, a player \
        for their own; Shadowrun and flexible sheets have none. The receipt holds no result: poll for \
        character.hp.updated or a system.error after `since`, and never repeat it before you have \
        looked.";
    const HINTS: Hints = Hints::CHANGES;
    type Arguments = HpUpdateArguments;

    fn check(arguments: &HpUpdateArguments) -> Result<(), String> {
        if arguments.character_id.is_empty() {
            return Err("character_id must not be empty".to_owned());
        }
        Ok(())
    }

    async fn run(arguments: HpUpdateArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        let id = arguments.character_id;
        let rights = session.lanes([Lane::Character(id.clone())]).await?;
        let change = json!({"characterId": id, "delta": arguments.delta});
        let since = session
            .emit_in(
                rights,
                "character.hp.update",
                change.clone(),
                move |event| {
                    event.event == "character.hp.updated"
                        && event.payload["characterId"] == id.as_str()
                },
            )
            .await?;
        Ok(receipt(since, change))
    }
}

/// `token_place_creature`
pub(super) struct PlaceCreature;

/// Which creature, and where.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PlaceCreatureArguments {
    /// The creature's id, from creature_search.
    creature_id: ResourceId,
    /// The map's id, from map_list.
    map_id: ResourceId,
    /// Its column, from 0 at the left.
    #[schemars(with = "f64")]
    x: Number,
    /// Its row, from 0 at the bottom.
    #[schemars(with = "f64")]
    y: Number,
}

impl Tool for PlaceCreature {
    const NAME: &'static str = "token_place_creature";
    const TITLE: &'static str = "Place a creature";
    const DESCRIPTION: &'static str = "Places a visible token of one square with the name and picture of \
        a creature from the library; no sheet, no statistics, no hit points. For anything else use \
        token_add. Each success adds another token; screens are told when the map is sent again. Only \
        the DM may. Fails when the creature has no picture.";
    const HINTS: Hints = Hints::ADDS;
    type Arguments = PlaceCreatureArguments;

    async fn run(arguments: PlaceCreatureArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        let creature = arguments.creature_id.as_str();
        let request = Request::get(session.in_campaign(&["creatures", creature]));
        let body = session.request(&request, Expect::Object).await?;
        // Servers answer the creature itself; a wrapped one is understood as well.
        let template = body
            .get("creature")
            .filter(|inner| inner.is_object())
            .unwrap_or(&body);
        let picture = ["imageUrl", "tokenImageUrl", "image"]
            .iter()
            .find_map(|key| template[*key].as_str().filter(|url| !url.is_empty()));
        let Some(picture) = picture else {
            return Err(ToolError::Refused(format!(
                "Creature template {creature} has no usable image field; cannot place a token"
            )));
        };
        let token = json!({
            "name": template["name"].as_str().unwrap_or("creature"),
            "imageUrl": picture,
            "position": {"x": arguments.x, "y": arguments.y},
            "size": {"width": 1, "height": 1},
            "layer": "token",
            "visible": true,
        });
        place(context, arguments.map_id.as_str(), token).await
    }
}
