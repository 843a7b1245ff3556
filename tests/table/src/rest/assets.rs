//! Files: uploading, listing, looking up, deleting.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, header};
use serde_json::{Value, json};

use super::answer::{Answer, Outcome};
use super::file_kinds::{ending, media_type};
use super::gate::Request;
use super::multipart;
use crate::hub::Hub;
use crate::limits::Counter;
use crate::world::{Asset, AssetKind, Role, Scope, World, now};

type Ctx = State<Arc<Hub>>;
type Req = Extension<Request>;

/// Counts an upload or a new document of a signed-in user, and answers with
/// what `keep` makes of it unless there were too many.
pub(super) fn counted(hub: &Hub, request: &Request, keep: impl FnOnce(&str) -> Outcome) -> Outcome {
    let user = request.user()?;
    let standing = hub.limits.count(Counter::Upload, &user);
    if standing.refused {
        return Err(Answer::too_many_requests().standing(standing));
    }
    keep(&user)
        .map(|answer| answer.standing(standing))
        .map_err(|answer| answer.standing(standing))
}

/// `POST /api/assets/upload`
pub(crate) async fn upload(
    State(hub): Ctx,
    Extension(request): Req,
    headers: HeaderMap,
) -> Outcome {
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    counted(&hub, &request, |user| {
        let form = multipart::read(content_type, &request.raw).unwrap_or_default();
        keep(&hub, user, form)
    })
}

fn keep(hub: &Hub, user: &str, form: multipart::Form) -> Outcome {
    let version = hub.version();
    if !version.is_old() && form.overflows() {
        return Err(Answer::bad("Upload Error", "The form has too many fields"));
    }
    let file = form
        .file
        .as_ref()
        .ok_or_else(|| Answer::invalid("No file uploaded"))?;
    let kind = form
        .field("type")
        .ok_or_else(|| Answer::invalid("Asset type is required"))?;
    let kind = AssetKind::named(kind, version).ok_or_else(|| unknown_kind(version.is_old()))?;
    if file.bytes.len() > kind.most_bytes() {
        let most = kind.most_bytes() / 1024 / 1024;
        let sentence = format!("{} files can be {most} MB at most", kind.as_str());
        return Err(Answer::bad("File Too Large", &sentence));
    }
    let (scope, campaign) = place(
        hub,
        user,
        kind,
        form.field("scope"),
        form.field("campaignId"),
    )?;
    let mime = media_type(kind, &file.name, &file.bytes, version.is_old())?;
    let tags = form.field("tags").unwrap_or_default().split(',');
    let tags = tags.map(str::trim).filter(|tag| !tag.is_empty());
    let mut world = hub.world();
    let asset = Asset {
        id: world.new_id(),
        kind,
        scope,
        uploaded_by: user.to_owned(),
        campaign_id: campaign,
        filename: format!("{}.{}", world.new_id(), ending(mime)),
        original_name: file.name.clone(),
        mime: mime.to_owned(),
        bytes: file.bytes.to_vec(),
        name: form.field("name").unwrap_or(&file.name).to_owned(),
        description: form.field("description").map(str::to_owned),
        tags: tags.map(str::to_owned).collect(),
        revision: 0,
        created_at: now(),
    };
    let row = world.asset_row(&asset, version);
    world.assets.push(asset);
    drop(world);
    hub.log.touch();
    Ok(Answer::created(json!({
        "message": "Asset uploaded successfully",
        "asset": row,
    })))
}

fn unknown_kind(old: bool) -> Answer {
    Answer::invalid(if old {
        "Invalid asset type. Must be MAP, TOKEN, AUDIO, or AVATAR"
    } else {
        "Invalid asset type. Must be MAP, TOKEN, AUDIO, AVATAR, or DOCUMENT"
    })
}

/// Where a new file goes, if the user may put it there.
pub(super) fn place(
    hub: &Hub,
    user: &str,
    kind: AssetKind,
    scope: Option<&str>,
    campaign: Option<&str>,
) -> Result<(Scope, Option<String>), Answer> {
    let scope = Scope::named(scope.unwrap_or("USER"))
        .ok_or_else(|| Answer::invalid("Invalid scope. Must be GLOBAL, USER, or CAMPAIGN"))?;
    let world = hub.world();
    match scope {
        _ if kind == AssetKind::Avatar => Ok((Scope::User, None)),
        Scope::User => Ok((scope, None)),
        Scope::Global => {
            if !world.manages_assets(user) {
                return Err(Answer::forbidden(
                    "You do not have permission to upload global assets",
                ));
            }
            Ok((scope, None))
        }
        Scope::Campaign => {
            let campaign = campaign
                .ok_or_else(|| Answer::invalid("Campaign ID is required for CAMPAIGN scope"))?;
            let role = world
                .role(campaign, user)
                .ok_or_else(|| Answer::forbidden("You are not a member of this campaign"))?;
            let old = hub.version().is_old();
            let allowed = match role {
                Role::Dm => true,
                Role::Player => kind == AssetKind::Token,
                Role::Spectator => old && kind == AssetKind::Token,
            };
            if !allowed {
                return Err(Answer::forbidden(
                    "Only the DM can upload this kind of asset to the campaign",
                ));
            }
            Ok((scope, Some(campaign.to_owned())))
        }
    }
}

