//! When the daemon is not there, goes away, or does not want the shim.

use serde_json::{Value, json};

use crate::stage::{Shim, Stage, request};

/// The shim's next line has to be an error of this kind for request `id`; its
/// message.
fn expect_error(shim: &mut Shim, id: &Value, kind: &str) -> String {
    let (answered, error) = shim.hear_error();
    assert_eq!(answered, *id, "{error}");
    assert_eq!(error["code"], -32000);
    assert_eq!(
        error["data"],
        json!({"kind": kind, "hop": "shim -> daemon"})
    );
    error["message"].as_str().unwrap().to_owned()
}

#[test]
fn without_a_daemon_requests_are_answered_with_what_mends_it() {
    let stage = Stage::new();
    let mut shim = stage.shim();
    shim.ask(1, "initialize");
    let message = expect_error(&mut shim, &json!(1), "daemon_unreachable");
    assert!(
        message.contains(stage.socket().to_str().unwrap()),
        "{message}"
    );
    assert!(message.contains("Nothing was sent"), "{message}");
    assert!(message.contains("cozyvttctl status"), "{message}");
    // Notifications are not answered, other ids keep their type.
    shim.say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    shim.say("{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"method\":\"tools/list\"}\n");
    expect_error(&mut shim, &json!("1"), "daemon_unreachable");
    shim.say("not JSON\n");
    expect_error(&mut shim, &json!(null), "daemon_unreachable");
    shim.end();
    let (code, lines, log) = shim.exit();
    assert_eq!((code, lines.len()), (Some(0), 0));
    assert_eq!(log.lines().count(), 1, "{log}");
}

#[test]
fn a_stale_socket_is_no_daemon() {
    let stage = Stage::new();
    drop(stage.daemon());
    assert!(stage.socket().exists());
    let mut shim = stage.shim();
    shim.ask(1, "initialize");
    expect_error(&mut shim, &json!(1), "daemon_unreachable");
}

#[test]
fn a_ping_is_answered_even_without_a_daemon() {
    let stage = Stage::new();
    let mut shim = stage.shim();
    shim.say("{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}\n");
    assert_eq!(
        shim.hear(),
        "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"result\":{}}\n"
    );
}

#[test]
fn a_client_that_is_earlier_than_the_daemon_is_served_once_the_daemon_is_there() {
    let stage = Stage::new();
    let mut shim = stage.shim();
    shim.ask(1, "initialize");
    expect_error(&mut shim, &json!(1), "daemon_unreachable");
    let daemon = stage.daemon();
    shim.ask(2, "initialize");
    let mut peer = daemon.accept();
    peer.welcome();
    assert_eq!(peer.hear(), request(2, "initialize"));
}

#[test]
fn a_daemon_that_restarts_before_the_first_message_is_found_again() {
    let stage = Stage::new();
    let (mut shim, peer) = stage.connected();
    drop(peer);
    let daemon = stage.daemon();
    shim.ask(1, "initialize");
    let mut peer = daemon.accept();
    peer.welcome();
    assert_eq!(peer.hear(), request(1, "initialize"));
}

#[test]
fn a_refusal_answers_every_request_in_the_daemons_words() {
    let stage = Stage::new();
    let daemon = stage.daemon();
    let mut shim = stage.shim();
    let refuse = || {
        let mut peer = daemon.accept();
        peer.hear();
        peer.say("{\"cozyvtt\":{\"protocol\":2,\"version\":\"9.0.0\",\"refused\":\"Update the shim.\"}}\n");
    };
    refuse();
    for id in [1, 2] {
        shim.ask(id, "tools/list");
        refuse();
        let message = expect_error(&mut shim, &json!(id), "refused");
        assert!(message.contains("Update the shim."), "{message}");
    }
}

#[test]
fn something_else_that_listens_there_is_not_talked_to() {
    let stage = Stage::new();
    let daemon = stage.daemon();
    let mut shim = stage.shim();
    shim.ask(1, "tools/list");
    for _ in 0..2 {
        let mut peer = daemon.accept();
        peer.hear();
        peer.say("HTTP/1.1 400 Bad Request\n");
        assert_eq!(peer.hear(), "");
    }
    expect_error(&mut shim, &json!(1), "daemon_unreachable");
}

