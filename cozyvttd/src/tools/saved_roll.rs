//! Saved rolls: the account's own dice macros in this campaign.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::arguments::NoArguments;
use super::{Context, Hints, Tool, ToolError};
use crate::session::features::Feature;
use crate::session::ids::ResourceId;
use crate::session::lanes::Lane;
use crate::session::rest::{Expect, Request};

/// CozyVTT's limits, after trimming.
const MAX_NAME: usize = 60;
const MAX_EXPRESSION: usize = 200;

fn name(text: &str) -> Result<&str, String> {
    let text = text.trim();
    if (1..=MAX_NAME).contains(&text.chars().count()) {
        Ok(text)
    } else {
        Err("name must be 1..60 characters after trimming".to_owned())
    }
}

fn expression(text: &str) -> Result<&str, String> {
    let text = text.trim();
    if (1..=MAX_EXPRESSION).contains(&text.chars().count()) {
        Ok(text)
    } else {
        Err("expression must be 1..200 characters after trimming".to_owned())
    }
}

/// `saved_roll_list`
pub(super) struct List;

impl Tool for List {
    const NAME: &'static str = "saved_roll_list";
    const TITLE: &'static str = "List saved rolls";
    const DESCRIPTION: &'static str = "The dice rolls that this account has saved in this campaign, \
        complete, oldest first; other people's are never shown. To roll one pass its expression to \
        dice_roll. Changes nothing; any member may call it. Servers before 1.4 have none.";
    const HINTS: Hints = Hints::READS;
    type Arguments = NoArguments;

    async fn run(_: NoArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        let request = Request::get(session.in_campaign(&["macros"])).proves(Feature::SavedRolls);
        Ok(session.request(&request, Expect::Has("macros")).await?)
    }
}

/// `saved_roll_create`
pub(super) struct Create;

/// A new saved roll.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateArguments {
    /// Its name, 1 to 60 characters after trimming.
    name: String,
    /// The dice, 1 to 200 characters after trimming, as dice_roll takes them.
    expression: String,
}

impl Tool for Create {
    const NAME: &'static str = "saved_roll_create";
    const TITLE: &'static str = "Save a roll";
    const DESCRIPTION: &'static str = "Saves a dice roll under a name for this account in this campaign; \
        nothing is rolled. Each success adds another one, of the same name too: look with \
        saved_roll_list first. Any member may, up to 50. Fails for dice that the server cannot read. \
        Servers before 1.4 have no saved rolls.";
    const HINTS: Hints = Hints::ADDS;
    type Arguments = CreateArguments;

    fn check(arguments: &CreateArguments) -> Result<(), String> {
        name(&arguments.name)?;
        expression(&arguments.expression).map(drop)
    }

    async fn run(arguments: CreateArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        // The server counts before it writes, so two at once could pass its quota.
        let mut rights = session.lanes([Lane::SavedRolls]).await?;
        let body = json!({
            "name": arguments.name.trim(),
            "expression": arguments.expression.trim(),
        });
        let request =
            Request::post(session.in_campaign(&["macros"]), body).proves(Feature::SavedRolls);
        let expect = Expect::Has("macro");
        Ok(session.write(&mut rights, &request, expect).await?)
    }
}

/// `saved_roll_update`
pub(super) struct Update;

/// What to change of a saved roll.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateArguments {
    /// The saved roll's id, from saved_roll_list.
    macro_id: ResourceId,
    /// Its new name, 1 to 60 characters after trimming.
    #[serde(default)]
    name: Option<String>,
    /// Its new dice, 1 to 200 characters after trimming.
    #[serde(default)]
    expression: Option<String>,
}

impl Tool for Update {
    const NAME: &'static str = "saved_roll_update";
    const TITLE: &'static str = "Change a saved roll";
    const DESCRIPTION: &'static str = "Changes the name or the dice of a saved roll of this account; what \
        is left out stays as it is, and at least one is needed. Nothing is rolled. Another account's \
        answers that it was not found. Servers before 1.4 have no saved rolls.";
    const HINTS: Hints = Hints::CHANGES;
    type Arguments = UpdateArguments;

    fn check(arguments: &UpdateArguments) -> Result<(), String> {
        if arguments.name.is_none() && arguments.expression.is_none() {
            return Err("Provide at least one of name/expression".to_owned());
        }
        arguments.name.as_deref().map_or(Ok(""), name)?;
        arguments
            .expression
            .as_deref()
            .map_or(Ok(""), expression)
            .map(drop)
    }

    async fn run(arguments: UpdateArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        let mut body = json!({});
        if let Some(name) = arguments.name {
            body["name"] = name.trim().into();
        }
        if let Some(expression) = arguments.expression {
            body["expression"] = expression.trim().into();
        }
        let path = session.in_campaign(&["macros", arguments.macro_id.as_str()]);
        let request = Request::put(path, body).proves(Feature::SavedRolls);
        Ok(session.request(&request, Expect::Has("macro")).await?)
    }
}

/// `saved_roll_delete`
pub(super) struct Delete;

/// Which saved roll.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteArguments {
    /// The saved roll's id, from saved_roll_list.
    macro_id: ResourceId,
}

impl Tool for Delete {
    const NAME: &'static str = "saved_roll_delete";
    const TITLE: &'static str = "Delete a saved roll";
    const DESCRIPTION: &'static str = "Deletes a saved roll of this account for good. Rolls that were made \
        with it stay in the history. Another account's, and one that is gone already, answer that it was \
        not found. Servers before 1.4 have no saved rolls.";
    const HINTS: Hints = Hints::DELETES;
    type Arguments = DeleteArguments;

    async fn run(arguments: DeleteArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        let path = session.in_campaign(&["macros", arguments.macro_id.as_str()]);
        let request = Request::delete(path).proves(Feature::SavedRolls);
        Ok(session.request(&request, Expect::Message).await?)
    }
}
