//! Faults that a test switches on and off, each counting how often it fired.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::limits::{Counter, Limits};
use crate::lock;
use crate::relay::Lines;

/// What goes wrong with an HTTP request.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The request is handled after this long.
    Delay(Duration),
    /// The line is cut before the request is handled: nothing happened.
    HangUpBefore,
    /// The line is cut first and the request handled then: for a while it is
    /// still happening, and nobody is told.
    HangUpMeanwhile,
    /// The request is handled and the line cut: it happened, nobody is told.
    HangUpAfter,
    /// The request is handled, and the line cut in the middle of the answer.
    CutMidAnswer,
    /// The request is handled; the answer's body ends in the middle of its JSON.
    TruncatedJson,
    /// The request is handled; a page of HTML comes back with the right status.
    Html,
    /// The request is handled; every value of the answer has another type.
    WrongTypes,
    /// The request is handled; the answer carries this many bytes more.
    BigBody(usize),
    /// The request is not handled: this comes back instead.
    Answer(Reply),
    /// The session is forgotten first, so the request comes from a stranger.
    ForgetSession,
    /// All sockets are closed first, then the request is handled.
    CloseSockets,
}

/// A ready-made answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// Header fields, `Content-Type` among them.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Reply {
    /// A JSON answer.
    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        Self::text(status, "application/json; charset=utf-8", body.to_string())
    }

    /// An answer of any content type.
    pub fn text(status: u16, content_type: &str, body: impl Into<String>) -> Self {
        Self {
            status,
            headers: vec![("Content-Type".to_owned(), content_type.to_owned())],
            body: body.into(),
        }
    }

    /// Adds a header field.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl ToString) -> Self {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }
}

impl Fault {
    /// A bare status with the server's usual error shape.
    pub fn status(status: u16) -> Self {
        let body = serde_json::json!({
            "error": "Injected",
            "message": format!("The table was told to answer {status}"),
        });
        Self::Answer(Reply::json(status, &body))
    }

    /// The plain-text 429 of the login limiter, to be tried again after `seconds`.
    pub fn too_many_logins(seconds: u64) -> Self {
        Self::Answer(
            Reply::text(
                429,
                "text/html; charset=utf-8",
                crate::rest::TOO_MANY_LOGINS,
            )
            .header("Retry-After", seconds),
        )
    }
}

/// What goes wrong with a socket.
#[derive(Debug, Clone)]
pub enum SocketFault {
    /// The handshake is answered with this status.
    RefuseHandshake(u16),
    /// The client is never told `connected`; its events are lost.
    NeverConnected,
    /// `authenticate` gets no answer.
    NeverAuthenticated,
    /// `authenticate` is answered by an `error` with this sentence.
    AuthenticateError(String),
    /// This text is sent as a frame right after `connected`.
    Garbage(String),
    /// Events of this name from clients are lost, as those over a limit are.
    Swallow(String),
    /// Events of this name are handled this much later.
    DelayEvent(String, Duration),
    /// Events of this name happen, but clients are not told.
    Withhold(String),
}

#[derive(Debug)]
enum Trap {
    Route {
        method: String,
        path: Vec<String>,
        fault: Fault,
    },
    Socket(SocketFault),
}

#[derive(Debug)]
struct Armament {
    trap: Trap,
    on: AtomicBool,
    /// How often it may still fire; `u64::MAX` is for ever.
    left: AtomicU64,
    fired: AtomicU64,
}

impl Armament {
    fn fire(&self) -> bool {
        if !self.on.load(Ordering::SeqCst) {
            return false;
        }
        let allowed = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| match left {
                0 => None,
                u64::MAX => Some(u64::MAX),
                some => Some(some - 1),
            })
            .is_ok();
        if allowed {
            self.fired.fetch_add(1, Ordering::SeqCst);
        }
        allowed
    }
}

/// A fault that was switched on. Dropping it leaves the fault on.
#[derive(Debug, Clone)]
pub struct Armed(Arc<Armament>);

impl Armed {
    /// Lets the fault fire only this many more times.
    #[must_use = "the fault stays on; the handle counts and switches it off"]
    pub fn times(self, times: u64) -> Self {
        self.0.left.store(times, Ordering::SeqCst);
        self
    }

    /// How often it fired.
    pub fn fired(&self) -> u64 {
        self.0.fired.load(Ordering::SeqCst)
    }

    /// Switches it off.
    pub fn off(&self) {
        self.0.on.store(false, Ordering::SeqCst);
    }

    /// Switches it on again.
    pub fn on(&self) {
        self.0.on.store(true, Ordering::SeqCst);
    }
}

struct Inner {
    armed: Mutex<Vec<Arc<Armament>>>,
    refusing: AtomicBool,
    refused: AtomicU64,
    limits: Arc<Limits>,
    lines: Arc<Lines>,
}

/// The switchboard of the faults. Clones share it.
#[derive(Clone)]
pub struct Faults(Arc<Inner>);

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Faults").field(&lock(&self.0.armed)).finish()
    }
}

