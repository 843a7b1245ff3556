//! Each fault fires, and counts how often.

use std::time::Duration;

use cozyvtt_table::{Fault, SocketFault, Version};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::guest::{Guest, seat, table};

#[tokio::test]
async fn a_status_is_given_as_often_as_asked_and_then_no_more() {
    let table = table(Version::V1_5).start().await.unwrap();
    let guest = Guest::signed_in(&table, "dm").await;
    let faults = table.faults();
    let down = faults
        .route("GET", "/api/campaigns/*", Fault::status(503))
        .times(2);
    let path = format!("/api/campaigns/{}", table.campaign_id());
    assert_eq!(
        guest.get("/api/campaigns").await.status,
        200,
        "another path"
    );
    for status in [503, 503, 200] {
        assert_eq!(guest.get(&path).await.status, status);
    }
    assert_eq!(down.fired(), 2);

    let busy = faults.route("POST", "/api/auth/login", Fault::too_many_logins(7));
    let mut stranger = Guest::stranger(&table);
    let answer = stranger.login(&table, "dm").await;
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (429, Some("7"))
    );
    busy.off();
    assert_eq!(stranger.login(&table, "dm").await.status, 200);
    assert_eq!(busy.fired(), 1);
}

#[tokio::test]
async fn bodies_are_spoilt_in_four_ways() {
    let table = table(Version::V1_5).start().await.unwrap();
    let guest = Guest::signed_in(&table, "dm").await;
    let faults = table.faults();
    let path = "/api/auth/me";
    let _ = faults.route("GET", path, Fault::TruncatedJson).times(1);
    let answer = guest.get(path).await;
    assert_eq!(answer.status, 200);
    assert!(serde_json::from_str::<Value>(&answer.text).is_err());

    let _ = faults.route("GET", path, Fault::Html).times(1);
    let answer = guest.get(path).await;
    assert_eq!(answer.status, 200);
    assert!(
        answer
            .header("content-type")
            .unwrap()
            .starts_with("text/html")
    );

    let _ = faults.route("GET", path, Fault::WrongTypes).times(1);
    assert_eq!(guest.get(path).await.json()["user"]["email"], 7);

    let _ = faults.route("GET", path, Fault::BigBody(300_000)).times(1);
    assert!(guest.get(path).await.text.len() > 300_000);
    assert_eq!(
        guest.get(path).await.json()["user"]["displayName"],
        "Isolde Marrow"
    );
}

#[tokio::test]
async fn lines_are_cut_before_after_and_in_the_middle() {
    let table = table(Version::V1_5).start().await.unwrap();
    let guest = Guest::signed_in(&table, "dm").await;
    let maps = format!("/api/campaigns/{}/maps", table.campaign_id());
    let body = json!({ "name": "Weir", "imageUrl": "0b0c", "width": 5, "height": 5 });
    for (fault, happens) in [
        (Fault::HangUpBefore, false),
        (Fault::HangUpAfter, true),
        (Fault::CutMidAnswer, true),
    ] {
        let cut = table.faults().route("POST", &maps, fault).times(1);
        let request = guest.request(reqwest::Method::POST, &maps).json(&body);
        let began = Instant::now();
        assert!(Guest::send(request).await.is_err());
        assert!(
            began.elapsed() < Duration::from_millis(900),
            "cut, not timed out"
        );
        assert_eq!(cut.fired(), 1);
        assert_eq!(table.map_named("Weir").is_some(), happens);
        if let Some(map) = table.map_named("Weir") {
            assert_eq!(guest.delete(&format!("{maps}/{map}")).await.status, 200);
        }
    }
}

#[tokio::test]
async fn an_answer_can_be_late() {
    let table = table(Version::V1_5).start().await.unwrap();
    let delay = Duration::from_millis(60);
    let late = table.faults().route("*", "/api/**", Fault::Delay(delay));
    let began = Instant::now();
    Guest::stranger(&table).get("/api/config").await;
    assert!(began.elapsed() >= delay);
    assert_eq!(late.fired(), 1);
}

#[tokio::test]
async fn connections_are_refused_while_told_to() {
    let table = table(Version::V1_5).start().await.unwrap();
    let faults = table.faults();
    faults.refuse_connections(true);
    let request = Guest::stranger(&table).request(reqwest::Method::GET, "/health");
    assert!(Guest::send(request).await.is_err());
    assert!(faults.refused_connections() >= 1);
    faults.clear();
    assert_eq!(Guest::stranger(&table).get("/health").await.status, 200);
}

