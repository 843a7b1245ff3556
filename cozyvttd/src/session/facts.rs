//! What is known of the campaign from earlier answers, and what clears it.

use std::sync::Mutex;

use serde_json::Value;

/// What is known. Every field is unknown until an answer has shown it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// The campaign's name.
    pub name: Option<String>,
    /// The account's role: `DM`, `PLAYER` or `SPECTATOR`.
    pub role: Option<String>,
    /// Whether chat history can be paged with a cursor (CozyVTT >= 1.4).
    pub chat_cursor: Option<bool>,
}

/// The cache. A read that began before the cache was cleared does not fill it.
#[derive(Debug, Default)]
pub struct Facts(Mutex<(u64, Known)>);

/// When a read began.
#[derive(Debug, Clone, Copy)]
pub struct Epoch(u64);

impl Facts {
    /// What is known now.
    pub fn known(&self) -> Known {
        self.with(|(_, known)| known.clone())
    }

    /// To be taken before a read whose answer is to be noted.
    pub fn epoch(&self) -> Epoch {
        self.with(|(epoch, _)| Epoch(*epoch))
    }

    /// Forgets everything: the authority behind it is gone or has changed.
    pub fn clear(&self) {
        self.with(|state| *state = (state.0 + 1, Known::default()));
    }

    /// Notes what an answer has shown, unless the cache was cleared since the
    /// read began.
    pub fn note(&self, began: Epoch, note: impl FnOnce(&mut Known)) {
        self.with(|(epoch, known)| {
            if *epoch == began.0 {
                note(known);
            }
        });
    }

    /// Notes a `campaign` object; `user` is the account's id.
    pub fn note_campaign(&self, began: Epoch, campaign: &Value, user: Option<&str>) {
        self.note(began, |known| {
            known.name = campaign["name"].as_str().map(ToOwned::to_owned);
            known.role = role(campaign, user);
        });
    }

    fn with<T>(&self, body: impl FnOnce(&mut (u64, Known)) -> T) -> T {
        let mut state = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        body(&mut state)
    }
}

/// The account's role in a `campaign` object: `userRole`, else the role of its
/// own membership. Owning a campaign is no role.
pub fn role(campaign: &Value, user: Option<&str>) -> Option<String> {
    campaign["userRole"]
        .as_str()
        .or_else(|| {
            let user = user?;
            campaign["memberships"]
                .as_array()?
                .iter()
                .find(|member| member["userId"].as_str() == Some(user))?["role"]
                .as_str()
        })
        .map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_role_is_never_taken_from_the_ownership() {
        let owner = json!({"ownerId": "u1", "memberships": []});
        assert_eq!(role(&owner, Some("u1")), None);
        let member = json!({"ownerId": "u1", "memberships": [{"userId": "u1", "role": "PLAYER"}]});
        assert_eq!(role(&member, Some("u1")).as_deref(), Some("PLAYER"));
        let both = json!({"userRole": "DM", "memberships": [{"userId": "u1", "role": "PLAYER"}]});
        assert_eq!(role(&both, Some("u1")).as_deref(), Some("DM"));
    }

    #[test]
    fn an_answer_from_before_the_clearing_is_not_noted() {
        let facts = Facts::default();
        let began = facts.epoch();
        facts.clear();
        facts.note(began, |known| known.chat_cursor = Some(true));
        assert_eq!(facts.known(), Known::default());
        facts.note(facts.epoch(), |known| known.chat_cursor = Some(true));
        assert_eq!(facts.known().chat_cursor, Some(true));
    }
}
