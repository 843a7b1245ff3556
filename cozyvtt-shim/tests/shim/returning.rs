//! When the daemon comes back: what it is told again, and what the client hears.

use serde_json::{Value, json};

use crate::stage::{Peer, Shim, Stage, request};

const INITIALIZE: &str = "{\"jsonrpc\":\"2.0\",\"id\":\"i\",\"method\":\"initialize\",\
    \"params\":{\"protocolVersion\":\"2025-06-18\",\"x\":1.0}}\n";
const INITIALIZED: &str = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";

fn result(id: &Value, result: &Value) -> String {
    format!(
        "{}\n",
        json!({"jsonrpc": "2.0", "id": id, "result": result})
    )
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

/// The shim's next line has to be this answer.
fn expect_result(shim: &mut Shim, id: &Value, result: &Value) {
    let answer = parsed(&shim.hear());
    assert_eq!(
        answer,
        json!({"jsonrpc": "2.0", "id": id, "result": result})
    );
}

/// Shakes hands.
fn shake_hands(shim: &mut Shim, peer: &mut Peer) {
    shim.say(INITIALIZE);
    peer.hear();
    peer.say(&result(&json!("i"), &json!({})));
    shim.hear();
    shim.say(INITIALIZED);
    assert_eq!(peer.hear(), INITIALIZED);
}

/// Answers the handshake that the shim repeats.
fn shake_hands_again(peer: &mut Peer) {
    let again = parsed(&peer.hear());
    assert_eq!(again["method"], "initialize");
    assert_eq!(again["params"]["protocolVersion"], "2025-06-18");
    assert_ne!(again["id"], "i", "the client's id is used up");
    peer.say(&result(&again["id"], &json!({"again": true})));
    assert_eq!(peer.hear(), INITIALIZED);
}

#[test]
fn the_handshake_is_repeated_and_its_second_answer_swallowed() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shake_hands(&mut shim, &mut peer);
    drop(peer);
    let daemon = stage.daemon();
    let mut peer = daemon.accept();
    let hello = peer.welcome_as("another", &json!([]));
    assert_eq!(hello["cozyvtt"]["previous_instance"], "i");
    assert_eq!(hello["cozyvtt"]["resends"], json!(null));
    shake_hands_again(&mut peer);
    shim.ask(2, "tools/list");
    assert_eq!(peer.hear(), request(2, "tools/list"));
    peer.say(&result(&json!(2), &json!({"tools": []})));
    expect_result(&mut shim, &json!(2), &json!({"tools": []}));
}

#[test]
fn what_is_unanswered_is_announced_and_sent_again_if_the_daemon_says_so() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shake_hands(&mut shim, &mut peer);
    let call = |id: &str, tool: &str| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\
             \"params\":{{\"name\":\"{tool}\"}}}}\n"
        )
    };
    shim.say(&call("7", "campaign_get"));
    shim.say(&call("\"7\"", "dice_roll"));
    shim.ask(8, "tools/list");
    shim.ask(9, "resources/read");
    for _ in 0..4 {
        peer.hear();
    }
    drop(peer);
    // Its answer tells that the shim is on its own now.
    shim.ask(10, "ping");
    expect_result(&mut shim, &json!(10), &json!({}));
    shim.say("{\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":9}}\n");
    shim.ask(11, "ping");
    expect_result(&mut shim, &json!(11), &json!({}));
    let daemon = stage.daemon();
    let mut peer = daemon.accept();
    let hello = peer.welcome_as("another", &json!(["again", "unknown", "again"]));
    let resends = hello["cozyvtt"]["resends"].as_array().unwrap();
    let told: Vec<_> = resends
        .iter()
        .map(|resend| json!([resend["id"], resend["method"], resend["tool"]]))
        .collect();
    assert_eq!(
        told,
        [
            json!([7, "tools/call", "campaign_get"]),
            json!(["7", "tools/call", "dice_roll"]),
            json!([8, "tools/list", null]),
        ]
    );
    assert!(resends[0]["age_ms"].is_u64());
    shake_hands_again(&mut peer);
    let (id, error) = shim.hear_error();
    assert_eq!(id, "7");
    assert_eq!(error["data"]["kind"], "daemon_back");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("outcome unknown, check before repeating"),
        "{message}"
    );
    assert_eq!(peer.hear(), call("7", "campaign_get"));
    assert_eq!(peer.hear(), request(8, "tools/list"));
    for id in [8, 7, 7] {
        // The third is one too many.
        peer.say(&result(&json!(id), &json!({})));
    }
    for id in [8, 7] {
        expect_result(&mut shim, &json!(id), &json!({}));
    }
    shim.end();
    assert_eq!(shim.exit().1, [""; 0]);
}

