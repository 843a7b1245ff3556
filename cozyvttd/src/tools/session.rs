//! Game sessions: the evenings of a campaign.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::arguments::NoArguments;
use super::{Context, Hints, Tool, ToolError};
use crate::session::features::Feature;
use crate::session::ids::ResourceId;
use crate::session::rest::{Expect, Request};

/// CozyVTT's limit for a session's notes.
const MAX_NOTES: usize = 2000;

/// `session_list`
pub(super) struct List;

impl Tool for List {
    const NAME: &'static str = "session_list";
    const TITLE: &'static str = "List the sessions";
    const DESCRIPTION: &'static str = "The campaign's newest 50 game sessions, highest number first, with \
        their times and recaps; one without an end is running. Changes nothing; any member may call it. \
        Servers before 1.3 do not have the list.";
    const HINTS: Hints = Hints::READS;
    type Arguments = NoArguments;

    async fn run(_: NoArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        let request = Request::get(session.in_campaign(&["sessions"])).proves(Feature::Sessions);
        Ok(session.request(&request, Expect::Has("sessions")).await?)
    }
}

/// `session_manage`
pub(super) struct Manage;

/// What to do with the session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ManageArguments {
    /// What to do: `start`, `pause` or `end`.
    action: String,
    /// The recap that everybody may read: for end. Empty leaves an earlier one.
    #[serde(default)]
    #[schemars(length(max = 2000))]
    notes: Option<String>,
    /// Keep the state of the table with the session: for end.
    #[serde(default = "ManageArguments::default_save_state")]
    save_state: bool,
}

impl ManageArguments {
    fn default_save_state() -> bool {
        true
    }

    fn action(&self) -> Result<Action, String> {
        match self.action.trim().to_ascii_lowercase().as_str() {
            "start" => Ok(Action::Start),
            "pause" => Ok(Action::Pause),
            "end" => Ok(Action::End),
            _ => Err("action must be one of ['end', 'pause', 'start']".to_owned()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Start,
    Pause,
    End,
}

impl Tool for Manage {
    const NAME: &'static str = "session_manage";
    const TITLE: &'static str = "Manage the session";
    const DESCRIPTION: &'static str = "Starts, pauses or ends the campaign's game session; the table is \
        told with a session event. To edit a recap use session_notes_update. Only the DM may. Starting \
        is refused while one is active, pausing and ending when none is; on newer servers players cannot \
        move tokens during a pause.";
    const HINTS: Hints = Hints::CHANGES;
    type Arguments = ManageArguments;

    fn check(arguments: &ManageArguments) -> Result<(), String> {
        let action = arguments.action()?;
        let length = arguments.notes.as_ref().map(|notes| notes.chars().count());
        if length.is_some_and(|length| length > MAX_NOTES) {
            return Err("notes must be a string of at most 2000 characters".to_owned());
        }
        if action != Action::End && (arguments.notes.is_some() || !arguments.save_state) {
            return Err("notes/save_state apply only to end".to_owned());
        }
        Ok(())
    }

    async fn run(arguments: ManageArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        // `check` has refused everything else.
        let action = arguments.action().map_err(ToolError::Refused)?;
        if action == Action::Start {
            let request = Request::post(session.in_campaign(&["sessions"]), json!({}));
            return Ok(session.request(&request, Expect::Has("session")).await?);
        }
        let campaign = session.read_campaign().await?;
        let active = campaign["activeSession"]["id"]
            .as_str()
            .and_then(|id| ResourceId::parse(id).ok());
        let Some(active) = active else {
            return Err(ToolError::Refused(
                "The current campaign has no active session to pause or end".to_owned(),
            ));
        };
        let (verb, body) = if action == Action::Pause {
            ("pause", json!({}))
        } else {
            let mut body = json!({"saveState": arguments.save_state});
            if let Some(notes) = arguments.notes {
                body["notes"] = notes.into();
            }
            ("end", body)
        };
        let path = session.in_campaign(&["sessions", active.as_str(), verb]);
        let request = Request::put(path, body);
        Ok(session.request(&request, Expect::Object).await?)
    }
}

/// `session_notes_update`
pub(super) struct NotesUpdate;

/// A session's new recap.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NotesUpdateArguments {
    /// The session's id, from session_list.
    session_id: ResourceId,
    /// The whole recap; empty clears it.
    #[schemars(length(max = 2000))]
    notes: String,
}

impl Tool for NotesUpdate {
    const NAME: &'static str = "session_notes_update";
    const TITLE: &'static str = "Rewrite a recap";
    const DESCRIPTION: &'static str = "Replaces the recap of a session, running or over, which every \
        member may read; an empty one clears it. Read it first with session_list: what is left out is \
        gone. Nobody is told. Only the DM may. Servers before 1.3 do not have recaps.";
    const HINTS: Hints = Hints::CHANGES;
    type Arguments = NotesUpdateArguments;

    fn check(arguments: &NotesUpdateArguments) -> Result<(), String> {
        if arguments.notes.chars().count() > MAX_NOTES {
            return Err("notes must be at most 2000 characters".to_owned());
        }
        Ok(())
    }

    async fn run(arguments: NotesUpdateArguments, context: &Context) -> Result<Value, ToolError> {
        let session = &context.session;
        let id = arguments.session_id.as_str();
        let request = Request::put(
            session.in_campaign(&["sessions", id, "notes"]),
            json!({"notes": arguments.notes}),
        )
        .proves(Feature::Sessions);
        Ok(session.request(&request, Expect::Has("session")).await?)
    }
}
