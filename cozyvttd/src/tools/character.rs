//! Characters and their sheets.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::arguments::NoArguments;
use super::gate::HIT_DICE;
use super::merge::merged;
use super::receipt::receipt;
use super::{Context, Hints, Tool, ToolError};
use crate::session::ids::ResourceId;
use crate::session::lanes::Lane;
use crate::session::rest::{Expect, Request, RestError};

/// CozyVTT's limit for a name.
const MAX_NAME: usize = 200;

/// The fields that character_update takes.
const UPDATABLE: [&str; 3] = ["name", "data", "tokenImageUrl"];

/// Said with every validation: whether the server tells the truth is not known.
const VALIDATION_NOTE: &str = "Servers before v1.5.0 (v1.4 among them) call every sheet valid, and \
    which version answered is not known: take this as a hint.";

/// Said after a hit die was spent.
const HIT_DICE_NOTE: &str = "Operation sent; the result is not yet confirmed. Read events or state \
    before taking further action; do not repeat the operation.";

/// Which character.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CharacterArguments {
    /// The character's id, from character_list.
    character_id: ResourceId,
}

/// `character_list`
pub(super) struct List;

impl Tool for List {
    const NAME: &'static str = "character_list";
    const TITLE: &'static str = "List the characters";
    const DESCRIPTION: &'static str = "The campaign's roster: its members, and for each their characters \
        with ids, names and hit points where the game system has them. A whole sheet is in \
        character_get. Changes nothing; any member may call it.";
    const HINTS: Hints = Hints::READS;
    type Arguments = NoArguments;

    async fn run(_: NoArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        let request = Request::get(session.in_campaign(&["characters"]));
        Ok(session.request(&request, Expect::Has("roster")).await?)
    }
}

/// `character_get`
pub(super) struct Get;

impl Tool for Get {
    const NAME: &'static str = "character_get";
    const TITLE: &'static str = "Read a sheet";
    const DESCRIPTION: &'static str = "One character with its whole sheet, fields of any kind included. \
        To change it use character_update, for hit points token_hp_update. Changes nothing; its owner \
        and the members of its campaign may call it. A Keeper's notes may be missing: the server decides \
        who sees them, and their absence means nothing.";
    const HINTS: Hints = Hints::READS;
    type Arguments = CharacterArguments;

    async fn run(arguments: CharacterArguments, context: &Context) -> Result<Value, ToolError> {
        let request = Request::get(["api", "characters", arguments.character_id.as_str()]);
        let session = &context.session;
        Ok(session.request(&request, Expect::Has("character")).await?)
    }
}

/// `character_create`
pub(super) struct Create;

/// A new character.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateArguments {
    /// Its name, 1 to 200 characters.
    #[schemars(length(min = 1, max = 200))]
    name: String,
    /// Its sheet, in the form of the campaign's game system; an existing one (character_get) shows the form.
    #[serde(default)]
    data: Option<Map<String, Value>>,
    /// Its picture on the map: the id or address of an image on the server; "" for none.
    #[serde(default)]
    token_image_url: String,
}

impl Tool for Create {
    const NAME: &'static str = "character_create";
    const TITLE: &'static str = "Create a character";
    const DESCRIPTION: &'static str = "Creates a character that belongs to this account, and sees to it \
        that it is on the campaign's roster. Each success adds another one. Any member may. The server \
        checks the sheet against the game system and names what does not fit (`validationErrors`); an \
        error that says that it was created must not be answered with creating it again.";
    const HINTS: Hints = Hints::ADDS;
    type Arguments = CreateArguments;

    fn check(arguments: &CreateArguments) -> Result<(), String> {
        if (1..=MAX_NAME).contains(&arguments.name.chars().count()) {
            Ok(())
        } else {
            Err("name must be 1..200 characters".to_owned())
        }
    }

