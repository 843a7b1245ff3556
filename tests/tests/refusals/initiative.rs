//! `initiative_manage`, action by action. `initiative_read` is never refused: a
//! server that does not answer it stays silent.

use anyhow::Result;
use cozyvtt_table::{Table, Version};
use cozyvtt_tests::asked::token;
use cozyvtt_tests::until;
use serde_json::{Value, json};

use crate::asking::{Seat, Told, told};
use crate::{FAR, map, narrow, table};

const TOOL: &str = "initiative_manage";

fn on(action: &str, token: &str, map: &str) -> Value {
    json!({"action": action, "token_id": token, "map_id": map})
}

fn with(mut change: Value, key: &str, value: Value) -> Value {
    change[key] = value;
    change
}

/// Waits until the order holds that token, and whether the fight goes on.
async fn listed(seat: &Seat<'_>, token: &str, active: bool) {
    until("the order is as it should be", || async {
        let read = seat.data("initiative_read", json!({})).await.ok()?;
        let state = &read["state"];
        let there = state["combatants"].to_string().contains(token);
        (there && state["active"] == active).then_some(())
    })
    .await;
}

#[tokio::test]
async fn initiative_manage_add_is_refused_for_what_is_not_there_or_is_listed_already() -> Result<()>
{
    for version in Version::ALL {
        let table = table(version).await?;
        let (near, brannoc) = token(&table, "Brannoc")?;
        let far = map(&table, FAR)?;
        let seat = Seat::take(&table, "dm").await?;
        seat.data(TOOL, on("add", &brannoc, &near)).await?;
        listed(&seat, &brannoc, false).await;
        let add = |why, token: &str, map: &str, sentence: &str| {
            told(why, on("add", token, map), "initiative.add", sentence)
        };
        let rows = [
            add("no map", &brannoc, "m", "Map not found"),
            add("no token", "t", &near, "Token not found"),
            add("on another map", &brannoc, &far, "Token not found"),
            add(
                "once more",
                &brannoc,
                &near,
                "Token is already in initiative",
            ),
        ];
        seat.told(TOOL, rows).await?;
    }
    Ok(())
}

#[tokio::test]
async fn initiative_manage_set_is_refused_for_what_is_not_there() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let (near, brannoc) = token(&table, "Brannoc")?;
        let seat = Seat::take(&table, "dm").await?;
        let value = |why, token: &str, map: &str, sentence: &str| {
            let change = with(on("set", token, map), "value", json!(3));
            told(why, change, "initiative.set", sentence)
        };
        let rows = [
            value("no map", &brannoc, "m", "Map not found"),
            value("no token", "t", &near, "Token not found"),
        ];
        seat.told(TOOL, rows).await?;
    }
    Ok(())
}

#[tokio::test]
async fn initiative_manage_start_is_refused_without_combatants_and_next_without_a_fight()
-> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::take(&table, "dm").await?;
        let rows = [
            told(
                "nobody listed",
                json!({"action": "start"}),
                "initiative.start",
                "Add combatants before starting combat",
            ),
            told(
                "no fight",
                json!({"action": "next"}),
                "initiative.next",
                "Combat is not active",
            ),
        ];
        seat.told(TOOL, rows).await?;
    }
    Ok(())
}

#[tokio::test]
async fn initiative_manage_roll_is_refused_for_what_is_not_there_and_for_dice_that_are_none()
-> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        // Neither a sheet nor a stat block decides about its dice.
        let (near, chest) = token(&table, "Ferry Chest")?;
        let seat = Seat::take(&table, "dm").await?;
        let roll = |why, token: &str, map: &str, dice: &str, sentence: &str| {
            let change = with(on("roll", token, map), "expression", json!(dice));
            told(why, change, "initiative.roll", sentence)
        };
        let mut rows = vec![
            roll("no map", &chest, "m", "1d20", "Map not found"),
            roll("no token", "t", &near, "1d20", "Token not found"),
            roll(
                "no dice",
                &chest,
                &near,
                "abc",
                "Invalid expression: Invalid token: abc",
            ),
        ];
        if version == Version::V1_1_2 {
            rows.push(roll(
                "no expression",
                &chest,
                &near,
                "",
                "Invalid expression: expression required",
            ));
        }
        seat.told(TOOL, rows).await?;
    }
    Ok(())
}

