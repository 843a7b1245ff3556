//! Rolls over the socket: who hears of them, and how many there may be.

use cozyvtt_table::Version;
use serde_json::json;

use crate::guest::{seat, table};

#[tokio::test]
async fn a_public_roll_is_told_to_all_with_its_breakdown() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let (_dm, mut dm) = seat(&table, "dm").await;
        let (_player, mut player) = seat(&table, "player1").await;
        let roll = json!({ "expression": "2d6+3", "characterName": "Brannoc", "purpose": "Arrow" });
        player.emit("dice.roll", &roll).await;
        let event = dm.event("dice.rolled").await;
        assert_eq!(event, player.event("dice.rolled").await);
        assert_eq!(event["expression"], "2d6+3");
        assert_eq!(event["characterName"], "Brannoc");
        assert_eq!(event["purpose"], "Arrow");
        assert_eq!(event["secret"], false);
        assert_eq!(event["result"], event["breakdown"]["total"]);
        assert_eq!(event.get("id").is_some(), version == Version::V1_5);
        let dice = event["breakdown"]["rolls"][0]["total"].as_i64().unwrap();
        assert_eq!(event["breakdown"]["formula"], format!("{dice} + 3"));
        assert_eq!(table.rolls().last().unwrap().result, dice + 3);
    }
}

#[tokio::test]
async fn a_secret_roll_is_for_its_socket_and_the_other_dms() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let (dm_guest, mut dm) = seat(&table, "dm").await;
        let mut dm_again = dm_guest.seated(&table).await;
        let (guest, mut player) = seat(&table, "player1").await;
        let mut second_tab = guest.seated(&table).await;
        let (_other, mut other) = seat(&table, "player2").await;
        for peer in [
            &mut dm,
            &mut dm_again,
            &mut player,
            &mut second_tab,
            &mut other,
        ] {
            peer.so_far().await;
        }
        let roll = json!({ "expression": "1d20+5", "secret": true });
        player.emit("dice.roll", &roll).await;
        let event = player.event("dice.rolled").await;
        assert_eq!(event["secret"], true);
        for peer in [&mut dm, &mut dm_again] {
            let audit = peer.event("dice.rolled.secret").await;
            assert_eq!(audit["originalRoller"], table.account("player1").user_id);
            assert_eq!(audit["isAuditView"], true);
            assert_eq!(audit["result"], event["result"]);
        }
        assert!(second_tab.names_so_far().await.is_empty());
        assert!(other.names_so_far().await.is_empty());

        // The DM's own secret roll is for the one socket, too.
        dm.emit("dice.roll", &roll).await;
        dm.event("dice.rolled").await;
        assert!(dm_again.names_so_far().await.is_empty());
    }
}

#[tokio::test]
async fn spectators_roll_until_1_4_only() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let (_guest, mut peer) = seat(&table, "spectator").await;
        peer.so_far().await;
        peer.emit("dice.roll", &json!({ "expression": "1d4" }))
            .await;
        if version == Version::V1_1_2 {
            peer.event("dice.rolled").await;
        } else {
            assert_eq!(peer.error().await, "Spectators cannot roll dice");
        }
    }
}

#[tokio::test]
async fn release_1_1_2_takes_anything_for_secret_and_1_5_does_not() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let (_guest, mut peer) = seat(&table, "player1").await;
        peer.emit(
            "dice.roll",
            &json!({ "expression": "1d4", "secret": "yes" }),
        )
        .await;
        if version == Version::V1_1_2 {
            assert_eq!(peer.event("dice.rolled").await["secret"], true);
        } else {
            assert_eq!(peer.error().await, "secret must be true or false");
        }
        peer.emit("dice.roll", &json!({ "expression": "" })).await;
        assert_eq!(peer.error().await, "Dice expression required");
    }
}

#[tokio::test]
async fn the_31st_roll_of_a_minute_is_refused_by_1_1_2() {
    let table = table(Version::V1_1_2).start().await.unwrap();
    let (_guest, mut peer) = seat(&table, "player1").await;
    peer.so_far().await;
    for _ in 0..31 {
        peer.emit("dice.roll", &json!({ "expression": "1d6" }))
            .await;
    }
    let events = peer.so_far().await;
    assert_eq!(events.len(), 31);
    assert!(events[..30].iter().all(|(event, _)| event == "dice.rolled"));
    assert_eq!(
        events[30].1["message"],
        "Rate limit exceeded. Maximum 30 dice rolls per minute."
    );
}

#[tokio::test]
async fn ceilings_of_1_5_speak_once_and_then_fall_silent() {
    let table = table(Version::V1_5).dice_limit(5).start().await.unwrap();
    let (_guest, mut peer) = seat(&table, "player1").await;
    peer.so_far().await;
    for _ in 0..9 {
        peer.emit("dice.roll", &json!({ "expression": "1d6" }))
            .await;
    }
    let names = peer.names_so_far().await;
    assert_eq!(
        names.iter().filter(|name| *name == "dice.rolled").count(),
        5
    );
    assert_eq!(names.iter().filter(|name| *name == "error").count(), 1);
}

#[tokio::test]
async fn the_same_seed_rolls_the_same() {
    let mut totals = Vec::new();
    for _ in 0..2 {
        let table = table(Version::V1_5).start().await.unwrap();
        let rolled = (0..20).map(|_| table.roll("dm", "1d1000", false).unwrap());
        totals.push(rolled.collect::<Vec<_>>());
    }
    assert_eq!(totals[0], totals[1]);
}

#[tokio::test]
async fn a_cleared_history_is_told_without_an_argument() {
    let table = table(Version::V1_5).start().await.unwrap();
    let (_guest, mut dm) = seat(&table, "dm").await;
    dm.emit_bare("dice.clearHistory").await;
    dm.event("dice.historyCleared").await;
    let told = table.log().events_out("dice.historyCleared");
    assert_eq!(told[0].text, r#"42["dice.historyCleared"]"#);
}
