//! A call whose progress is told while it runs: server-sent events, the answer last.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cozyvtt_proto::control::CallProgress;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde::Serialize;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::http::Answer;
use super::{rpc, stream::events};
use crate::hub::Hub;
use crate::session::patience::{Progress, Transfer, Wait};

/// How often at most it is told how a call gets on.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Answers one request body, event by event. Who hangs up gives a call up that still waits.
pub(super) fn answer(body: Bytes, hub: Arc<Hub>) -> Answer {
    let (send, receive) = mpsc::channel(8);
    tokio::spawn(async move {
        let (telling, told) = watch::channel(None);
        let answer = tokio::select! {
            answer = rpc::answer(&body, &hub, Some(telling)) => answer,
            () = tell(told, &send) => return,
            () = send.closed() => return,
        };
        // Nobody may be there any more.
        let _ = send.send(event("answer", &answer)).await;
    });
    let frames = stream::unfold(receive, |mut receive| async move {
        let text = receive.recv().await?;
        Some((Ok::<_, Infallible>(Frame::data(text)), receive))
    });
    events(BodyExt::boxed(StreamBody::new(frames)))
}

/// Tells how the call gets on, until nobody listens.
async fn tell(mut told: watch::Receiver<Option<Progress>>, send: &mpsc::Sender<Bytes>) {
    while told.changed().await.is_ok() {
        let Some(now) = *told.borrow_and_update() else {
            continue;
        };
        if send
            .send(event("progress", &in_numbers(now)))
            .await
            .is_err()
        {
            return;
        }
        // What comes meanwhile is told with the next one.
        sleep(TELL_EVERY).await;
    }
    std::future::pending::<()>().await;
}

fn in_numbers(progress: Progress) -> CallProgress {
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    match progress {
        Progress::Waiting(Wait { what, waited, left }) => CallProgress {
            what: format!("waiting for {what}"),
            done: millis(waited),
            of: Some(millis(waited + left)),
            bytes: false,
        },
        Progress::Moving(Transfer { what, done, of }) => CallProgress {
            what: what.to_owned(),
            done,
            of,
            bytes: true,
        },
    }
}

fn event(name: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_default();
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}