    async fn run(arguments: CreateArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        let mut character = json!({"name": arguments.name, "campaignId": session.campaign()});
        if let Some(data) = arguments.data {
            character["data"] = data.into();
        }
        if !arguments.token_image_url.is_empty() {
            character["tokenImageUrl"] = arguments.token_image_url.into();
        }
        let request = Request::post(["api", "characters"], character);
        let unknown = |what: &str, response: Value| ToolError::Partial {
            sentence: format!(
                "Character creation response {what}; creation status is unknown. Check upstream; \
                 do not create again"
            ),
            recovery: json!({"created": null, "response": response}),
        };
        let mut created = match session.request(&request, Expect::Object).await {
            Ok(created) => created,
            Err(RestError::Invalid { status, reason }) => {
                return Err(unknown(
                    &format!("is INVALID_RESPONSE (HTTP {status}): {reason}"),
                    Value::Null,
                ));
            }
            Err(error) => return Err(error.into()),
        };
        let id = created["character"]["id"]
            .as_str()
            .and_then(|id| ResourceId::parse(id).ok());
        let Some(id) = id else {
            return Err(unknown("is missing the character ID", created));
        };
        // Older servers keep the campaign with the character and leave it off the
        // roster, where hit points are looked up.
        if !on_the_roster(context, id.as_str()).await {
            let assign = Request::post(
                ["api", "characters", id.as_str(), "assign"],
                json!({"campaignId": session.campaign()}),
            );
            if let Err(cause) = session.request(&assign, Expect::Object).await {
                return Err(ToolError::Partial {
                    sentence: format!(
                        "Character {id} was created but roster assignment failed; assign it in the \
                         UI, do not create again: {cause}"
                    ),
                    recovery: json!({
                        "created": true,
                        "assigned": false,
                        "character": created["character"],
                    }),
                });
            }
        }
        created["assigned"] = true.into();
        Ok(created)
    }
}

async fn on_the_roster(context: &Context, id: &str) -> bool {
    let session = &context.session;
    let request = Request::get(session.in_campaign(&["characters"]));
    let roster = session.request(&request, Expect::Has("roster")).await;
    roster.is_ok_and(|roster| {
        roster["roster"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|member| member["characters"].as_array().into_iter().flatten())
            .any(|character| character["id"].as_str() == Some(id))
    })
}

/// `character_update`
pub(super) struct Update;

/// What to change of a character.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateArguments {
    /// The character's id, from character_list.
    character_id: ResourceId,
    /// The changes, at least one of: `name`; `tokenImageUrl` (null for none); `data`, a patch of the sheet whose objects are merged key by key while lists and values replace what was there.
    data: Map<String, Value>,
}

impl Tool for Update {
    const NAME: &'static str = "character_update";
    const TITLE: &'static str = "Change a sheet";
    const DESCRIPTION: &'static str = "Changes parts of a character: reads the sheet, merges the patch into \
        it and saves the whole, so give only what changes, {\"data\": {\"data\": {\"hp\": \
        {\"current\": 7}}}} for one. For hit points in play prefer token_hp_update. The owner and the DM \
        may. Answers 409 when someone else saved meanwhile: read again and decide anew; the server names \
        what does not fit the game system (`validationErrors`).";
    const HINTS: Hints = Hints::CHANGES;
    type Arguments = UpdateArguments;

    fn check(arguments: &UpdateArguments) -> Result<(), String> {
        let changes = &arguments.data;
        if changes.is_empty() || changes.keys().any(|key| !UPDATABLE.contains(&key.as_str())) {
            return Err(
                "Provide name/data/tokenImageUrl fields; put sheet patches inside the data object"
                    .to_owned(),
            );
        }
        if changes.get("data").is_some_and(|patch| !patch.is_object()) {
            return Err(
                "The sheet data patch must be an object; clearing the entire sheet is not allowed"
                    .to_owned(),
            );
        }
        Ok(())
    }

    async fn run(arguments: UpdateArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        let id = arguments.character_id.as_str();
        let mut lanes = vec![Lane::Character(id.to_owned())];
        if arguments.data.contains_key("tokenImageUrl") {
            // Servers from 1.5 on repaint the character's tokens, which mostly stand on
            // the map that is being played.
            let current = session.facts().known().current_map.flatten();
            lanes.extend(current.map(Lane::Map));
        }
        let mut rights = session.lanes(lanes).await?;
        let read = Request::get(["api", "characters", id]);
        let mut current = session.request(&read, Expect::Object).await?;
        let missing = || {
            ToolError::Refused(
                "Upstream character response is missing the data object; refusing to overwrite"
                    .to_owned(),
            )
        };
        let character = current["character"].as_object_mut().ok_or_else(missing)?;
        let mut changes = arguments.data;
        if let Some(patch) = changes.get_mut("data") {
            let sheet = character.remove("data").filter(Value::is_object);
            *patch = merged(sheet.ok_or_else(missing)?, patch);
        }
        // To the letter as it came: the server compares it.
        if let Some(read_at) = character.remove("updatedAt").filter(Value::is_string) {
            changes.insert("updatedAt".to_owned(), read_at);
        }
        let write = Request::put(["api", "characters", id], changes.into());
        let expect = Expect::Has("character");
        Ok(session.write(&mut rights, &write, expect).await?)
    }
}

