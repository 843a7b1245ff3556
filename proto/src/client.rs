//! A client of the control socket, for programs that run on tokio.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as HttpClient;
use hyperlocal::{UnixClientExt, UnixConnector, Uri};

use crate::control::{CallProgress, Method};
use crate::event::EventRecord;
use crate::jsonrpc::{Request, Response, RpcError};
use crate::paths::CONTROL_SOCKET;

/// Largest answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// Why a call got no result.
#[derive(Debug)]
pub enum ClientError {
    /// Nobody listens on the socket, so nothing was asked.
    Unreachable {
        /// The socket that was tried.
        socket: PathBuf,
        /// What the system said.
        cause: String,
    },
    /// The connection broke after the question had left; the daemon may have
    /// acted on it.
    Broken {
        /// The socket.
        socket: PathBuf,
        /// What the system said.
        cause: String,
    },
    /// The daemon did not answer in time.
    Silent {
        /// The socket that was tried.
        socket: PathBuf,
        /// How long it was given.
        waited: Duration,
    },
    /// The daemon answered something that is no answer.
    Garbled(String),
    /// The daemon answered with an error.
    Refused(RpcError),
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable { socket, cause } => {
                write!(f, "no daemon answers at {}: {cause}", socket.display())
            }
            Self::Broken { socket, cause } => {
                write!(
                    f,
                    "the connection to the daemon at {} broke: {cause}",
                    socket.display()
                )
            }
            Self::Silent { socket, waited } => write!(
                f,
                "the daemon at {} did not answer within {} s",
                socket.display(),
                waited.as_secs()
            ),
            Self::Garbled(what) => write!(f, "the daemon's answer could not be read: {what}"),
            Self::Refused(error) => f.write_str(&error.message),
        }
    }
}

impl std::error::Error for ClientError {}

/// A client of one control socket.
#[derive(Debug, Clone)]
pub struct Client {
    socket: PathBuf,
    http: HttpClient<UnixConnector, Full<Bytes>>,
}

impl Client {
    /// A client of the control socket in `socket_dir`; nothing is connected yet.
    pub fn new(socket_dir: &Path) -> Self {
        Self {
            socket: socket_dir.join(CONTROL_SOCKET),
            http: HttpClient::unix(),
        }
    }

    /// The socket file it talks to.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Calls a method, and gives the daemon `patience` to answer.
    ///
    /// # Errors
    ///
    /// Every [`ClientError`].
    pub async fn call<M: Method>(
        &self,
        params: M::Params,
        patience: Duration,
    ) -> Result<M::Result, ClientError> {
        let body = request::<M>(params)?;
        let exchange = async {
            let response = self
                .send(
                    hyper::Request::post(Uri::new(&self.socket, "/rpc"))
                        .header("content-type", "application/json")
                        .body(Full::from(body)),
                )
                .await?;
            Limited::new(response.into_body(), MAX_ANSWER_BYTES)
                .collect()
                .await
                .map_err(|error| self.broken(error.as_ref()))
        };
        let answer = tokio::time::timeout(patience, exchange)
            .await
            .map_err(|_| ClientError::Silent {
                socket: self.socket.clone(),
                waited: patience,
            })??
            .to_bytes();
        result::<M>(&answer)
    }

