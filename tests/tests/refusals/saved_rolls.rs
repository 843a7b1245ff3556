//! `saved_roll_list`, `saved_roll_create`, `saved_roll_update`,
//! `saved_roll_delete`. The quota, and that 1.1.2 has none of them: T-MAC-02 in the
//! suite `library`.

use anyhow::{Context as _, Result};
use cozyvtt_table::Version;
use serde_json::{Value, json};

use crate::asking::{Answer, NOBODYS, Seat, invalid, missing, row};
use crate::{dice_over, table, under};

/// What the server says of dice that it cannot read.
fn unreadable(dice: &str, why: &str) -> Answer {
    invalid(&format!(
        "CozyVTT could not read \"{dice}\" as dice: Invalid dice expression: {why}"
    ))
}

#[tokio::test]
async fn saved_roll_list_is_refused_to_strangers() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let seat = Seat::take(&table, "player1").await?;
    let path = ("GET", under(&table, "macros"));
    seat.refused_to_strangers("saved_roll_list", json!({}), path)
        .await
}

/// Names and dice that the server refuses: why, the field, its value, the answer.
fn unfit() -> [(&'static str, &'static str, Value, Answer); 6] {
    let name = || invalid("Macro name must be 1 to 60 characters");
    let long = || invalid("Macro expression must be 1 to 200 characters");
    [
        (
            "a name of nothing but a byte order mark",
            "name",
            json!("\u{feff}"),
            name(),
        ),
        (
            "a name that is long in UTF-16",
            "name",
            json!(dice_over(60)),
            name(),
        ),
        (
            "dice of nothing but a byte order mark",
            "expression",
            json!("\u{feff}"),
            long(),
        ),
        (
            "dice that are long in UTF-16",
            "expression",
            json!(dice_over(200)),
            long(),
        ),
        (
            "dice that are none",
            "expression",
            json!("abc"),
            unreadable("abc", "Invalid token: abc"),
        ),
        (
            "more dice than are rolled",
            "expression",
            json!("101d6"),
            unreadable("101d6", "Too many dice. Maximum 100 per roll."),
        ),
    ]
}

#[tokio::test]
async fn saved_roll_create_is_refused_for_its_name_its_dice_and_to_strangers() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let seat = Seat::take(&table, "player1").await?;
    let path = || ("POST", under(&table, "macros"));
    let new = json!({"name": "Bow", "expression": "1d8"});
    let rows = unfit().map(|(why, field, value, answer)| {
        let mut new = new.clone();
        new[field] = value;
        row(why, new, path(), answer)
    });
    seat.refused("saved_roll_create", rows).await?;
    seat.refused_to_strangers("saved_roll_create", new.clone(), path())
        .await?;
    assert!(table.macros("player1").is_empty());
    Ok(())
}

#[tokio::test]
async fn saved_roll_update_is_refused_for_its_name_its_dice_for_none_and_to_strangers() -> Result<()>
{
    let table = table(Version::V1_5).await?;
    let seat = Seat::take(&table, "player1").await?;
    let new = json!({"name": "Bow", "expression": "1d8"});
    let made = seat.data("saved_roll_create", new).await?;
    let id = made["macro"]["id"].as_str().context("no id")?;
    let path = |id: &str| ("PUT", under(&table, &format!("macros/{id}")));
    let rows = unfit().map(|(why, field, value, answer)| {
        row(why, json!({"macro_id": id, field: value}), path(id), answer)
    });
    seat.refused("saved_roll_update", rows).await?;
    let none = json!({"macro_id": NOBODYS, "name": "n"});
    let row = row("none", none, path(NOBODYS), missing("Macro not found"));
    seat.refused("saved_roll_update", [row]).await?;
    let rename = json!({"macro_id": id, "name": "n"});
    seat.refused_to_strangers("saved_roll_update", rename, path(id))
        .await?;
    assert_eq!(table.macros("player1")[0]["name"], "Bow");
    Ok(())
}

#[tokio::test]
async fn saved_roll_delete_is_refused_for_none_and_to_strangers() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let seat = Seat::take(&table, "player1").await?;
    let path = || ("DELETE", under(&table, &format!("macros/{NOBODYS}")));
    let none = json!({"macro_id": NOBODYS});
    let row = row("none", none.clone(), path(), missing("Macro not found"));
    seat.refused("saved_roll_delete", [row]).await?;
    seat.refused_to_strangers("saved_roll_delete", none, path())
        .await
}
