//! Daemons that end under a hundred calls, and what becomes of each of them.

#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot go on has failed

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use cozyvtt_table::{Exchange, Table};
use cozyvtt_tests::daemon::{Daemon, Home};
use cozyvtt_tests::raw::Wire;
use cozyvtt_tests::seat::fence;
use cozyvtt_tests::until;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::process::Child;

const SHIMS: usize = 5;
const CALLS: usize = 100;

/// The call of a number: half of them read, the others leave a trace of their own.
fn call(number: usize, map: &str) -> Value {
    let name = name(number);
    let (tool, arguments) = match number % 10 {
        0 => ("chat_send", json!({"content": name})),
        2 => ("dice_roll", json!({"expression": "1d20", "purpose": name})),
        4 => ("character_create", json!({"name": name})),
        6 => (
            "token_add",
            json!({"map_id": map, "name": name, "image_url": "/a.png", "x": 1, "y": 1}),
        ),
        8 => ("chat_send", json!({"content": name, "type": "DM"})),
        1 | 5 => ("map_list", json!({})),
        3 => ("campaign_get", json!({})),
        _ => ("character_list", json!({})),
    };
    json!({"name": tool, "arguments": arguments})
}

fn name(number: usize) -> String {
    format!("call-{number:03}")
}

fn reads(number: usize) -> bool {
    number % 2 == 1
}

/// Whether the server has said that it is done.
fn is_confirmed(number: usize) -> bool {
    matches!(number % 10, 4 | 6)
}

/// How often the table has got the write of a number.
fn seen(table: &Table, map: &str) -> BTreeMap<usize, usize> {
    let chat = table.chat().into_iter().map(|line| line.content);
    let rolls = table
        .rolls()
        .into_iter()
        .filter_map(|roll| Some(roll.event["purpose"].as_str()?.to_owned()));
    let sheets = table.log().requests_to("POST", "/api/characters");
    let tokens = table.tokens(map).into_iter();
    let named = sheets
        .iter()
        .map(Exchange::json)
        .chain(tokens)
        .filter_map(|thing| Some(thing["name"].as_str()?.to_owned()));
    let all: Vec<_> = chat.chain(rolls).chain(named).collect();
    let count = |number: usize| all.iter().filter(|text| **text == name(number)).count();
    (0..CALLS).map(|number| (number, count(number))).collect()
}

/// What came of a hundred calls while the daemon was brought down and up again.
struct Outcome {
    answers: BTreeMap<usize, Value>,
    /// The writes that the table had got when the daemon was gone.
    early: BTreeSet<usize>,
    seen: BTreeMap<usize, usize>,
}

impl Outcome {
    fn succeeded(&self, number: usize) -> bool {
        self.answers[&number]["result"]["structuredContent"]["ok"] == true
    }
}

/// A hundred calls of five shims; once the table has got `after` of their writes the daemon
/// gets `signal`, and another one is started when it has ended.
async fn a_hundred_calls(signal: Signal, after: usize) -> Result<Outcome> {
    let table = Table::builder()
        .write_hold(Duration::from_millis(20))
        .start()
        .await?;
    let home = Home::at(&table, "dm")?;
    let mut daemon = home.start_at_table().await?;
    let map = table.current_map().context("no map")?;
    let mut shims: Vec<(Wire, Child)> = Vec::new();
    for _ in 0..SHIMS {
        let (mut wire, shim) = Wire::spawn(&mut home.shim_command())?;
        wire.shake_hands().await?;
        shims.push((wire, shim));
    }
    for number in 0..CALLS {
        let wire = &mut shims[number % SHIMS].0;
        wire.request(number, "tools/call", call(number, &map))
            .await?;
    }
    until("the table has a part of it", || async {
        let seen = seen(&table, &map).into_values().sum::<usize>();
        (seen >= after).then_some(())
    })
    .await;
    daemon.signal(signal)?;
    daemon.ended().await?;
    let early = seen(&table, &map);
    let _next: Daemon<'_> = home.start().await?;
    let mut answers = BTreeMap::new();
    for (at, (wire, _)) in shims.iter_mut().enumerate() {
        for _ in 0..CALLS / SHIMS {
            let answer = wire.next().await?;
            let number = answer["id"].as_u64().context("no id")?.try_into()?;
            ensure!(number % SHIMS == at, "an answer went astray: {answer}");
            ensure!(
                answers.insert(number, answer).is_none(),
                "{number} was answered twice"
            );
        }
        // Nothing is left over.
        wire.is_alive().await?;
    }
    // What was sent last has arrived with this.
    fence(&table, &home).await?;
    let writes = (0..CALLS).filter(|number| !reads(*number));
    let early = writes.filter(|number| early[number] > 0).collect();
    let seen = seen(&table, &map);
    Ok(Outcome {
        answers,
        early,
        seen,
    })
}

#[tokio::test]
async fn a_restart_in_order_fails_none_of_a_hundred_calls() -> Result<()> {
    let outcome = a_hundred_calls(Signal::TERM, 8).await?;
    for number in 0..CALLS {
        let answer = &outcome.answers[&number];
        assert!(outcome.succeeded(number), "{number}: {answer}");
        if !reads(number) {
            assert_eq!(outcome.seen[&number], 1, "{number}: {answer}");
        }
    }
    Ok(())
}

/// What the next daemon made of a hundred calls under which the last one was killed.
async fn killed(after: usize) -> Result<()> {
    let outcome = a_hundred_calls(Signal::KILL, after).await?;
    let (mut unknown, mut late) = (0, 0);
    for number in 0..CALLS {
        let (answer, seen) = (&outcome.answers[&number], outcome.seen[&number]);
        let succeeded = outcome.succeeded(number);
        if reads(number) {
            assert!(succeeded, "{number}: {answer}");
            continue;
        }
        assert!(seen <= 1, "{number} was done {seen} times: {answer}");
        if succeeded {
            assert!(seen == 1 || !is_confirmed(number), "{number}: {answer}");
            late += usize::from(!outcome.early.contains(&number));
        } else {
            let told = answer.to_string();
            let says_so = ["outcome unknown", "outcome is unknown"];
            assert!(
                says_so.iter().any(|words| told.contains(words)),
                "{number}: {answer}"
            );
            unknown += 1;
        }
    }
    println!(
        "killed after {after} of 50 writes: of {unknown} the outcome is unknown, {late} were done by \
         the next daemon, none was done twice"
    );
    // Most of them wait for their turn, and have not left.
    assert!(
        late > unknown,
        "{late} were done afterwards, {unknown} are unknown"
    );
    Ok(())
}

#[tokio::test]
async fn a_daemon_killed_at_once_under_a_hundred_calls_does_none_of_them_twice() -> Result<()> {
    killed(0).await
}

#[tokio::test]
async fn a_daemon_killed_soon_under_a_hundred_calls_does_none_of_them_twice() -> Result<()> {
    killed(1).await
}

#[tokio::test]
async fn a_daemon_killed_later_under_a_hundred_calls_does_none_of_them_twice() -> Result<()> {
    killed(15).await
}
