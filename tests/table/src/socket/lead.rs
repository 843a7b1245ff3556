//! What the sockets hear when the DM's seat changes hands.

use serde_json::json;

use crate::hub::Hub;
use crate::world::Role;

impl Hub {
    /// Makes a member the DM and the former one a player, for live sockets too.
    /// The campaign's owner stays.
    pub(crate) fn transfer_dm(&self, campaign: &str, user_id: &str) {
        let mut previous = None;
        if let Some(campaign) = self.world().campaign_mut(campaign) {
            for membership in &mut campaign.memberships {
                if membership.user_id == user_id {
                    membership.role = Role::Dm;
                } else if membership.role == Role::Dm {
                    membership.role = Role::Player;
                    previous = Some(membership.user_id.clone());
                }
            }
        }
        self.floor.change_all(|seat| {
            let whose = seat.user_id.as_str();
            if let Some((at, role)) = &mut seat.at
                && at == campaign
            {
                if whose == user_id {
                    *role = Role::Dm;
                } else if Some(whose) == previous.as_deref() {
                    *role = Role::Player;
                }
            }
        });
        self.log.touch();
        let event = json!({
            "campaignId": campaign, "previousDmId": previous, "newDmId": user_id,
        });
        self.send_to_room(campaign, "campaign.dm.transferred", &event);
        for changed in previous.as_deref().into_iter().chain([user_id]) {
            let event =
                json!({ "action": "member.role", "userId": changed, "campaignId": campaign });
            self.send_to_room(campaign, "roster.updated", &event);
        }
        self.send_initiative(campaign);
        let map = {
            let world = self.world();
            let current = world
                .campaign(campaign)
                .and_then(|one| one.current_map_id.as_ref());
            current.and_then(|id| world.map(id)).cloned()
        };
        if let Some(map) = map {
            self.show_map(campaign, &map);
        }
    }
}
