//! Sitting down at a campaign, getting up again, and who is there.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use socketioxide::socket::Sid;

use super::{From, Seat};
use crate::faults::SocketFault;
use crate::hub::Hub;
use crate::rest::live_session;
use crate::world::{LineKind, Role, now};

const NO_MEMBER: &str = "You are not a member of this campaign";

/// `authenticate {campaignId}`
pub(super) fn authenticate(hub: &Arc<Hub>, from: &From) {
    let silent =
        |fault: &SocketFault| matches!(fault, SocketFault::NeverAuthenticated).then_some(());
    if hub.faults.for_socket(silent).is_some() {
        return;
    }
    let injected = hub.faults.for_socket(|fault| match fault {
        SocketFault::AuthenticateError(sentence) => Some(sentence.clone()),
        _ => None,
    });
    if let Some(sentence) = injected {
        hub.refuse(from, &sentence);
        return;
    }
    let old = hub.version().is_old();
    let ten = Duration::from_secs(10);
    if !old
        && !hub
            .floor
            .within(&from.seat.user_id, "authenticate", 50, ten)
    {
        let sentence = "Too many attempts to join a campaign at once. Try again in a moment.";
        hub.tell_ceiling(from, "authenticate", sentence);
        return;
    }
    if !old && live_session(hub, &from.seat.session).is_none() {
        hub.refuse(from, "Unauthorized");
        from.seat.socket.clone().disconnect().ok();
        return;
    }
    let campaign = match &from.payload {
        None | Some(Value::Null) => return hub.refuse(from, "Authentication failed"),
        Some(payload) => payload["campaignId"].as_str().filter(|id| !id.is_empty()),
    };
    let Some(campaign) = campaign else {
        return hub.refuse(from, "Campaign ID required");
    };
    let role = {
        let world = hub.world();
        if world.campaign(campaign).is_none() {
            drop(world);
            return hub.refuse(from, "Campaign not found");
        }
        world.role(campaign, &from.seat.user_id)
    };
    let Some(role) = role else {
        return hub.refuse(from, NO_MEMBER);
    };
    sit_down(hub, from, campaign, role);
}

fn sit_down(hub: &Hub, from: &From, campaign: &str, role: Role) {
    let old = hub.version().is_old();
    let seat = &from.seat;
    let left = seat
        .at
        .clone()
        .map(|(left, _)| left)
        .filter(|left| !old && left != campaign);
    let again = seat.at.as_ref().is_some_and(|(at, _)| at == campaign);
    hub.floor.change(seat.socket.id, |seat| {
        seat.at = Some((campaign.to_owned(), role));
        if !old {
            seat.rooms.clear();
        }
        if !seat.rooms.iter().any(|room| room == campaign) {
            seat.rooms.push(campaign.to_owned());
        }
    });
    if let Some(left) = left {
        farewell(hub, seat, &left);
    }
    let answer = json!({
        "userId": seat.user_id,
        "campaignId": campaign,
        "role": role.as_str(),
        "timestamp": now(),
    });
    hub.send(&seat.socket, "authenticated", &answer);
    hub.log.touch();
    if again && !old {
        hub.send(&seat.socket, "presence.state", &state(hub, campaign));
        return;
    }
    if old {
        announce(hub, campaign, &seat.user_id, "joined");
    }
    let joined = json!({ "userId": seat.user_id, "timestamp": now() });
    hub.send_to(campaign, "user.joined", |other| {
        (!other.is(seat)).then(|| joined.clone())
    });
    if !old {
        hub.send_to_room(campaign, "presence.state", &state(hub, campaign));
    }
}

/// A socket has gone.
pub(super) fn leave(hub: &Hub, sid: Sid) {
    // After a stop the floor is already empty, and nobody is left to be told.
    let Some(seat) = hub.floor.remove(sid) else {
        return;
    };
    if let Some((campaign, _)) = seat.at.clone() {
        farewell(hub, &seat, &campaign);
    }
    hub.log.touch();
}

