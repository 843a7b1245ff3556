//! Who is asking, and whether they may: the gates in front of the routes.

use axum::body::Bytes;
use serde_json::Value;

use super::answer::Answer;
use crate::hub::Hub;
use crate::world::{Role, SignIn, User, World};

/// What the front door found out about a request, for the routes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request {
    /// The value of the session's cookie, when there is such a session.
    pub(crate) session: Option<String>,
    pub(crate) sign_in: Option<SignIn>,
    /// The JSON body; null without one.
    pub(crate) body: Value,
    /// The body as it came.
    pub(crate) raw: Bytes,
}

/// A signed-in caller at a campaign of theirs.
#[derive(Debug, Clone)]
pub(crate) struct Seated {
    pub(crate) user_id: String,
    pub(crate) role: Role,
}

impl Request {
    /// The signed-in user, for the two routes that put it in other words.
    pub(crate) fn signed_in(&self) -> Option<&str> {
        self.sign_in
            .as_ref()
            .filter(|sign_in| !sign_in.mfa_pending)
            .map(|sign_in| sign_in.user_id.as_str())
    }

    /// The signed-in user's id, or 401.
    pub(crate) fn user(&self) -> Result<String, Answer> {
        match &self.sign_in {
            Some(sign_in) if sign_in.mfa_pending => Err(Answer::unauthorized(
                "Unauthorized",
                "MFA verification required. Please complete MFA login.",
            )),
            Some(sign_in) => Ok(sign_in.user_id.clone()),
            None => Err(Answer::unauthorized(
                "Unauthorized",
                "You must be logged in to access this resource",
            )),
        }
    }

    /// A member of the campaign; a campaign that does not exist has none.
    pub(crate) fn member(&self, hub: &Hub, campaign: &str) -> Result<Seated, Answer> {
        let user_id = self.user()?;
        let role = hub
            .world()
            .role(campaign, &user_id)
            .ok_or_else(|| Answer::forbidden("You are not a member of this campaign"))?;
        Ok(Seated { user_id, role })
    }

    /// The campaign's DM.
    pub(crate) fn dm(&self, hub: &Hub, campaign: &str) -> Result<Seated, Answer> {
        let seated = self.member(hub, campaign)?;
        if seated.role != Role::Dm {
            return Err(Answer::forbidden(
                "This action requires Dungeon Master (DM) role",
            ));
        }
        Ok(seated)
    }

    /// A member who is more than a spectator.
    pub(crate) fn player(&self, hub: &Hub, campaign: &str) -> Result<Seated, Answer> {
        let seated = self.member(hub, campaign)?;
        if seated.role == Role::Spectator {
            return Err(Answer::forbidden(
                "This action is not available to spectators",
            ));
        }
        Ok(seated)
    }
}

/// The 403 of an account that has to set a new password first.
pub(crate) fn password_gate(world: &World, sign_in: &SignIn, path: &str) -> Option<Answer> {
    const OPEN: [&str; 6] = [
        "/api/auth/change-password",
        "/api/auth/logout",
        "/api/auth/me",
        "/api/auth/ping",
        "/api/auth/appearance",
        "/api/config",
    ];
    let flagged = world
        .user(&sign_in.user_id)
        .is_some_and(|user: &User| user.must_change_password);
    (flagged && !sign_in.mfa_pending && path.starts_with("/api/") && !OPEN.contains(&path)).then(
        || {
            Answer::refused(
                "Password Change Required",
                "You must set a new password before continuing.",
            )
            .with("code", Value::from("PASSWORD_CHANGE_REQUIRED"))
        },
    )
}
