//! The documents of a campaign: its own, and those shared with it (not in 1.1.2).

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use serde_json::json;

use super::answer::{Answer, Outcome};
use super::documents::missing;
use super::gate::Request;
use crate::hub::Hub;
use crate::world::{Scope, Share, now};

type Ctx = State<Arc<Hub>>;
type Req = Extension<Request>;

/// `GET /api/campaigns/:campaignId/documents`
pub(crate) async fn list(
    State(hub): Ctx,
    Extension(request): Req,
    Path(id): Path<String>,
) -> Outcome {
    request.member(&hub, &id)?;
    let documents = hub.world().campaign_documents(&id);
    Ok(Answer::ok(json!({ "documents": documents })))
}

/// `POST /api/campaigns/:campaignId/documents`. Sharing twice does no harm.
pub(crate) async fn share(
    State(hub): Ctx,
    Extension(request): Req,
    Path(id): Path<String>,
) -> Outcome {
    let user = request.dm(&hub, &id)?.user_id;
    let asset = request.body["assetId"]
        .as_str()
        .filter(|id| uuid::Uuid::parse_str(id).is_ok())
        .ok_or_else(|| Answer::invalid("assetId must be a valid UUID"))?;
    let mut world = hub.world();
    let document = world
        .document(asset)
        .filter(|document| world.may_read_document(document, &user))
        .ok_or_else(missing)?;
    let theirs = document.uploaded_by == user || document.scope == Scope::Global;
    if !theirs && !world.administers(&user) {
        return Err(Answer::forbidden(
            "You can only share your own documents and global ones",
        ));
    }
    let known = world
        .shares
        .iter()
        .find(|share| share.campaign_id == id && share.asset_id == asset)
        .cloned();
    let link = known.unwrap_or_else(|| {
        let link = Share {
            campaign_id: id,
            asset_id: asset.to_owned(),
            linked_by: user,
            created_at: now(),
        };
        world.shares.push(link.clone());
        link
    });
    drop(world);
    hub.log.touch();
    Ok(Answer::created(json!({ "link": link.row() })))
}

/// `DELETE /api/campaigns/:campaignId/documents/:assetId`. The document stays;
/// the campaign's own cannot be taken from it.
pub(crate) async fn unshare(
    State(hub): Ctx,
    Extension(request): Req,
    Path((id, asset)): Path<(String, String)>,
) -> Outcome {
    request.dm(&hub, &id)?;
    let mut world = hub.world();
    let before = world.shares.len();
    world
        .shares
        .retain(|share| share.campaign_id != id || share.asset_id != asset);
    if world.shares.len() == before {
        return Err(Answer::missing(
            "That document is not shared with this campaign",
        ));
    }
    drop(world);
    hub.log.touch();
    Ok(Answer::ok(json!({ "message": "Document unshared" })))
}
