//! `chat_read`, `chat_send`, `dice_roll`. `events_poll` is never refused: it asks
//! the server nothing.

use anyhow::Result;
use cozyvtt_table::{Table, Version};
use serde_json::{Value, json};

use crate::asking::{Seat, invalid, row, told};
use crate::{dice_over, narrow, table, under};

#[tokio::test]
async fn chat_read_is_refused_for_a_cursor_of_nowhere_and_to_strangers() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::take(&table, "spectator").await?;
        let path = || ("GET", under(&table, "messages"));
        if version == Version::V1_5 {
            // The second has the form of the server's own, and the line is not there.
            let rows = ["of&my=own#", "6463"].map(|cursor| {
                let arguments = json!({"cursor": cursor});
                row(
                    "a cursor of nowhere",
                    arguments,
                    path(),
                    invalid("Invalid cursor"),
                )
            });
            seat.refused("chat_read", rows).await?;
        }
        seat.refused_to_strangers("chat_read", json!({}), path())
            .await?;
    }
    Ok(())
}

const SAYS: &str = "chat.message";

#[tokio::test]
async fn chat_send_is_refused_for_lines_that_only_the_server_finds_too_long_or_empty() -> Result<()>
{
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::take(&table, "player1").await?;
        let rows = [
            told(
                "long in UTF-16",
                json!({"content": dice_over(2000)}),
                SAYS,
                "Message too long. Maximum 2000 characters.",
            ),
            told(
                "nothing but a byte order mark",
                json!({"content": "\u{feff}"}),
                SAYS,
                "Message content required",
            ),
        ];
        let before = table.chat().len();
        seat.told("chat_send", rows).await?;
        assert_eq!(table.chat().len(), before, "{version}");
    }
    Ok(())
}

#[tokio::test]
async fn chat_send_is_refused_while_the_campaign_wants_a_pause_between_lines() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::take(&table, "dm").await?;
        table.set_chat_cooldown(Some(60));
        seat.data("chat_send", json!({"content": "first"})).await?;
        let row = told(
            "too soon",
            json!({"content": "second"}),
            SAYS,
            "Rate limit: wait 60s between messages.",
        );
        seat.told("chat_send", [row]).await?;
        let chat = table.chat();
        assert!(
            chat.iter().all(|line| line.content != "second"),
            "{version}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn chat_send_is_told_of_too_many_lines() -> Result<()> {
    let table = narrow().await?;
    let seat = Seat::take(&table, "dm").await?;
    let sentence = "Too many chat messages at once. Try again in a moment.";
    let line = json!({"content": "one too many"});
    let row = told("over the ceiling", line, SAYS, sentence);
    seat.told("chat_send", [row]).await
}

const ROLLS: &str = "dice.roll";

fn dice(expression: &str) -> Value {
    json!({ "expression": expression })
}

#[tokio::test]
async fn dice_roll_is_refused_for_dice_that_cannot_be_read_or_rolled() -> Result<()> {
    let why_not = [
        ("abc", "Invalid token: abc"),
        ("101d6", "Too many dice. Maximum 100 per roll."),
        ("60d6+60d6", "Too many dice. Maximum 100 per roll."),
        ("1d1001", "Die size too large. Maximum d1000."),
        ("1d20+10000", "Modifier too large. Maximum ±9999."),
        ("1d20!", "Invalid dice notation: 1d20!"),
        ("1d0", "Invalid die size: d0. Must be at least 1."),
    ];
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::take(&table, "player1").await?;
        let mut rows: Vec<_> = why_not
            .into_iter()
            .map(|(text, why)| {
                told(
                    text,
                    dice(text),
                    ROLLS,
                    format!("Invalid dice expression: {why}"),
                )
            })
            .collect();
        rows.push(told("nothing", dice(""), ROLLS, "Dice expression required"));
        rows.push(told("blank", dice(" "), ROLLS, "Dice expression required"));
        rows.push(told(
            "by nothing",
            dice("7/0"),
            ROLLS,
            "Failed to roll dice",
        ));
        rows.push(told(
            "long",
            dice(&"1+".repeat(101)),
            ROLLS,
            "Invalid dice expression: Expression too long. Maximum 200 characters.",
        ));
        if version == Version::V1_1_2 {
            let sentence = "Dice roll failed: Failed to evaluate expression";
            rows.push(told("a stray sign", dice("1d6+"), ROLLS, sentence));
        }
        seat.told("dice_roll", rows).await?;
        assert!(table.rolls().is_empty(), "{version}");
    }
    Ok(())
}

#[tokio::test]
async fn dice_roll_is_refused_for_long_names_and_purposes_since_1_5() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let seat = Seat::take(&table, "player1").await?;
    let with = |key: &str, text: String| json!({"expression": "1d6", key: text});
    let name = "Character name must be 200 characters or fewer";
    let purpose = "Purpose must be 300 characters or fewer";
    let rows = [
        told(
            "a long name",
            with("character_name", "x".repeat(201)),
            ROLLS,
            name,
        ),
        told(
            "a name that is long in UTF-16",
            with("character_name", dice_over(200)),
            ROLLS,
            name,
        ),
        told(
            "a long purpose",
            with("purpose", "x".repeat(301)),
            ROLLS,
            purpose,
        ),
        told(
            "a purpose that is long in UTF-16",
            with("purpose", dice_over(300)),
            ROLLS,
            purpose,
        ),
    ];
    seat.told("dice_roll", rows).await?;
    assert!(table.rolls().is_empty());
    Ok(())
}

#[tokio::test]
async fn dice_roll_is_refused_to_spectators_since_1_5() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let seat = Seat::take(&table, "spectator").await?;
    let row = told("at all", dice("1d6"), ROLLS, "Spectators cannot roll dice");
    seat.told("dice_roll", [row]).await
}

#[tokio::test]
async fn dice_roll_is_refused_when_the_minute_holds_no_more_rolls() -> Result<()> {
    for (version, sentence) in [
        (
            Version::V1_1_2,
            "Rate limit exceeded. Maximum 1 dice rolls per minute.",
        ),
        (
            Version::V1_5,
            "Rate limit exceeded: too many dice rolls at once. Try again in a moment.",
        ),
    ] {
        let builder = Table::builder().version(version).dice_limit(1);
        let table = builder.start().await?;
        let seat = Seat::take(&table, "player1").await?;
        seat.data("dice_roll", dice("1d6")).await?;
        let row = told("after the last roll", dice("1d6"), ROLLS, sentence);
        seat.told("dice_roll", [row]).await?;
        assert_eq!(table.rolls().len(), 1, "{version}");
    }
    Ok(())
}

#[tokio::test]
async fn dice_roll_is_told_of_too_many_rolls_at_once() -> Result<()> {
    let table = narrow().await?;
    let seat = Seat::take(&table, "player1").await?;
    let sentence = "Rate limit exceeded: too many dice rolls at once. Try again in a moment.";
    let row = told("over the ceiling", dice("1d6"), ROLLS, sentence);
    seat.told("dice_roll", [row]).await
}
