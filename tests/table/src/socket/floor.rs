//! The sockets at the table and where each of them sits.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::json;
use socketioxide::extract::SocketRef;
use socketioxide::socket::Sid;

use super::budget::Budgets;
use crate::lock;
use crate::world::Role;

/// One socket and what it stands for.
#[derive(Debug, Clone)]
pub(crate) struct Seat {
    pub(crate) socket: SocketRef,
    pub(crate) user_id: String,
    /// The session the socket was opened with.
    pub(crate) session: String,
    /// The campaign it acts at, and as what.
    pub(crate) at: Option<(String, Role)>,
    /// The campaigns whose events it gets: in 1.1.2 also those it left.
    pub(crate) rooms: Vec<String>,
}

impl Seat {
    pub(crate) fn new(socket: SocketRef, user_id: &str, session: &str) -> Self {
        Self {
            socket,
            user_id: user_id.to_owned(),
            session: session.to_owned(),
            at: None,
            rooms: Vec::new(),
        }
    }

    /// Its role at a campaign.
    pub(crate) fn role_at(&self, campaign: &str) -> Role {
        match &self.at {
            Some((at, role)) if at == campaign => *role,
            _ => Role::Spectator,
        }
    }

    /// Whether two seats are the same socket.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.socket.id == other.socket.id
    }
}

/// All sockets, and how much each user has sent lately.
#[derive(Debug, Default)]
pub(crate) struct Floor {
    seats: Mutex<HashMap<Sid, Seat>>,
    pub(crate) budgets: Budgets,
}

impl Floor {
    pub(crate) fn add(&self, seat: Seat) {
        lock(&self.seats).insert(seat.socket.id, seat);
    }

    pub(crate) fn remove(&self, sid: Sid) -> Option<Seat> {
        lock(&self.seats).remove(&sid)
    }

    pub(crate) fn seat(&self, sid: Sid) -> Option<Seat> {
        lock(&self.seats).get(&sid).cloned()
    }

    /// Everybody, in no order.
    pub(crate) fn all(&self) -> Vec<Seat> {
        lock(&self.seats).values().cloned().collect()
    }

    /// Everybody who gets a campaign's events.
    pub(crate) fn room(&self, campaign: &str) -> Vec<Seat> {
        let mut seats = self.all();
        seats.retain(|seat| seat.rooms.iter().any(|room| room == campaign));
        seats
    }

    /// How many sockets a user has open.
    pub(crate) fn count(&self, user_id: &str) -> usize {
        let seats = lock(&self.seats);
        seats
            .values()
            .filter(|seat| seat.user_id == user_id)
            .count()
    }

    /// Changes one seat.
    pub(crate) fn change(&self, sid: Sid, change: impl FnOnce(&mut Seat)) {
        if let Some(seat) = lock(&self.seats).get_mut(&sid) {
            change(seat);
        }
    }

    /// Changes all seats.
    pub(crate) fn change_all(&self, change: impl Fn(&mut Seat)) {
        lock(&self.seats).values_mut().for_each(change);
    }

    /// Ends the sockets of a session with a sentence.
    pub(crate) fn end_session(&self, session: &str, sentence: &str) {
        for seat in self.all() {
            if seat.session == session {
                let error = json!({ "message": sentence });
                seat.socket.emit("error", &error).ok();
                seat.socket.disconnect().ok();
            }
        }
    }

    /// Forgets everybody, and what they sent.
    pub(crate) fn clear(&self) {
        lock(&self.seats).clear();
        self.budgets.clear();
    }

    /// Whether a user is within a budget; counts the attempt.
    pub(crate) fn within(
        &self,
        user_id: &str,
        what: &'static str,
        most: u32,
        window: Duration,
    ) -> bool {
        self.budgets.spend(user_id, what, most, window)
    }
}
