//! Each kind of event, as the person reads it.

use serde_json::json;

use super::*;

const PAUL: &str = "c595ecd6-e0e9-431e-ac04-77b7a814179f";

fn record(event: &str, payload: Value) -> EventRecord {
    EventRecord {
        seq: 1,
        ts: 1_796_052_613.8,
        event: event.into(),
        payload,
        generation: 1,
    }
}

/// The line about an event at a table where Paul and Elara are known.
fn told(event: &str, payload: Value) -> Line {
    let mut names = Names::default();
    names.learn(&record(
        "chat.message",
        json!({"userId": PAUL, "userName": "Paul"}),
    ));
    names.learn(&record(
        "initiative.state",
        json!({"combatants": [{"tokenId": "t1", "name": "Elara"}]}),
    ));
    names.learn(&record(
        "character.updated",
        json!({"characterId": "c1", "character": {"name": "Elara the Wizard"}}),
    ));
    let record = record(event, payload);
    names.learn(&record);
    narrate(&record, &names)
}

#[track_caller]
fn reads(event: &str, payload: Value, tone: Tone, text: &str) {
    let text = text.to_owned();
    assert_eq!(told(event, payload), Line { tone, text });
}

#[test]
fn chat_is_a_name_and_what_was_said() {
    let said = |kind: &str| json!({"userName": "Paul", "content": "hello table", "type": kind});
    reads(
        "chat.message",
        said("PLAYER"),
        Tone::Speech,
        "Paul: hello table",
    );
    reads(
        "chat.message",
        said("DM"),
        Tone::Speech,
        "Paul (as DM): hello table",
    );
    reads(
        "chat.system",
        json!({"content": "Sam has joined the campaign."}),
        Tone::Aside,
        "Sam has joined the campaign.",
    );
}

#[test]
fn a_roll_shows_its_faces_its_total_and_its_purpose() {
    let roll = json!({"userId": PAUL, "userName": "Paul", "characterName": "Elara",
        "expression": "2d6+3", "result": 11, "purpose": "Damage", "secret": false,
        "breakdown": {"rolls": [
            {"type": "dice", "results": [2, 6], "kept": [2, 6]},
            {"type": "modifier", "value": 3}], "formula": "8 + 3"}});
    reads(
        "dice.rolled",
        roll,
        Tone::Dice,
        "Paul as Elara rolled 2d6+3 = 11 (2, 6 +3) for Damage",
    );
}

#[test]
fn a_secret_roll_is_marked_for_the_roller_and_for_the_dm() {
    let roll = |secret: bool| {
        json!({"userName": "Paul", "characterName": null, "expression": "1d20",
            "result": 15, "purpose": null, "secret": secret})
    };
    let text = "Paul secretly rolled 1d20 = 15";
    reads("dice.rolled", roll(true), Tone::Dice, text);
    reads("dice.rolled.secret", roll(false), Tone::Dice, text);
}

#[test]
fn the_initiative_tells_round_turn_and_order() {
    let state = |active: bool, current: Value| {
        json!({"active": active, "round": 2, "currentTokenId": current, "combatants": [
            {"tokenId": "t1", "name": "Elara", "initiative": 15},
            {"tokenId": "t2", "name": "Hidden Goblin", "initiative": null}]})
    };
    reads(
        "initiative.state",
        state(true, json!("t1")),
        Tone::Turn,
        "round 2, Elara's turn; order: Elara 15, Hidden Goblin",
    );
    reads(
        "initiative.state",
        state(true, Value::Null),
        Tone::Turn,
        "round 2, a hidden combatant's turn; order: Elara 15, Hidden Goblin",
    );
    reads(
        "initiative.state",
        state(false, Value::Null),
        Tone::Turn,
        "the fight has not begun; order: Elara 15, Hidden Goblin",
    );
    reads(
        "initiative.state",
        json!({"active": false, "round": 0, "currentTokenId": null, "combatants": []}),
        Tone::Turn,
        "no fight: the initiative order is empty",
    );
}

