//! Opening a socket, sitting down, getting up.

use std::time::Duration;

use cozyvtt_table::{CampaignPlan, Direction, Role, Scene, Version};
use serde_json::{Value, json};

use crate::guest::{Guest, seat, table};

#[tokio::test]
async fn the_first_frames_are_those_of_a_real_server() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let guest = Guest::signed_in(&table, "dm").await;
        let mut peer = guest.try_socket().await.unwrap();
        let open = peer.frame().await.unwrap();
        let open: Value = serde_json::from_str(open.strip_prefix('0').unwrap()).unwrap();
        assert_eq!(open["upgrades"], json!([]));
        assert_eq!(open["pingInterval"], 25000);
        assert_eq!(open["pingTimeout"], 60000);
        assert_eq!(open["maxPayload"], 1_000_000);
        peer.send("40").await;
        assert!(peer.frame().await.unwrap().starts_with("40{\"sid\":"));
        let (event, payload) = peer.any_event().await;
        assert_eq!(event, "connected");
        assert_eq!(payload["userId"], table.account("dm").user_id);
        peer.emit(
            "authenticate",
            &json!({ "campaignId": table.campaign_id() }),
        )
        .await;
        let (event, payload) = peer.any_event().await;
        assert_eq!(event, "authenticated");
        assert_eq!(payload["role"], "DM");
        assert_eq!(payload["campaignId"], table.campaign_id());
        let (event, payload) = peer.any_event().await;
        if version == Version::V1_1_2 {
            assert_eq!(event, "chat.system");
            assert_eq!(payload["content"], "Isolde Marrow has joined the campaign.");
            assert_eq!(payload["metadata"]["action"], "user.joined");
        } else {
            assert_eq!(event, "presence.state");
            assert_eq!(
                payload["onlineUserIds"],
                json!([table.account("dm").user_id])
            );
        }
        assert_eq!(peer.names_so_far().await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_stranger_is_let_in_told_off_and_shown_out() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let mut peer = Guest::stranger(&table).socket().await;
        peer.send("40").await;
        assert!(peer.frame().await.unwrap().starts_with("40{"));
        assert_eq!(
            peer.frame().await.as_deref(),
            Some(r#"42["error",{"message":"Unauthorized"}]"#)
        );
        assert_eq!(peer.frame().await.as_deref(), Some("41"));
        assert_eq!(peer.close_code().await, Some(1005));
    }
}

#[tokio::test]
async fn what_is_sent_before_connected_is_lost() {
    let table = table(Version::V1_1_2)
        .connect_delay(Duration::from_millis(50))
        .start()
        .await
        .unwrap();
    let guest = Guest::signed_in(&table, "dm").await;
    let mut peer = guest.socket().await;
    let hello = json!({ "campaignId": table.campaign_id() });
    peer.send("40").await;
    peer.emit("authenticate", &hello).await;
    peer.event("connected").await;
    assert_eq!(peer.names_so_far().await, Vec::<String>::new());
    peer.emit("authenticate", &hello).await;
    peer.event("authenticated").await;
}

#[tokio::test]
async fn sitting_down_is_refused_in_the_known_sentences() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let outsider = Guest::signed_in(&table, "outsider").await;
        let mut peer = outsider.connected().await;
        for (payload, sentence) in [
            (json!({}), "Campaign ID required"),
            (json!({ "campaignId": 5 }), "Campaign ID required"),
            (
                json!({ "campaignId": "00000000-0000-0000-0000-000000000000" }),
                "Campaign not found",
            ),
            (
                json!({ "campaignId": table.campaign_id() }),
                "You are not a member of this campaign",
            ),
        ] {
            peer.emit("authenticate", &payload).await;
            assert_eq!(peer.error().await, sentence);
        }
        peer.emit_bare("authenticate").await;
        assert_eq!(peer.error().await, "Authentication failed");

        peer.emit("chat.message", &json!({ "content": "x", "type": "DM" }))
            .await;
        peer.emit("dice.roll", &json!({ "expression": "1d20" }))
            .await;
        peer.emit_bare("initiative.request_state").await;
        peer.emit("map.change", &json!({ "mapId": "x" })).await;
        peer.emit("no.such.event", &json!({})).await;
        let events = peer.so_far().await;
        let error = json!({ "message": "Not authenticated to a campaign" });
        let expected = ("error".to_owned(), error);
        assert_eq!(events, [expected.clone(), expected]);
    }
}

