//! The second step of signing in.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use serde_json::{Value, json};

use super::answer::{Answer, Outcome, SessionChange};
use super::auth::open_session;
use super::gate::Request;
use crate::hub::Hub;
use crate::world::now;

/// `POST /api/auth/mfa/verify-login`
pub(crate) async fn verify_login(
    State(hub): State<Arc<Hub>>,
    Extension(request): Extension<Request>,
) -> Outcome {
    let old = hub.version().is_old();
    let token = &request.body["token"];
    let backup = &request.body["backupCode"];
    if token.is_null() && backup.is_null() {
        return Err(Answer::invalid(
            "Either a TOTP token or backup code is required",
        ));
    }
    if !old
        && [token, backup]
            .iter()
            .any(|one| !one.is_null() && !one.is_string())
    {
        return Err(Answer::invalid("Codes must be strings"));
    }
    let pending = request
        .sign_in
        .as_ref()
        .filter(|sign_in| sign_in.mfa_pending)
        .ok_or_else(|| Answer::unauthorized("Unauthorized", "No MFA login is pending"))?;
    let wrong = || {
        Answer::unauthorized(
            "Invalid Code",
            "Invalid authentication code. Please try again.",
        )
    };

    let mut world = hub.world();
    let user = world.user_mut(&pending.user_id).ok_or_else(wrong)?;
    let mut left = None;
    if token.is_null() {
        let code = backup.as_str().unwrap_or_default();
        let at = user.backup_codes.iter().position(|one| one == code);
        user.backup_codes.remove(at.ok_or_else(wrong)?);
        left = Some(user.backup_codes.len());
    } else {
        // 1.1.2 writes a number out itself.
        let code = match token {
            Value::String(code) => code.clone(),
            other => other.to_string(),
        };
        if user.mfa_code.as_ref() != Some(&code) {
            return Err(wrong());
        }
    }
    user.last_login_at = Some(now());
    user.updated_at = now();
    let mut body = json!({
        "message": "Login successful",
        "user": user.json(!old),
        "mustChangePassword": user.must_change_password,
    });
    if let Some(left) = left {
        body["backupCodeUsed"] = json!(true);
        body["remainingBackupCodes"] = json!(left);
        if left <= 3 {
            body["warning"] = json!("You are running low on backup codes.");
        }
    }
    drop(world);
    let session = open_session(
        &hub,
        request.session.as_deref(),
        &pending.user_id,
        pending.remember,
        false,
    );
    Ok(Answer::ok(body).session(SessionChange::Set(session)))
}
