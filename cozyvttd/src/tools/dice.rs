//! Dice: the server rolls, never we.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::receipt::receipt_after;
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

impl RollArguments {
    /// What is sent: the expression as it was given, and nothing that is empty.
    fn on_the_wire(&self) -> Value {
        let mut roll = json!({"expression": self.expression, "secret": self.is_secret});
        if !self.purpose.is_empty() {
            roll["purpose"] = json!(self.purpose);
        }
        if let Some(name) = &self.character_name {
            roll["characterName"] = json!(name);
        }
        roll
    }
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
        let roll = arguments.on_the_wire();
        // A roll that cannot be sent takes nobody's turn.
        let session = &context.session;
        session.link.up().await?;
        let waited = session.roll_turn().await?.used();
        let (me, rolled) = (session.user_id(), arguments.expression.clone());
        let since = session
            .emit_in(Vec::new(), "dice.roll", roll, move |event| {
                event.event.starts_with("dice.rolled")
                    && event.payload["userId"].as_str() == me.as_deref()
                    && event.payload["expression"].as_str() == Some(&rolled)
            })
            .await?;
        Ok(receipt_after(
            waited,
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_the_expression_it_is_sent_unchanged(
            expression in any::<String>(), secret in any::<bool>(), purpose in ".{0,20}",
            name in proptest::option::of(".{0,20}"),
        ) {
            let arguments = json!({
                "expression": expression, "is_secret": secret, "purpose": purpose,
                "character_name": name,
            });
            let read: RollArguments = serde_json::from_value(arguments).unwrap();
            let sent = read.on_the_wire();
            prop_assert_eq!(&sent["expression"], &json!(expression));
            prop_assert_eq!(&sent["secret"], &json!(secret));
            prop_assert!(sent.get("isSecret").is_none());
            prop_assert_eq!(sent.get("purpose").is_some(), !purpose.is_empty());
            prop_assert_eq!(sent.get("characterName").cloned(), name.map(Value::from));
        }
    }
}