#[tokio::test]
async fn comings_and_goings_are_announced_as_each_release_does() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let (_dm, mut dm) = seat(&table, "dm").await;
        dm.names_so_far().await;
        let (_player, mut player) = seat(&table, "player1").await;
        let expected: &[&str] = if version == Version::V1_1_2 {
            &["chat.system", "user.joined"]
        } else {
            &["user.joined", "presence.state"]
        };
        assert_eq!(dm.names_so_far().await, expected);
        player.names_so_far().await;
        drop(player);
        let left = dm.event("user.left").await;
        assert_eq!(left["userId"], table.account("player1").user_id);
        let lines: Vec<String> = table.chat().into_iter().map(|line| line.content).collect();
        let announced = lines.contains(&"Tamsin Oake has left the campaign.".to_owned());
        assert_eq!(announced, version == Version::V1_1_2);
    }
}

#[tokio::test]
async fn signing_out_ends_the_sockets_of_that_session_since_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let (guest, mut peer) = seat(&table, "player1").await;
        let (_other, mut other) = seat(&table, "player1").await;
        peer.names_so_far().await;
        guest.post("/api/auth/logout", &json!({})).await;
        if version == Version::V1_1_2 {
            peer.emit(
                "chat.message",
                &json!({ "content": "still here", "type": "PLAYER" }),
            )
            .await;
            assert_eq!(peer.event("chat.message").await["content"], "still here");
        } else {
            assert_eq!(peer.error().await, "You signed out.");
            assert_eq!(peer.close_code().await, Some(1005));
        }
        other.names_so_far().await;
    }
}

#[tokio::test]
async fn a_member_who_was_removed_hears_of_it_since_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let (_guest, mut peer) = seat(&table, "player2").await;
        peer.names_so_far().await;
        table.remove_member("player2");
        let said = json!({ "content": "I was removed", "type": "PLAYER" });
        peer.emit("chat.message", &said).await;
        if version == Version::V1_1_2 {
            assert_eq!(peer.event("chat.message").await["content"], "I was removed");
        } else {
            assert_eq!(
                peer.error().await,
                "You are no longer a member of this campaign"
            );
            assert_eq!(peer.error().await, "Not authenticated to a campaign");
        }
    }
}

#[tokio::test]
async fn a_new_role_reaches_open_sockets_since_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let (_guest, mut peer) = seat(&table, "player1").await;
        peer.names_so_far().await;
        table.set_role("player1", Role::Spectator);
        peer.emit("dice.roll", &json!({ "expression": "1d1" }))
            .await;
        let names = peer.names_so_far().await;
        if version == Version::V1_1_2 {
            assert_eq!(names, ["dice.rolled"]);
        } else {
            assert_eq!(names, ["campaign.role.changed", "roster.updated", "error"]);
        }
    }
}

#[tokio::test]
async fn the_server_pings_after_an_interval_and_not_at_once() {
    let table = table(Version::V1_5)
        .ping_interval(Duration::from_millis(80))
        .ping_timeout(Duration::from_millis(60))
        .start()
        .await
        .unwrap();
    let began = tokio::time::Instant::now();
    let (_guest, mut peer) = seat(&table, "dm").await;
    let pings = |log: &cozyvtt_table::Log| {
        log.frames()
            .into_iter()
            .filter(|frame| frame.direction == Direction::Out && frame.text == "2")
            .collect::<Vec<_>>()
    };
    // The peer answers pings only while it reads.
    let log = table.log();
    while pings(&log).len() < 3 {
        peer.so_far().await;
    }
    let first = pings(&log)[0].at.duration_since(began);
    assert!(first >= Duration::from_millis(75), "pinged after {first:?}");
    // From here on it does not answer, and is shown out.
    assert!(
        log.wait_for(|_| table.seated().is_empty(), crate::guest::PATIENCE)
            .await
    );
}

