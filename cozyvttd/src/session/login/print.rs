//! The fingerprint of an account: it tells whether the credentials are still those
//! that were refused, and gives no cheap way to guess them.

use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordHasher, PasswordVerifier};
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::config::BaseUrl;

/// An Argon2id hash with a salt of its own, in the form of a PHC string.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Print(String);

/// What an account is: where, who and with which password.
pub(super) struct Account {
    joined: Zeroizing<Vec<u8>>,
}

impl Account {
    pub(super) fn new(url: &BaseUrl, email: &str, password: &SecretString) -> Self {
        let url = url.to_string();
        // CozyVTT does not tell cases apart either (v1.1.2).
        let email = email.to_lowercase();
        let parts = [url.as_str(), &email, password.expose_secret()];
        let room = parts.iter().map(|part| part.len() + 8).sum();
        let mut joined = Zeroizing::new(Vec::with_capacity(room));
        for part in parts {
            // With its length, so that no two accounts join to the same.
            joined.extend((part.len() as u64).to_le_bytes());
            joined.extend(part.as_bytes());
        }
        Self { joined }
    }

    /// The account's fingerprint; takes some 20 MiB and a noticeable part of a second.
    ///
    /// # Errors
    ///
    /// When there is no randomness.
    pub(super) fn print(&self) -> Result<Print, String> {
        let hash = Argon2::default().hash_password(&self.joined);
        hash.map(|hash| Print(hash.to_string()))
            .map_err(|error| error.to_string())
    }

    /// Whether `print` is of this very account; one that cannot be read is of none.
    pub(super) fn has(&self, print: &Print) -> bool {
        PasswordHash::new(&print.0).is_ok_and(|hash| {
            Argon2::default()
                .verify_password(&self.joined, &hash)
                .is_ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(url: &str, email: &str, password: &str) -> Account {
        Account::new(
            &BaseUrl::parse(url).unwrap(),
            email,
            &password.to_owned().into(),
        )
    }

    #[test]
    fn each_part_of_the_credentials_counts_and_none_can_be_read() {
        let account_of = account("http://h", "a@b", "canary");
        let print = account_of.print().unwrap();
        assert!(account_of.has(&print));
        assert!(account("http://h", "A@b", "canary").has(&print));
        for other in [
            account("http://g", "a@b", "canary"),
            account("http://h", "c@b", "canary"),
            account("http://h", "a@b", "Canary"),
            account("http://h", "a@bc", "anary"),
        ] {
            assert!(!other.has(&print));
        }
        assert!(print.0.starts_with("$argon2id$") && !print.0.contains("canary"));
        assert_ne!(print, account_of.print().unwrap(), "each has its own salt");
        assert!(!account_of.has(&Print("none".to_owned())));
    }
}
