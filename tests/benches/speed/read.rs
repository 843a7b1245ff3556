//! A read through shim and daemon, against the same request straight to the table.
//!
//! The two kinds of calls take turns, so that a machine that gets busier or slower does so
//! for both.

use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::Asked;
use crate::client::{Spawned, connect};
use crate::direct::{Direct, SignedIn};
use crate::report::{Figure, Goal, Unit};
use crate::sample::Samples;
use crate::stage::Stage;

/// The goal for the overhead of a client that is alone, in seconds.
const GOAL: f64 = 150e-6;

/// Calls of each kind before anything counts.
const WARM_UP: usize = 100;
/// Calls of each kind that count, of a client that is alone.
const CALLS: usize = 2000;

/// Clients at once.
const CROWD: usize = 50;
/// How often all of them do some calls of the one kind, then of the other. The first
/// time does not count.
const ROUNDS: usize = 9;
/// Calls that each does in a row.
const ROW: usize = 10;

pub(crate) fn measure(asked: &Asked) -> Result<Vec<Figure>> {
    let mut figures = alone(asked)?;
    figures.extend(crowd(asked)?);
    Ok(figures)
}

fn alone(asked: &Asked) -> Result<Vec<Figure>> {
    let stage = Stage::set(&asked.programs)?;
    let sockets = &stage.daemon.sockets;
    let mut shim = Spawned::shim(&asked.programs.shim, sockets)?;
    let mut socket = connect(sockets)?;
    let direct = Direct::new(SignedIn::at(&stage.table)?)?;
    let (mut through, mut at_socket, mut straight) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..WARM_UP + CALLS {
        let took = [
            shim.client.map_list()?,
            direct.map_list()?,
            socket.map_list()?,
        ];
        if round >= WARM_UP {
            through.push(took[0]);
            straight.push(took[1]);
            at_socket.push(took[2]);
        }
    }
    let through = Samples::new(through)?;
    let straight = Samples::new(straight)?;
    let overhead = through.median() - straight.median();
    Ok(vec![
        straight.figure("map_list straight to the table"),
        through.figure("map_list through shim and daemon"),
        Samples::new(at_socket)?.figure("the same without the shim, at mcp.sock"),
        Figure::new("overhead of shim and daemon", overhead, Unit::Seconds).goal(Goal::Below(GOAL)),
    ])
}

/// What one client of the crowd has measured.
#[derive(Default)]
struct Times {
    through: Vec<Duration>,
    straight: Vec<Duration>,
}

fn crowd(asked: &Asked) -> Result<Vec<Figure>> {
    let stage = Stage::set(&asked.programs)?;
    let session = SignedIn::at(&stage.table)?;
    let together = Barrier::new(CROWD);
    let one = || {
        member(
            &asked.programs.shim,
            &stage.daemon.sockets,
            &session,
            &together,
        )
    };
    let times = std::thread::scope(|scope| {
        let members: Vec<_> = (0..CROWD).map(|_| scope.spawn(one)).collect();
        let times = members.into_iter().map(|member| {
            let outcome = member.join().ok().context("a client broke")?;
            outcome.context("one of the crowd")
        });
        times.collect::<Result<Vec<Times>>>()
    })?;
    let gather = |of: fn(&Times) -> &Vec<Duration>| {
        Samples::new(times.iter().flat_map(of).copied().collect())
    };
    let straight = gather(|times| &times.straight)?;
    let through = gather(|times| &times.through)?;
    let overhead = through.median() - straight.median();
    Ok(vec![
        straight.figure(format!("straight, {CROWD} clients at once")),
        through.figure(format!("through shim and daemon, {CROWD} at once")),
        Figure::new(
            format!("overhead, {CROWD} at once"),
            overhead,
            Unit::Seconds,
        ),
    ])
}

/// One client of the crowd. Whatever happens to it, it meets the others at every barrier,
/// or they would wait for ever.
fn member(shim: &Path, sockets: &Path, session: &SignedIn, together: &Barrier) -> Result<Times> {
    let mut ends =
        Spawned::shim(shim, sockets).and_then(|shim| Ok((shim, Direct::new(session.clone())?)));
    let mut times = Times::default();
    for round in 0..ROUNDS {
        together.wait();
        ends = ends.and_then(|(mut shim, direct)| {
            let through = row(|| shim.client.map_list())?;
            if round > 0 {
                times.through.extend(through);
            }
            Ok((shim, direct))
        });
        together.wait();
        ends = ends.and_then(|(shim, direct)| {
            let straight = row(|| direct.map_list())?;
            if round > 0 {
                times.straight.extend(straight);
            }
            Ok((shim, direct))
        });
    }
    ends.map(|_| times)
}

fn row(mut call: impl FnMut() -> Result<Duration>) -> Result<Vec<Duration>> {
    (0..ROW).map(|_| call()).collect()
}
