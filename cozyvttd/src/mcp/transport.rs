//! rmcp's transport over one connection: lines in, lines out, and an answer to
//! everything that is no message.
//!
//! It keeps account of the requests that are not answered yet. So at the end of
//! the input, and when the daemon stops, running calls are finished first.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cozyvtt_proto::MAX_LINE_BYTES;
use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, GetMeta, JsonRpcMessage,
    JsonRpcRequest, ProtocolVersion, RequestId,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufWriter};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::line::{Line, LineReader};

use crate::lock::lock;

/// How many requests of one connection may be unanswered at once; of calls it may be
/// fewer ([`crate::clients::MOST_CALLS`]).
const MOST_REQUESTS: usize = 512;

/// How many lines may wait for a client to read them.
const OUTBOX: usize = 256;

/// How long a client may leave its outbox full before it is dropped.
const READER_PATIENCE: Duration = Duration::from_secs(30);

/// How long running calls may take after the end of the input or the order to
/// stop: longer than any one request to the server, files aside. What waits for its
/// turn is let go at once.
const DRAIN: Duration = Duration::from_secs(20);

/// How long the last lines may take to leave.
const FLUSH: Duration = Duration::from_secs(2);

/// One client's connection.
pub(super) struct LineTransport {
    lines: LineReader<OwnedReadHalf>,
    /// The line that was read in place of a hello.
    first: Option<Line>,
    outbox: Option<mpsc::Sender<Vec<u8>>>,
    writer: Option<JoinHandle<()>>,
    unanswered: Arc<Unanswered>,
    /// The daemon is stopping.
    stop: CancellationToken,
    /// The client is to go.
    closing: CancellationToken,
    /// The client is gone or does not read.
    gone: CancellationToken,
    /// Set once nothing more is taken in: when running calls are given up.
    draining: Option<Instant>,
    /// The client has nothing more to say.
    at_its_end: bool,
    /// How the conversation has begun, once it has.
    begun: Option<Begun>,
    /// An answer of our own that is still to be queued. rmcp may give a receive up
    /// half-way and must not take the answer with it.
    owed: Option<Vec<u8>>,
}

/// How a conversation has begun. rmcp ends a connection on which a notification
/// comes before that, so earlier ones are passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begun {
    /// With `initialize`.
    Handshake,
    /// With a request of the stateless protocol.
    Stateless,
}

impl LineTransport {
    pub(super) fn new(
        lines: LineReader<OwnedReadHalf>,
        write: OwnedWriteHalf,
        first: Option<Line>,
        unanswered: Arc<Unanswered>,
        stop: CancellationToken,
        closing: CancellationToken,
    ) -> Self {
        let (outbox, queue) = mpsc::channel(OUTBOX);
        let gone = CancellationToken::new();
        Self {
            lines,
            first,
            outbox: Some(outbox),
            writer: Some(tokio::spawn(write_lines(write, queue, gone.clone()))),
            unanswered,
            stop,
            closing,
            at_its_end: false,
            gone,
            draining: None,
            begun: None,
            owed: None,
        }
    }

    async fn line(&mut self) -> io::Result<Line> {
        match self.first.take() {
            Some(line) => Ok(line),
            None => self.lines.next().await,
        }
    }