/// What the DM alone may, as the others are told.
fn reserved(near: &str, brannoc: &str) -> Vec<Told> {
    let modify = "Only the DM can modify initiative";
    let reorder = json!({"action": "reorder", "ordered_token_ids": [brannoc]});
    let set = with(on("set", brannoc, near), "value", json!(3));
    let remove = json!({"action": "remove", "token_id": brannoc});
    let bare = |action: &str| json!({ "action": action });
    [
        (on("add", brannoc, near), "initiative.add", modify),
        (remove, "initiative.remove", modify),
        (set, "initiative.set", modify),
        (
            reorder,
            "initiative.reorder",
            "Only the DM can reorder initiative",
        ),
        (
            bare("start"),
            "initiative.start",
            "Only the DM can start combat",
        ),
        (
            bare("next"),
            "initiative.next",
            "Only the DM can advance the turn",
        ),
        (bare("end"), "initiative.end", "Only the DM can end combat"),
    ]
    .map(|(change, event, sentence)| told(event, change, event, sentence))
    .into()
}

#[tokio::test]
async fn initiative_manage_is_refused_to_players_but_for_their_own_rolls_since_1_5() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let (near, brannoc) = token(&table, "Brannoc")?;
        let (_, sunniva) = token(&table, "Sunniva")?;
        let seat = Seat::take(&table, "player1").await?;
        let mut rows = reserved(&near, &brannoc);
        let roll = |why, token: &str, sentence: &str| {
            told(why, on("roll", token, &near), "initiative.roll", sentence)
        };
        if version == Version::V1_5 {
            rows.push(roll(
                "for somebody else",
                &sunniva,
                "You can only roll initiative for your own token",
            ));
            rows.push(roll(
                "before the DM has listed it",
                &brannoc,
                "That token is not in the initiative order yet",
            ));
        } else {
            rows.push(roll("at all", &brannoc, "Only the DM can roll initiative"));
        }
        seat.told(TOOL, rows).await?;
        let read = seat.data("initiative_read", json!({})).await?;
        assert_eq!(read["state"]["combatants"], json!([]), "{version}");
    }
    Ok(())
}

#[tokio::test]
async fn initiative_manage_is_refused_to_spectators() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let (near, brannoc) = token(&table, "Brannoc")?;
        let seat = Seat::take(&table, "spectator").await?;
        let mut rows = reserved(&near, &brannoc);
        let sentence = if version == Version::V1_5 {
            "Spectators cannot roll initiative"
        } else {
            "Only the DM can roll initiative"
        };
        let roll = on("roll", &brannoc, &near);
        rows.push(told("at all", roll, "initiative.roll", sentence));
        seat.told(TOOL, rows).await?;
    }
    Ok(())
}

#[tokio::test]
async fn initiative_manage_roll_is_refused_to_a_player_once_the_fight_has_begun() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let (near, brannoc) = token(&table, "Brannoc")?;
    let dm = Seat::take(&table, "dm").await?;
    let player = Seat::take(&table, "player1").await?;
    dm.data(TOOL, on("add", &brannoc, &near)).await?;
    dm.data(TOOL, json!({"action": "start"})).await?;
    listed(&dm, &brannoc, true).await;
    let sentence = "Combat has started: ask the DM to change your initiative";
    let roll = on("roll", &brannoc, &near);
    let row = told("in a fight", roll, "initiative.roll", sentence);
    player.told(TOOL, [row]).await
}

#[tokio::test]
async fn initiative_manage_roll_shares_the_players_dice_budget_since_1_5() -> Result<()> {
    let table = Table::builder().dice_limit(1).start().await?;
    let (near, brannoc) = token(&table, "Brannoc")?;
    let dm = Seat::take(&table, "dm").await?;
    let player = Seat::take(&table, "player1").await?;
    dm.data(TOOL, on("add", &brannoc, &near)).await?;
    listed(&dm, &brannoc, false).await;
    player
        .data("dice_roll", json!({"expression": "1d6"}))
        .await?;
    let sentence = "Rate limit exceeded: too many dice rolls at once. Try again in a moment.";
    let roll = on("roll", &brannoc, &near);
    let row = told("after the last roll", roll, "initiative.roll", sentence);
    player.told(TOOL, [row]).await
}

#[tokio::test]
async fn initiative_manage_is_told_of_too_many_changes() -> Result<()> {
    let table = narrow().await?;
    let seat = Seat::take(&table, "dm").await?;
    let sentence = "Too many initiative changes at once. Try again in a moment.";
    let end = json!({"action": "end"});
    let row = told("over the ceiling", end, "initiative.end", sentence);
    seat.told(TOOL, [row]).await
}
