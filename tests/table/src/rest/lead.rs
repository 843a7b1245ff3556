//! Handing the DM's seat to another member (not in 1.1.2).

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use serde_json::json;

use super::answer::{Answer, Outcome};
use super::gate::Request;
use crate::hub::Hub;
use crate::world::Role;

/// `PUT /api/campaigns/:campaignId/dm`. The sitting DM, the owner and the
/// platform's administrators may; the last need not even be members.
pub(crate) async fn transfer(
    State(hub): State<Arc<Hub>>,
    Extension(request): Extension<Request>,
    Path(id): Path<String>,
) -> Outcome {
    let user = request.user()?;
    let target = request.body["userId"]
        .as_str()
        .filter(|id| uuid::Uuid::parse_str(id).is_ok())
        .ok_or_else(|| Answer::invalid("userId must be a valid UUID"))?;
    {
        let world = hub.world();
        let campaign = world
            .campaign(&id)
            .ok_or_else(|| Answer::missing("Campaign not found"))?;
        let leads = world.role(&id, &user) == Some(Role::Dm);
        let administers = world.administers(&user);
        if !leads && campaign.owner_id != user && !administers {
            return Err(Answer::forbidden(
                "Only the DM, the campaign owner, or an admin can transfer the DM role",
            ));
        }
        match world.role(&id, target) {
            None => {
                return Err(Answer::missing(
                    "That user is not a member of this campaign",
                ));
            }
            Some(Role::Dm) => {
                return Err(Answer::bad(
                    "Bad Request",
                    "That member is already the Dungeon Master",
                ));
            }
            Some(_) => {}
        }
    }
    hub.transfer_dm(&id, target);
    let world = hub.world();
    let memberships = world
        .campaign(&id)
        .map_or_else(Vec::new, |campaign| world.membership_rows(campaign));
    Ok(Answer::ok(json!({
        "message": "The Dungeon Master role has a new holder",
        "memberships": memberships,
    })))
}