    /// Makes of a line what rmcp is to see of it, or answers it here.
    fn take(&mut self, line: &[u8]) -> Option<ClientJsonRpcMessage> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return None;
        }
        let message = match serde_json::from_slice::<ClientJsonRpcMessage>(line) {
            Ok(message) => message,
            Err(error) => {
                self.owed = complaint(line, &error).map(bytes);
                return None;
            }
        };
        match &message {
            JsonRpcMessage::Request(request) => {
                if let Some(answer) = misfit(request).or_else(|| self.out_of_order(request)) {
                    self.owed = Some(bytes(answer));
                    return None;
                }
                if self.begun.is_none() {
                    self.begun = beginning(&request.request);
                }
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    // rmcp sends no answer to a cancelled request.
                    self.unanswered.end(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        let early = self.begun.is_none() && !matches!(message, JsonRpcMessage::Request(_));
        (!early).then_some(message)
    }

    /// What to answer to a request that cannot come now; else it counts as due.
    fn out_of_order(&self, request: &JsonRpcRequest<ClientRequest>) -> Option<Value> {
        let sentence = if self.begun == Some(Begun::Stateless)
            && matches!(request.request, ClientRequest::InitializeRequest(_))
        {
            "this connection speaks the stateless protocol already; initialize on another one"
        } else {
            match self.unanswered.begin(&request.id) {
                Ok(()) => return None,
                Err(why) => why,
            }
        };
        let id = serde_json::to_value(&request.id).unwrap_or_default();
        Some(failure(&id, -32600, sentence))
    }
}

impl Transport<RoleServer> for LineTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let outbox = self.outbox.clone();
        let gone = self.gone.clone();
        let unanswered = Arc::clone(&self.unanswered);
        async move {
            // Before the answer leaves: a client may use its id again at once.
            let id = match &item {
                JsonRpcMessage::Response(response) => Some(&response.id),
                JsonRpcMessage::Error(error) => error.id.as_ref(),
                JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
            };
            if id.is_some_and(|id| unanswered.end(id) == Some(Due::Nothing)) {
                return Ok(());
            }
            let outbox = outbox.ok_or(io::ErrorKind::BrokenPipe)?;
            push(&outbox, serde_json::to_vec(&item)?, &gone).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let (Some(line), Some(outbox)) = (&self.owed, &self.outbox) {
                push(outbox, line.clone(), &self.gone).await.ok();
                self.owed = None;
            }
            if let Some(deadline) = self.draining {
                let unanswered = Arc::clone(&self.unanswered);
                let gone = self.gone.clone();
                let open = !self.at_its_end;
                tokio::select! {
                    () = gone.cancelled() => return None,
                    drained = timeout_at(deadline, unanswered.none()) => {
                        if drained.is_err() {
                            tracing::warn!("gave up on calls that did not end");
                        }
                        return None;
                    }
                    line = self.line(), if open => match line {
                        // Nothing new is begun, but who waits may want a sign of life.
                        Ok(Line::Whole(line)) => self.owed = pong(&line),
                        Ok(Line::TooLong) => {}
                        Ok(Line::CutOff | Line::End) | Err(_) => self.at_its_end = true,
                    }
                }
                continue;
            }
            let stop = self.stop.clone();
            let (gone, closing) = (self.gone.clone(), self.closing.clone());
            let line = tokio::select! {
                () = gone.cancelled() => return None,
                () = stop.cancelled() => None,
                () = closing.cancelled() => None,
                line = self.line() => Some(line),
            };
            let Some(line) = line else {
                self.draining = Some(Instant::now() + DRAIN);
                continue;
            };
            match line {
                Ok(Line::Whole(line)) => {
                    if let Some(message) = self.take(&line) {
                        return Some(message);
                    }
                }
                Ok(Line::TooLong) => {
                    let sentence =
                        format!("the line is longer than {MAX_LINE_BYTES} bytes and was dropped");
                    self.owed = Some(bytes(failure(&Value::Null, -32600, &sentence)));
                }
                Ok(Line::CutOff) => {
                    let sentence =
                        "the last line has no newline, so it may be cut off; it was not acted upon";
                    self.owed = Some(bytes(failure(&Value::Null, -32700, sentence)));
                }
                Ok(Line::End) => {
                    self.at_its_end = true;
                    self.draining = Some(Instant::now() + DRAIN);
                }
                Err(error) => {
                    tracing::debug!(%error, "a connection broke");
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.outbox = None;
        if let Some(writer) = self.writer.take()
            && timeout(FLUSH, writer).await.is_err()
        {
            self.gone.cancel();
        }
        Ok(())
    }
}

/// The requests that have no answer yet.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    ids: Mutex<HashMap<RequestId, Due>>,
    count: watch::Sender<usize>,
}

/// What is due to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Answer,
    /// The client will ask again, of the next run of the daemon.
    Nothing,
}

impl Unanswered {
    /// Notes a request, or says why it cannot be taken.
    fn begin(&self, id: &RequestId) -> Result<(), &'static str> {
        self.change(|ids| {
            if ids.contains_key(id) {
                return Err("this id belongs to a request that is not answered yet; use a new one");
            }
            if ids.len() >= MOST_REQUESTS {
                return Err(
                    "512 requests of this connection are not answered yet, which is the limit; \
                     nothing was done. Wait for their answers, then ask again",
                );
            }
            ids.insert(id.clone(), Due::Answer);
            Ok(())
        })
    }

    /// Keeps the answer of a request back: nothing was done for it, and its client asks
    /// again.
    pub(super) fn withhold(&self, id: &RequestId) {
        if let Some(due) = lock(&self.ids).get_mut(id) {
            *due = Due::Nothing;
        }
    }

    fn end(&self, id: &RequestId) -> Option<Due> {
        self.change(|ids| ids.remove(id))
    }

    async fn none(&self) {
        // The sender lives in `self`, so this cannot fail.
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }

    fn change<T>(&self, change: impl FnOnce(&mut HashMap<RequestId, Due>) -> T) -> T {
        let mut ids = lock(&self.ids);
        let outcome = change(&mut ids);
        self.count.send_replace(ids.len());
        outcome
    }
}

