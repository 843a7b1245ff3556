//! The plan of an account.

use crate::world::Rights;

/// An account to be.
#[derive(Debug, Clone)]
pub struct Person {
    pub(crate) key: String,
    pub(crate) email: String,
    pub(crate) password: String,
    pub(crate) display_name: String,
    pub(crate) rights: Rights,
    pub(crate) approved: bool,
    pub(crate) must_change_password: bool,
    pub(crate) mfa_code: Option<String>,
    pub(crate) backup_codes: Vec<String>,
}

impl Person {
    /// An account under the short name `key`, with an address and a password
    /// made from it.
    pub fn new(key: &str, display_name: &str) -> Self {
        Self {
            key: key.to_owned(),
            email: format!("{key}@table.example"),
            password: format!("Lantern-{key}-9!"),
            display_name: display_name.to_owned(),
            rights: Rights::Plain,
            approved: true,
            must_change_password: false,
            mfa_code: None,
            backup_codes: Vec::new(),
        }
    }

    /// Signs in with this address.
    #[must_use]
    pub fn email(mut self, email: &str) -> Self {
        self.email = email.to_lowercase();
        self
    }

    /// Signs in with this password.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        password.clone_into(&mut self.password);
        self
    }

    /// Asks for a second step when signing in, which `code` passes.
    #[must_use]
    pub fn mfa(mut self, code: &str, backup_codes: &[&str]) -> Self {
        self.mfa_code = Some(code.to_owned());
        self.backup_codes = backup_codes.iter().map(|&one| one.to_owned()).collect();
        self
    }

    /// Has to set a new password before anything else.
    #[must_use]
    pub fn must_change_password(mut self) -> Self {
        self.must_change_password = true;
        self
    }

    /// Waits for an administrator's approval and cannot sign in.
    #[must_use]
    pub fn unapproved(mut self) -> Self {
        self.approved = false;
        self
    }

    /// Administers the server.
    #[must_use]
    pub fn admin(mut self) -> Self {
        self.rights = Rights::Admin;
        self
    }

    /// May add files for everybody (`globalAssetManager`).
    #[must_use]
    pub fn asset_manager(mut self) -> Self {
        self.rights = Rights::AssetManager;
        self
    }
}
