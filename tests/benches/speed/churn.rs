//! Clients that come and go, ten thousand of them: nothing of them stays.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::Asked;
use crate::client::connect;
use crate::report::{Figure, Goal, Unit, number};
use crate::stage::{Daemon, PATIENCE, Stage};

/// Clients that come and go.
const CLIENTS: u64 = 10_000;
/// After so many, the daemon has what it needs.
const SETTLED: u64 = 1_000;

/// By how much it may grow after that, in bytes: what an allocator moves about.
const GROWTH: f64 = 1e6;

pub(crate) fn measure(asked: &Asked) -> Result<Vec<Figure>> {
    let stage = Stage::set(&asked.programs)?;
    let daemon = &stage.daemon;
    drop(connect(&daemon.sockets)?);
    let before = settled(daemon, None)?;
    let mut early = 0;
    for come in 1..=CLIENTS {
        drop(connect(&daemon.sockets)?);
        if come == SETTLED {
            settled(daemon, Some(before))?;
            early = daemon.process.resident()?;
        }
    }
    let after = settled(daemon, Some(before))?;
    let late = daemon.process.resident()?;
    Ok(vec![
        Figure::new(
            format!("descriptors more after {CLIENTS} came and went"),
            number(after) - number(before),
            Unit::Count,
        )
        .goal(Goal::AtMost(0.0)),
        Figure::new(
            format!("daemon after {SETTLED} of them"),
            number(early),
            Unit::Bytes,
        ),
        Figure::new(
            format!("growth from there to {CLIENTS}"),
            number(late) - number(early),
            Unit::Bytes,
        )
        .goal(Goal::AtMost(GROWTH)),
    ])
}

/// How many descriptors are open once that is `wanted`, or has not changed for a second;
/// whoever has left is noticed a moment later.
fn settled(daemon: &Daemon, wanted: Option<u64>) -> Result<u64> {
    const LOOK: Duration = Duration::from_millis(20);
    const STILL: Duration = Duration::from_secs(1);
    let begun = Instant::now();
    let mut last = (daemon.process.descriptors()?, begun);
    while wanted != Some(last.0) && last.1.elapsed() < STILL && begun.elapsed() < PATIENCE {
        std::thread::sleep(LOOK);
        let open = daemon.process.descriptors()?;
        if open != last.0 {
            last = (open, Instant::now());
        }
    }
    Ok(last.0)
}
