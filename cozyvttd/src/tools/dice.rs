//! Dice: the server rolls, never we.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::receipt::receipt;
use super::{Context, Hints, Tool, ToolError};

/// `dice_roll`
pub(super) struct Roll;

/// What to roll.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RollArguments {
    /// The dice, as CozyVTT reads them: `1d20+5`, `4d6kh3`, `adv+3`, `dis`; terms joined by + - * /.
    expression: String,
    /// Only you and the DM see the result.
    #[serde(default)]
    is_secret: bool,
    /// What the roll is for, shown with it; the server takes 300 characters.
    #[serde(default)]
    purpose: String,
    /// Who rolls, shown with it; the server takes 200 characters.
    #[serde(default)]
    character_name: Option<String>,
}

impl Tool for Roll {
    const NAME: &'static str = "dice_roll";
    const TITLE: &'static str = "Roll dice";
    const DESCRIPTION: &'static str = "Asks the server to roll dice and to show the result to the \
        table, or to you and the DM alone when secret. Never make a result up yourself. Each call \
        rolls once. DM and players may roll; spectators on older servers too. The receipt holds no \
        result: poll events_poll after `since` for dice.rolled with your user id and expression; a \
        wrong expression comes as a system.error. All agents share 28 rolls a minute: a burst goes \
        out at once, then calls wait their turn. Never roll again before you have looked.";
    const HINTS: Hints = Hints::ADDS;
    type Arguments = RollArguments;

    async fn run(arguments: RollArguments, context: &Context) -> Result<Value, ToolError> {
        let mut roll = json!({
            "expression": arguments.expression,
            "secret": arguments.is_secret,
        });
        if !arguments.purpose.is_empty() {
            roll["purpose"] = json!(arguments.purpose);
        }
        if let Some(name) = &arguments.character_name {
            roll["characterName"] = json!(name);
        }
        // A roll that cannot be sent takes nobody's turn.
        context.session.link.up().await?;
        context.session.roll_turn().await?;
        let since = context.session.link.emit("dice.roll", roll).await?;
        Ok(receipt(
            since,
            json!({
                "expression": arguments.expression,
                "secret": arguments.is_secret,
                "purpose": arguments.purpose,
                "character_name": arguments.character_name,
            }),
        ))
    }
}
