//! Five hundred clients that sit there and say nothing.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::Asked;
use crate::client::connect;
use crate::report::{Figure, Goal, Unit, number};
use crate::stage::Stage;

/// The goal for the daemon with all of them, in bytes.
const GOAL: f64 = 60e6;

/// Clients at once. They come without shims: the daemon cannot tell.
const CLIENTS: usize = 500;

/// How long their idling is watched.
const WATCH: Duration = Duration::from_secs(10);

/// How long what they began with may still take.
const SETTLE: Duration = Duration::from_secs(2);

pub(crate) fn measure(asked: &Asked) -> Result<Vec<Figure>> {
    let stage = Stage::set(&asked.programs)?;
    let daemon = &stage.daemon;
    let alone = daemon.process.resident()?;
    let mut clients = (0..CLIENTS)
        .map(|_| connect(&daemon.sockets))
        .collect::<Result<Vec<_>>>()?;
    for client in &mut clients {
        client.tools()?;
    }
    std::thread::sleep(SETTLE);
    let begun = (Instant::now(), daemon.process.cpu()?);
    std::thread::sleep(WATCH);
    let used = daemon.process.cpu()?.saturating_sub(begun.1);
    let share = used.as_secs_f64() / begun.0.elapsed().as_secs_f64() * 100.0;
    let resident = daemon.process.resident()?;
    // They were there all the time.
    for client in &mut clients {
        client.tools()?;
    }
    Ok(vec![
        Figure::new("daemon without clients", number(alone), Unit::Bytes),
        Figure::new(
            format!("daemon with {CLIENTS} idle clients"),
            number(resident),
            Unit::Bytes,
        )
        .goal(Goal::Below(GOAL)),
        Figure::new(
            format!("processor time of these, over {} s", WATCH.as_secs()),
            share,
            Unit::Percent,
        ),
    ])
}
