//! What a client costs in memory: its shim, and what the daemon keeps for it.

use anyhow::Result;

use crate::Asked;
use crate::client::Spawned;
use crate::report::{Figure, Unit, number};
use crate::sample::middle;
use crate::stage::Stage;

/// Shims at once.
const SHIMS: usize = 50;

/// What one client costs, in bytes.
pub(crate) struct Cost {
    /// A shim, pages that it shares with other shims and programs included.
    pub(crate) shim: f64,
    /// A shim's own part, with [`SHIMS`] of them there.
    proportional: f64,
    /// By how much the daemon grows.
    pub(crate) daemon: f64,
}

pub(crate) fn cost(asked: &Asked) -> Result<Cost> {
    let stage = Stage::set(&asked.programs)?;
    let start = || -> Result<Spawned> {
        let mut shim = Spawned::shim(&asked.programs.shim, &stage.daemon.sockets)?;
        // The first thing that every client does, and the longest line there is.
        shim.client.tools()?;
        Ok(shim)
    };
    // What the daemon needs for its first client is not what it needs for each.
    drop(start()?);
    let before = stage.daemon.process.resident()?;
    let shims = (0..SHIMS)
        .map(|_| start())
        .collect::<Result<Vec<Spawned>>>()?;
    let after = stage.daemon.process.resident()?;
    let each = |look: fn(&Spawned) -> Result<u64>| -> Result<f64> {
        let all = shims.iter().map(look).collect::<Result<Vec<_>>>()?;
        Ok(number(middle(all)?))
    };
    Ok(Cost {
        shim: each(|shim| shim.process.resident())?,
        proportional: each(|shim| shim.process.proportional())?,
        daemon: (number(after) - number(before)) / number(SHIMS as u64),
    })
}

pub(crate) fn measure(asked: &Asked) -> Result<Vec<Figure>> {
    let cost = cost(asked)?;
    let figure = |what: &str, bytes| Figure::new(what, bytes, Unit::Bytes);
    Ok(vec![
        figure("shim: resident memory", cost.shim),
        figure(
            &format!("shim: its part of it (PSS), {SHIMS} at once"),
            cost.proportional,
        ),
        figure("daemon: growth for each client", cost.daemon),
    ])
}
