//! Initiative.

use cozyvtt_table::{Table, Version};
use serde_json::{Value, json};

use crate::guest::{Peer, seat, table};

fn ids(table: &Table, name: &str) -> (String, String) {
    let (map, token) = table.token_named(name).unwrap();
    (map, token["id"].as_str().unwrap().to_owned())
}

async fn act(peer: &mut Peer, action: &str, payload: &Value) -> Value {
    peer.emit(&format!("initiative.{action}"), payload).await;
    peer.event("initiative.state").await
}

fn order(state: &Value) -> Vec<String> {
    let combatants = state["combatants"].as_array().unwrap().iter();
    combatants
        .map(|one| one["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_fight_goes_its_rounds() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let old = version == Version::V1_1_2;
        let (_dm, mut dm) = seat(&table, "dm").await;
        dm.emit_bare("initiative.request_state").await;
        assert_eq!(
            dm.event("initiative.state").await,
            json!({ "active": false, "round": 0, "currentTokenId": null, "combatants": [] })
        );
        dm.emit_bare("initiative.start").await;
        assert_eq!(dm.error().await, "Add combatants before starting combat");

        for name in ["Brannoc", "Reed Stalker", "Sunniva"] {
            let (map, id) = ids(&table, name);
            act(&mut dm, "add", &json!({ "tokenId": id, "mapId": map })).await;
        }
        let (map, brannoc) = ids(&table, "Brannoc");
        dm.emit(
            "initiative.add",
            &json!({ "tokenId": brannoc, "mapId": map }),
        )
        .await;
        assert_eq!(dm.error().await, "Token is already in initiative");

        for (name, value) in [("Brannoc", 12), ("Reed Stalker", 17)] {
            let (map, id) = ids(&table, name);
            let payload = json!({ "tokenId": id, "mapId": map, "value": value });
            act(&mut dm, "set", &payload).await;
        }
        let state = act(&mut dm, "start", &Value::Null).await;
        assert_eq!(order(&state), ["Reed Stalker", "Brannoc", "Sunniva"]);
        assert_eq!(state["round"], 1);
        assert_eq!(state["combatants"][0].get("mapId").is_some(), !old);
        assert_eq!(table.token_named("Brannoc").unwrap().1["initiative"], 12);

        for _ in 0..2 {
            act(&mut dm, "next", &Value::Null).await;
        }
        let state = act(&mut dm, "next", &Value::Null).await;
        assert_eq!(state["round"], 2);
        let (_, first) = ids(&table, "Reed Stalker");
        assert_eq!(state["currentTokenId"], first.as_str());
        let state = act(&mut dm, "next", &Value::Null).await;
        assert_eq!(state["currentTokenId"], brannoc.as_str());
        // 1.1.2 goes back to the top when the one who acts is taken out.
        let state = act(&mut dm, "remove", &json!({ "tokenId": brannoc })).await;
        let (_, last) = ids(&table, "Sunniva");
        assert_eq!(
            state["currentTokenId"],
            if old { first } else { last }.as_str()
        );
        let state = act(&mut dm, "end", &Value::Null).await;
        assert_eq!((&state["active"], order(&state).len()), (&json!(false), 0));
    }
}

#[tokio::test]
async fn players_see_only_who_stands_before_them_since_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let (_dm, mut dm) = seat(&table, "dm").await;
        let (_player, mut player) = seat(&table, "player1").await;
        for name in ["Thing in the Weir", "Brannoc"] {
            let (map, id) = ids(&table, name);
            act(&mut dm, "add", &json!({ "tokenId": id, "mapId": map })).await;
        }
        let state = act(&mut dm, "start", &Value::Null).await;
        assert_eq!(order(&state).len(), 2);
        player.emit_bare("initiative.request_state").await;
        player.so_far().await;
        player.emit_bare("initiative.request_state").await;
        let seen = player.event("initiative.state").await;
        let old = version == Version::V1_1_2;
        assert_eq!(order(&seen).len(), if old { 2 } else { 1 });
        assert_eq!(seen["currentTokenId"].is_null(), !old);
        player.emit_bare("initiative.next").await;
        assert_eq!(player.error().await, "Only the DM can advance the turn");
    }
}

#[tokio::test]
async fn who_decides_the_roll_changed_after_1_1_2() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let old = version == Version::V1_1_2;
        let (_dm, mut dm) = seat(&table, "dm").await;
        let (_player, mut player) = seat(&table, "player1").await;
        player.so_far().await;
        let (map, id) = ids(&table, "Brannoc");
        let roll = json!({ "tokenId": id, "mapId": map, "expression": "1d4+1" });
        player.emit("initiative.roll", &roll).await;
        let sentence = player.error().await;
        if old {
            assert_eq!(sentence, "Only the DM can roll initiative");
        } else {
            assert_eq!(sentence, "That token is not in the initiative order yet");
        }
        dm.emit("initiative.roll", &roll).await;
        let rolled = dm.event("dice.rolled").await;
        assert_eq!(rolled["expression"], if old { "1d4+1" } else { "1d20+3" });
        assert_eq!(rolled["purpose"], "Brannoc Initiative");
        assert!(rolled.get("id").is_none());
        let state = dm.event("initiative.state").await;
        assert_eq!(state["combatants"][0]["initiative"], rolled["result"]);
    }
}
