//! A server made of captured frames: a bare WebSocket that plays a script, and
//! just enough REST for a daemon to get that far.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use axum::Router;
use axum::body::to_bytes;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::SET_COOKIE;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::PATIENCE;
use crate::captures::{Section, Side};

/// What a client needs no instruction for, and is therefore waited for when a
/// capture is played; whatever else the watched client did is left out.
const OWN_ACCORD: [&str; 3] = [
    r#"42["authenticate","#,
    r#"42["initiative.request_state"]"#,
    "3",
];

/// One step of a script.
#[derive(Debug, Clone)]
pub enum Step {
    /// Sends this text.
    Send(String),
    /// Waits until the client has sent this text, now or after the one waited
    /// for before.
    Await(String),
    /// Waits until the test lets it go on.
    Hold(Arc<Notify>),
    /// Closes the WebSocket.
    Close,
}

/// Sends a text.
pub fn send(text: impl Into<String>) -> Step {
    Step::Send(text.into())
}

/// Waits for a text.
pub fn wait(text: impl Into<String>) -> Step {
    Step::Await(text.into())
}

/// Plays a captured connection: the server's frames as they are, and before
/// what followed them the frames that a client sends of its own accord.
pub fn script(section: &Section) -> Vec<Step> {
    let frames = section.frames.iter();
    frames
        .filter_map(|frame| match frame.from {
            Side::Server => Some(send(frame.text)),
            Side::Client => (frame.text == "40"
                || OWN_ACCORD.iter().any(|own| frame.text.starts_with(own)))
            .then(|| wait(frame.text)),
        })
        .collect()
}

/// The account and the campaign that the scripts speak of.
#[derive(Debug, Clone)]
pub struct Cast {
    /// The user's id.
    pub user: String,
    /// The campaign's id.
    pub campaign: String,
}

impl Cast {
    /// Those of a capture in which a client was accepted.
    pub fn of(section: &Section) -> Self {
        let accepted = section.first("authenticated");
        let text = |key: &str| accepted[key].as_str().unwrap_or_default().to_owned();
        Self {
            user: text("userId"),
            campaign: text("campaignId"),
        }
    }
}

/// A request that came in.
#[derive(Debug, Clone)]
pub struct Asked {
    /// When.
    pub at: Instant,
    /// Its method.
    pub method: String,
    /// Its path, with the base path.
    pub path: String,
    /// Its query.
    pub query: String,
    /// Its header fields.
    pub headers: Vec<(String, String)>,
    /// The newest cookie that was given out before it.
    pub newest_cookie: Option<String>,
}

impl Asked {
    /// A header field.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

/// A frame that came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// The connection, counted from 1.
    pub connection: usize,
    /// The text.
    pub text: String,
}

#[derive(Debug, Default)]
struct Notes {
    asked: Vec<Asked>,
    heard: Vec<Heard>,
    connections: usize,
    played: usize,
    cookies: u64,
}

#[derive(Debug)]
struct Shared {
    base: String,
    cast: Cast,
    /// One for each connection; the last one is played again and again.
    scripts: Mutex<VecDeque<Vec<Step>>>,
    notes: Mutex<Notes>,
}

impl Shared {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_script(&self) -> Vec<Step> {
        let mut scripts = self.scripts.lock().unwrap_or_else(PoisonError::into_inner);
        match scripts.len() {
            0 | 1 => scripts.front().cloned().unwrap_or_default(),
            _ => scripts.pop_front().unwrap_or_default(),
        }
    }
}

