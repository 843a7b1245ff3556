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
fn so_many_requests_wait_and_one_more_is_refused_at_once() {
    let stage = Stage::new();
    let mut shim = Shim::start(&mut stage.patient(60));
    for id in 0..512 {
        shim.ask(id, "tools/call");
    }
    shim.say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n");
    for id in [512, 513] {
        shim.ask(id, "tools/call");
        let message = expect_error(&mut shim, &json!(id), "too_much_waits");
        assert!(message.contains("512"), "{message}");
        assert!(message.contains("Nothing was sent"), "{message}");
    }
    shim.say("not JSON\n");
    expect_error(&mut shim, &json!(null), "too_much_waits");
    // Those that wait are none the worse for it; the notification is dropped.
    let daemon = stage.daemon();
    let mut peer = daemon.accept();
    peer.welcome();
    for id in 0..512 {
        assert_eq!(peer.hear(), request(id, "tools/call"));
    }
    shim.ask(514, "tools/call");
    assert_eq!(peer.hear(), request(514, "tools/call"));
}

#[test]
fn so_many_bytes_wait_and_a_request_beyond_is_refused_at_once() {
    let stage = Stage::new();
    let mut shim = Shim::start(&mut stage.patient(60));
    let long = |id: u32| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":\"{}\"}}\n",
            "x".repeat(15 * 1024 * 1024)
        )
    };
    for id in 0..5 {
        shim.say(&long(id));
    }
    let message = expect_error(&mut shim, &json!(4), "too_much_waits");
    assert!(message.contains("64 MiB"), "{message}");
    assert!(message.contains("Nothing was sent"), "{message}");
    // A short one still has room.
    shim.ask(5, "tools/call");
    let daemon = stage.daemon();
    let mut peer = daemon.accept();
    peer.welcome();
    for id in 0..4 {
        assert!(peer.hear() == long(id));
    }
    assert_eq!(peer.hear(), request(5, "tools/call"));
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
fn a_newer_daemon_is_told_with_both_versions_and_the_command_that_mends_it() {
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
        assert!(message.contains("9.0.0"), "{message}");
        assert!(
            message.contains("cargo install --path cozyvtt-shim"),
            "{message}"
        );
    }
}

#[test]
fn an_older_daemon_is_told_with_both_versions_and_the_command_that_mends_it() {
    let stage = Stage::new();
    let daemon = stage.daemon();
    let mut shim = stage.shim();
    shim.ask(1, "tools/list");
    let mut peer = daemon.accept();
    peer.reply(&json!({"protocol": 0, "version": "0.0.9", "instance": "i"}));
    let message = expect_error(&mut shim, &json!(1), "refused");
    for part in [
        "0.0.9",
        env!("CARGO_PKG_VERSION"),
        "cargo install --path cozyvttd",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert!(!message.contains('\n'), "{message}");
    assert_eq!(peer.hear(), "", "nothing was passed on");
}

#[test]
fn daemons_of_other_versions_are_worked_with_while_the_protocol_is_the_same() {
    let stage = Stage::new();
    let mut shim = stage.shim();
    for (id, version) in [(1, "0.0.1"), (2, "9.10.0")] {
        let daemon = stage.daemon();
        shim.ask(id, "resources/list");
        let mut peer = daemon.accept();
        peer.reply(&json!({
            "protocol": 1, "version": version, "instance": version, "a_field_of_tomorrow": true,
        }));
        assert_eq!(peer.hear(), request(id, "resources/list"));
        let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n");
        peer.say(&answer);
        assert_eq!(shim.hear(), answer);
    }
}

#[test]
fn a_daemon_that_never_answers_the_hello_is_told_within_bounds() {
    let stage = Stage::new();
    let daemon = stage.daemon();
    let mut shim = Shim::start(&mut stage.patient(7));
    shim.ask(1, "tools/list");
    let mut peer = daemon.accept();
    assert!(peer.hear().contains("cozyvtt"));
    // Clients that ask whether the shim is alive do not wait for it.
    shim.ask(2, "ping");
    assert_eq!(
        shim.hear(),
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n"
    );
    let message = expect_error(&mut shim, &json!(1), "daemon_silent");
    assert!(message.contains("is there but did not answer"), "{message}");
    assert!(message.contains("Nothing was sent"), "{message}");
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
fn a_call_in_flight_when_the_daemon_dies_for_good_has_an_unknown_outcome() {
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
    let message = expect_error(&mut shim, &json!(1), "daemon_unreachable");
    assert!(
        message.contains("outcome unknown, check before repeating"),
        "{message}"
    );
    let message = expect_error(&mut shim, &json!(2), "daemon_unreachable");
    assert!(message.contains("can be repeated"), "{message}");
    // Later requests were not sent, and pings keep the client content.
    shim.ask(4, "tools/call");
    shim.ask(5, "ping");
    assert_eq!(
        shim.hear(),
        "{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}\n"
    );
    let message = expect_error(&mut shim, &json!(4), "daemon_unreachable");
    assert!(message.contains("Nothing was sent"), "{message}");
    shim.end();
    let (code, lines, log) = shim.exit();
    assert_eq!((code, lines.len()), (Some(0), 0));
    assert_eq!(log.lines().count(), 1, "{log}");
}

#[test]
fn a_daemon_that_only_stops_talking_is_gone_too() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.ask(1, "tools/call");
    peer.hear();
    peer.hang_up();
    expect_error(&mut shim, &json!(1), "daemon_unreachable");
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
    expect_error(&mut shim, &json!(1), "daemon_unreachable");
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
    expect_error(&mut shim, &json!(1), "daemon_unreachable");
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
    let message = expect_error(&mut shim, &json!(2), "daemon_unreachable");
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
    expect_error(&mut shim, &json!(2), "daemon_unreachable");
    shim.ask(3, "tools/call");
    expect_error(&mut shim, &json!(3), "daemon_unreachable");
    drop(peer);
}