#[test]
fn a_call_in_flight_when_the_daemon_dies_has_an_unknown_outcome() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.ask(1, "tools/call");
    shim.ask(2, "tools/list");
    shim.ask(3, "tools/call");
    for _ in 0..3 {
        peer.hear();
    }
    peer.say("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}\n");
    drop(peer);
    assert_eq!(
        shim.hear(),
        "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}\n"
    );
    let message = expect_error(&mut shim, &json!(1), "daemon_gone");
    assert!(
        message.contains("outcome unknown, check before repeating"),
        "{message}"
    );
    let message = expect_error(&mut shim, &json!(2), "daemon_gone");
    assert!(message.contains("can be repeated"), "{message}");
    // Later requests were not sent, and pings keep the client content.
    shim.ask(4, "tools/call");
    let message = expect_error(&mut shim, &json!(4), "daemon_gone");
    assert!(message.contains("Nothing was sent"), "{message}");
    shim.ask(5, "ping");
    assert_eq!(
        shim.hear(),
        "{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}\n"
    );
    shim.end();
    let (code, lines, log) = shim.exit();
    assert_eq!((code, lines.len()), (Some(0), 0));
    assert_eq!(log.lines().count(), 1, "{log}");
}

#[test]
fn a_session_with_a_past_does_not_start_over_with_another_daemon() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.ask(1, "initialize");
    peer.hear();
    drop(peer);
    expect_error(&mut shim, &json!(1), "daemon_gone");
    let _daemon = stage.daemon();
    shim.ask(2, "tools/call");
    expect_error(&mut shim, &json!(2), "daemon_gone");
}

#[test]
fn a_daemon_that_only_stops_talking_is_gone_too() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.ask(1, "tools/call");
    peer.hear();
    peer.hang_up();
    expect_error(&mut shim, &json!(1), "daemon_gone");
    assert_eq!(peer.hear(), "", "the shim has closed its side as well");
}

#[test]
fn what_a_dying_daemon_left_unfinished_is_not_passed_on() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.ask(1, "tools/call");
    peer.hear();
    peer.say("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[");
    drop(peer);
    expect_error(&mut shim, &json!(1), "daemon_gone");
    shim.end();
    assert_eq!(shim.exit().1, [""; 0]);
}

#[test]
fn a_daemon_that_dies_after_the_end_of_stdin_still_leaves_an_answer() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.ask(1, "tools/call");
    shim.end();
    peer.hear();
    assert_eq!(peer.hear(), "");
    drop(peer);
    expect_error(&mut shim, &json!(1), "daemon_gone");
    assert_eq!(shim.exit().0, Some(0));
}

#[test]
fn a_daemon_that_dies_while_a_long_line_is_sent_leaves_one_answer() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.ask(1, "initialize");
    peer.hear();
    peer.say("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
    shim.hear();
    // More than the socket buffers: the shim is stuck in the middle of it.
    let long = "x".repeat(4 * 1024 * 1024);
    shim.say(&format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":\"{long}\"}}\n"
    ));
    peer.hear_beginning();
    drop(peer);
    let message = expect_error(&mut shim, &json!(2), "daemon_gone");
    assert!(message.contains("Nothing was sent"), "{message}");
    shim.end();
    assert_eq!(shim.exit().1, [""; 0]);
}

#[test]
fn a_daemon_that_stops_talking_in_the_middle_of_a_long_line_frees_the_shim() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.ask(1, "initialize");
    peer.hear();
    peer.say("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
    shim.hear();
    let long = "x".repeat(4 * 1024 * 1024);
    shim.say(&format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":\"{long}\"}}\n"
    ));
    peer.hear_beginning();
    peer.hang_up();
    expect_error(&mut shim, &json!(2), "daemon_gone");
    shim.ask(3, "tools/call");
    expect_error(&mut shim, &json!(3), "daemon_gone");
    drop(peer);
}
