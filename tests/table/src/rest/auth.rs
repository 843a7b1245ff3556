//! Signing in and out, and the routes about the caller.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::{Html, IntoResponse, Response};
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use super::answer::{Answer, Outcome, SessionChange};
use super::gate::Request;
use crate::hub::Hub;
use crate::world::{AssetKind, SignIn, now};

type Ctx = State<Arc<Hub>>;
type Req = Extension<Request>;

/// `POST /api/auth/login`
pub(crate) async fn login(State(hub): Ctx, Extension(request): Req) -> Outcome {
    let body = &request.body;
    let (email, password) = (&body["email"], &body["password"]);
    if is_blank(email) || is_blank(password) {
        return Err(Answer::invalid("Email and password are required"));
    }
    let (Some(email), Some(password)) = (email.as_str(), password.as_str()) else {
        return Err(Answer::bad(
            "Login Failed",
            "input.email.toLowerCase is not a function",
        ));
    };
    let email = email.to_lowercase();
    let mut world = hub.world();
    let user = world
        .users
        .iter_mut()
        .find(|user| user.email == email && user.password == password)
        .ok_or_else(|| {
            Answer::unauthorized("Authentication Failed", "Invalid email or password")
        })?;
    if !user.approved {
        return Err(Answer::refused(
            "Account Pending Approval",
            "Your account is pending approval by an administrator.",
        ));
    }
    let user_id = user.id.clone();
    let mfa_pending = user.mfa_code.is_some();
    let mut row = Value::Null;
    if !mfa_pending {
        // The answer shows the account as it was; the next one the new times.
        row = user.json(!hub.version().is_old());
        user.last_login_at = Some(now());
        user.updated_at = now();
    }
    let must_change = user.must_change_password;
    drop(world);
    let remember = body["rememberMe"] == true;
    let token = open_session(
        &hub,
        request.session.as_deref(),
        &user_id,
        remember,
        mfa_pending,
    );
    let answer = if mfa_pending {
        Answer::ok(json!({
            "mfaRequired": true,
            "message": "MFA verification required. Please enter your TOTP code.",
        }))
    } else {
        Answer::ok(json!({
            "message": "Login successful",
            "user": row,
            "mustChangePassword": must_change,
        }))
    };
    Ok(answer.session(SessionChange::Set(token)))
}

fn is_blank(value: &Value) -> bool {
    value.is_null() || value == "" || value == false || value == 0
}

/// Opens a session. 1.1.2 goes on with the id the caller already has, 1.5
/// throws that one away.
pub(super) fn open_session(
    hub: &Hub,
    had: Option<&str>,
    user_id: &str,
    remember: bool,
    mfa_pending: bool,
) -> String {
    let mut world = hub.world();
    let token = match had {
        Some(had) if hub.version().is_old() => had.to_owned(),
        had => {
            if let Some(had) = had {
                world.sign_ins.remove(had);
            }
            new_cookie()
        }
    };
    let max_age = if remember {
        hub.options.remember_age
    } else {
        hub.options.session_age
    };
    world.sign_ins.insert(
        token.clone(),
        SignIn {
            user_id: user_id.to_owned(),
            remember,
            mfa_pending,
            max_age,
            expires: Instant::now() + max_age,
        },
    );
    token
}

/// A cookie of the known form. It does not come from the seed: two tables of one
/// seed must not take each other's sessions.
fn new_cookie() -> String {
    let secret = || Uuid::new_v4().simple().to_string();
    let signature = secret() + &secret()[..11];
    format!("s%3A{}.{signature}", secret())
}

/// `POST /api/auth/logout`
pub(crate) async fn logout(State(hub): Ctx, Extension(request): Req) -> Answer {
    if let Some(session) = &request.session {
        hub.world().sign_ins.remove(session);
        if !hub.version().is_old() {
            hub.floor.end_session(session, "You signed out.");
        }
    }
    Answer::ok(json!({ "message": "Logout successful" })).session(SessionChange::Cleared)
}

