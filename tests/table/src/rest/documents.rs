//! Documents: typing one, reading one, rewriting one (not in 1.1.2).

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::json;

use super::answer::{Answer, Outcome};
use super::assets::{counted, place};
use super::file_kinds::typed;
use super::files::{bytes_of, unless_known};
use super::gate::Request;
use crate::hub::Hub;
use crate::world::{Asset, AssetKind, length, now, trimmed};

type Ctx = State<Arc<Hub>>;
type Req = Extension<Request>;

pub(super) fn missing() -> Answer {
    Answer::missing("Document not found")
}

/// `POST /api/assets/documents`
pub(crate) async fn create(State(hub): Ctx, Extension(request): Req) -> Outcome {
    counted(&hub, &request, |user| write(&hub, user, &request))
}

fn write(hub: &Hub, user: &str, request: &Request) -> Outcome {
    let body = &request.body;
    let name = body["name"]
        .as_str()
        .map(trimmed)
        .filter(|name| (1..=200).contains(&length(name)))
        .ok_or_else(|| Answer::invalid("Document name must be 1 to 200 characters"))?;
    let (ending, mime) = match body["format"].as_str() {
        Some("txt") => ("txt", "text/plain"),
        Some("md") => ("md", "text/markdown"),
        _ => return Err(Answer::invalid("format must be txt or md")),
    };
    let content = typed(&body["content"])?;
    let kind = AssetKind::Document;
    let (scope, campaign) = place(
        hub,
        user,
        kind,
        body["scope"].as_str(),
        body["campaignId"].as_str(),
    )?;
    let description = body["description"].as_str().filter(|text| !text.is_empty());
    let mut world = hub.world();
    let asset = Asset {
        id: world.new_id(),
        kind,
        scope,
        uploaded_by: user.to_owned(),
        campaign_id: campaign,
        filename: format!("{}.{ending}", world.new_id()),
        original_name: format!("{name}.{ending}"),
        mime: mime.to_owned(),
        bytes: content.as_bytes().to_vec(),
        name: name.to_owned(),
        description: description.map(str::to_owned),
        tags: Vec::new(),
        revision: 0,
        created_at: now(),
    };
    let row = world.asset_row(&asset, hub.version());
    world.assets.push(asset);
    drop(world);
    hub.log.touch();
    Ok(Answer::created(json!({ "asset": row })))
}

/// `GET /api/assets/documents/:id`. Its bytes, not JSON.
pub(crate) async fn read(
    State(hub): Ctx,
    Extension(request): Req,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Answer> {
    let user = request.user()?;
    let world = hub.world();
    let document = world
        .document(&id)
        .filter(|document| world.may_read_document(document, &user))
        .ok_or_else(missing)?;
    let (kind, caching) = if document.is_text() {
        ("text/plain; charset=utf-8", "private, no-cache")
    } else {
        (
            document.mime.as_str(),
            "private, max-age=31536000, immutable",
        )
    };
    let etag = document.etag();
    Ok(unless_known(&headers, &etag, caching, || {
        bytes_of(document, kind)
    }))
}

/// `PUT /api/assets/documents/:id/content`. All of it is replaced, whatever
/// somebody else wrote meanwhile.
pub(crate) async fn rewrite(
    State(hub): Ctx,
    Extension(request): Req,
    Path(id): Path<String>,
) -> Outcome {
    let user = request.user()?;
    let mut world = hub.world();
    let document = world
        .document(&id)
        .filter(|document| document.uploaded_by == user || world.administers(&user))
        .ok_or_else(missing)?;
    if !document.is_text() {
        return Err(Answer::invalid("Only text documents can be edited"));
    }
    let content = typed(&request.body["content"])?;
    let stored = world.asset_mut(&id).ok_or_else(missing)?;
    stored.bytes = content.as_bytes().to_vec();
    stored.revision += 1;
    let stored = stored.clone();
    let row = world.asset_row(&stored, hub.version());
    drop(world);
    hub.log.touch();
    Ok(Answer::ok(json!({ "asset": row })))
}
