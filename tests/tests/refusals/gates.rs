//! What every tool with a request meets before its route is asked: an account that
//! has to set a new password first, and an address that has asked too much.

use std::time::Duration;

use anyhow::Result;
use cozyvtt_table::{Table, Version};
use cozyvtt_tests::asked::{campaign_path, token};
use serde_json::{Value, json};

use crate::asking::{Answer, NOBODYS, Seat, row};
use crate::{BRANNOC, FAR, character, map, scene, table, under};

/// A tool, its arguments, and the first request that decides about it.
type Ask = (&'static str, Value, (&'static str, String));

/// Maps, tokens and creatures.
fn on_the_map(table: &Table) -> Result<Vec<Ask>> {
    let (near, chest) = token(table, "Ferry Chest")?;
    let far = map(table, FAR)?;
    let creature = NOBODYS;
    let new = json!({"name": "Weir", "image_url": "pic", "width": 3, "height": 2});
    let add = json!({"map_id": near, "name": "T", "image_url": "", "x": 1, "y": 1});
    let place = json!({"creature_id": creature, "map_id": near, "x": 1, "y": 1});
    let one = json!({"map_id": near, "token_id": chest});
    let to = json!({"map_id": near, "token_id": chest, "x": 1, "y": 1});
    let at = |rest: String| under(table, &rest);
    Ok(vec![
        ("map_list", json!({}), ("GET", at("maps".into()))),
        (
            "map_switch",
            json!({"map_id": far}),
            ("PUT", at(format!("maps/{far}/set-current"))),
        ),
        ("map_create", new, ("POST", at("maps".into()))),
        (
            "map_delete",
            json!({"map_id": far}),
            ("DELETE", at(format!("maps/{far}"))),
        ),
        (
            "token_add",
            add,
            ("POST", at(format!("maps/{near}/tokens"))),
        ),
        ("token_move", to, ("GET", campaign_path(table))),
        (
            "token_delete",
            one,
            ("DELETE", at(format!("maps/{near}/tokens/{chest}"))),
        ),
        (
            "token_place_creature",
            place,
            ("GET", at(format!("creatures/{creature}"))),
        ),
        (
            "creature_search",
            json!({"source": "custom"}),
            ("GET", at("creatures".into())),
        ),
    ])
}

/// The campaign, its chat, its evenings and its sheets.
fn at_the_table(table: &Table) -> Result<Vec<Ask>> {
    let id = character(table, BRANNOC)?;
    let one = json!({"character_id": id});
    let path = format!("/api/characters/{id}");
    let rename = json!({"character_id": id, "data": {"name": "N"}});
    let notes = json!({"session_id": NOBODYS, "notes": ""});
    let user = json!({"user_id": table.account("player1").user_id});
    let at = |rest: String| under(table, &rest);
    Ok(vec![
        ("campaign_get", json!({}), ("GET", campaign_path(table))),
        ("campaign_transfer_dm", user, ("PUT", at("dm".into()))),
        ("chat_read", json!({}), ("GET", at("messages".into()))),
        ("session_list", json!({}), ("GET", at("sessions".into()))),
        (
            "session_manage",
            json!({"action": "start"}),
            ("POST", at("sessions".into())),
        ),
        (
            "session_notes_update",
            notes,
            ("PUT", at(format!("sessions/{NOBODYS}/notes"))),
        ),
        (
            "character_list",
            json!({}),
            ("GET", at("characters".into())),
        ),
        ("character_get", one.clone(), ("GET", path.clone())),
        (
            "character_create",
            json!({"name": "Wren"}),
            ("POST", "/api/characters".into()),
        ),
        ("character_update", rename, ("GET", path.clone())),
        (
            "character_validate",
            one.clone(),
            ("GET", format!("{path}/validate")),
        ),
        ("character_delete", one, ("DELETE", path)),
    ])
}

/// Documents and saved rolls.
fn in_the_library(table: &Table) -> Vec<Ask> {
    let one = json!({"document_id": NOBODYS});
    let rewrite = json!({"document_id": NOBODYS, "content": ""});
    let text = json!({"name": "n", "format": "txt", "content": ""});
    let dice = json!({"name": "Bow", "expression": "1d8"});
    let rename = json!({"macro_id": NOBODYS, "name": "n"});
    let links = under(table, "documents");
    let rolls = under(table, "macros");
    let documents = "/api/assets/documents";
    vec![
        (
            "document_upload",
            json!({"file_path": "note.txt"}),
            ("POST", "/api/assets/upload".into()),
        ),
        ("document_create", text, ("POST", documents.into())),
        ("document_list", json!({}), ("GET", "/api/assets".into())),
        ("campaign_document_list", json!({}), ("GET", links.clone())),
        (
            "document_read",
            one.clone(),
            ("GET", format!("{documents}/{NOBODYS}")),
        ),
        (
            "document_update",
            rewrite,
            ("PUT", format!("{documents}/{NOBODYS}/content")),
        ),
        ("document_share", one.clone(), ("POST", links.clone())),
        (
            "document_unshare",
            one.clone(),
            ("DELETE", format!("{links}/{NOBODYS}")),
        ),
        (
            "document_delete",
            one,
            ("DELETE", format!("/api/assets/{NOBODYS}")),
        ),
        ("saved_roll_list", json!({}), ("GET", rolls.clone())),
        ("saved_roll_create", dice, ("POST", rolls.clone())),
        (
            "saved_roll_update",
            rename,
            ("PUT", format!("{rolls}/{NOBODYS}")),
        ),
        (
            "saved_roll_delete",
            json!({"macro_id": NOBODYS}),
            ("DELETE", format!("{rolls}/{NOBODYS}")),
        ),
    ]
}

/// Every tool with a request of its own gets this answer after one request.
async fn all_are_refused(seat: &Seat<'_>, table: &Table, answer: &Answer) -> Result<()> {
    let mut asks = on_the_map(table)?;
    asks.extend(at_the_table(table)?);
    asks.extend(in_the_library(table));
    // The other seven have no request, or none before their event.
    assert_eq!(asks.len(), 34);
    for (tool, arguments, request) in asks {
        let row = row("at the gate", arguments, request, answer.clone());
        seat.refused(tool, [row]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn no_tool_gets_past_the_demand_for_a_new_password() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::take_with_papers(&table, "dm").await?;
        table.demand_new_password("dm");
        let body = json!({
            "error": "Password Change Required", "code": "PASSWORD_CHANGE_REQUIRED",
            "message": "You must set a new password before continuing.",
        });
        all_are_refused(&seat, &table, &(403, body)).await?;
        seat.leave().await?;
    }
    Ok(())
}

/// The server asks for more patience than a caller is kept waiting for. Its window
/// is a longer one than a minute, so that the daemon does not hold back by itself.
#[tokio::test]
async fn no_tool_asks_again_once_the_address_has_asked_too_much() -> Result<()> {
    for version in Version::ALL {
        let table = Table::builder()
            .version(version)
            .scene(scene())
            .api_window(Duration::from_secs(600))
            .start()
            .await?;
        let seat = Seat::take_with_papers(&table, "dm").await?;
        table.faults().api_limit(0);
        let message = "Rate limit exceeded. Please slow down.";
        let body = json!({"error": "Too Many Requests", "message": message});
        all_are_refused(&seat, &table, &(429, body)).await?;
        seat.leave().await?;
    }
    Ok(())
}