/// `GET /api/auth/me`
pub(crate) async fn me(State(hub): Ctx, Extension(request): Req) -> Outcome {
    let world = hub.world();
    let user = request
        .signed_in()
        .and_then(|id| world.user(id))
        .ok_or_else(|| Answer::unauthorized("Unauthorized", "Not authenticated"))?;
    Ok(Answer::ok(
        json!({ "user": user.json(!hub.version().is_old()) }),
    ))
}

/// `GET /api/auth/ping`
pub(crate) async fn ping(Extension(request): Req) -> Outcome {
    request.user()?;
    Ok(Answer::ok(json!({ "ok": true })))
}

/// `POST /api/auth/change-password`
pub(crate) async fn change_password(State(hub): Ctx, Extension(request): Req) -> Outcome {
    let id = request.user()?;
    let (Some(current), Some(new)) = (
        request.body["currentPassword"].as_str(),
        request.body["newPassword"].as_str(),
    ) else {
        return Err(Answer::invalid(
            "Current password and new password are required",
        ));
    };
    let mut world = hub.world();
    let user = world.user_mut(&id).ok_or_else(Answer::broken)?;
    if user.password != current {
        return Err(Answer::unauthorized(
            "Authentication Failed",
            "Current password is incorrect",
        ));
    }
    let shortest = if hub.version().is_old() { 8 } else { 12 };
    let strong = new.chars().count() >= shortest
        && new.chars().any(char::is_lowercase)
        && new.chars().any(char::is_uppercase)
        && new.chars().any(|c| c.is_ascii_digit())
        && new.chars().any(|c| !c.is_alphanumeric());
    if !strong {
        return Err(Answer::invalid(&format!(
            "Password must be at least {shortest} characters with upper case, lower case, a digit and a special character"
        )));
    }
    new.clone_into(&mut user.password);
    user.must_change_password = false;
    user.updated_at = now();
    if !hub.version().is_old() {
        let others: Vec<String> = world
            .sign_ins
            .iter()
            .filter(|(token, one)| one.user_id == id && Some(*token) != request.session.as_ref())
            .map(|(token, _)| token.clone())
            .collect();
        for token in &others {
            world.sign_ins.remove(token);
        }
        drop(world);
        for token in others {
            let sentence = "Your password was changed on another device. Sign in again.";
            hub.floor.end_session(&token, sentence);
        }
    }
    Ok(Answer::ok(
        json!({ "message": "Password changed successfully" }),
    ))
}

/// `GET /api/config`
pub(crate) async fn config(State(hub): Ctx) -> Answer {
    let mut limits = json!({});
    let mut body = json!({ "maxUploadBytes": AssetKind::Map.most_bytes() });
    for kind in AssetKind::ALL {
        if AssetKind::named(kind.as_str(), hub.version()).is_some() {
            limits[kind.as_str()] = json!(kind.most_bytes());
        }
    }
    if !hub.version().is_old() {
        body["smtp"] = json!({ "configured": false });
    }
    body["uploadLimits"] = limits;
    Answer::ok(body)
}

/// `GET /api/auth/registration-status`
pub(crate) async fn registration_status() -> Answer {
    Answer::ok(json!({ "allowRegistration": false }))
}

/// `GET /api/auth/appearance`
pub(crate) async fn appearance() -> Answer {
    Answer::ok(json!({
        "themeId": "cozy-default",
        "customThemeColors": null,
        "fontId": "default",
        "customLogoUrl": null,
        "customFaviconUrl": null,
        "customMascotUrl": null,
    }))
}

/// `GET /health`
pub(crate) async fn health(State(hub): Ctx) -> Response {
    if hub.options.health_page {
        return Html("<!doctype html><html><body><div id=\"app\"></div></body></html>")
            .into_response();
    }
    Answer::ok(json!({
        "status": "healthy",
        "timestamp": now(),
        "services": { "api": "ok", "database": "ok" },
    }))
    .into_response()
}
