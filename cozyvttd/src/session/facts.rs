//! What is known of the campaign from earlier answers, and what clears it.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;

use crate::lock::lock;

/// What is known of the campaign. Every field is unknown until an answer has
/// shown it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// The campaign's name.
    pub name: Option<String>,
    /// The account's role: `DM`, `PLAYER` or `SPECTATOR`.
    pub role: Option<String>,
    /// The campaign's game system; `Some(None)` is a flexible campaign.
    pub system: Option<Option<String>>,
    /// The map that the table is on; `Some(None)` when it is on none.
    pub current_map: Option<Option<String>>,
    /// The least time between two lines of this account in the chat, when the
    /// campaign asks for one.
    pub chat_cooldown: Option<Duration>,
    /// Whether chat history can be paged with a cursor (CozyVTT >= 1.4).
    pub chat_cursor: Option<bool>,
}

#[derive(Debug, Default)]
struct State {
    epoch: u64,
    known: Known,
}

/// The cache. A read that began before the cache was cleared does not fill it.
#[derive(Debug, Default)]
pub struct Facts(Mutex<State>);

/// When a read began.
#[derive(Debug, Clone, Copy)]
pub struct Epoch(u64);

impl Facts {
    /// What is known now.
    pub fn known(&self) -> Known {
        self.state().known.clone()
    }

    /// To be taken before a read whose answer is to be noted.
    pub fn epoch(&self) -> Epoch {
        Epoch(self.state().epoch)
    }

    /// Forgets everything about the campaign: the authority behind it is gone or
    /// has changed.
    pub fn clear(&self) {
        let mut state = self.state();
        state.epoch += 1;
        state.known = Known::default();
    }

    /// Notes what an answer has shown, unless the cache was cleared since the
    /// read began.
    pub fn note(&self, began: Epoch, note: impl FnOnce(&mut Known)) {
        let mut state = self.state();
        if state.epoch == began.0 {
            note(&mut state.known);
        }
    }

    /// Notes a `campaign` object; `user` is the account's id.
    pub fn note_campaign(&self, began: Epoch, campaign: &Value, user: Option<&str>) {
        let text = |key: &str| campaign[key].as_str().map(ToOwned::to_owned);
        self.note(began, |known| {
            known.name = text("name");
            known.role = role(campaign, user);
            known.system = Some(text("gameSystem"));
            known.current_map = Some(text("currentMapId"));
            known.chat_cooldown = (campaign["chatCooldownEnabled"] == true)
                .then(|| campaign["chatCooldownSeconds"].as_u64())
                .flatten()
                .map(Duration::from_secs);
        });
    }

    /// Notes the map that the table has just been switched to.
    pub fn note_map(&self, map: &str) {
        self.state().known.current_map = Some(Some(map.to_owned()));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
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
