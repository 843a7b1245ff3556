//! How soon somebody who waits has an event: from the moment it leaves the table on the
//! WebSocket.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use cozyvtt_proto::client::{Client, EventStream};
use cozyvtt_table::Table;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::Asked;
use crate::report::{Figure, Goal};
use crate::sample::Samples;
use crate::stage::{PATIENCE, Stage, driver};

/// The goal for the median, in seconds.
const GOAL: f64 = 0.001;

/// Events before anything counts.
const WARM_UP: usize = 20;
/// Events that count.
const EVENTS: usize = 500;

/// How long nothing happens between two: the daemon is asleep when the next one comes, as
/// it would be, and what it does for the one before is over.
const PAUSE: Duration = Duration::from_millis(60);

/// A way to wait for events.
trait Waiting {
    /// What it is called.
    const NAME: &'static str;

    /// Waits for the chat line `text`; tells when it was in hand.
    fn wait_for(&mut self, text: &str) -> Result<Instant>;
}

/// On the control socket's stream of events.
struct OnStream {
    runtime: Runtime,
    stream: EventStream,
}

impl OnStream {
    fn open(sockets: &Path) -> Result<Self> {
        let runtime = driver()?;
        let client = Client::new(sockets);
        let stream =
            runtime.block_on(async { timeout(PATIENCE, client.events(None, None)).await })??;
        Ok(Self { runtime, stream })
    }
}

impl Waiting for OnStream {
    const NAME: &'static str = "GET /events";

    fn wait_for(&mut self, text: &str) -> Result<Instant> {
        let stream = &mut self.stream;
        let waiting = async {
            loop {
                let record = stream.next().await?.context("the stream has ended")?;
                let now = Instant::now();
                if record.payload["content"] == text {
                    return Ok::<_, anyhow::Error>(now);
                }
            }
        };
        self.runtime
            .block_on(async { timeout(PATIENCE, waiting).await })?
    }
}

pub(crate) fn measure(asked: &Asked) -> Result<Vec<Figure>> {
    let stage = Stage::set(&asked.programs)?;
    let stream = OnStream::open(&stage.daemon.sockets)?;
    Ok(vec![wake_up(&stage.table, stream)?])
}

fn wake_up<W: Waiting>(table: &Table, mut waiting: W) -> Result<Figure> {
    let mut took = Vec::new();
    for round in 0..WARM_UP + EVENTS {
        std::thread::sleep(PAUSE);
        let text = format!("wake up {round}");
        table.log().clear();
        table.say("player1", &text);
        let there = waiting.wait_for(&text)?;
        let left = table.log().events_out("chat.message");
        // The daemon's is the only socket.
        ensure!(left.len() == 1, "{} frames instead of one", left.len());
        if round >= WARM_UP {
            took.push(there.saturating_duration_since(left[0].at.into_std()));
        }
    }
    let figure = Samples::new(took)?
        .figure(format!("event on the WebSocket to a waiting {}", W::NAME))
        .goal(Goal::Below(GOAL));
    Ok(figure)
}
