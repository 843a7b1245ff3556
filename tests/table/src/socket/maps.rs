//! Bringing a map onto everybody's screen.

use serde_json::{Value, json};

use super::{From, Seat};
use crate::hub::Hub;
use crate::world::{Map, Role, Viewer};

/// `map.change {mapId}`. It stores nothing.
pub(super) fn change(hub: &Hub, from: &From) {
    let Some((campaign, role)) = &from.seat.at else {
        return;
    };
    let ceiling = "Too many map changes at once. Try again in a moment.";
    if !hub.under_ceiling(from, "map.change", 50, ceiling) {
        return;
    }
    if *role != Role::Dm {
        return hub.refuse(from, "Only DMs can change the map");
    }
    let Some(id) = from.text("mapId").filter(|id| !id.is_empty()) else {
        return hub.refuse(from, "mapId required");
    };
    let (map, current) = {
        let world = hub.world();
        let map = world
            .map(id)
            .filter(|map| map.campaign_id == *campaign)
            .cloned();
        let current = world
            .campaign(campaign)
            .and_then(|one| one.current_map_id.clone());
        (map, current)
    };
    let Some(map) = map else {
        return hub.refuse(from, "Map not found");
    };
    if !hub.version().is_old() && current.as_deref() != Some(id) {
        let sentence = "Only the current map can be sent to the table; set it current first";
        return hub.refuse(from, sentence);
    }
    hub.show_map(campaign, &map);
}

impl Hub {
    /// Sends everybody at a campaign their own view of a map.
    pub(crate) fn show_map(&self, campaign: &str, map: &Map) {
        let spirits_shown = self.spirits_shown(campaign);
        let version = self.version();
        self.send_to(campaign, "map.changed", |seat| -> Option<Value> {
            let viewer = viewer(seat, campaign, spirits_shown);
            Some(json!({
                "mapId": map.id,
                "mapData": map.view(viewer, version),
                "spiritVisible": viewer.sees_spirits(),
            }))
        });
    }

    /// Whether the spirit layer is open to all at present.
    pub(crate) fn spirits_shown(&self, campaign: &str) -> bool {
        self.world()
            .campaign(campaign)
            .is_some_and(|one| one.spirit_layer_enabled)
    }
}

/// A seat's eyes at a campaign.
pub(super) fn viewer<'a>(seat: &'a Seat, campaign: &str, spirits_shown: bool) -> Viewer<'a> {
    Viewer {
        user_id: &seat.user_id,
        role: seat.role_at(campaign),
        spirits_shown,
    }
}
