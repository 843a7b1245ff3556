//! From the spawn of a shim to its answer to `initialize`.

use anyhow::Result;

use crate::Asked;
use crate::client::Spawned;
use crate::report::{Figure, Goal};
use crate::sample::Samples;
use crate::stage::Stage;

/// The goal for the median, in seconds.
const GOAL: f64 = 0.005;

/// Shims that are spawned before anything counts.
const WARM_UP: usize = 10;
/// Shims that count.
const SPAWNS: usize = 200;

pub(crate) fn measure(asked: &Asked) -> Result<Vec<Figure>> {
    let stage = Stage::set(&asked.programs)?;
    let mut took = Vec::new();
    for round in 0..WARM_UP + SPAWNS {
        let shim = Spawned::shim(&asked.programs.shim, &stage.daemon.sockets)?;
        if round >= WARM_UP {
            took.push(shim.took);
        }
    }
    let figure = Samples::new(took)?
        .figure(format!("shim: spawn to initialize, of {SPAWNS}"))
        .goal(Goal::Below(GOAL));
    Ok(vec![figure])
}