#[test]
fn tokens_move_under_their_names() {
    reads(
        "token.moved",
        json!({"tokenId": "t1", "x": 3.25, "y": 4, "movedBy": PAUL}),
        Tone::Change,
        "Elara moves to 3.25, 4 (Paul)",
    );
    reads(
        "token.moved",
        json!({"tokenId": "t9", "x": 0.1_f64 + 0.2, "y": 4.0, "movedBy": null, "dragging": true}),
        Tone::Aside,
        "token t9 is dragged over 0.3, 4",
    );
    reads(
        "token.move.start",
        json!({"tokenId": "t1", "movedBy": PAUL}),
        Tone::Aside,
        "Elara is picked up (Paul)",
    );
    reads(
        "token:appeared",
        json!({"token": {"id": "t5", "name": "Wolf"}}),
        Tone::Change,
        "Wolf comes into view",
    );
    reads(
        "token:disappeared",
        json!({"tokenId": "t1"}),
        Tone::Change,
        "Elara goes out of view",
    );
}

#[test]
fn hit_points_are_current_of_most() {
    let hp =
        |temp: u8| json!({"characterId": "c1", "hp": {"current": 25, "max": 28, "temp": temp}});
    reads(
        "character.hp.updated",
        hp(0),
        Tone::Change,
        "Elara the Wizard has 25 of 28 hit points",
    );
    reads(
        "character.hp.updated",
        hp(5),
        Tone::Change,
        "Elara the Wizard has 25 of 28 hit points and 5 temporary",
    );
}

#[test]
fn sheets_and_the_roster_change() {
    reads(
        "character.updated",
        json!({"characterId": "c1", "character": {"name": "Elara"}, "userId": PAUL}),
        Tone::Change,
        "Elara's sheet has changed (Paul)",
    );
    reads(
        "character.updated",
        json!({"characterId": "c1", "tokensChanged": true}),
        Tone::Change,
        "Elara the Wizard's token has changed",
    );
    reads(
        "roster.updated",
        json!({"action": "character.assigned", "characterId": "c1", "userId": PAUL}),
        Tone::Change,
        "Elara the Wizard joins the campaign with Paul",
    );
    reads(
        "roster.updated",
        json!({"action": "member.left", "userId": PAUL}),
        Tone::Change,
        "Paul is no longer a member of the campaign",
    );
}

#[test]
fn sessions_begin_pause_go_on_and_end() {
    for (event, text) in [
        ("session.started", "session 3 begins"),
        ("session.paused", "session 3 pauses"),
        ("session.resumed", "session 3 goes on"),
        ("session.ended", "session 3 is over"),
    ] {
        reads(event, json!({"sessionNumber": 3}), Tone::Turn, text);
    }
}

#[test]
fn the_table_changes_its_map_and_its_mood() {
    reads(
        "map.changed",
        json!({"mapId": "m", "mapData": {"name": "Goblin Cave", "tokens": [{}, {}]}}),
        Tone::Change,
        "the table sees the map Goblin Cave with 2 tokens",
    );
    reads(
        "map.pinged",
        json!({"userId": PAUL, "x": 100, "y": 250}),
        Tone::Change,
        "Paul points at 100, 250 on the map",
    );
    reads(
        "vibe.updated",
        json!({"period": "night", "updatedBy": PAUL}),
        Tone::Change,
        "the time of day is night (Paul)",
    );
    reads(
        "spirit_layer.toggled",
        json!({"visible": false, "toggledBy": PAUL}),
        Tone::Change,
        "the spirit layer is hidden (Paul)",
    );
    reads(
        "spirit_layer.token.toggled",
        json!({"tokenId": "t1", "visible": true, "toggledBy": null}),
        Tone::Change,
        "Elara is shown",
    );
    reads(
        "atmosphere.effect.updated",
        json!({"effect": "rain"}),
        Tone::Change,
        "the weather shows rain",
    );
    reads(
        "atmosphere.effect.updated",
        json!({"effect": null}),
        Tone::Change,
        "the weather clears",
    );
    reads(
        "atmosphere.audio.updated",
        json!({"assetId": "a"}),
        Tone::Change,
        "music plays",
    );
    reads(
        "atmosphere.audio.updated",
        json!({"assetId": null}),
        Tone::Change,
        "the music stops",
    );
    reads(
        "dice.historyCleared",
        Value::Null,
        Tone::Aside,
        "the dice history was cleared",
    );
}

