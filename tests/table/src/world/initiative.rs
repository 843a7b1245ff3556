//! The order of a fight.

use serde_json::{Value, json};

use super::map::mask;
use super::{Role, Viewer, World, plain};
use crate::version::Version;

/// One who takes turns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Combatant {
    pub(crate) token_id: String,
    pub(crate) map_id: String,
    pub(crate) initiative: Option<f64>,
}

/// A fight, or the preparation of one.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Order {
    pub(crate) active: bool,
    pub(crate) round: u32,
    /// Whose turn it is, by token.
    pub(crate) current: Option<String>,
    pub(crate) combatants: Vec<Combatant>,
}

impl Order {
    /// Highest value first, those without one last.
    pub(crate) fn sort(&mut self) {
        self.combatants.sort_by(|a, b| {
            let value = |one: &Combatant| one.initiative.unwrap_or(f64::NEG_INFINITY);
            value(b).total_cmp(&value(a))
        });
    }

    /// Passes the turn on; a new round begins after the last combatant.
    pub(crate) fn next(&mut self) {
        let at = self
            .combatants
            .iter()
            .position(|one| Some(&one.token_id) == self.current.as_ref());
        let next = at.map_or(0, |at| at + 1);
        if next >= self.combatants.len() {
            self.round += 1;
        }
        let next = next % self.combatants.len().max(1);
        self.current = self.combatants.get(next).map(|one| one.token_id.clone());
    }

    /// Takes a combatant out. 1.1.2 goes to the top of the list when it was its
    /// turn; later the next one acts, and the fight ends with nobody left.
    pub(crate) fn remove(&mut self, token: &str, version: Version) {
        let Some(at) = self.combatants.iter().position(|one| one.token_id == token) else {
            return;
        };
        self.combatants.remove(at);
        if self.current.as_deref() == Some(token) {
            let next = if version.is_old() { 0 } else { at };
            let next = next % self.combatants.len().max(1);
            self.current = self.combatants.get(next).map(|one| one.token_id.clone());
        }
        if self.combatants.is_empty() && !version.is_old() {
            *self = Self::default();
        }
    }
}

impl World {
    /// `initiative.state` for one viewer.
    pub(crate) fn initiative_state(
        &self,
        campaign: &str,
        viewer: Viewer<'_>,
        version: Version,
    ) -> Value {
        let idle = Order::default();
        let order = self.initiative.get(campaign).unwrap_or(&idle);
        let current_map = self
            .campaign(campaign)
            .and_then(|one| one.current_map_id.as_deref());
        let filtered = !version.is_old() && viewer.role != Role::Dm;
        let mut shown = Vec::new();
        let mut current = None;
        for combatant in &order.combatants {
            let Some(token) = self
                .map(&combatant.map_id)
                .and_then(|map| map.token(&combatant.token_id))
            else {
                continue;
            };
            let token = if filtered {
                if current_map != Some(combatant.map_id.as_str()) {
                    continue;
                }
                match mask(token, viewer, version) {
                    Some(token) => token,
                    None => continue,
                }
            } else {
                token.clone()
            };
            if order.current.as_ref() == Some(&combatant.token_id) {
                current = Some(&combatant.token_id);
            }
            let mut row = json!({
                "tokenId": combatant.token_id,
                "name": token["name"],
                "imageUrl": token["imageUrl"],
                "initiative": combatant.initiative.map(plain),
                "hp": token["hp"],
                "type": token["type"],
                "disposition": token["disposition"],
            });
            if !version.is_old() {
                row["mapId"] = json!(combatant.map_id);
            }
            shown.push(row);
        }
        json!({
            "active": order.active,
            "round": order.round,
            "currentTokenId": current,
            "combatants": shown,
        })
    }
}
