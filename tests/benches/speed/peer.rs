//! A server of the usual kind beside ours: FastMCP with as many tools, started by every
//! client for itself.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::Asked;
use crate::client::Spawned;
use crate::memory;
use crate::report::{Figure, Goal, Unit, number};
use crate::sample::{Samples, middle};
use crate::stage::Stage;

/// How many times faster a shim has to be.
const FASTER: f64 = 300.0;
/// How many times the memory of a shim the peer has to need.
const LEANER: f64 = 30.0;

/// The server.
const SERVER: &str = include_str!("peer.py");
/// How many tools it has.
const TOOLS: usize = 41;

/// Peers that are spawned before anything counts.
const WARM_UP: usize = 2;
/// Peers that count.
const SPAWNS: usize = 11;
/// Shims that are spawned after each of them.
const SHIMS: usize = 20;

pub(crate) fn measure(asked: &Asked) -> Result<Vec<Figure>> {
    let python = asked.peer.as_ref();
    let python = python.context("this takes --peer PYTHON")?;
    let mut server = tempfile::Builder::new().suffix(".py").tempfile()?;
    server.write_all(SERVER.as_bytes())?;
    let stage = Stage::set(&asked.programs)?;
    let (mut peers, mut shims, mut resident) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..WARM_UP + SPAWNS {
        let mut command = Command::new(python);
        command.arg(server.path()).stderr(Stdio::null());
        let mut peer = Spawned::start(&mut command).context(
            "the peer did not start; is this a Python with fastmcp (pip install fastmcp)?",
        )?;
        let tools = peer.client.tools()?;
        ensure!(tools == TOOLS, "the peer has {tools} tools");
        if round >= WARM_UP {
            peers.push(peer.took);
            resident.push(peer.process.resident()?);
        }
        drop(peer);
        for _ in 0..SHIMS {
            let shim = Spawned::shim(&asked.programs.shim, &stage.daemon.sockets)?;
            if round >= WARM_UP {
                shims.push(shim.took);
            }
        }
    }
    drop(stage);
    let peers = Samples::new(peers)?;
    let faster = peers.median() / Samples::new(shims)?.median();
    let resident = number(middle(resident)?);
    let cost = memory::cost(asked)?;
    Ok(vec![
        Figure::new(
            format!("peer (FastMCP, {TOOLS} tools): spawn to initialize"),
            peers.median(),
            Unit::Seconds,
        ),
        Figure::new("a shim is faster by", faster, Unit::Times).goal(Goal::AtLeast(FASTER)),
        Figure::new("peer: resident memory", resident, Unit::Bytes),
        Figure::new(
            "peer's memory over a shim's",
            resident / cost.shim,
            Unit::Times,
        )
        .goal(Goal::AtLeast(LEANER)),
        Figure::new(
            "peer's over a shim's and the daemon's growth",
            resident / (cost.shim + cost.daemon),
            Unit::Times,
        )
        .goal(Goal::AtLeast(LEANER)),
    ])
}
