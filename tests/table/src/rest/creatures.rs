//! Creature templates: searching them and reading one.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Query, State};
use serde_json::{Value, json};

use super::answer::{Answer, Outcome};
use super::gate::{Request, Seated};
use crate::hub::Hub;
use crate::world::{Creature, GameSystem};

type Ctx = State<Arc<Hub>>;
type Req = Extension<Request>;

/// Any member reads the library; only the DM since 1.5.
fn reader(hub: &Hub, request: &Request, campaign: &str) -> Result<Seated, Answer> {
    if hub.version().is_old() {
        request.member(hub, campaign)
    } else {
        request.dm(hub, campaign)
    }
}

/// `GET /api/campaigns/:campaignId/creatures`
pub(crate) async fn list(
    State(hub): Ctx,
    Extension(request): Req,
    Path(id): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Outcome {
    reader(&hub, &request, &id)?;
    let old = hub.version().is_old();
    let asked = |key: &str| {
        query
            .get(key)
            .map(String::as_str)
            .filter(|text| !text.is_empty())
    };
    let number = |key: &str, default: usize| {
        asked(key).map_or(default, |text| match text.parse::<i64>() {
            Ok(number) => usize::try_from(number).unwrap_or(0),
            Err(_) => default,
        })
    };
    let limit = number("limit", 50).clamp(1, 100);
    let offset = number("offset", 0);
    let system = match asked("gameSystem") {
        None => None,
        Some(word) => Some(GameSystem::named(word).ok_or_else(|| unknown_system(old))?),
    };
    let search = asked("search").map(str::to_lowercase);
    let fits = |one: &&Creature| {
        search
            .as_ref()
            .is_none_or(|text| one.name.to_lowercase().contains(text))
            && asked("source").is_none_or(|source| one.source() == source)
            && asked("cr").is_none_or(|rating| one.stat_block["challengeRating"] == rating)
            && system.is_none_or(|system| match one.game_system {
                Some(own) => own == system,
                None => !old,
            })
    };
    let world = hub.world();
    let found: Vec<&Creature> = world.creatures_of(&id).into_iter().filter(fits).collect();
    let page: Vec<Value> = found
        .iter()
        .skip(offset)
        .take(limit)
        .map(|one| one.row())
        .collect();
    Ok(Answer::ok(json!({
        "creatures": page, "total": found.len(), "limit": limit, "offset": offset,
    })))
}

/// 1.1.2 stumbles over a system it does not know.
fn unknown_system(old: bool) -> Answer {
    if old {
        Answer::failed("Failed to list creature templates")
    } else {
        Answer::invalid("Unknown game system")
    }
}

/// `GET /api/campaigns/:campaignId/creatures/:creatureId`. The creature comes
/// without a wrapper; 1.1.2 also shows what another campaign made.
pub(crate) async fn get(
    State(hub): Ctx,
    Extension(request): Req,
    Path((id, creature)): Path<(String, String)>,
) -> Outcome {
    reader(&hub, &request, &id)?;
    let old = hub.version().is_old();
    let world = hub.world();
    let found = world
        .creatures
        .iter()
        .find(|one| one.id == creature)
        .filter(|one| old || one.campaign_id.as_ref().is_none_or(|home| *home == id));
    match found {
        Some(found) => Ok(Answer::ok(found.row())),
        None => Err(Answer::missing("Creature template not found")),
    }
}

/// `GET /api/campaigns/:campaignId/creatures/seed/status`
pub(crate) async fn seed_status(
    State(hub): Ctx,
    Extension(request): Req,
    Path(id): Path<String>,
) -> Outcome {
    reader(&hub, &request, &id)?;
    let world = hub.world();
    let all = world.creatures_of(&id);
    let library = all.iter().filter(|one| one.source() == "srd").count();
    Ok(Answer::ok(json!({
        "srdCount": library, "customCount": all.len() - library, "seedInProgress": false,
    })))
}