/// `character_validate`
pub(super) struct Validate;

impl Tool for Validate {
    const NAME: &'static str = "character_validate";
    const TITLE: &'static str = "Check a sheet";
    const DESCRIPTION: &'static str = "What the server finds wrong with a stored sheet, measured against \
        its game system. Changes nothing; only the character's owner may, not even the DM. Older servers \
        call everything valid, so `validation_reliable` is always false. A sheet without a game system is \
        refused.";
    const HINTS: Hints = Hints::READS;
    type Arguments = CharacterArguments;

    async fn run(arguments: CharacterArguments, context: &Context) -> Result<Value, ToolError> {
        let id = arguments.character_id.as_str();
        let request = Request::get(["api", "characters", id, "validate"]);
        let mut answer = context.session.request(&request, Expect::Object).await?;
        answer["validation_reliable"] = false.into();
        answer["validation_note"] = VALIDATION_NOTE.into();
        Ok(answer)
    }
}

/// `character_hitdice_spend`
pub(super) struct HitDiceSpend;

/// Which hit dice.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HitDiceSpendArguments {
    /// The character's id, from character_list.
    character_id: String,
    /// Which entry of the sheet's `hitDice`, from 0.
    #[schemars(range(min = 0))]
    index: i64,
}

impl Tool for HitDiceSpend {
    const NAME: &'static str = "character_hitdice_spend";
    const TITLE: &'static str = "Spend a hit die";
    const DESCRIPTION: &'static str = "Takes one use from a pool of hit dice on a D&D 5e sheet. It neither \
        rolls nor heals: use dice_roll and token_hp_update for that. Each call counts. The owner and the \
        DM may. The receipt holds no result: poll for character.updated or a system.error after `since`; \
        servers before 1.4 ignore it without a word.";
    const HINTS: Hints = Hints::CHANGES;
    type Arguments = HitDiceSpendArguments;

    fn check(arguments: &HitDiceSpendArguments) -> Result<(), String> {
        if arguments.character_id.is_empty() || arguments.index < 0 {
            return Err("character_id is required; index must be an integer >=0".to_owned());
        }
        Ok(())
    }

    async fn run(arguments: HitDiceSpendArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        HIT_DICE.pass(session).await?;
        let id = arguments.character_id;
        let rights = session.lanes([Lane::Character(id.clone())]).await?;
        let me = session.user_id();
        let spend = json!({"characterId": id, "index": arguments.index});
        let since = session
            .emit_in(rights, "character.hitdice.spend", spend, move |event| {
                event.event == "character.updated"
                    && event.payload["characterId"] == id.as_str()
                    && event.payload["userId"].as_str() == me.as_deref()
            })
            .await?;
        Ok(receipt(since, json!({"note": HIT_DICE_NOTE})))
    }
}

/// `character_delete`
pub(super) struct Delete;

impl Tool for Delete {
    const NAME: &'static str = "character_delete";
    const TITLE: &'static str = "Delete a character";
    const DESCRIPTION: &'static str = "Deletes a character and its sheet for good; tokens of it stay on \
        their maps (token_delete removes those). Only its owner may, not even the DM. Nobody is told. \
        Deleting it once more answers that it was not found.";
    const HINTS: Hints = Hints::DELETES;
    type Arguments = CharacterArguments;

    async fn run(arguments: CharacterArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        let id = arguments.character_id.as_str();
        let mut rights = session.lanes([Lane::Character(id.to_owned())]).await?;
        let request = Request::delete(["api", "characters", id]);
        Ok(session
            .write(&mut rights, &request, Expect::Message)
            .await?)
    }
}