fn farewell(hub: &Hub, seat: &Seat, campaign: &str) {
    let old = hub.version().is_old();
    if old {
        announce(hub, campaign, &seat.user_id, "left");
    }
    let left = json!({ "userId": seat.user_id, "timestamp": now() });
    hub.send_to(campaign, "user.left", |other| {
        (!other.is(seat)).then(|| left.clone())
    });
    if !old {
        hub.send_to_room(campaign, "presence.state", &state(hub, campaign));
    }
}

/// The line 1.1.2 writes into the chat whenever a socket comes or goes.
fn announce(hub: &Hub, campaign: &str, user_id: &str, what: &str) {
    let name = hub
        .world()
        .user(user_id)
        .map_or_else(String::new, |user| user.display_name.clone());
    let content = format!("{name} has {what} the campaign.");
    let metadata = json!({ "userId": user_id, "action": format!("user.{what}") });
    hub.system_line(campaign, &content, &metadata);
}

/// The full set of those who are there.
fn state(hub: &Hub, campaign: &str) -> Value {
    let online: BTreeSet<String> = hub
        .floor
        .room(campaign)
        .into_iter()
        .map(|seat| seat.user_id)
        .collect();
    json!({ "campaignId": campaign, "onlineUserIds": online })
}

/// `presence.request`
pub(super) fn request(hub: &Hub, from: &From) {
    let Some((campaign, _)) = &from.seat.at else {
        return;
    };
    let second = Duration::from_secs(1);
    let allowed = hub
        .floor
        .within(&from.seat.user_id, "presence.request", 5, second);
    if !hub.version().is_old() && allowed {
        hub.send(&from.seat.socket, "presence.state", &state(hub, campaign));
    }
}

impl Hub {
    /// Writes a line of the system's own and tells the table.
    pub(crate) fn system_line(&self, campaign: &str, content: &str, metadata: &Value) {
        let line =
            self.world()
                .write_line(campaign, None, LineKind::System, content, metadata.clone());
        let event = json!({
            "id": line.id,
            "content": line.content,
            "metadata": line.metadata,
            "timestamp": line.created_at,
        });
        self.send_to_room(campaign, "chat.system", &event);
    }

    /// Takes a membership away. Only since 1.5 do the sockets hear of it.
    pub(crate) fn remove_member(&self, campaign: &str, user_id: &str) {
        if let Some(campaign) = self.world().campaign_mut(campaign) {
            campaign.memberships.retain(|one| one.user_id != user_id);
        }
        self.log.touch();
        if self.version().is_old() {
            return;
        }
        for seat in self.floor.room(campaign) {
            if seat.user_id == user_id {
                self.floor.change(seat.socket.id, |seat| {
                    seat.at = None;
                    seat.rooms.clear();
                });
                let sentence = "You are no longer a member of this campaign";
                self.send(&seat.socket, "error", &json!({ "message": sentence }));
            }
        }
        let left = json!({ "action": "member.left", "userId": user_id, "campaignId": campaign });
        self.send_to_room(campaign, "roster.updated", &left);
        self.send_to_room(campaign, "presence.state", &state(self, campaign));
    }

    /// Gives a member another role. Only since 1.5 do the sockets hear of it.
    pub(crate) fn set_role(&self, campaign: &str, user_id: &str, role: Role) {
        if let Some(membership) = self
            .world()
            .campaign_mut(campaign)
            .and_then(|campaign| campaign.membership_mut(user_id))
        {
            membership.role = role;
        }
        self.log.touch();
        if self.version().is_old() {
            return;
        }
        self.floor.change_all(|seat| {
            if seat.user_id == user_id
                && let Some((at, held)) = &mut seat.at
                && at == campaign
            {
                *held = role;
            }
        });
        let changed = json!({ "campaignId": campaign, "userId": user_id, "role": role.as_str() });
        self.send_to_room(campaign, "campaign.role.changed", &changed);
        let roster = json!({ "action": "member.role", "userId": user_id, "campaignId": campaign });
        self.send_to_room(campaign, "roster.updated", &roster);
    }
}
