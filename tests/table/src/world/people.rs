//! Accounts and the sign-ins that stand for them.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

/// What an account may do beyond its campaigns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rights {
    Plain,
    /// May add files for everybody.
    AssetManager,
    /// May do everything.
    Admin,
}

/// One account.
#[derive(Debug, Clone)]
pub(crate) struct User {
    pub(crate) id: String,
    /// Lower case.
    pub(crate) email: String,
    pub(crate) password: String,
    pub(crate) display_name: String,
    pub(crate) rights: Rights,
    pub(crate) approved: bool,
    pub(crate) must_change_password: bool,
    /// The code that passes the second step of signing in.
    pub(crate) mfa_code: Option<String>,
    pub(crate) backup_codes: Vec<String>,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    pub(crate) last_login_at: Option<String>,
}

impl User {
    /// The account as its owner sees it.
    pub(crate) fn json(&self, template_editor: bool) -> Value {
        let mut row = json!({
            "id": self.id,
            "email": self.email,
            "displayName": self.display_name,
            "platformRole": if self.rights == Rights::Admin { "ADMIN" } else { "USER" },
            "globalAssetManager": self.rights == Rights::AssetManager,
            "mfaEnabled": self.mfa_code.is_some(),
            "mustChangePassword": self.must_change_password,
            "isApproved": self.approved,
            "avatarUrl": null,
            "bio": null,
            "rememberMe": false,
            "preferences": null,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
            "lastLoginAt": self.last_login_at,
        });
        if template_editor {
            row["templateEditor"] = json!(false);
        }
        row
    }

    /// The account where only its name matters.
    pub(crate) fn signature(&self) -> Value {
        json!({ "id": self.id, "displayName": self.display_name })
    }

    /// The account as others see it.
    pub(crate) fn card(&self) -> Value {
        json!({ "id": self.id, "displayName": self.display_name, "avatarUrl": null })
    }
}

/// One session. The cookie's value is the key it is kept under.
#[derive(Debug, Clone)]
pub(crate) struct SignIn {
    pub(crate) user_id: String,
    /// Signed in for 30 days instead of an hour.
    pub(crate) remember: bool,
    /// The password was right, the second step is still to come.
    pub(crate) mfa_pending: bool,
    pub(crate) max_age: Duration,
    pub(crate) expires: Instant,
}
