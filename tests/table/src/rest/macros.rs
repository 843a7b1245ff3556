//! Saved rolls, which the server calls macros (not in 1.1.2).

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::answer::{Answer, Outcome};
use super::gate::Request;
use crate::dice;
use crate::hub::Hub;
use crate::world::{SavedRoll, length, now, trimmed};

type Ctx = State<Arc<Hub>>;
type Req = Extension<Request>;

/// The most of them a user has in a campaign.
const QUOTA: usize = 50;

/// `GET /api/campaigns/:campaignId/macros`
pub(crate) async fn list(
    State(hub): Ctx,
    Extension(request): Req,
    Path(id): Path<String>,
) -> Outcome {
    let seated = request.member(&hub, &id)?;
    let world = hub.world();
    let rolls = world.saved_rolls_of(&id, &seated.user_id);
    let rows: Vec<Value> = rolls.into_iter().map(SavedRoll::row).collect();
    Ok(Answer::ok(json!({ "macros": rows })))
}

/// `POST /api/campaigns/:campaignId/macros`
pub(crate) async fn create(
    State(hub): Ctx,
    Extension(request): Req,
    Path(id): Path<String>,
) -> Outcome {
    let seated = request.member(&hub, &id)?;
    let name = name(&request.body["name"])?;
    let expression = expression(&hub, &request.body["expression"])?;
    let mut world = hub.world();
    if world.saved_rolls_of(&id, &seated.user_id).len() >= QUOTA {
        return Err(Answer::invalid(&format!(
            "You already have {QUOTA} macros in this campaign. Delete one to make room."
        )));
    }
    let roll = SavedRoll {
        id: world.new_id(),
        campaign_id: id,
        user_id: seated.user_id,
        name,
        expression,
        created_at: now(),
        updated_at: now(),
    };
    let row = roll.row();
    world.saved_rolls.push(roll);
    drop(world);
    hub.log.touch();
    Ok(Answer::created(json!({ "macro": row })))
}

fn missing() -> Answer {
    Answer::missing("Macro not found")
}

/// `GET /api/campaigns/:campaignId/macros/:macroId`
pub(crate) async fn get(
    State(hub): Ctx,
    Extension(request): Req,
    Path((id, roll)): Path<(String, String)>,
) -> Outcome {
    let seated = request.member(&hub, &id)?;
    let world = hub.world();
    let rolls = world.saved_rolls_of(&id, &seated.user_id);
    let mut rolls = rolls.into_iter();
    let found = rolls.find(|one| one.id == roll).ok_or_else(missing)?;
    Ok(Answer::ok(json!({ "macro": found.row() })))
}

/// `PUT /api/campaigns/:campaignId/macros/:macroId`
pub(crate) async fn update(
    State(hub): Ctx,
    Extension(request): Req,
    Path((id, roll)): Path<(String, String)>,
) -> Outcome {
    let seated = request.member(&hub, &id)?;
    let body = &request.body;
    let new_name = body.get("name").map(name).transpose()?;
    let sent = body.get("expression");
    let new_expression = sent.map(|text| expression(&hub, text)).transpose()?;
    if new_name.is_none() && new_expression.is_none() {
        return Err(Answer::invalid("Send a name or an expression"));
    }
    let mut world = hub.world();
    let at = world.saved_roll_at(&id, &seated.user_id, &roll);
    let stored = at
        .and_then(|at| world.saved_rolls.get_mut(at))
        .ok_or_else(missing)?;
    if let Some(name) = new_name {
        stored.name = name;
    }
    if let Some(expression) = new_expression {
        stored.expression = expression;
    }
    stored.updated_at = now();
    Ok(Answer::ok(json!({ "macro": stored.row() })))
}

/// `DELETE /api/campaigns/:campaignId/macros/:macroId`
pub(crate) async fn delete(
    State(hub): Ctx,
    Extension(request): Req,
    Path((id, roll)): Path<(String, String)>,
) -> Outcome {
    let seated = request.member(&hub, &id)?;
    let mut world = hub.world();
    let at = world.saved_roll_at(&id, &seated.user_id, &roll);
    world.saved_rolls.remove(at.ok_or_else(missing)?);
    drop(world);
    hub.log.touch();
    Ok(Answer::ok(json!({ "message": "Macro deleted" })))
}

/// Text of 1 to `most` characters, trimmed.
fn text(value: &Value, what: &str, most: usize) -> Result<String, Answer> {
    value
        .as_str()
        .map(trimmed)
        .filter(|text| (1..=most).contains(&length(text)))
        .map(str::to_owned)
        .ok_or_else(|| Answer::invalid(&format!("{what} must be 1 to {most} characters")))
}

fn name(value: &Value) -> Result<String, Answer> {
    text(value, "Macro name", 60)
}

fn expression(hub: &Hub, value: &Value) -> Result<String, Answer> {
    let text = text(value, "Macro expression", 200)?;
    dice::check(&text, hub.version()).map_err(|error| {
        Answer::invalid(&format!(
            "CozyVTT could not read \"{text}\" as dice: {}",
            error.sentence()
        ))
    })?;
    Ok(text)
}