#[test]
fn people_come_go_and_change_seats() {
    reads(
        "user.joined",
        json!({"userId": PAUL}),
        Tone::Aside,
        "Paul is online",
    );
    reads(
        "user.left",
        json!({"userId": "0123456789"}),
        Tone::Aside,
        "user 01234567 has gone",
    );
    reads(
        "presence.state",
        json!({"onlineUserIds": [PAUL]}),
        Tone::Aside,
        "online: Paul",
    );
    reads(
        "campaign.dm.transferred",
        json!({"previousDmId": null, "newDmId": PAUL}),
        Tone::Turn,
        "Paul is the DM now",
    );
    reads(
        "campaign.role.changed",
        json!({"userId": PAUL, "role": "SPECTATOR"}),
        Tone::Change,
        "Paul is SPECTATOR now",
    );
    reads(
        "invitation.received",
        json!({"campaignName": "The Lost Mines", "invitedBy": PAUL}),
        Tone::Change,
        "an invitation to The Lost Mines (Paul)",
    );
}

#[test]
fn the_link_tells_of_its_troubles() {
    reads(
        "system.error",
        json!({"detail": {"message": "Token not found"}, "generation": 1}),
        Tone::Trouble,
        "the server says: Token not found",
    );
    reads(
        "system.error",
        json!({"detail": "connection refused", "phase": "connect"}),
        Tone::Trouble,
        "cannot reach the table: connection refused",
    );
    reads(
        "system.disconnected",
        json!({"reason": "transport close"}),
        Tone::Trouble,
        "the link to the table is down: transport close",
    );
    reads(
        "system.reconnected",
        json!({"generation": 3}),
        Tone::Change,
        "the link to the table is up again",
    );
    reads(
        "system.resync",
        json!({"messages": 4}),
        Tone::Aside,
        r#"what was missed has been read again {"messages":4}"#,
    );
}

#[test]
fn an_unknown_event_is_its_name_and_its_json() {
    reads(
        "fog:updated",
        json!({"a": [1]}),
        Tone::Raw,
        r#"fog:updated {"a":[1]}"#,
    );
    reads("system.later", Value::Null, Tone::Raw, "system.later");
}

#[test]
fn a_known_event_of_unknown_shape_is_shown_raw_rather_than_wrong() {
    reads(
        "chat.message",
        json!({"text": 5}),
        Tone::Raw,
        r#"chat.message {"text":5}"#,
    );
    for event in [
        "dice.rolled",
        "initiative.state",
        "token.moved",
        "map.changed",
        "session.x",
    ] {
        assert_eq!(told(event, json!([1])).tone, Tone::Raw, "{event}");
    }
}

#[test]
fn nothing_that_a_player_types_reaches_the_terminal_as_a_command() {
    let sly = "x\u{1b}[2J\u{9b}\u{7f}\n\u{202e}\u{2066}y";
    let events = [
        record(
            "chat.message",
            json!({"userName": sly, "content": sly, "type": sly}),
        ),
        record("chat.system", json!({"content": sly})),
        record(
            "dice.rolled",
            json!({"userName": sly, "characterName": sly, "expression": sly,
            "result": 1, "purpose": sly}),
        ),
        record(
            "initiative.state",
            json!({"active": true, "round": 1, "currentTokenId": sly,
            "combatants": [{"tokenId": sly, "name": sly}]}),
        ),
        record("system.error", json!({"detail": sly, "phase": sly})),
        record(
            "invitation.received",
            json!({"campaignName": sly, "invitedBy": sly}),
        ),
        record(
            "map.changed",
            json!({"mapId": sly, "mapData": {"name": sly}}),
        ),
        record(sly, json!({sly: sly})),
    ];
    for record in events {
        let mut names = Names::default();
        names.learn(&record);
        let text = narrate(&record, &names).text;
        assert_eq!(text, plain(&text), "{}", record.event);
    }
}
