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
use tokio::time::timeout;

use super::http::{Answer, refusal};
use super::rpc::not_configured;
use crate::hub::Hub;
use crate::journal::Journal;

/// How often a quiet stream says that it is alive.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Records read at once.
const PAGE: u32 = 500;

/// Answers `GET /events`.
pub(super) fn answer(request: &Request<Incoming>, hub: Arc<Hub>) -> Answer {
    let since = match since(request) {
        Ok(since) => since,
        Err(bad) => {
            let sentence = format!("since must be a whole number, and {bad:?} is none");
            return refusal(StatusCode::BAD_REQUEST, ErrorKind::InvalidParams, sentence);
        }
    };
    let journal = match &hub.session {
        Ok(session) => session.journal.clone(),
        Err(trouble) => {
            let error = not_configured(trouble);
            return refusal(
                StatusCode::SERVICE_UNAVAILABLE,
                error.data.kind,
                error.message,
            );
        }
    };
    let stop = hub.stop.clone();
    let frames = frames(journal, since)
        .take_until(stop.cancelled_owned())
        .map(|text| Ok::<_, Infallible>(Frame::data(Bytes::from(text))));
    let mut answer = hyper::Response::new(BodyExt::boxed(StreamBody::new(frames)));
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
    let asked = request.uri().query().and_then(|query| {
        query
            .split('&')
            .find_map(|part| part.strip_prefix("since="))
    });
    resumed
        .or(asked)
        .map(|text| text.parse().map_err(|_| text.to_owned()))
        .transpose()
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
            match timeout(KEEPALIVE, journal.beyond(at)).await {
                Err(_) => {
                    return Some((": still here\n\n".to_owned(), (journal, Position::At(at))));
                }
                Ok(Err(_)) => return None,
                Ok(Ok(())) => {}
            }
            let page = match journal.page(at, PAGE).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::error!(%error, "an event stream ends");
                    return None;
                }
            };
            let text: String = page.events.iter().filter_map(event).collect();
            Some((text, (journal, Position::At(page.next_seq))))
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
