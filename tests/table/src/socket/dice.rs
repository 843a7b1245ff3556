//! Dice rolls, public and secret.

use std::time::Duration;

use serde_json::{Value, json};

use super::{From, Seat};
use crate::dice::{RollError, Rolled};
use crate::hub::Hub;
use crate::world::{LineKind, Role, length, now};

/// What is rolled, and for what.
#[derive(Debug, Clone)]
pub(crate) struct RollPlan<'a> {
    pub(crate) campaign: &'a str,
    pub(crate) user_id: &'a str,
    pub(crate) expression: &'a str,
    pub(crate) character_name: Value,
    pub(crate) purpose: Value,
    pub(crate) secret: bool,
    /// The socket the roll came from; a secret roll is shown to it alone.
    pub(crate) socket: Option<&'a Seat>,
    /// Whether the roll gets an id and a place in the history (initiative
    /// rolls do not).
    pub(crate) kept: bool,
}

/// `dice.roll {expression, characterName?, purpose?, secret?}`
pub(super) fn roll(hub: &Hub, from: &From) {
    let Some((campaign, role)) = from.seat.at.clone() else {
        return hub.refuse(from, "Not authenticated to a campaign");
    };
    let old = hub.version().is_old();
    if !old && role == Role::Spectator {
        return hub.refuse(from, "Spectators cannot roll dice");
    }
    let Some(expression) = from
        .text("expression")
        .filter(|text| !text.trim().is_empty())
    else {
        return hub.refuse(from, "Dice expression required");
    };
    if let Some(sentence) = unfit(from, old) {
        return hub.refuse(from, sentence);
    }
    if !within_budget(hub, from) {
        return;
    }
    let secret = from.field("secret");
    let plan = RollPlan {
        campaign: &campaign,
        user_id: &from.seat.user_id,
        expression,
        character_name: from.field("characterName").clone(),
        purpose: from.field("purpose").clone(),
        secret: truthy(secret),
        socket: Some(&from.seat),
        kept: true,
    };
    if let Err(error) = hub.roll_at_table(&plan) {
        hub.refuse(from, &error.sentence());
    }
}

/// What 1.5 has against the optional fields.
fn unfit(from: &From, old: bool) -> Option<&'static str> {
    if old {
        return None;
    }
    let too_long = |name: &str, most: usize| match from.field(name) {
        Value::Null => false,
        Value::String(text) => length(text) > most,
        _ => true,
    };
    if too_long("characterName", 200) {
        return Some("Character name must be 200 characters or fewer");
    }
    if too_long("purpose", 300) {
        return Some("Purpose must be 300 characters or fewer");
    }
    let secret = from.field("secret");
    (!secret.is_null() && !secret.is_boolean()).then_some("secret must be true or false")
}

/// Truth as JavaScript sees it.
fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

/// Counts a roll of a user, and says so when it is one too many.
pub(super) fn within_budget(hub: &Hub, from: &From) -> bool {
    let user = &from.seat.user_id;
    let minute = Duration::from_secs(60);
    if hub.version().is_old() {
        let most = hub.options.dice_limit.unwrap_or(30);
        let within = hub.floor.within(user, "dice", most, minute);
        if !within {
            let sentence = format!("Rate limit exceeded. Maximum {most} dice rolls per minute.");
            hub.refuse(from, &sentence);
        }
        return within;
    }
    let ceiling = "Rate limit exceeded: too many dice rolls at once. Try again in a moment.";
    if !hub.under_ceiling(from, "dice per second", 50, ceiling) {
        return false;
    }
    let most = hub.options.dice_limit.unwrap_or(200);
    let within = hub.floor.within(user, "dice", most, minute);
    if !within {
        hub.tell_ceiling(from, "dice per second", ceiling);
    }
    within
}

/// `dice.clearHistory`
pub(super) fn clear_history(hub: &Hub, from: &From) {
    let Some((campaign, role)) = from.seat.at.clone() else {
        return hub.refuse(from, "Not authenticated to a campaign");
    };
    let owner = hub
        .world()
        .campaign(&campaign)
        .is_some_and(|one| one.owner_id == from.seat.user_id);
    let allowed = if hub.version().is_old() {
        owner
    } else {
        role == Role::Dm
    };
    if !allowed {
        return hub.refuse(from, "Only the DM can clear the dice history");
    }
    if let Some(campaign) = hub.world().campaign_mut(&campaign) {
        campaign.roll_history_cleared_at = Some(now());
    }
    hub.send_bare(&campaign, "dice.historyCleared");
}

impl Hub {
    /// Rolls at a campaign and tells those who may know.
    pub(crate) fn roll_at_table(&self, plan: &RollPlan<'_>) -> Result<i64, RollError> {
        let Rolled { total, breakdown } = self.roll(plan.expression)?;
        let old = self.version().is_old();
        let mut event = json!({
            "userId": plan.user_id,
            "userName": self.world().user(plan.user_id).map(|user| user.display_name.clone()),
            "characterName": plan.character_name,
            "expression": plan.expression,
            "result": total,
            "breakdown": breakdown,
            "purpose": plan.purpose,
            "timestamp": now(),
            "secret": plan.secret,
        });
        if plan.kept {
            let line = self.world().write_line(
                plan.campaign,
                Some(plan.user_id),
                LineKind::Dice,
                plan.expression,
                event.clone(),
            );
            event["timestamp"] = json!(line.created_at);
            if !old {
                event["id"] = json!(line.id);
            }
        }
        if plan.secret {
            let mut audit = event.clone();
            audit["originalRoller"] = json!(plan.user_id);
            audit["isAuditView"] = json!(true);
            if let Some(roller) = plan.socket {
                self.send(&roller.socket, "dice.rolled", &event);
            }
            self.send_to(plan.campaign, "dice.rolled.secret", |seat| {
                let watches =
                    seat.role_at(plan.campaign) == Role::Dm && seat.user_id != plan.user_id;
                watches.then(|| audit.clone())
            });
        } else {
            self.send_to_room(plan.campaign, "dice.rolled", &event);
        }
        self.log.touch();
        Ok(total)
    }
}
