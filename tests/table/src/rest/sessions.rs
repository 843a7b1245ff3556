//! Game sessions: starting, pausing, ending, resuming, and their notes.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::answer::{Answer, Outcome};
use super::gate::Request;
use crate::hub::Hub;
use crate::world::{GameSession, length, now, trimmed};

type Ctx = State<Arc<Hub>>;
type Req = Extension<Request>;

/// The most notes a session holds, in characters.
const LONGEST_NOTES: usize = 2000;

/// `GET /api/campaigns/:campaignId/sessions` (not in 1.1.2)
pub(crate) async fn list(
    State(hub): Ctx,
    Extension(request): Req,
    Path(id): Path<String>,
) -> Outcome {
    request.member(&hub, &id)?;
    let world = hub.world();
    let rows: Vec<Value> = world.sessions(&id).take(50).map(GameSession::row).collect();
    Ok(Answer::ok(json!({ "sessions": rows })))
}

/// `POST /api/campaigns/:campaignId/sessions`
pub(crate) async fn start(
    State(hub): Ctx,
    Extension(request): Req,
    Path(id): Path<String>,
) -> Outcome {
    request.dm(&hub, &id)?;
    let session = {
        let mut world = hub.world();
        let number = world.sessions(&id).next().map_or(1, |last| last.number + 1);
        let session_id = world.new_id();
        let campaign = world.campaign_mut(&id).ok_or_else(Answer::broken)?;
        if campaign.status == "ACTIVE" {
            return Err(Answer::bad(
                "Bad Request",
                "A session is already active. Please end or pause the current session first.",
            ));
        }
        "ACTIVE".clone_into(&mut campaign.status);
        campaign.last_played_at = Some(now());
        let session = GameSession {
            id: session_id,
            campaign_id: id.clone(),
            number,
            started_at: now(),
            ended_at: None,
            notes: None,
            saved: None,
        };
        world.game_sessions.push(session.clone());
        session
    };
    let content = format!("Session {} has started!", session.number);
    announce(&hub, &session, "started", &content, None);
    Ok(Answer::created(json!({
        "message": "Session started successfully",
        "session": session.brief(),
    })))
}

/// Tells the table, first in the chat and then by the event of its own.
fn announce(hub: &Hub, session: &GameSession, what: &str, content: &str, saved: Option<bool>) {
    let mut event = json!({ "sessionId": session.id, "sessionNumber": session.number });
    let mut metadata = event.clone();
    metadata["action"] = json!(format!("session.{what}"));
    if let Some(saved) = saved {
        metadata["stateSaved"] = json!(saved);
    }
    hub.system_line(&session.campaign_id, content, &metadata);
    if matches!(what, "started" | "resumed") {
        event["startedAt"] = json!(session.started_at);
    }
    hub.send_to_room(&session.campaign_id, &format!("session.{what}"), &event);
}

/// Finds a session that has not ended, changes it, and sets the status.
fn close(
    hub: &Hub,
    campaign: &str,
    session: &str,
    status: &str,
    change: impl FnOnce(&mut GameSession),
) -> Result<GameSession, Answer> {
    let mut world = hub.world();
    let found = world
        .session_mut(campaign, session)
        .ok_or_else(|| Answer::missing("Session not found"))?;
    if found.ended_at.is_some() {
        return Err(Answer::bad("Bad Request", "Session has already ended"));
    }
    change(found);
    let found = found.clone();
    if let Some(campaign) = world.campaign_mut(campaign) {
        status.clone_into(&mut campaign.status);
    }
    Ok(found)
}

/// `PUT /api/campaigns/:campaignId/sessions/:sessionId/pause`
pub(crate) async fn pause(
    State(hub): Ctx,
    Extension(request): Req,
    Path((id, session)): Path<(String, String)>,
) -> Outcome {
    request.dm(&hub, &id)?;
    let snapshot = hub.world().snapshot(&id);
    let session = close(&hub, &id, &session, "PAUSED", |session| {
        session.saved = Some(snapshot);
    })?;
    let content = format!(
        "Session {} has been paused. See you next time!",
        session.number
    );
    announce(&hub, &session, "paused", &content, None);
    Ok(Answer::ok(json!({
        "message": "Session paused successfully",
        "stateSaved": true,
    })))
}

/// `PUT /api/campaigns/:campaignId/sessions/:sessionId/end`
pub(crate) async fn end(
    State(hub): Ctx,
    Extension(request): Req,
    Path((id, session)): Path<(String, String)>,
) -> Outcome {
    request.dm(&hub, &id)?;
    let save = request.body["saveState"] != false;
    let notes: String = request.body["notes"]
        .as_str()
        .unwrap_or_default()
        .chars()
        .take(LONGEST_NOTES)
        .collect();
    let snapshot = save.then(|| hub.world().snapshot(&id));
    let session = close(&hub, &id, &session, "INACTIVE", |session| {
        session.ended_at = Some(now());
        session.saved = snapshot;
        if !notes.is_empty() {
            session.notes = Some(notes);
        }
    })?;
    let kept = if save { " Game state saved!" } else { "" };
    let content = format!("Session {} has ended.{kept}", session.number);
    announce(&hub, &session, "ended", &content, Some(save));
    Ok(Answer::ok(json!({
        "message": "Session ended successfully",
        "stateSaved": save,
    })))
}

/// `PUT /api/campaigns/:campaignId/resume`
pub(crate) async fn resume(
    State(hub): Ctx,
    Extension(request): Req,
    Path(id): Path<String>,
) -> Outcome {
    request.dm(&hub, &id)?;
    let session = {
        let mut world = hub.world();
        let last = world
            .sessions(&id)
            .next()
            .cloned()
            .ok_or_else(|| Answer::missing("No previous session found"))?;
        if hub.version().is_old() {
            let saved = last.saved.clone().ok_or_else(|| {
                Answer::bad(
                    "Bad Request",
                    "No saved state available for the last session",
                )
            })?;
            world.restore(&id, saved);
        }
        if let Some(stored) = world.session_mut(&id, &last.id) {
            stored.ended_at = None;
        }
        if let Some(campaign) = world.campaign_mut(&id) {
            "ACTIVE".clone_into(&mut campaign.status);
        }
        last
    };
    let content = format!("Session {} has been resumed!", session.number);
    announce(&hub, &session, "resumed", &content, None);
    Ok(Answer::ok(json!({
        "message": "Session resumed successfully",
        "session": { "id": session.id, "sessionNumber": session.number },
    })))
}

/// `PUT /api/campaigns/:campaignId/sessions/:sessionId/notes` (not in 1.1.2)
pub(crate) async fn set_notes(
    State(hub): Ctx,
    Extension(request): Req,
    Path((id, session)): Path<(String, String)>,
) -> Outcome {
    request.dm(&hub, &id)?;
    let notes = request.body["notes"]
        .as_str()
        .filter(|notes| length(notes) <= LONGEST_NOTES)
        .map(trimmed)
        .ok_or_else(|| Answer::invalid("Notes must be text of at most 2000 characters"))?;
    let mut world = hub.world();
    let session = world
        .session_mut(&id, &session)
        .ok_or_else(|| Answer::missing("Session not found"))?;
    session.notes = (!notes.is_empty()).then(|| notes.to_owned());
    Ok(Answer::ok(json!({ "session": session.row() })))
}