impl Faults {
    pub(crate) fn new(limits: Arc<Limits>, lines: Arc<Lines>) -> Self {
        Self(Arc::new(Inner {
            armed: Mutex::default(),
            refusing: AtomicBool::new(false),
            refused: AtomicU64::new(0),
            limits,
            lines,
        }))
    }

    /// Arms `fault` for the requests of `method` (`*` for all) to `path`, which
    /// is written without the base path; a `*` stands for one segment and a
    /// final `**` for any number: `/api/campaigns/*/maps/**`.
    #[must_use = "the fault stays on; the handle counts and switches it off"]
    pub fn route(&self, method: &str, path: &str, fault: Fault) -> Armed {
        self.arm(Trap::Route {
            method: method.to_owned(),
            path: segments(path).map(str::to_owned).collect(),
            fault,
        })
    }

    /// Arms a fault of the sockets.
    #[must_use = "the fault stays on; the handle counts and switches it off"]
    pub fn socket(&self, fault: SocketFault) -> Armed {
        self.arm(Trap::Socket(fault))
    }

    fn arm(&self, trap: Trap) -> Armed {
        let armament = Arc::new(Armament {
            trap,
            on: AtomicBool::new(true),
            left: AtomicU64::new(u64::MAX),
            fired: AtomicU64::new(0),
        });
        lock(&self.0.armed).push(armament.clone());
        Armed(armament)
    }

    /// Switches every fault off and takes connections again.
    pub fn clear(&self) {
        for armament in lock(&self.0.armed).drain(..) {
            armament.on.store(false, Ordering::SeqCst);
        }
        self.refuse_connections(false);
    }

    /// While on, every new connection is dropped the moment it is made. For
    /// "connection refused" pause the table instead.
    pub fn refuse_connections(&self, on: bool) {
        self.0.refusing.store(on, Ordering::SeqCst);
    }

    /// How many connections were dropped so.
    pub fn refused_connections(&self) -> u64 {
        self.0.refused.load(Ordering::SeqCst)
    }

    /// Forgets every count of the request limiters.
    pub fn reset_limits(&self) {
        self.0.limits.reset();
    }

    /// Changes how many sign-ins a window allows.
    pub fn login_limit(&self, limit: u32) {
        self.0.limits.set(Counter::Login, limit);
    }

    /// Changes how many requests to `/api` a window allows.
    pub fn api_limit(&self, limit: u32) {
        self.0.limits.set(Counter::Api, limit);
    }

    /// Changes how many uploads and new documents a window allows a user.
    pub fn upload_limit(&self, limit: u32) {
        self.0.limits.set(Counter::Upload, limit);
    }

    /// Sends `text` as a frame on every open WebSocket, now.
    pub fn send_frame(&self, text: &str) {
        self.0.lines.send_all(text);
    }

    /// Cuts every connection, HTTP and WebSocket alike, without a word.
    pub fn cut_lines(&self) {
        self.0.lines.cut_all();
    }

    pub(crate) fn refuses_connection(&self) -> bool {
        let refusing = self.0.refusing.load(Ordering::SeqCst);
        if refusing {
            self.0.refused.fetch_add(1, Ordering::SeqCst);
        }
        refusing
    }

    /// The faults that fire for this request, in the order they were armed.
    pub(crate) fn for_request(&self, method: &str, path: &str) -> Vec<Fault> {
        let armed = lock(&self.0.armed).clone();
        armed
            .iter()
            .filter_map(|one| match &one.trap {
                Trap::Route {
                    method: wanted,
                    path: pattern,
                    fault,
                } if (wanted == "*" || wanted == method) && matches(pattern, path) => {
                    one.fire().then(|| fault.clone())
                }
                _ => None,
            })
            .collect()
    }

    /// What `pick` makes of the first socket fault it takes, which then fires.
    pub(crate) fn for_socket<T>(&self, pick: impl Fn(&SocketFault) -> Option<T>) -> Option<T> {
        let armed = lock(&self.0.armed).clone();
        armed.iter().find_map(|one| match &one.trap {
            Trap::Socket(fault) => pick(fault).filter(|_| one.fire()),
            Trap::Route { .. } => None,
        })
    }
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

fn matches(pattern: &[String], path: &str) -> bool {
    let mut rest = segments(path);
    for part in pattern {
        match part.as_str() {
            "**" => return true,
            "*" => {
                if rest.next().is_none() {
                    return false;
                }
            }
            literal => {
                if rest.next() != Some(literal) {
                    return false;
                }
            }
        }
    }
    rest.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, path: &str) -> bool {
        let pattern: Vec<String> = segments(pattern).map(str::to_owned).collect();
        matches(&pattern, path)
    }

    #[test]
    fn a_star_is_one_segment_and_two_are_the_rest() {
        assert!(fits("/api/campaigns", "/api/campaigns"));
        assert!(!fits("/api/campaigns", "/api/campaigns/7"));
        assert!(fits("/api/campaigns/*/maps", "/api/campaigns/7/maps"));
        assert!(!fits("/api/campaigns/*", "/api/campaigns"));
        assert!(fits("/api/**", "/api/campaigns/7/maps"));
        assert!(fits("/api/**", "/api"));
    }
}