#[test]
fn calls_that_share_an_id_are_each_sent_again_by_their_own_verdict() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    let call = |tool: &str| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\
             \"params\":{{\"name\":\"{tool}\"}}}}\n"
        )
    };
    for tool in ["campaign_get", "dice_roll"] {
        shim.say(&call(tool));
        assert_eq!(peer.hear(), call(tool));
    }
    drop(peer);
    let daemon = stage.daemon();
    let mut peer = daemon.accept();
    peer.welcome_as("another", &json!(["again", "unknown"]));
    assert_eq!(peer.hear(), call("campaign_get"));
    let (id, error) = shim.hear_error();
    assert_eq!(id, 1);
    assert_eq!(error["data"]["kind"], "daemon_back", "{error}");
    shim.ask(2, "tools/list");
    assert_eq!(peer.hear(), request(2, "tools/list"), "and nothing else");
}

#[test]
fn a_call_under_an_id_that_was_used_before_is_announced_as_such() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.ask(1, "tools/call");
    peer.hear();
    peer.say(&result(&json!(1), &json!({})));
    expect_result(&mut shim, &json!(1), &json!({}));
    for id in [1, 2] {
        shim.ask(id, "tools/call");
        peer.hear();
    }
    drop(peer);
    let told = |hello: &Value| {
        let resends = hello["cozyvtt"]["resends"].as_array().unwrap().clone();
        resends
            .into_iter()
            .map(|resend| (resend["id"].clone(), resend.get("reused").cloned()))
            .collect::<Vec<_>>()
    };
    // The second time, each has been sent before, which is no other request.
    for instance in ["second", "third"] {
        let daemon = stage.daemon();
        let mut peer = daemon.accept();
        let hello = peer.welcome_as(instance, &json!(["again", "again"]));
        assert_eq!(
            told(&hello),
            [(json!(1), Some(json!(true))), (json!(2), None)]
        );
        for id in [1, 2] {
            assert_eq!(peer.hear(), request(id, "tools/call"));
        }
    }
}

#[test]
fn an_id_whose_call_has_an_unknown_outcome_is_a_used_one_too() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.ask(1, "tools/call");
    peer.hear();
    drop(peer);
    let daemon = stage.daemon();
    let mut peer = daemon.accept();
    let hello = peer.welcome_as("second", &json!(["unknown"]));
    assert_eq!(hello["cozyvtt"]["resends"][0]["reused"], json!(null));
    assert_eq!(shim.hear_error().0, 1);
    shim.ask(1, "tools/call");
    peer.hear();
    drop(peer);
    let daemon = stage.daemon();
    let hello = daemon.accept().welcome_as("third", &json!(["again"]));
    assert_eq!(hello["cozyvtt"]["resends"][0]["reused"], json!(true));
}

#[test]
fn an_answer_that_nobody_waits_for_is_not_passed_on() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shake_hands(&mut shim, &mut peer);
    drop(peer);
    let daemon = stage.daemon();
    let mut peer = daemon.accept();
    peer.welcome();
    let again = parsed(&peer.hear());
    // One that is none of the shim's, and its own one twice.
    for id in [&json!("i"), &again["id"], &again["id"]] {
        peer.say(&result(id, &json!({})));
    }
    assert_eq!(peer.hear(), INITIALIZED);
    shim.ask(1, "tools/list");
    peer.hear();
    for id in [json!("1"), json!(2), json!(1), json!(1)] {
        peer.say(&result(&id, &json!({})));
    }
    expect_result(&mut shim, &json!(1), &json!({}));
    peer.say(&request(3, "the/end"));
    assert_eq!(shim.hear(), request(3, "the/end"));
}

