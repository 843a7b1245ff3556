//! Campaigns, their roster and their members.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::answer::{Answer, Outcome};
use super::gate::Request;
use crate::hub::Hub;
use crate::world::Role;

type Ctx = State<Arc<Hub>>;
type Req = Extension<Request>;

/// `GET /api/campaigns`
pub(crate) async fn list(State(hub): Ctx, Extension(request): Req) -> Outcome {
    let user = request.user()?;
    let world = hub.world();
    let campaigns: Vec<Value> = world
        .campaigns
        .iter()
        .filter_map(|campaign| {
            let membership = campaign.membership(&user)?;
            Some(world.campaign_entry(campaign, membership, hub.version()))
        })
        .collect();
    Ok(Answer::ok(json!({ "campaigns": campaigns })))
}

/// `GET /api/campaigns/:campaignId`
pub(crate) async fn get(
    State(hub): Ctx,
    Extension(request): Req,
    Path(id): Path<String>,
) -> Outcome {
    let seated = request.member(&hub, &id)?;
    let world = hub.world();
    let campaign = world
        .campaign(&id)
        .ok_or_else(|| Answer::missing("Campaign not found"))?;
    let view = world.campaign_view(campaign, seated.role, hub.version());
    Ok(Answer::ok(json!({ "campaign": view })))
}

/// `GET /api/campaigns/:campaignId/characters`
pub(crate) async fn roster(
    State(hub): Ctx,
    Extension(request): Req,
    Path(id): Path<String>,
) -> Outcome {
    request.member(&hub, &id)?;
    let world = hub.world();
    let campaign = world
        .campaign(&id)
        .ok_or_else(|| Answer::missing("Campaign not found"))?;
    Ok(Answer::ok(world.roster(campaign)))
}

/// `DELETE /api/campaigns/:campaignId/members/:userId`
pub(crate) async fn remove_member(
    State(hub): Ctx,
    Extension(request): Req,
    Path((id, user)): Path<(String, String)>,
) -> Outcome {
    request.dm(&hub, &id)?;
    match hub.world().role(&id, &user) {
        None => return Err(Answer::missing("Member not found")),
        Some(Role::Dm) => return Err(Answer::bad("Bad Request", "The DM cannot be removed")),
        Some(_) => {}
    }
    hub.remove_member(&id, &user);
    Ok(Answer::ok(
        json!({ "message": "Member removed successfully" }),
    ))
}

/// `PUT /api/campaigns/:campaignId/members/:userId/role`
pub(crate) async fn set_role(
    State(hub): Ctx,
    Extension(request): Req,
    Path((id, user)): Path<(String, String)>,
) -> Outcome {
    request.dm(&hub, &id)?;
    let role = match request.body["role"].as_str() {
        Some("PLAYER") => Role::Player,
        Some("SPECTATOR") => Role::Spectator,
        _ => return Err(Answer::invalid("Role must be PLAYER or SPECTATOR")),
    };
    match hub.world().role(&id, &user) {
        None => return Err(Answer::missing("Member not found")),
        Some(Role::Dm) => {
            return Err(Answer::bad(
                "Bad Request",
                "The DM's role cannot be changed",
            ));
        }
        Some(_) => {}
    }
    hub.set_role(&id, &user, role);
    Ok(Answer::ok(
        json!({ "message": "Member role updated successfully" }),
    ))
}
