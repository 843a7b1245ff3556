//! Serving the bytes of files.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;

use super::answer::Answer;
use super::gate::Request;
use crate::hub::Hub;
use crate::world::{Asset, AssetKind};

/// What a picture's answer says about keeping it.
const FOR_A_YEAR: &str = "private, max-age=31536000, immutable";

fn put(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// The bytes of a file under a content type.
pub(super) fn bytes_of(asset: &Asset, content_type: &str) -> Response {
    let mut response = Response::new(Body::from(asset.bytes.clone()));
    put(&mut response, header::CONTENT_TYPE, content_type);
    response
}

/// What `answer` gives, or 304 when the client already has it.
pub(super) fn unless_known(
    headers: &HeaderMap,
    etag: &str,
    caching: &str,
    answer: impl FnOnce() -> Response,
) -> Response {
    let known = headers
        .get(header::IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|list| {
            let mut tags = list.split(',').map(str::trim);
            tags.any(|tag| tag == "*" || tag.trim_start_matches("W/") == etag)
        });
    let mut response = if known {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        answer()
    };
    put(&mut response, header::ETAG, etag);
    put(&mut response, header::CACHE_CONTROL, caching);
    response
}

/// `GET /api/assets/maps/:id` and its like.
pub(crate) async fn picture(
    State(hub): State<Arc<Hub>>,
    Extension(request): Extension<Request>,
    Path((folder, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Answer> {
    let (kind, called) = match folder.as_str() {
        "maps" => (AssetKind::Map, "Map asset"),
        "tokens" => (AssetKind::Token, "Token asset"),
        "audio" => (AssetKind::Audio, "Audio asset"),
        "avatars" => (AssetKind::Avatar, "User avatar"),
        _ => return Err(Answer::no_route()),
    };
    let user = request.user()?;
    let world = hub.world();
    let asset = world
        .asset(&id)
        .filter(|asset| asset.kind == kind)
        .ok_or_else(|| Answer::missing(&format!("{called} not found")))?;
    if !world.may_read(asset, &user) {
        return Err(Answer::forbidden("You do not have access to this asset"));
    }
    Ok(unless_known(&headers, &asset.etag(), FOR_A_YEAR, || {
        bytes_of(asset, &asset.mime)
    }))
}

/// `GET /api/assets/:id/download`
pub(crate) async fn download(
    State(hub): State<Arc<Hub>>,
    Extension(request): Extension<Request>,
    Path(id): Path<String>,
) -> Result<Response, Answer> {
    let user = request.user()?;
    let world = hub.world();
    let asset = world
        .asset(&id)
        .ok_or_else(|| Answer::missing("Asset not found"))?;
    let readable = if asset.kind == AssetKind::Document {
        world.may_read_document(asset, &user)
    } else {
        world.may_read(asset, &user)
    };
    if !readable {
        return Err(Answer::forbidden("You do not have access to this asset"));
    }
    let mut response = bytes_of(asset, &asset.mime);
    let name = asset.original_name.replace('"', "");
    let attachment = format!("attachment; filename=\"{name}\"");
    put(&mut response, header::CONTENT_DISPOSITION, &attachment);
    Ok(response)
}