#[tokio::test]
async fn a_message_over_the_limit_ends_the_connection_with_1009() {
    let table = table(Version::V1_1_2)
        .max_payload(2000)
        .start()
        .await
        .unwrap();
    let (_guest, mut peer) = seat(&table, "dm").await;
    let long = json!({ "content": "x".repeat(3000), "type": "DM" });
    peer.emit("chat.message", &long).await;
    assert_eq!(peer.close_code().await, Some(1009));
}

#[tokio::test]
async fn the_log_holds_the_handshake_and_every_frame() {
    let table = table(Version::V1_5).start().await.unwrap();
    let (_guest, mut peer) = seat(&table, "dm").await;
    peer.emit("chat.message", &json!({ "content": "hello", "type": "DM" }))
        .await;
    peer.event("chat.message").await;
    let log = table.log();
    let handshakes = log.requests_to("GET", "/socket.io/");
    assert_eq!(handshakes.len(), 1);
    assert_eq!(handshakes[0].status, 101);
    assert!(handshakes[0].has_cookie);
    assert_eq!(
        handshakes[0].query.as_deref(),
        Some("EIO=4&transport=websocket")
    );
    assert_eq!(log.count("POST", "/api/auth/login"), 1);
    let sent = log.events_in("chat.message");
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].payload["content"], "hello");
    assert_eq!(sent[0].user_id.as_ref(), Some(&table.account("dm").user_id));
    let told = log.events_out("chat.message");
    assert_eq!(told.len(), 1);
    assert!(told[0].socket.is_some() && told[0].socket == sent[0].socket);
}

#[tokio::test]
async fn odd_frames_end_the_connection_or_pass_as_a_real_server_has_it() {
    let table = table(Version::V1_1_2).start().await.unwrap();
    let guest = Guest::signed_in(&table, "dm").await;
    for frame in [
        "hello",
        "9",
        r#"42{"oops""#,
        r#"42["connect"]"#,
        "42{}",
        "2",
        "40",
    ] {
        let mut peer = guest.connected().await;
        peer.send(frame).await;
        assert_eq!(peer.close_code().await, Some(1005), "{frame}");
    }
    let mut early = guest.socket().await;
    early.send(r#"42["ping"]"#).await;
    assert_eq!(early.close_code().await, Some(1005));
    for frame in ["42[5]", "1"] {
        let mut peer = guest.connected().await;
        peer.send(frame).await;
        assert!(peer.names_so_far().await.is_empty(), "{frame}");
    }
    let mut elsewhere = guest.socket().await;
    elsewhere.send("40/admin,").await;
    assert_eq!(
        elsewhere.frame().await.as_deref(),
        Some(r#"44/admin,{"message":"Invalid namespace"}"#)
    );
}

#[tokio::test]
async fn a_second_campaign_is_added_in_1_1_2_and_replaces_the_first_in_1_5() {
    for version in Version::ALL {
        let scene = Scene::default().campaign(CampaignPlan::new("Elsewhere").seat("dm", Role::Dm));
        let table = table(version).scene(scene).start().await.unwrap();
        let (_guest, mut dm) = seat(&table, "dm").await;
        let elsewhere = table.campaign_named("Elsewhere").unwrap();
        dm.emit("authenticate", &json!({ "campaignId": elsewhere }))
            .await;
        dm.event("authenticated").await;
        dm.so_far().await;
        table.say("player1", "Still listening?");
        let heard = dm.names_so_far().await;
        assert_eq!(heard == ["chat.message"], version == Version::V1_1_2);
    }
}
