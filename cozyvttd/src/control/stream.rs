//! The event stream: server-sent events, first from the journal, then live.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cozyvtt_proto::event::EventRecord;
use cozyvtt_proto::jsonrpc::ErrorKind;
use futures_util::{Stream, StreamExt, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{Request, StatusCode, header};
use percent_encoding::percent_decode_str;
use tokio::time::timeout;

use super::http::{Answer, Body, refusal};
use super::rpc::{session, visit};
use crate::hub::Hub;
use crate::journal::{Journal, JournalError, PageError};

/// How often a quiet stream says that it is alive.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Answers `GET /events`.
pub(super) async fn answer(request: &Request<Incoming>, hub: Arc<Hub>) -> Answer {
    let since = match since(request) {
        Ok(since) => since,
        Err(bad) => {
            let sentence = format!("since must be a whole number, and {bad:?} is none");
            return refusal(StatusCode::BAD_REQUEST, ErrorKind::InvalidParams, sentence);
        }
    };
    let visited = match asked(request, "campaign=") {
        Some(campaign) => visit(&hub, Some(&campaign)).await,
        None => Ok(None),
    };
    let found = visited.and_then(|visit| Ok((session(&hub, visit.as_ref())?, visit)));
    let (session, visit) = match found {
        Ok(found) => found,
        Err(error) => {
            let status = match error.data.kind {
                ErrorKind::InvalidParams => StatusCode::BAD_REQUEST,
                _ => StatusCode::SERVICE_UNAVAILABLE,
            };
            return refusal(status, error.data.kind, error.message);
        }
    };
    let stop = hub.stop.clone();
    let frames = frames(session.journal.clone(), since)
        // What came may have been replaced before it was read.
        .filter(|text| std::future::ready(!text.is_empty()))
        .take_until(stop.cancelled_owned())
        .map(move |text| {
            // The campaign is visited for as long as the stream lasts.
            let _visit = &visit;
            Ok::<_, Infallible>(Frame::data(Bytes::from(text)))
        });
    events(BodyExt::boxed(StreamBody::new(frames)))
}

/// An answer of server-sent events.
pub(super) fn events(body: Body) -> Answer {
    let mut answer = hyper::Response::new(body);
    let headers = answer.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(
        header::CACHE_CONTROL,
        header::HeaderValue::from_static("no-store"),
    );
    answer
}

/// Where to begin: `Last-Event-ID` of a client that comes back, else `since`,
/// else now.
fn since(request: &Request<Incoming>) -> Result<Option<u64>, String> {
    let resumed = request
        .headers()
        .get("last-event-id")
        .and_then(|id| id.to_str().ok());
    resumed
        .map(ToOwned::to_owned)
        .or_else(|| asked(request, "since="))
        .map(|text| text.parse().map_err(|_| text))
        .transpose()
}

/// What the query says of `name`, which ends in `=`.
fn asked(request: &Request<Incoming>, name: &str) -> Option<String> {
    let query = request.uri().query()?;
    let text = query.split('&').find_map(|part| part.strip_prefix(name))?;
    Some(percent_decode_str(text).decode_utf8_lossy().into_owned())
}

/// Where a stream stands.
enum Position {
    /// Not yet begun; `since` as asked for.
    Begin(Option<u64>),
    /// Everything up to this record has been sent.
    At(u64),
}

fn frames(journal: Journal, since: Option<u64>) -> impl Stream<Item = String> + Send {
    stream::unfold(
        (journal, Position::Begin(since)),
        |(journal, position)| async move {
            let at = match position {
                Position::At(at) => at,
                Position::Begin(since) => {
                    let newest = journal.high_water();
                    // A cursor from elsewhere starts over, as a page does.
                    let at = since.map_or(newest, |since| if since > newest { 0 } else { since });
                    // A first line at once, so that the client sees that it is connected.
                    let hello = format!(": events after {at}\n\n");
                    return Some((hello, (journal, Position::At(at))));
                }
            };
            match timeout(KEEPALIVE, journal.onward(at)).await {
                Err(_) => Some((": still here\n\n".to_owned(), (journal, Position::At(at)))),
                // The daemon stops.
                Ok(Err(PageError::Journal(JournalError::Closed))) => None,
                Ok(Err(error)) => {
                    tracing::error!(%error, "an event stream ends");
                    None
                }
                Ok(Ok((records, next))) => {
                    let text = records.iter().filter_map(event).collect();
                    Some((text, (journal, Position::At(next))))
                }
            }
        },
    )
}

fn event(record: &EventRecord) -> Option<String> {
    let data = serde_json::to_string(record).ok()?;
    // The name comes from the server: a line break in it would be another field.
    let name: String = record.event.chars().filter(|c| !c.is_control()).collect();
    Some(format!(
        "id: {}\nevent: {name}\ndata: {data}\n\n",
        record.seq
    ))
}
