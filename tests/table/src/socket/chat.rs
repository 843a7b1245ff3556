//! Chat messages.

use std::time::Duration;

use serde_json::{Value, json};

use super::From;
use crate::hub::Hub;
use crate::world::{LineKind, Role, length, trimmed};

/// The longest message, in UTF-16 code units of the text as sent.
const LONGEST: usize = 2000;

/// `chat.message {content, type}`
pub(super) fn message(hub: &Hub, from: &From) {
    let Some((campaign, role)) = from.seat.at.clone() else {
        return hub.refuse(from, "Not authenticated to a campaign");
    };
    let content = from.text("content").unwrap_or_default();
    if trimmed(content).is_empty() {
        return hub.refuse(from, "Message content required");
    }
    if length(content) > LONGEST {
        return hub.refuse(from, "Message too long. Maximum 2000 characters.");
    }
    let Some(kind) = kind(from.field("type"), role, hub.version().is_old()) else {
        return hub.refuse(from, "Invalid message type. Must be PLAYER or DM.");
    };
    let user = &from.seat.user_id;
    let minute = Duration::from_secs(60);
    let ceiling = "Too many chat messages at once. Try again in a moment.";
    if !hub.under_ceiling(from, "chat per second", 50, ceiling) {
        return;
    }
    if !hub.version().is_old() && !hub.floor.within(user, "chat per minute", 300, minute) {
        return hub.tell_ceiling(from, "chat per second", ceiling);
    }
    let cooldown = hub
        .world()
        .campaign(&campaign)
        .and_then(|one| one.chat_cooldown);
    if let Some(seconds) = cooldown {
        let wait = Duration::from_secs(seconds.into());
        if !hub.floor.within(user, "chat cooldown", 1, wait) {
            let sentence = format!("Rate limit: wait {seconds}s between messages.");
            return hub.refuse(from, &sentence);
        }
    }
    hub.say(&campaign, user, kind, trimmed(content));
}

/// Who decides about the type: 1.1.2 believes the client, later the role counts.
fn kind(sent: &Value, role: Role, old: bool) -> Option<LineKind> {
    let asked = match sent.as_str() {
        Some("PLAYER") => Some(LineKind::Player),
        Some("DM") => Some(LineKind::Dm),
        _ if old || !sent.is_null() => return None,
        _ => None,
    };
    if old {
        return asked;
    }
    Some(match (role, asked) {
        (Role::Dm, None | Some(LineKind::Dm)) => LineKind::Dm,
        _ => LineKind::Player,
    })
}

impl Hub {
    /// Writes a chat line and tells the table.
    pub(crate) fn say(&self, campaign: &str, user: &str, kind: LineKind, content: &str) {
        let mut world = self.world();
        let line = world.write_line(campaign, Some(user), kind, content, Value::Null);
        let event = json!({
            "id": line.id,
            "userId": user,
            "userName": world.user(user).map(|user| &user.display_name),
            "content": line.content,
            "type": line.kind.as_str(),
            "timestamp": line.created_at,
        });
        drop(world);
        self.send_to_room(campaign, "chat.message", &event);
        self.log.touch();
    }
}
