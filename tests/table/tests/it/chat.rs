//! Chat over the socket.

use cozyvtt_table::{Scene, Version};
use serde_json::json;

use crate::guest::{seat, table};

#[tokio::test]
async fn a_message_is_trimmed_stored_and_told_to_all() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let (_dm, mut dm) = seat(&table, "dm").await;
        let (_spectator, mut spectator) = seat(&table, "spectator").await;
        let said = json!({ "content": "  from the gallery ", "type": "PLAYER" });
        spectator.emit("chat.message", &said).await;
        for peer in [&mut dm, &mut spectator] {
            let event = peer.event("chat.message").await;
            assert_eq!(event["content"], "from the gallery");
            assert_eq!(event["type"], "PLAYER");
            assert_eq!(event["userName"], "Old Fenwick");
        }
        assert_eq!(table.chat().last().unwrap().content, "from the gallery");
        // An ack id is never answered.
        dm.send(r#"4217["chat.message",{"content":"ack?","type":"DM"}]"#)
            .await;
        assert_eq!(dm.event("chat.message").await["content"], "ack?");
        assert_eq!(dm.names_so_far().await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn unfit_messages_are_refused_in_the_known_sentences() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let (_guest, mut peer) = seat(&table, "player1").await;
        for (payload, sentence) in [
            (
                json!({ "content": "", "type": "PLAYER" }),
                "Message content required",
            ),
            (json!({ "type": "PLAYER" }), "Message content required"),
            (
                json!({ "content": "x", "type": "SYSTEM" }),
                "Invalid message type. Must be PLAYER or DM.",
            ),
            (
                // Two UTF-16 units each.
                json!({ "content": "\u{1f409}".repeat(1001), "type": "PLAYER" }),
                "Message too long. Maximum 2000 characters.",
            ),
        ] {
            peer.emit("chat.message", &payload).await;
            assert_eq!(peer.error().await, sentence);
        }
        let fits = json!({ "content": "\u{1f409}".repeat(1000), "type": "PLAYER" });
        peer.emit("chat.message", &fits).await;
        peer.event("chat.message").await;
    }
}

#[tokio::test]
async fn who_decides_about_the_type_changed_with_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let (_dm, mut dm) = seat(&table, "dm").await;
        let (_player, mut player) = seat(&table, "player1").await;
        player
            .emit(
                "chat.message",
                &json!({ "content": "I am the DM", "type": "DM" }),
            )
            .await;
        let kind = player.event("chat.message").await["type"].clone();
        assert_eq!(
            kind,
            if version == Version::V1_1_2 {
                "DM"
            } else {
                "PLAYER"
            }
        );
        dm.event("chat.message").await;
        dm.emit("chat.message", &json!({ "content": "no type" }))
            .await;
        if version == Version::V1_1_2 {
            assert_eq!(
                dm.error().await,
                "Invalid message type. Must be PLAYER or DM."
            );
        } else {
            assert_eq!(dm.event("chat.message").await["type"], "DM");
        }
    }
}

#[tokio::test]
async fn a_cooldown_holds_for_each_user() {
    let scene = Scene::default().main(|campaign| campaign.chat_cooldown(30));
    let table = table(Version::V1_1_2).scene(scene).start().await.unwrap();
    let (_one, mut one) = seat(&table, "player1").await;
    let (_two, mut two) = seat(&table, "player2").await;
    let said = json!({ "content": "quick", "type": "PLAYER" });
    one.emit("chat.message", &said).await;
    one.event("chat.message").await;
    one.emit("chat.message", &said).await;
    assert_eq!(one.error().await, "Rate limit: wait 30s between messages.");
    two.event("chat.message").await;
    two.emit("chat.message", &said).await;
    two.event("chat.message").await;
    table.set_chat_cooldown(None);
    one.emit("chat.message", &said).await;
    one.event("chat.message").await;
}

#[tokio::test]
async fn other_people_speak_when_a_test_lets_them() {
    let table = table(Version::V1_5).start().await.unwrap();
    let (_guest, mut peer) = seat(&table, "player1").await;
    table.say("dm", "The bell rings.");
    let event = peer.event("chat.message").await;
    assert_eq!(
        (&event["type"], &event["userName"]),
        (&json!("DM"), &json!("Isolde Marrow"))
    );
    table.announce(
        "Session 3 has started!",
        &json!({ "action": "session.started" }),
    );
    let event = peer.event("chat.system").await;
    assert_eq!(event["metadata"]["action"], "session.started");
}
