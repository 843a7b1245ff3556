//! How many events a second get into the journal: appended by a program of ours, and
//! coming over the WebSocket as fast as a server can send them.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use cozyvtt_proto::client::Client;
use cozyvtt_proto::control::{EventPoll, PollParams};
use cozyvtt_table::Account;
use cozyvtt_tests::peer::{Cast, Peer, Step, send, wait};
use cozyvttd::journal::{Event, Journal};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use crate::Asked;
use crate::report::{Figure, Goal, Unit, number};
use crate::stage::{Daemon, PATIENCE, Programs, driver, folder};

/// The goal, in events per second.
const GOAL: f64 = 50_000.0;

/// How many rolls the journal keeps before it drops the oldest for every new one.
const KEPT: u64 = 20_000;

/// Rolls that count, once the journal is full.
const ROLLS: u64 = 100_000;

/// Rolls that are made at once, so that making them is not measured.
const PILE: u64 = 20_000;

/// Events that come over the WebSocket.
const SENT: u64 = 50_000;

pub(crate) fn measure(asked: &Asked) -> Result<Vec<Figure>> {
    let folder = folder()?;
    let runtime = Runtime::new()?;
    let journal = Journal::open(&folder.path().join("journal.sqlite"))?;
    let filling = runtime.block_on(append(&journal, 0..KEPT))?;
    let full = runtime.block_on(append(&journal, KEPT..KEPT + ROLLS))?;
    runtime.block_on(journal.close())?;
    drop(runtime);
    let live = over_the_wire(&asked.programs)?;
    let rate = |what: &str, events: u64, took: Duration| {
        Figure::new(what, number(events) / took.as_secs_f64(), Unit::PerSecond)
    };
    Ok(vec![
        rate("events into a journal with room", KEPT, filling),
        rate("events into a journal that drops old ones", ROLLS, full).goal(Goal::AtLeast(GOAL)),
        rate("events from the WebSocket into the journal", SENT, live),
    ])
}

/// Appends rolls of these numbers; tells how long it took until all were committed.
async fn append(journal: &Journal, rolls: std::ops::Range<u64>) -> Result<Duration> {
    let mut took = Duration::ZERO;
    for begin in rolls.clone().step_by(usize::try_from(PILE)?) {
        let numbers = begin..rolls.end.min(begin + PILE);
        let pile: Vec<_> = numbers
            .map(|number| Event::new("dice.rolled", roll(number), 1))
            .collect();
        let start = Instant::now();
        let mut last = 0;
        for event in pile {
            last = journal.append(event).await?;
        }
        journal.committed(last).await?;
        took += start.elapsed();
    }
    let health = journal.health();
    ensure!(health.trouble.is_none(), "{:?}", health.trouble);
    Ok(took)
}

/// A roll as CozyVTT tells of one.
fn roll(number: u64) -> Value {
    json!({
        "id": format!("6f9a1c52-7d0e-4f0a-9c55-{number:012x}"),
        "userId": "3b0c9a52-7d0e-4f0a-9c55-0f6f3f1b7a11",
        "userName": "Player One",
        "characterName": "Brenna Ironfoot",
        "expression": "2d6+3",
        "purpose": "Greataxe, damage",
        "result": 12,
        "breakdown": [{"type": "dice", "count": 2, "sides": 6, "rolls": [4, 5], "total": 9},
            {"type": "modifier", "total": 3}],
        "secret": false,
        "timestamp": "2026-11-30T20:15:42.123Z",
    })
}

/// Lets a bare WebSocket send all it has to a daemon; tells how long it took until the
/// last event was committed.
fn over_the_wire(programs: &Programs) -> Result<Duration> {
    let account = Account {
        email: "speed@table.example".to_owned(),
        password: "Lantern-speed-9!".to_owned(),
        user_id: "u1".to_owned(),
        display_name: "Speed".to_owned(),
    };
    let cast = Cast {
        user: account.user_id.clone(),
        campaign: "c1".to_owned(),
    };
    let begin = Arc::new(Notify::new());
    let runtime = Runtime::new()?;
    let peer = runtime.block_on(Peer::start("", cast.clone(), vec![script(&cast, &begin)]))?;
    let daemon = Daemon::start(programs, peer.url(), &account, &cast.campaign)?;
    let client = Client::new(&daemon.sockets);
    let took = driver()?.block_on(async {
        let newest = async || -> Result<u64> {
            let ask = PollParams {
                since: 0,
                limit: 1,
                campaign: None,
            };
            let page = client.call::<EventPoll>(ask, PATIENCE).await?;
            Ok(page.high_water_seq)
        };
        let wanted = newest().await? + SENT;
        let start = Instant::now();
        begin.notify_one();
        // A poll waits for what was appended before it, and tells of nothing else.
        while newest().await? < wanted {
            ensure!(start.elapsed() < PATIENCE, "events are missing");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(start.elapsed())
    })?;
    drop(daemon);
    drop(peer);
    Ok(took)
}

/// A server's side of a connection on which rolls come without a pause.
fn script(cast: &Cast, begin: &Arc<Notify>) -> Vec<Step> {
    let open = json!({"sid": "s", "upgrades": [], "pingInterval": 25_000, "pingTimeout": 60_000,
        "maxPayload": 1_000_000});
    let campaign = json!(["authenticate", {"campaignId": cast.campaign}]);
    let accepted = json!(["authenticated", {"success": true, "campaignId": cast.campaign,
        "userId": cast.user, "role": "DM"}]);
    let mut steps = vec![
        send(format!("0{open}")),
        wait("40"),
        send(r#"40{"sid":"n"}"#),
        send(r#"42["connected",{"socketId":"n"}]"#),
        wait(format!("42{campaign}")),
        send(format!("42{accepted}")),
        wait(r#"42["initiative.request_state"]"#),
        Step::Hold(Arc::clone(begin)),
    ];
    for number in 0..SENT {
        let mut text = String::from("42");
        // Writing to a text does not fail.
        let _ = write!(text, "{}", json!(["dice.rolled", roll(number)]));
        steps.push(send(text));
    }
    steps
}