#[tokio::test]
async fn a_session_is_forgotten_at_a_route_or_at_once() {
    let table = table(Version::V1_5).start().await.unwrap();
    let guest = Guest::signed_in(&table, "dm").await;
    let other = Guest::signed_in(&table, "player1").await;
    let _ = table
        .faults()
        .route("GET", "/api/campaigns", Fault::ForgetSession)
        .times(1);
    assert_eq!(guest.get("/api/campaigns").await.status, 401);
    assert_eq!(guest.get("/api/auth/ping").await.status, 401);
    assert_eq!(other.get("/api/auth/ping").await.status, 200);
    let again = Guest::signed_in(&table, "dm").await;
    table.forget_sessions_of("dm");
    assert_eq!(again.get("/api/auth/ping").await.status, 401);
    assert_eq!(other.get("/api/auth/ping").await.status, 200);
    table.forget_sessions();
    assert_eq!(other.get("/api/auth/ping").await.status, 401);
}

#[tokio::test]
async fn handshakes_are_refused_with_a_status() {
    let table = table(Version::V1_5).start().await.unwrap();
    let guest = Guest::signed_in(&table, "dm").await;
    let refused = table
        .faults()
        .socket(SocketFault::RefuseHandshake(503))
        .times(1);
    let error = guest.try_socket().await.err().unwrap();
    assert!(error.contains("503"), "{error}");
    assert_eq!(refused.fired(), 1);
    guest.connected().await;
}

#[tokio::test]
async fn steps_of_the_way_in_are_left_out_or_refused() {
    let table = table(Version::V1_5).start().await.unwrap();
    let faults = table.faults();
    let guest = Guest::signed_in(&table, "dm").await;
    let hello = json!({ "campaignId": table.campaign_id() });

    let mute = faults.socket(SocketFault::NeverConnected).times(1);
    let mut peer = guest.socket().await;
    peer.send("40").await;
    assert!(peer.frame().await.unwrap().starts_with("40"));
    // A second socket is let in, so the first one's turn has passed.
    guest.connected().await;
    assert_eq!(mute.fired(), 1);
    peer.emit("authenticate", &hello).await;
    faults.send_frame("6");
    assert_eq!(
        peer.frame().await.as_deref(),
        Some("6"),
        "nothing else came"
    );

    let _ = faults.socket(SocketFault::NeverAuthenticated).times(1);
    let mut peer = guest.connected().await;
    peer.emit("authenticate", &hello).await;
    assert!(peer.names_so_far().await.is_empty());

    let sentence = "Internal server error".to_owned();
    let _ = faults
        .socket(SocketFault::AuthenticateError(sentence.clone()))
        .times(1);
    peer.emit("authenticate", &hello).await;
    assert_eq!(peer.error().await, sentence);
    peer.emit("authenticate", &hello).await;
    peer.event("authenticated").await;
}

#[tokio::test]
async fn events_are_swallowed_withheld_delayed_and_garbled() {
    let table = table(Version::V1_5).start().await.unwrap();
    let faults = table.faults();
    let garbage = faults
        .socket(SocketFault::Garbage("42{oops".to_owned()))
        .times(1);
    let guest = Guest::signed_in(&table, "dm").await;
    let mut peer = guest.socket().await;
    peer.send("40").await;
    loop {
        if peer.frame().await.unwrap() == "42{oops" {
            break;
        }
    }
    assert_eq!(garbage.fired(), 1);

    let (_other, mut peer) = seat(&table, "dm").await;
    peer.so_far().await;
    let roll = json!({ "expression": "1d6" });
    let swallowed = faults
        .socket(SocketFault::Swallow("dice.roll".to_owned()))
        .times(1);
    peer.emit("dice.roll", &roll).await;
    assert!(peer.names_so_far().await.is_empty());
    assert_eq!((swallowed.fired(), table.rolls().len()), (1, 0));

    let withheld = faults
        .socket(SocketFault::Withhold("dice.rolled".to_owned()))
        .times(1);
    peer.emit("dice.roll", &roll).await;
    assert!(peer.names_so_far().await.is_empty());
    assert_eq!((withheld.fired(), table.rolls().len()), (1, 1));

    let delay = Duration::from_millis(60);
    let late = faults.socket(SocketFault::DelayEvent("dice.roll".to_owned(), delay));
    let began = Instant::now();
    peer.emit("dice.roll", &roll).await;
    peer.event("dice.rolled").await;
    assert!(began.elapsed() >= delay);
    late.off();
}

#[tokio::test]
async fn sockets_are_closed_politely_or_cut() {
    let table = table(Version::V1_5).start().await.unwrap();
    let (_dm, mut dm) = seat(&table, "dm").await;
    let (_player, mut player) = seat(&table, "player1").await;
    table.close_sockets_of("player1");
    assert_eq!(player.close_code().await, Some(1005));
    dm.emit_bare("ping").await;
    dm.event("pong").await;
    table.close_sockets();
    assert_eq!(dm.close_code().await, Some(1005));
    let (_dm, mut dm) = seat(&table, "dm").await;
    table.faults().cut_lines();
    assert_eq!(dm.close_code().await, None);
}
