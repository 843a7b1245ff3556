//! The sockets: connecting, and handing each event to the part it belongs to.

mod budget;
mod characters;
mod chat;
mod dice;
mod floor;
mod initiative;
mod lead;
mod maps;
mod presence;
mod tokens;

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use socketioxide::SocketIo;
use socketioxide::extract::{Event, SocketRef, TryData};

pub(crate) use dice::RollPlan;
pub(crate) use floor::{Floor, Seat};

use crate::faults::SocketFault;
use crate::hub::Hub;
use crate::rest::{Request, live_session};
use crate::world::now;

/// More open sockets of one user than this are turned away since 1.5.
const MOST_SOCKETS: usize = 40;

/// What a handler knows of the socket an event came from.
#[derive(Debug, Clone)]
pub(crate) struct From {
    pub(crate) seat: Seat,
    /// The event's argument; none when it was sent without.
    pub(crate) payload: Option<Value>,
}

impl From {
    /// A field of the argument; null when there is none.
    pub(crate) fn field(&self, name: &str) -> &Value {
        const NOTHING: &Value = &Value::Null;
        self.payload
            .as_ref()
            .and_then(|payload| payload.get(name))
            .unwrap_or(NOTHING)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.field(name).as_str()
    }
}

/// Lets sockets in.
pub(crate) fn open(io: &SocketIo, hub: &Arc<Hub>) {
    let hub = hub.clone();
    io.ns("/", move |socket: SocketRef| enter(hub.clone(), socket));
}

async fn enter(hub: Arc<Hub>, socket: SocketRef) {
    // The handlers are attached only after this look-up, so what a client sends
    // meanwhile is lost, as it is at a real server.
    tokio::time::sleep(hub.options.connect_delay).await;
    let lost = |fault: &SocketFault| matches!(fault, SocketFault::NeverConnected).then_some(());
    if hub.faults.for_socket(lost).is_some() {
        return;
    }
    let Some((session, user_id)) = welcome(&hub, &socket) else {
        turn_away(socket, "Unauthorized");
        return;
    };
    if !hub.version().is_old() && hub.floor.count(&user_id) >= MOST_SOCKETS {
        let sentence = "Too many CozyVTT tabs or devices are open. Close one and try again.";
        turn_away(socket, sentence);
        return;
    }
    let sid = socket.id;
    hub.floor.add(Seat::new(socket.clone(), &user_id, &session));
    let listener = hub.clone();
    socket.on_fallback(
        move |socket: SocketRef, Event(name): Event, TryData(data): TryData<Value>| {
            // Done here and not in the future, which would be spawned: events keep
            // the order they came in.
            receive(&listener, &socket, &name, data.ok());
            ready(())
        },
    );
    let listener = hub.clone();
    socket.on_disconnect(move || {
        presence::leave(&listener, sid);
        ready(())
    });
    let hello = json!({ "userId": user_id, "timestamp": now() });
    hub.send(&socket, "connected", &hello);
    let garbage = hub.faults.for_socket(|fault| match fault {
        SocketFault::Garbage(text) => Some(text.clone()),
        _ => None,
    });
    if let Some(text) = garbage {
        hub.lines.send_to(sid.as_str(), &text);
    }
}

/// The session and the user behind a new socket.
fn welcome(hub: &Hub, socket: &SocketRef) -> Option<(String, String)> {
    let request = socket.req_parts().extensions.get::<Request>()?;
    let (session, sign_in) = live_session(hub, request.session.as_deref()?)?;
    let world = hub.world();
    let user = world.user(&sign_in.user_id)?;
    (!sign_in.mfa_pending && !user.must_change_password).then(|| (session, user.id.clone()))
}

/// An `error`, then the end of the connection.
fn turn_away(socket: SocketRef, sentence: &str) {
    socket.emit("error", &json!({ "message": sentence })).ok();
    socket.disconnect().ok();
}

