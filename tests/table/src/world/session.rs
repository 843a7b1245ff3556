//! Game sessions: the evenings a campaign is played on.

use serde_json::{Value, json};

use super::World;

/// One evening.
#[derive(Debug, Clone)]
pub(crate) struct GameSession {
    pub(crate) id: String,
    pub(crate) campaign_id: String,
    pub(crate) number: u32,
    pub(crate) started_at: String,
    pub(crate) ended_at: Option<String>,
    pub(crate) notes: Option<String>,
    /// What 1.1.2 puts back on the table when the session is resumed.
    pub(crate) saved: Option<Snapshot>,
}

/// The table as it was when a session was paused or ended.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    current_map_id: Option<String>,
    /// The tokens of each map.
    tokens: Vec<(String, Vec<Value>)>,
}

impl GameSession {
    /// What the answers to starting and resuming tell.
    pub(crate) fn brief(&self) -> Value {
        json!({ "id": self.id, "sessionNumber": self.number, "startedAt": self.started_at })
    }

    /// An entry of the list.
    pub(crate) fn row(&self) -> Value {
        let mut row = self.brief();
        row["endedAt"] = json!(self.ended_at);
        row["notes"] = json!(self.notes);
        row
    }
}

impl World {
    /// The sessions of a campaign, newest first.
    pub(crate) fn sessions<'a>(
        &'a self,
        campaign: &str,
    ) -> impl Iterator<Item = &'a GameSession> + use<'a> {
        let campaign = campaign.to_owned();
        let sessions = self.game_sessions.iter().rev();
        sessions.filter(move |one| one.campaign_id == campaign)
    }

    /// The newest session without an end.
    pub(crate) fn active_session(&self, campaign: &str) -> Option<&GameSession> {
        self.sessions(campaign).find(|one| one.ended_at.is_none())
    }

    pub(crate) fn session_mut(&mut self, campaign: &str, id: &str) -> Option<&mut GameSession> {
        let mut sessions = self.game_sessions.iter_mut();
        sessions.find(|one| one.campaign_id == campaign && one.id == id)
    }

    /// Takes down what is on the table.
    pub(crate) fn snapshot(&self, campaign: &str) -> Snapshot {
        let maps = self.maps.iter().filter(|map| map.campaign_id == campaign);
        Snapshot {
            current_map_id: self
                .campaign(campaign)
                .and_then(|one| one.current_map_id.clone()),
            tokens: maps
                .map(|map| (map.id.clone(), map.tokens.clone()))
                .collect(),
        }
    }

    /// Puts it back.
    pub(crate) fn restore(&mut self, campaign: &str, snapshot: Snapshot) {
        for (map, tokens) in snapshot.tokens {
            if let Some(map) = self.map_mut(&map) {
                map.tokens = tokens;
            }
        }
        if let Some(campaign) = self.campaign_mut(campaign) {
            campaign.current_map_id = snapshot.current_map_id;
        }
    }
}