    /// Calls a method as [`Client::call`], and tells `heard` how it gets on.
    ///
    /// # Errors
    ///
    /// Every [`ClientError`].
    pub async fn call_told<M: Method>(
        &self,
        params: M::Params,
        patience: Duration,
        mut heard: impl FnMut(CallProgress),
    ) -> Result<M::Result, ClientError> {
        let body = request::<M>(params)?;
        let exchange = async {
            let response = self
                .send(
                    hyper::Request::post(Uri::new(&self.socket, "/rpc"))
                        .header("content-type", "application/json")
                        .header("accept", "text/event-stream")
                        .body(Full::from(body)),
                )
                .await?;
            let told = response.headers().get("content-type").is_some_and(|kind| {
                kind.to_str()
                    .is_ok_and(|kind| kind.starts_with("text/event-stream"))
            });
            let mut body = Limited::new(response.into_body(), MAX_ANSWER_BYTES);
            if !told {
                // A daemon that is older answers at once.
                let answer = body.collect().await;
                let answer = answer.map_err(|error| self.broken(error.as_ref()))?;
                return result::<M>(&answer.to_bytes());
            }
            let mut pending = Vec::new();
            // Up to here no line ends: an answer may come in many pieces.
            let mut looked_at = 0;
            let mut is_answer = false;
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| self.broken(error.as_ref()))?;
                pending.extend_from_slice(&frame.into_data().unwrap_or_default());
                loop {
                    let unseen = &pending[looked_at..];
                    let Some(end) = unseen.iter().position(|&byte| byte == b'\n') else {
                        looked_at = pending.len();
                        break;
                    };
                    let line: Vec<u8> = pending.drain(..=looked_at + end).collect();
                    looked_at = 0;
                    if let Some(name) = line.strip_prefix(b"event:") {
                        is_answer = name.trim_ascii() == b"answer";
                    } else if let Some(data) = line.strip_prefix(b"data:") {
                        if is_answer {
                            return result::<M>(data);
                        }
                        if let Ok(progress) = serde_json::from_slice(data) {
                            heard(progress);
                        }
                    }
                }
            }
            Err(ClientError::Broken {
                socket: self.socket.clone(),
                cause: "it ended before the answer came".to_owned(),
            })
        };
        tokio::time::timeout(patience, exchange)
            .await
            .map_err(|_| ClientError::Silent {
                socket: self.socket.clone(),
                waited: patience,
            })?
    }

    /// Opens the event stream of a campaign, or of the daemon's own: with `since` first
    /// what the journal holds after it, then live; without, live only.
    ///
    /// # Errors
    ///
    /// Every [`ClientError`]; a refusal of the stream is [`ClientError::Garbled`]
    /// with the daemon's words.
    pub async fn events(
        &self,
        since: Option<u64>,
        campaign: Option<&str>,
    ) -> Result<EventStream, ClientError> {
        let since = since.map(|since| format!("since={since}"));
        let campaign = campaign.map(|id| {
            let encoded: Vec<_> = id.bytes().map(|byte| format!("%{byte:02X}")).collect();
            format!("campaign={}", encoded.concat())
        });
        let query: Vec<_> = since.into_iter().chain(campaign).collect();
        let path = format!("/events?{}", query.join("&"));
        let response = self
            .send(hyper::Request::get(Uri::new(&self.socket, &path)).body(Full::default()))
            .await?;
        let status = response.status();
        let body = response.into_body();
        if !status.is_success() {
            let text = Limited::new(body, MAX_ANSWER_BYTES)
                .collect()
                .await
                .map_err(|error| self.broken(error.as_ref()))?
                .to_bytes();
            return Err(match serde_json::from_slice::<Response>(&text) {
                Ok(Response {
                    error: Some(error), ..
                }) => ClientError::Refused(error),
                _ => ClientError::Garbled(String::from_utf8_lossy(&text).trim().to_owned()),
            });
        }
        Ok(EventStream {
            socket: self.socket.clone(),
            body,
            pending: Vec::new(),
        })
    }

    async fn send(
        &self,
        request: Result<hyper::Request<Full<Bytes>>, hyper::http::Error>,
    ) -> Result<hyper::Response<Incoming>, ClientError> {
        let request = request.map_err(|error| ClientError::Garbled(error.to_string()))?;
        self.http.request(request).await.map_err(|error| {
            if error.is_connect() {
                ClientError::Unreachable {
                    socket: self.socket.clone(),
                    cause: root_cause(&error),
                }
            } else {
                self.broken(&error)
            }
        })
    }

    fn broken(&self, error: &(dyn std::error::Error + 'static)) -> ClientError {
        ClientError::Broken {
            socket: self.socket.clone(),
            cause: root_cause(error),
        }
    }
}

/// The body of a request.
fn request<M: Method>(params: M::Params) -> Result<Vec<u8>, ClientError> {
    let garbled = |error: serde_json::Error| ClientError::Garbled(error.to_string());
    let request = Request {
        jsonrpc: "2.0".into(),
        id: 1.into(),
        method: M::NAME.into(),
        params: serde_json::to_value(params).map_err(garbled)?,
    };
    serde_json::to_vec(&request).map_err(garbled)
}

/// What an answer says.
fn result<M: Method>(answer: &[u8]) -> Result<M::Result, ClientError> {
    let garbled = |error: serde_json::Error| ClientError::Garbled(error.to_string());
    let answer: Response = serde_json::from_slice(answer).map_err(garbled)?;
    match (answer.result, answer.error) {
        (_, Some(error)) => Err(ClientError::Refused(error)),
        (Some(result), None) => serde_json::from_value(result).map_err(garbled),
        (None, None) => Err(ClientError::Garbled("neither result nor error".into())),
    }
}

/// The innermost cause says what happened ("Connection refused"); the outer
/// ones only say that hyper was involved.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Events as they come.
#[derive(Debug)]
pub struct EventStream {
    socket: PathBuf,
    body: Incoming,
    pending: Vec<u8>,
}

impl EventStream {
    /// The next event; `None` once the daemon has ended the stream.
    ///
    /// # Errors
    ///
    /// [`ClientError::Broken`] when the connection breaks, [`ClientError::Garbled`]
    /// when the daemon sends something that is no event.
    pub async fn next(&mut self) -> Result<Option<EventRecord>, ClientError> {
        loop {
            while let Some(end) = self.pending.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                // One event is `id:`, `event:` and `data:` lines; the record in
                // `data:` repeats the other two, so they can be passed over.
                if let Some(data) = line.strip_prefix(b"data:") {
                    return serde_json::from_slice(data)
                        .map(Some)
                        .map_err(|error| ClientError::Garbled(error.to_string()));
                }
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => {
                    return Err(ClientError::Broken {
                        socket: self.socket.clone(),
                        cause: root_cause(&error),
                    });
                }
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.pending.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}