/// A word of the query that has to be one of a few. 1.1.2 stumbles over others.
fn known<T>(
    query: &HashMap<String, String>,
    key: &str,
    read: impl Fn(&str) -> Option<T>,
    old: bool,
) -> Result<Option<T>, Answer> {
    let Some(word) = query.get(key).filter(|word| !word.is_empty()) else {
        return Ok(None);
    };
    match read(word) {
        Some(value) => Ok(Some(value)),
        None if old => Err(Answer::failed("Failed to list assets")),
        None => Err(Answer::invalid(&format!("Unknown asset {key}"))),
    }
}

/// `GET /api/assets`
pub(crate) async fn list(
    State(hub): Ctx,
    Extension(request): Req,
    Query(query): Query<HashMap<String, String>>,
) -> Outcome {
    let user = request.user()?;
    let version = hub.version();
    let old = version.is_old();
    let kind = known(&query, "type", |word| AssetKind::named(word, version), old)?;
    let scope = known(&query, "scope", Scope::named, old)?;
    let asked = |key: &str| query.get(key).filter(|text| !text.is_empty());
    let number = |key: &str, default: usize| {
        let number = asked(key).and_then(|text| text.parse::<usize>().ok());
        number.unwrap_or(default).max(1)
    };
    let (page, limit) = (number("page", 1), number("limit", 50).min(100));
    let world = hub.world();
    let administers = world.administers(&user);
    if let Some(campaign) = asked("campaignId")
        && !administers
        && world.role(campaign, &user).is_none()
    {
        return Err(Answer::forbidden("You are not a member of this campaign"));
    }
    let everything = administers && asked("usable").is_none_or(|word| word != "true");
    let search = asked("search").map(|text| text.to_lowercase());
    let found: Vec<&Asset> = world
        .assets
        .iter()
        .rev()
        .filter(|one| everything || world.usable(one, &user))
        .filter(|one| match kind {
            Some(kind) => one.kind == kind,
            None => one.kind != AssetKind::Document,
        })
        .filter(|one| scope.is_none_or(|scope| one.scope == scope))
        .filter(|one| asked("campaignId").is_none_or(|id| one.campaign_id.as_ref() == Some(id)))
        .filter(|one| !administers || asked("uploadedBy").is_none_or(|id| one.uploaded_by == *id))
        .filter(|one| {
            search
                .as_ref()
                .is_none_or(|text| one.name.to_lowercase().contains(text))
        })
        .collect();
    let rows: Vec<Value> = found
        .iter()
        .skip((page - 1) * limit)
        .take(limit)
        .map(|one| world.asset_row(one, version))
        .collect();
    Ok(Answer::ok(json!({
        "assets": rows,
        "pagination": {
            "page": page, "limit": limit, "total": found.len(),
            "totalPages": found.len().div_ceil(limit),
        },
    })))
}

fn find<'a>(world: &'a World, id: &str) -> Result<&'a Asset, Answer> {
    world
        .asset(id)
        .ok_or_else(|| Answer::missing("Asset not found"))
}

/// `GET /api/assets/:id`. What was shared with a campaign does not count here.
pub(crate) async fn get(
    State(hub): Ctx,
    Extension(request): Req,
    Path(id): Path<String>,
) -> Outcome {
    let user = request.user()?;
    let world = hub.world();
    let asset = find(&world, &id)?;
    if !world.may_read(asset, &user) {
        return Err(Answer::forbidden("You do not have access to this asset"));
    }
    let row = world.asset_row(asset, hub.version());
    Ok(Answer::ok(json!({ "asset": row })))
}

/// Whether a user may delete a file.
fn may_delete(world: &World, asset: &Asset, user: &str, old: bool) -> bool {
    let uploaded = asset.uploaded_by == user;
    let role = asset
        .campaign_id
        .as_deref()
        .and_then(|campaign| world.role(campaign, user));
    let allowed = match asset.scope {
        Scope::Global => uploaded && world.manages_assets(user),
        Scope::User => uploaded,
        Scope::Campaign => role == Some(Role::Dm) || (uploaded && (old || role.is_some())),
    };
    allowed || world.administers(user)
}

/// `DELETE /api/assets/:id`. Since 1.5 not while something still shows it,
/// unless it is forced.
pub(crate) async fn delete(
    State(hub): Ctx,
    Extension(request): Req,
    Path(id): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Outcome {
    let user = request.user()?;
    let old = hub.version().is_old();
    let mut world = hub.world();
    let asset = find(&world, &id)?;
    if !may_delete(&world, asset, &user, old) {
        return Err(Answer::forbidden(
            "You do not have permission to delete this asset",
        ));
    }
    let forced = query.get("force").is_some_and(|word| word == "true");
    if !old
        && !forced
        && let Some(used) = world.asset_usage(&id, &user)
    {
        return Err(
            Answer::conflict("ASSET_IN_USE", "This asset is still in use")
                .with("usage", used["usage"].clone())
                .with("omitted", used["omitted"].clone()),
        );
    }
    world.assets.retain(|one| one.id != id);
    world.shares.retain(|share| share.asset_id != id);
    drop(world);
    hub.log.touch();
    Ok(Answer::ok(
        json!({ "message": "Asset deleted successfully" }),
    ))
}