/// The server. It is gone when this value goes.
#[derive(Debug)]
pub struct Peer {
    url: String,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Peer {
    /// Serves under `base` (empty, or with a leading slash). Each connection
    /// plays the next script, the last one again and again.
    pub async fn start(base: &str, cast: Cast, scripts: Vec<Vec<Step>>) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}{base}", listener.local_addr()?);
        let shared = Arc::new(Shared {
            base: base.to_owned(),
            cast,
            scripts: Mutex::new(scripts.into()),
            notes: Mutex::default(),
        });
        let router = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move {
            // It ends with the test.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self {
            url,
            shared,
            server,
        })
    }

    /// The address to give a client.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The requests so far, handshakes among them.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.notes().asked.clone()
    }

    /// The requests of one method and path (without the base path).
    pub fn asked_for(&self, method: &str, path: &str) -> Vec<Asked> {
        let path = format!("{}{path}", self.shared.base);
        let mut asked = self.asked();
        asked.retain(|one| one.method == method && one.path == path);
        asked
    }

    /// The WebSocket handshakes so far.
    pub fn handshakes(&self) -> Vec<Asked> {
        self.asked_for("GET", "/socket.io/")
    }

    /// The frames so far.
    pub fn heard(&self) -> Vec<Heard> {
        self.shared.notes().heard.clone()
    }

    /// How many scripts were played to their end.
    pub fn played(&self) -> usize {
        self.shared.notes().played
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    // Nobody looks at the bodies, but they have to be taken.
    let _ = to_bytes(body, 1 << 20).await;
    let path = parts.uri.path().to_owned();
    let method = parts.method.as_str().to_owned();
    let headers = parts
        .headers
        .iter()
        .map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.as_str().to_owned(), value)
        })
        .collect();
    {
        let mut notes = shared.notes();
        let newest_cookie = (notes.cookies > 0).then(|| cookie(notes.cookies));
        notes.asked.push(Asked {
            at: Instant::now(),
            method: method.clone(),
            path: path.clone(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            headers,
            newest_cookie,
        });
    }
    let Some(path) = path.strip_prefix(&shared.base) else {
        return missing();
    };
    match (path, upgrade) {
        ("/socket.io/", Ok(upgrade)) => {
            let script = shared.next_script();
            let connection = {
                let mut notes = shared.notes();
                notes.connections += 1;
                notes.connections
            };
            upgrade.on_upgrade(move |socket| async move {
                let player = Player {
                    socket,
                    connection,
                    heard: VecDeque::new(),
                    shared,
                };
                player.play(script).await;
            })
        }
        _ => rest(&shared, &method, path),
    }
}

fn cookie(number: u64) -> String {
    format!("cozyvtt.sid=s%3Apeer.{number}")
}

fn missing() -> Response {
    let body = json!({"error": "Not Found", "message": "The requested resource does not exist"});
    (StatusCode::NOT_FOUND, body.to_string()).into_response()
}

fn rest(shared: &Shared, method: &str, path: &str) -> Response {
    let Cast { user, campaign } = &shared.cast;
    let body: Value = match (method, path) {
        ("POST", "/api/auth/login") => json!({
            "message": "Login successful",
            "user": {"id": user, "email": "captured@table.example", "displayName": "Captured"},
            "mustChangePassword": false,
        }),
        ("GET", "/api/auth/ping") => json!({"ok": true}),
        ("GET", path) if path == format!("/api/campaigns/{campaign}") => json!({
            "campaign": {"id": campaign, "name": "Captured", "ownerId": user, "userRole": "DM"},
        }),
        _ => return missing(),
    };
    let number = {
        let mut notes = shared.notes();
        notes.cookies += 1;
        notes.cookies
    };
    let cookie = format!("{}; Path=/; HttpOnly; SameSite=Lax", cookie(number));
    ([(SET_COOKIE, cookie)], body.to_string()).into_response()
}

/// One connection on which a script is played.
struct Player {
    socket: WebSocket,
    connection: usize,
    /// Frames that no step has waited for yet.
    heard: VecDeque<String>,
    shared: Arc<Shared>,
}

impl Player {
    async fn play(mut self, script: Vec<Step>) {
        for step in script {
            let went_well = match step {
                Step::Send(text) => self.socket.send(Message::Text(text.into())).await.is_ok(),
                Step::Await(text) => self.wait_for(&text).await,
                Step::Hold(gate) => {
                    gate.notified().await;
                    true
                }
                Step::Close => self.socket.send(Message::Close(None)).await.is_ok(),
            };
            if !went_well {
                return;
            }
        }
        self.shared.notes().played += 1;
        while self.listen().await {}
    }

    async fn wait_for(&mut self, text: &str) -> bool {
        let waiting = async {
            loop {
                while let Some(heard) = self.heard.pop_front() {
                    if heard == text {
                        return true;
                    }
                }
                if !self.listen().await {
                    return false;
                }
            }
        };
        timeout(PATIENCE, waiting).await.unwrap_or(false)
    }

    /// Takes one message in; false when there will be no more.
    async fn listen(&mut self) -> bool {
        match self.socket.recv().await {
            Some(Ok(Message::Text(text))) => {
                let text = text.as_str().to_owned();
                self.shared.notes().heard.push(Heard {
                    connection: self.connection,
                    text: text.clone(),
                });
                self.heard.push_back(text);
                true
            }
            Some(Ok(Message::Close(_)) | Err(_)) | None => false,
            Some(Ok(_)) => true,
        }
    }
}
