//! The HTTP server of the control socket: three paths, each answered by a file
//! of its own.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use cozyvtt_proto::jsonrpc::{ErrorKind, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio_util::task::TaskTracker;

use super::{progress, rpc, stream};
use crate::hub::{Hub, VERSION};
use crate::listen::Listener;

/// Largest request body, in bytes.
const MAX_BODY: usize = 16 * 1024 * 1024;

/// Said to whoever asks for something else.
const PATHS: &str = "there are POST /rpc, GET /events and GET /health";

pub(super) type Body = BoxBody<Bytes, Infallible>;
pub(super) type Answer = hyper::Response<Body>;

/// Accepts connections until the daemon has gone, then finishes what is running.
pub async fn serve(listener: Arc<Listener>, hub: Arc<Hub>) {
    let connections = TaskTracker::new();
    loop {
        let stream = tokio::select! {
            () = hub.gone.cancelled() => break,
            stream = listener.accept() => stream,
        };
        connections.spawn(converse(stream, Arc::clone(&hub)));
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn converse(stream: UnixStream, hub: Arc<Hub>) {
    let service = service_fn(|request| {
        let hub = Arc::clone(&hub);
        async move { Ok::<_, Infallible>(answer(request, hub).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = hub.gone.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a control connection broke");
    }
}

async fn answer(request: hyper::Request<Incoming>, hub: Arc<Hub>) -> Answer {
    match (request.method(), request.uri().path()) {
        (&Method::POST, "/rpc") => {
            let streamed = wants_events(request.headers());
            let body = Limited::new(request.into_body(), MAX_BODY).collect().await;
            match body {
                Ok(body) if streamed => progress::answer(body.to_bytes(), hub),
                Ok(body) => json_answer(
                    StatusCode::OK,
                    &rpc::answer(&body.to_bytes(), &hub, None).await,
                ),
                Err(error) => refusal(
                    StatusCode::BAD_REQUEST,
                    ErrorKind::InvalidRequest,
                    format!("the request's body could not be read: {error}"),
                ),
            }
        }
        (&Method::GET, "/events") => stream::answer(&request, hub).await,
        (&Method::GET, "/health") => json_answer(
            StatusCode::OK,
            &json!({"status": "ok", "version": VERSION, "instance": hub.instance}),
        ),
        (_, path @ ("/rpc" | "/events" | "/health")) => {
            let allowed = if path == "/rpc" { "POST" } else { "GET" };
            let mut answer = refusal(
                StatusCode::METHOD_NOT_ALLOWED,
                ErrorKind::InvalidRequest,
                format!("use {allowed} for {path}; {PATHS}"),
            );
            let allowed = header::HeaderValue::from_static(allowed);
            answer.headers_mut().insert(header::ALLOW, allowed);
            answer
        }
        _ => refusal(
            StatusCode::NOT_FOUND,
            ErrorKind::InvalidRequest,
            PATHS.to_owned(),
        ),
    }
}

/// Whether the answer is to come as server-sent events.
fn wants_events(headers: &header::HeaderMap) -> bool {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/event-stream"))
}

/// A refusal outside of any JSON-RPC call.
pub(super) fn refusal(status: StatusCode, kind: ErrorKind, message: String) -> Answer {
    json_answer(status, &Response::failure(Value::Null, kind.error(message)))
}

fn json_answer(status: StatusCode, body: &impl serde::Serialize) -> Answer {
    let mut body = serde_json::to_vec(body).unwrap_or_default();
    body.push(b'\n');
    let mut answer = hyper::Response::new(Full::from(body).boxed());
    *answer.status_mut() = status;
    answer.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    answer
}