#[test]
fn a_daemon_that_is_too_old_for_verdicts_is_sent_what_reads_alone() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.ask(1, "tools/call");
    shim.ask(2, "tools/list");
    peer.hear();
    peer.hear();
    drop(peer);
    let daemon = stage.daemon();
    let mut peer = daemon.accept();
    peer.welcome();
    assert_eq!(peer.hear(), request(2, "tools/list"));
    assert_eq!(shim.hear_error().0, 1);
}

#[test]
fn a_handshake_that_was_not_answered_is_sent_again_as_it_was() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.say(INITIALIZE);
    shim.say(INITIALIZED);
    peer.hear();
    peer.hear();
    drop(peer);
    let daemon = stage.daemon();
    let mut peer = daemon.accept();
    peer.welcome();
    assert_eq!(peer.hear(), INITIALIZE);
    assert_eq!(peer.hear(), INITIALIZED);
    shim.ask(2, "tools/list");
    assert_eq!(peer.hear(), request(2, "tools/list"));
    peer.say(&result(&json!("i"), &json!({})));
    expect_result(&mut shim, &json!("i"), &json!({}));
}

#[test]
fn subscriptions_are_asked_for_again() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shake_hands(&mut shim, &mut peer);
    shim.say(
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resources/subscribe\",\
         \"params\":{\"uri\":\"cozyvtt://events\"}}\n",
    );
    peer.hear();
    peer.say(&result(&json!(2), &json!({})));
    shim.hear();
    drop(peer);
    let daemon = stage.daemon();
    let mut peer = daemon.accept();
    peer.welcome();
    shake_hands_again(&mut peer);
    let again = parsed(&peer.hear());
    assert_eq!(again["method"], "resources/subscribe");
    assert_eq!(again["params"], json!({"uri": "cozyvtt://events"}));
    peer.say(&result(&again["id"], &json!({})));
    shim.ask(3, "resources/list");
    assert_eq!(peer.hear(), request(3, "resources/list"));
    peer.say(&result(&json!(3), &json!({})));
    expect_result(&mut shim, &json!(3), &json!({}));
}

#[test]
fn the_catalog_is_answered_from_memory_and_a_new_one_is_told() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shake_hands(&mut shim, &mut peer);
    let old = json!({"tools": [{"name": "a"}]});
    shim.ask(2, "tools/list");
    peer.hear();
    peer.say(&result(&json!(2), &old));
    shim.hear();
    drop(peer);
    shim.ask(3, "tools/list");
    expect_result(&mut shim, &json!(3), &old);
    for (instance, tools, changed) in [
        ("second", json!([{"name": "a"}]), false),
        ("third", json!([{"name": "b"}]), true),
    ] {
        let daemon = stage.daemon();
        let mut peer = daemon.accept();
        peer.welcome_as(instance, &json!([]));
        shake_hands_again(&mut peer);
        let look = parsed(&peer.hear());
        assert_eq!(look["method"], "tools/list");
        shim.ask(4, "resources/list");
        assert_eq!(peer.hear(), request(4, "resources/list"));
        peer.say(&result(&look["id"], &json!({"tools": tools})));
        peer.say(&result(&json!(4), &json!({})));
        if changed {
            let told = parsed(&shim.hear());
            assert_eq!(told["method"], "notifications/tools/list_changed");
        }
        expect_result(&mut shim, &json!(4), &json!({}));
    }
}

#[test]
fn a_daemon_that_stops_answering_is_asked_for_a_sign_of_life_and_then_given_up() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.ask(1, "tools/call");
    peer.hear();
    assert_eq!(parsed(&peer.hear())["method"], "ping");
    assert_eq!(peer.hear(), "", "the shim has ended the connection");
    let (id, error) = shim.hear_error();
    assert_eq!(id, 1);
    assert_eq!(error["data"]["hop"], "shim -> daemon");
}

#[test]
fn a_daemon_that_works_for_long_is_left_alone_while_it_shows_signs_of_life() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.ask(1, "tools/call");
    peer.hear();
    for _ in 0..2 {
        let ping = parsed(&peer.hear());
        assert_eq!(ping["method"], "ping");
        peer.say(&result(&ping["id"], &json!({})));
    }
    peer.say(&result(&json!(1), &json!({})));
    expect_result(&mut shim, &json!(1), &json!({}));
}