fn receive(hub: &Arc<Hub>, socket: &SocketRef, event: &str, payload: Option<Value>) {
    let swallowed = hub.faults.for_socket(|fault| match fault {
        SocketFault::Swallow(name) if name == event => Some(()),
        _ => None,
    });
    if swallowed.is_some() {
        return;
    }
    let delay = hub.faults.for_socket(|fault| match fault {
        SocketFault::DelayEvent(name, delay) if name == event => Some(*delay),
        _ => None,
    });
    match delay {
        None => dispatch(hub, socket, event, payload),
        Some(delay) => later(
            hub.clone(),
            socket.clone(),
            event.to_owned(),
            payload,
            delay,
        ),
    }
}

fn later(hub: Arc<Hub>, socket: SocketRef, event: String, payload: Option<Value>, delay: Duration) {
    tokio::spawn(async move {
        tokio::time::sleep(delay).await;
        dispatch(&hub, &socket, &event, payload);
    });
}

/// Events are taken up in the order they came; those that write tokens or
/// sheets then go on by themselves, so that two of them can overlap.
fn dispatch(hub: &Arc<Hub>, socket: &SocketRef, event: &str, payload: Option<Value>) {
    let Some(seat) = hub.floor.seat(socket.id) else {
        return;
    };
    let from = From { seat, payload };
    match event {
        "authenticate" => presence::authenticate(hub, &from),
        "presence.request" => presence::request(hub, &from),
        "ping" => hub.send(socket, "pong", &json!({ "timestamp": now() })),
        "chat.message" => chat::message(hub, &from),
        "dice.roll" => dice::roll(hub, &from),
        "dice.clearHistory" => dice::clear_history(hub, &from),
        "map.change" => maps::change(hub, &from),
        "token.move.start" => tokens::start(hub, &from),
        "token.move" => tokens::frame(hub, &from),
        "token.move.end" => {
            let hub = hub.clone();
            tokio::spawn(async move { tokens::end(&hub, &from).await });
        }
        "character.hp.update" => {
            let hub = hub.clone();
            tokio::spawn(async move { characters::change_hp(&hub, &from).await });
        }
        "character.hitdice.spend" if !hub.version().is_old() => {
            let hub = hub.clone();
            tokio::spawn(async move { characters::spend_hit_die(&hub, &from).await });
        }
        other => {
            if let Some(action) = other.strip_prefix("initiative.") {
                initiative::event(hub, from, action);
            }
            // Anything else is unknown, and unknown events get no answer.
        }
    }
}

impl Hub {
    /// Sends one event to one socket.
    pub(crate) fn send(&self, socket: &SocketRef, event: &str, payload: &Value) {
        if !self.withholds(event) {
            // Fails only when the socket has just gone.
            socket.emit(event, payload).ok();
        }
    }

    fn withholds(&self, event: &str) -> bool {
        let withheld = self.faults.for_socket(|fault| match fault {
            SocketFault::Withhold(name) if name == event => Some(()),
            _ => None,
        });
        withheld.is_some()
    }

    /// Tells one socket what went wrong.
    pub(crate) fn refuse(&self, from: &From, sentence: &str) {
        self.send(&from.seat.socket, "error", &json!({ "message": sentence }));
    }

    /// Sends an event to everybody at a campaign.
    pub(crate) fn send_to_room(&self, campaign: &str, event: &str, payload: &Value) {
        self.send_to(campaign, event, |_| Some(payload.clone()));
    }

    /// Sends an event to those at a campaign for whom `payload` has something.
    pub(crate) fn send_to(
        &self,
        campaign: &str,
        event: &str,
        payload: impl Fn(&Seat) -> Option<Value>,
    ) {
        for seat in self.floor.room(campaign) {
            if let Some(payload) = payload(&seat) {
                self.send(&seat.socket, event, &payload);
            }
        }
    }

    /// An event without an argument, to everybody at a campaign.
    pub(crate) fn send_bare(&self, campaign: &str, event: &str) {
        for seat in self.floor.room(campaign) {
            if !self.withholds(event) {
                // An empty tuple becomes no argument at all, where `()` would be null.
                seat.socket.emit(event, &[(); 0]).ok();
            }
        }
    }
}