/// The methods that are served here.
const SERVED: [&str; 5] = [
    "initialize",
    "ping",
    "server/discover",
    "tools/call",
    "tools/list",
];

/// What to answer to a request whose parameters do not fit its method. rmcp takes
/// such a one for a method of its own kind and would say that there is none.
fn misfit(request: &JsonRpcRequest<ClientRequest>) -> Option<Value> {
    let ClientRequest::CustomRequest(custom) = &request.request else {
        return None;
    };
    SERVED.contains(&custom.method.as_str()).then(|| {
        let id = serde_json::to_value(&request.id).unwrap_or_default();
        let sentence = format!("the parameters of {} do not fit it", custom.method);
        failure(&id, -32602, &sentence)
    })
}

/// What to answer to a line that is no message; nothing when it is a
/// notification, which JSON-RPC leaves without an answer.
fn complaint(line: &[u8], error: &serde_json::Error) -> Option<Value> {
    let value = match serde_json::from_slice(line) {
        Ok(Value::Object(object)) => object,
        Ok(Value::Array(_)) => {
            let sentence = "batches are not part of MCP any more; send one message a line";
            return Some(failure(&Value::Null, -32600, sentence));
        }
        Ok(_) => return Some(failure(&Value::Null, -32600, "the line is no JSON object")),
        Err(error) => {
            let sentence = format!("the line is not valid JSON: {error}");
            return Some(failure(&Value::Null, -32700, &sentence));
        }
    };
    let id = value
        .get("id")
        .filter(|id| id.is_string() || id.is_number());
    match (value.get("method").and_then(Value::as_str), id) {
        (Some(method), None) if !value.contains_key("id") => {
            tracing::debug!(method, %error, "ignoring a notification that is not understood");
            None
        }
        _ => Some(failure(
            id.unwrap_or(&Value::Null),
            -32600,
            "the line is no JSON-RPC 2.0 message with a string or number id",
        )),
    }
}

/// How a conversation begins with this request, if it does: `ping` and
/// `server/discover` may come before either way, and rmcp refuses what lacks the
/// stateless protocol's metadata.
fn beginning(request: &ClientRequest) -> Option<Begun> {
    match request {
        ClientRequest::InitializeRequest(_) => Some(Begun::Handshake),
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => None,
        other => {
            let meta = other.get_meta();
            let version = meta.protocol_version()?;
            (ProtocolVersion::KNOWN_VERSIONS.contains(&version)
                && meta
                    .missing_required_keys(&ProtocolVersion::V_2026_07_28)
                    .is_empty())
            .then_some(Begun::Stateless)
        }
    }
}

/// The answer to a line that is MCP's `ping`.
fn pong(line: &[u8]) -> Option<Vec<u8>> {
    match serde_json::from_slice::<ClientJsonRpcMessage>(line) {
        Ok(JsonRpcMessage::Request(JsonRpcRequest {
            id,
            request: ClientRequest::PingRequest(_),
            ..
        })) => {
            let id = serde_json::to_value(&id).unwrap_or_default();
            Some(bytes(json!({"jsonrpc": "2.0", "id": id, "result": {}})))
        }
        _ => None,
    }
}

fn bytes(answer: Value) -> Vec<u8> {
    answer.to_string().into_bytes()
}

