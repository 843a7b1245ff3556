//! `map_list`, `map_switch`, `map_create`, `map_delete`

use std::time::Duration;

use anyhow::{Context as _, Result};
use cozyvtt_table::{SocketFault, Version};
use serde_json::{Value, json};

use crate::asking::{Seat, forbidden, invalid, missing, row};
use crate::{FAR, NEAR, dice_over, document, map, table, under};

#[tokio::test]
async fn map_list_is_refused_to_strangers() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::take(&table, "player1").await?;
        let path = under(&table, "maps");
        seat.refused_to_strangers("map_list", json!({}), ("GET", path))
            .await?;
    }
    Ok(())
}

#[tokio::test]
async fn map_switch_is_refused_for_a_map_that_is_not_there_and_to_all_but_the_dm() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::take(&table, "dm").await?;
        let far = map(&table, FAR)?;
        let theirs = table.map_in("Elsewhere", "Far Shore").context("no map")?;
        let path = |map: &str| ("PUT", under(&table, &format!("maps/{map}/set-current")));
        let rows = [
            row(
                "no map",
                json!({"map_id": "m"}),
                path("m"),
                missing("Map not found"),
            ),
            row(
                "another campaign's map",
                json!({"map_id": theirs}),
                path(&theirs),
                missing("Map not found in this campaign"),
            ),
        ];
        seat.refused("map_switch", rows).await?;
        let switch = json!({"map_id": far});
        seat.refused_to_all_but_the_dm("map_switch", switch, path(&far))
            .await?;
        assert_eq!(table.current_map(), Some(map(&table, NEAR)?), "{version}");
    }
    Ok(())
}

/// The second half of a switch: what happens between the two is refused by an
/// event, and what was stored stays.
#[tokio::test]
async fn map_switch_is_told_when_the_table_refuses_to_show_what_was_stored() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::take(&table, "dm").await?;
        let (near, far) = (map(&table, NEAR)?, map(&table, FAR)?);
        let late = SocketFault::DelayEvent("map.change".to_owned(), Duration::from_secs(1));
        let _late = table.faults().socket(late);
        let switched = async || -> Result<u64> {
            table.log().clear();
            let answer = seat.data("map_switch", json!({"map_id": far})).await?;
            answer["broadcast"]["since"].as_u64().context("no number")
        };
        let told = async |since: u64, sentence: &str| {
            assert_eq!(seat.error_after(since).await, sentence, "{version}");
            let events = table.log().events_in("map.change");
            assert_eq!(events.len(), 1, "{version}: {sentence}");
        };
        if version == Version::V1_5 {
            let since = switched().await?;
            table.switch_map(&near)?;
            let sentence = "Only the current map can be sent to the table; set it current first";
            told(since, sentence).await;
        }
        let since = switched().await?;
        table.transfer_dm("player2");
        told(since, "Only DMs can change the map").await;
        table.transfer_dm("dm");
        let since = switched().await?;
        table.delete_map(&far);
        told(since, "Map not found").await;
    }
    Ok(())
}

#[tokio::test]
async fn map_switch_is_told_of_too_many_map_changes() -> Result<()> {
    let table = crate::narrow().await?;
    let seat = Seat::take(&table, "dm").await?;
    let far = map(&table, FAR)?;
    let answer = seat.data("map_switch", json!({"map_id": far})).await?;
    assert_eq!(answer["persisted"], true);
    let since = answer["broadcast"]["since"].as_u64().context("no number")?;
    let sentence = "Too many map changes at once. Try again in a moment.";
    assert_eq!(seat.error_after(since).await, sentence);
    Ok(())
}

#[tokio::test]
async fn map_create_is_refused_for_its_name_its_size_its_pictures_and_to_all_but_the_dm()
-> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::take(&table, "dm").await?;
        let path = || ("POST", under(&table, "maps"));
        let new = |field: &str, value: Value| {
            let mut new = json!({"name": "Weir", "image_url": "pic", "width": 30, "height": 20});
            new[field] = value;
            new
        };
        let blank = row(
            "a name of nothing but a byte order mark",
            new("name", json!("\u{feff}")),
            path(),
            invalid("Map name is required"),
        );
        seat.refused("map_create", [blank]).await?;
        if version == Version::V1_5 {
            let long = "Map name can be 200 characters at most";
            let size = "Map width and height must be whole numbers from 1 to 500";
            let hidden = "You do not have access to that image";
            let diary = json!(document(&table, "Diary")?);
            let cases = [
                ("a long name", "name", json!("x".repeat(201)), invalid(long)),
                (
                    "a name that is long in UTF-16",
                    "name",
                    json!(dice_over(200)),
                    invalid(long),
                ),
                ("too wide", "width", json!(501), invalid(size)),
                ("too high", "height", json!(501), invalid(size)),
                (
                    "somebody else's picture",
                    "image_url",
                    diary.clone(),
                    forbidden(hidden),
                ),
                (
                    "somebody else's spirit layer",
                    "spirit_layer_url",
                    diary,
                    forbidden(hidden),
                ),
            ];
            let rows = cases
                .map(|(why, field, value, answer)| row(why, new(field, value), path(), answer));
            seat.refused("map_create", rows).await?;
        }
        let new = new("name", json!("Weir"));
        seat.refused_to_all_but_the_dm("map_create", new, path())
            .await?;
        assert_eq!(table.map_named("Weir"), None, "{version}");
    }
    Ok(())
}

#[tokio::test]
async fn map_delete_is_refused_for_the_current_map_for_none_and_to_all_but_the_dm() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::take(&table, "dm").await?;
        let (near, far) = (map(&table, NEAR)?, map(&table, FAR)?);
        let theirs = table.map_in("Elsewhere", "Far Shore").context("no map")?;
        let path = |map: &str| ("DELETE", under(&table, &format!("maps/{map}")));
        let rows = [
            row(
                "no map",
                json!({"map_id": "m"}),
                path("m"),
                missing("Map not found"),
            ),
            row(
                "another campaign's map",
                json!({"map_id": theirs}),
                path(&theirs),
                missing("Map not found in this campaign"),
            ),
            row(
                "the current map",
                json!({"map_id": near}),
                path(&near),
                invalid("Cannot delete the current map. Set a different map as current first."),
            ),
        ];
        seat.refused("map_delete", rows).await?;
        let delete = json!({"map_id": far});
        seat.refused_to_all_but_the_dm("map_delete", delete, path(&far))
            .await?;
        assert_eq!(table.map_named(FAR), Some(far), "{version}");
    }
    Ok(())
}
