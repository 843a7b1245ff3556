//! How a session ends: at the end of stdin, and when the client is dead.

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::stage::{DEADLINE, Stage, eventually, request};

#[test]
fn a_last_line_without_a_newline_is_passed_on_with_one() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.say(request(1, "a").trim_end());
    shim.end();
    assert_eq!(peer.hear(), request(1, "a"));
}

#[test]
fn after_the_end_of_stdin_outstanding_answers_are_delivered() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.ask(1, "tools/call");
    shim.ask(2, "tools/call");
    shim.end();
    peer.hear();
    peer.hear();
    assert_eq!(peer.hear(), "", "the socket is half-closed");
    let answers = [
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n",
    ];
    for answer in answers {
        peer.say(answer);
    }
    assert_eq!(
        shim.exit(),
        (Some(0), answers.map(String::from).into(), String::new())
    );
}

#[test]
fn with_nothing_outstanding_the_end_of_stdin_ends_it_at_once() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.ask(1, "a");
    peer.hear();
    peer.say("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
    shim.hear();
    shim.end();
    // The daemon does nothing about it and keeps the connection open.
    assert_eq!(shim.exit(), (Some(0), vec![], String::new()));
    drop(peer);
}

#[test]
fn a_request_of_the_daemon_is_not_taken_for_an_answer() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.ask(1, "tools/call");
    peer.hear();
    peer.say(&request(1, "elicitation/create"));
    assert_eq!(shim.hear(), request(1, "elicitation/create"));
    shim.say("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"action\":\"accept\"}}\n");
    shim.end();
    peer.hear();
    assert_eq!(peer.hear(), "");
    let answer = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n";
    peer.say(answer);
    assert_eq!(shim.exit().1, [answer]);
}

#[test]
fn a_request_that_was_taken_back_is_not_waited_for() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.ask(1, "tools/call");
    peer.hear();
    shim.say("{\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}\n");
    peer.hear();
    // It is too late for this answer, and the client does not want it any more.
    peer.say("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
    drop(peer);
    let (id, error) = {
        shim.ask(2, "tools/list");
        shim.hear_error()
    };
    assert_eq!(id, 2, "{error}");
    shim.end();
    assert_eq!(shim.exit().1, [""; 0]);
}

#[test]
fn answers_that_never_come_are_waited_for_two_seconds_at_most() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.ask(1, "tools/call");
    peer.hear();
    let before = std::time::Instant::now();
    shim.end();
    let (code, lines, _) = shim.exit();
    assert_eq!((code, lines.len()), (Some(0), 1), "{lines:?}");
    let told = "outcome unknown, check before repeating";
    assert!(lines[0].contains(told), "{lines:?}");
    assert!(before.elapsed() >= Duration::from_secs(2));
    drop(peer);
}

#[test]
fn a_client_that_takes_no_answer_does_not_keep_it_after_the_end_of_stdin() {
    let stage = Stage::new();
    let daemon = stage.daemon();
    let mut child = stage
        .command()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut peer = daemon.accept();
    peer.welcome();
    let mut stdin = child.stdin.take().unwrap();
    for id in [1, 2] {
        stdin
            .write_all(request(id, "tools/call").as_bytes())
            .unwrap();
        peer.hear();
    }
    // More than the pipe holds; the test's end of it stays open and unread.
    let long = "x".repeat(100_000);
    peer.say(&format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"{long}\"}}\n"
    ));
    drop(stdin);
    assert_eq!(peer.hear(), "", "the socket is half-closed");
    let unread = child.stdout.take();
    let status = eventually(move || child.wait().unwrap());
    assert!(status.recv_timeout(DEADLINE).unwrap().success());
    drop(unread);
}

#[test]
fn an_empty_stdin_ends_it_at_once_whether_or_not_there_is_a_daemon() {
    let stage = Stage::new();
    let run = || {
        let mut command = stage.command();
        command.stdin(Stdio::null()).output().unwrap()
    };
    assert!(run().status.success());
    // This one lets the shim connect, and never answers the hello.
    let _daemon = stage.daemon();
    let before = std::time::Instant::now();
    let output = run();
    assert!(output.status.success());
    assert!(output.stdout.is_empty());
    assert!(before.elapsed() < Duration::from_secs(2));
}

#[test]
fn what_is_piped_in_before_the_daemon_is_there_is_answered_as_well() {
    let stage = Stage::new();
    let daemon = stage.daemon();
    let mut shim = stage.shim();
    shim.ask(1, "initialize");
    shim.ask(2, "tools/list");
    shim.end();
    let mut peer = daemon.accept();
    peer.welcome();
    assert_eq!(peer.hear(), request(1, "initialize"));
    assert_eq!(peer.hear(), request(2, "tools/list"));
    assert_eq!(peer.hear(), "", "the socket is half-closed");
    let answers = [1, 2].map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n"));
    for answer in &answers {
        peer.say(answer);
    }
    assert_eq!(shim.exit(), (Some(0), answers.into(), String::new()));
}

#[test]
fn a_signal_to_end_ends_it_at_once_whatever_is_outstanding() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.ask(1, "tools/call");
    peer.hear();
    let before = std::time::Instant::now();
    let pid = Pid::from_raw(shim.pid.try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(peer.hear(), "", "the connection is closed");
    let (code, lines, _) = shim.exit();
    assert_eq!((code, lines), (None, vec![]), "it ended by the signal");
    assert!(before.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_client_that_only_keeps_its_pipes_open_costs_no_time() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.ask(1, "tools/list");
    peer.hear();
    peer.say("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
    shim.hear();
    // The threads that have just worked find that there is nothing more to do.
    let second = Duration::from_secs(1);
    let before = shim.turns();
    shim.is_silent_for(second);
    let turns = shim.turns() - before;
    assert!(turns < 8, "{turns} turns in a second with a daemon");
    // Without one, it is looked for ever more seldom.
    drop(peer);
    let before = shim.turns();
    shim.is_silent_for(second);
    let turns = shim.turns() - before;
    assert!(turns < 40, "{turns} turns in a second without a daemon");
}

#[test]
fn a_client_that_closes_stdout_ends_it_even_if_stdin_stays_open() {
    let stage = Stage::new();
    let daemon = stage.daemon();
    let mut command = stage.command();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut peer = daemon.accept();
    peer.welcome();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(request(1, "a").as_bytes()).unwrap();
    peer.hear();
    drop(child.stdout.take());
    assert_eq!(peer.hear(), "", "the shim has closed the connection");
    assert!(child.wait().unwrap().success());
}