fn failure(id: &Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

async fn push(
    outbox: &mpsc::Sender<Vec<u8>>,
    line: Vec<u8>,
    gone: &CancellationToken,
) -> io::Result<()> {
    tokio::select! {
        () = gone.cancelled() => Err(io::ErrorKind::BrokenPipe.into()),
        pushed = timeout(READER_PATIENCE, outbox.send(line)) => {
            if let Ok(pushed) = pushed {
                return pushed.map_err(|_| io::ErrorKind::BrokenPipe.into());
            }
            tracing::warn!("dropping a client that does not read");
            gone.cancel();
            Err(io::ErrorKind::TimedOut.into())
        }
    }
}

/// Ends a connection with an error that belongs to no request.
pub(super) async fn refuse(mut stream: UnixStream, sentence: &str) {
    let mut line = bytes(failure(&Value::Null, -32000, sentence));
    line.push(b'\n');
    // One that does not even take this is not waited for.
    let _ = timeout(FLUSH, stream.write_all(&line)).await;
}

/// Writes lines until the outbox is closed and empty.
async fn write_lines(
    write: OwnedWriteHalf,
    mut queue: mpsc::Receiver<Vec<u8>>,
    gone: CancellationToken,
) {
    let mut write = BufWriter::new(write);
    let work = async {
        while let Some(line) = queue.recv().await {
            write.write_all(&line).await?;
            write.write_all(b"\n").await?;
            // What is queued already leaves together.
            while let Ok(line) = queue.try_recv() {
                write.write_all(&line).await?;
                write.write_all(b"\n").await?;
            }
            write.flush().await?;
        }
        write.shutdown().await
    };
    let outcome: Option<io::Result<()>> = tokio::select! {
        () = gone.cancelled() => None,
        outcome = work => Some(outcome),
    };
    if let Some(Err(error)) = outcome {
        tracing::debug!(%error, "a client no longer takes answers");
        gone.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint_of(line: &str) -> Option<Value> {
        let error = serde_json::from_str::<ClientJsonRpcMessage>(line).unwrap_err();
        complaint(line.as_bytes(), &error)
    }

    #[test]
    fn everything_that_is_no_message_gets_an_answer_with_its_id_if_it_has_one() {
        let code = |line| {
            let answer = complaint_of(line).unwrap();
            (answer["error"]["code"].as_i64(), answer["id"].clone())
        };
        assert_eq!(code("{oops"), (Some(-32700), Value::Null));
        assert_eq!(code("[]"), (Some(-32600), Value::Null));
        assert_eq!(code("5"), (Some(-32600), Value::Null));
        assert_eq!(
            code(r#"{"id":"a","method":"tools/list"}"#),
            (Some(-32600), json!("a"))
        );
        assert_eq!(
            code(r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#).0,
            Some(-32600)
        );
    }

    #[test]
    fn parameters_that_do_not_fit_are_no_unknown_method() {
        let answer = |line: &str| match serde_json::from_str(line).unwrap() {
            ClientJsonRpcMessage::Request(request) => misfit(&request),
            other => panic!("{other:?}"),
        };
        let misfit =
            answer(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":5}}"#);
        assert_eq!(misfit.unwrap()["error"]["code"], -32602);
        assert_eq!(
            answer(r#"{"jsonrpc":"2.0","id":7,"method":"no/such"}"#),
            None
        );
        assert_eq!(answer(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#), None);
    }

    #[test]
    fn an_id_is_in_use_until_its_request_is_answered() {
        let unanswered = Unanswered::default();
        let id = RequestId::Number(1);
        assert!(unanswered.begin(&id).is_ok());
        assert!(unanswered.begin(&id).is_err());
        assert_eq!(unanswered.end(&id), Some(Due::Answer));
        assert!(unanswered.begin(&id).is_ok());
        unanswered.withhold(&id);
        assert_eq!(unanswered.end(&id), Some(Due::Nothing));
    }

    #[test]
    fn more_than_512_requests_are_refused_until_one_is_answered() {
        let unanswered = Unanswered::default();
        for id in 0..512 {
            assert!(unanswered.begin(&RequestId::Number(id)).is_ok());
        }
        let refused = unanswered.begin(&RequestId::Number(512)).unwrap_err();
        assert!(refused.contains(&MOST_REQUESTS.to_string()), "{refused}");
        unanswered.end(&RequestId::Number(0));
        assert!(unanswered.begin(&RequestId::Number(512)).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_leaves_its_outbox_full_for_half_a_minute_is_dropped() {
        let (outbox, _never_read) = mpsc::channel(1);
        let gone = CancellationToken::new();
        let begun = Instant::now();
        push(&outbox, Vec::new(), &gone).await.unwrap();
        let full = push(&outbox, Vec::new(), &gone).await.unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), READER_PATIENCE);
        assert!(gone.is_cancelled());
    }
}
