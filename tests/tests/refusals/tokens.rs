//! `token_add`, `token_move`, `token_delete`, `token_place_creature`,
//! `token_hp_update`

use anyhow::{Context as _, Result};
use cozyvtt_table::{CreaturePlan, MapPlan, Scene, Table, TokenPlan, Version};
use cozyvtt_tests::asked::{campaign_path, token};
use serde_json::{Value, json};

use crate::asking::{Answer, Seat, bad, forbidden, invalid, missing, row, told};
use crate::{FAR, NEAR, character, dice_over, document, map, narrow, scene, table, under};

const HIDDEN: &str = "You do not have access to that image";
const OUT_OF_BOUNDS: &str = "Token position must be within map bounds (0-23, 0-17)";
const HALF: &str = "Token position must be a whole square";
const FULL: &str = "A map can hold at most 1000 tokens";

/// The scene with a map that holds no more tokens.
fn crowded() -> Scene {
    let map = (0..1000).fold(MapPlan::new("Crowded", 24, 18), |map, number| {
        map.token(TokenPlan::new(&format!("number {number}"), 1, 1))
    });
    scene().main(|campaign| campaign.map(map))
}

async fn crowded_table(version: Version, scene: Scene) -> Result<Table> {
    let builder = Table::builder().version(version).scene(scene);
    builder.start().await
}

fn tokens(table: &Table, map: &str) -> (&'static str, String) {
    ("POST", under(table, &format!("maps/{map}/tokens")))
}

#[tokio::test]
async fn token_add_is_refused_for_its_fields_its_place_its_map_and_to_all_but_the_dm() -> Result<()>
{
    for version in Version::ALL {
        let table = crowded_table(version, crowded()).await?;
        let seat = Seat::take(&table, "dm").await?;
        let near = map(&table, NEAR)?;
        let theirs = table.map_in("Elsewhere", "Far Shore").context("no map")?;
        let new = |field: &str, value: Value| {
            let mut new = json!({"map_id": near, "name": "T", "image_url": "", "x": 1, "y": 1});
            new[field] = value;
            new
        };
        let before = table.tokens(&near).len();
        let wrong = |field: &str| invalid(&format!("Invalid value for {field}"));
        let mut cases: Vec<(&'static str, &str, Value, Answer)> = vec![
            (
                "no name",
                "name",
                json!(""),
                invalid("Token name is required"),
            ),
            ("too far right", "x", json!(24), invalid(OUT_OF_BOUNDS)),
            ("below the map", "y", json!(-1), invalid(OUT_OF_BOUNDS)),
            ("no map", "map_id", json!("m"), missing("Map not found")),
            (
                "another campaign's map",
                "map_id",
                json!(theirs),
                missing("Map not found in this campaign"),
            ),
        ];
        if version == Version::V1_5 {
            let dm = &table.account("dm").user_id;
            let loner = character(&table, "The Loner")?;
            let stranger = "Character is not in this campaign";
            let crowded = map(&table, "Crowded")?;
            cases.extend([
                ("a long name", "name", json!("x".repeat(201)), wrong("name")),
                (
                    "a name that is long in UTF-16",
                    "name",
                    json!(dice_over(200)),
                    wrong("name"),
                ),
                (
                    "a long address",
                    "image_url",
                    json!("x".repeat(501)),
                    wrong("imageUrl"),
                ),
                (
                    "somebody else's picture",
                    "image_url",
                    json!(document(&table, "Diary")?),
                    forbidden(HIDDEN),
                ),
                ("half a square", "x", json!(0.5), invalid(HALF)),
                ("an unknown plane", "layer", json!("sky"), wrong("layer")),
                (
                    "in the hands of the DM",
                    "controlled_by",
                    json!(dm),
                    wrong("controlledBy"),
                ),
                (
                    "no character",
                    "character_id",
                    json!("nobody"),
                    invalid(stranger),
                ),
                (
                    "a character of no campaign",
                    "character_id",
                    json!(loner),
                    invalid(stranger),
                ),
                (
                    "a full map",
                    "map_id",
                    json!(crowded),
                    bad("Limit Exceeded", FULL),
                ),
            ]);
        }
        let rows = cases.into_iter().map(|(why, field, value, answer)| {
            let new = new(field, value);
            let path = tokens(&table, new["map_id"].as_str().unwrap_or_default());
            row(why, new, path, answer)
        });
        seat.refused("token_add", rows).await?;
        let path = tokens(&table, &near);
        seat.refused_to_all_but_the_dm("token_add", new("x", json!(1)), path)
            .await?;
        assert_eq!(table.tokens(&near).len(), before, "{version}");
    }
    Ok(())
}

fn one_token(table: &Table, map: &str, token: &str) -> String {
    under(table, &format!("maps/{map}/tokens/{token}"))
}

#[tokio::test]
async fn token_move_is_refused_for_its_place_its_token_and_its_map_and_to_strangers() -> Result<()>
{
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::take(&table, "dm").await?;
        let (near, chest) = token(&table, "Ferry Chest")?;
        let theirs = table.map_in("Elsewhere", "Far Shore").context("no map")?;
        let ask = |why, map: &str, token: &str, x: Value, answer| {
            let arguments = json!({"map_id": map, "token_id": token, "x": x, "y": 4});
            row(
                why,
                arguments,
                ("PUT", one_token(&table, map, token)),
                answer,
            )
        };
        let bounds = "Position must be within map bounds (0-23, 0-17)";
        let mut rows = vec![
            ask("no map", "m", "t", json!(1), missing("Map not found")),
            ask(
                "another campaign's map",
                &theirs,
                "t",
                json!(1),
                missing("Map not found in this campaign"),
            ),
            ask(
                "no token",
                &near,
                "t",
                json!(1),
                missing("Token not found on this map"),
            ),
            ask("too far right", &near, &chest, json!(24), invalid(bounds)),
            ask("off the left", &near, &chest, json!(-1), invalid(bounds)),
        ];
        if version == Version::V1_5 {
            let half = invalid("Position must be a whole square");
            rows.push(ask("half a square", &near, &chest, json!(0.5), half));
        }
        seat.refused("token_move", rows).await?;
        let place = json!({"map_id": near, "token_id": chest, "x": 1, "y": 1});
        // A stranger is stopped at the look at their role.
        seat.refused_to_strangers("token_move", place, ("GET", campaign_path(&table)))
            .await?;
    }
    Ok(())
}

#[tokio::test]
async fn token_move_is_refused_to_a_player_for_tokens_of_others_other_maps_and_in_a_break()
-> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::take(&table, "player1").await?;
        let (near, own) = token(&table, "Brannoc")?;
        let (_, other) = token(&table, "Sunniva")?;
        let (far, warden) = token(&table, "Bell Warden")?;
        let ask = |why, map: &str, token: &str, x: i32, answer| {
            let arguments = json!({"map_id": map, "token_id": token, "x": x, "y": 4});
            row(
                why,
                arguments,
                ("PUT", one_token(&table, map, token)),
                answer,
            )
        };
        let not_theirs = || forbidden("You can only update tokens you control");
        let elsewhere = if version == Version::V1_5 {
            missing("Map not found")
        } else {
            not_theirs()
        };
        let bounds = invalid("Position must be within map bounds (0-23, 0-17)");
        let rows = [
            ask("somebody else's token", &near, &other, 4, not_theirs()),
            ask("a map that is not current", &far, &warden, 4, elsewhere),
            ask("their own off the map", &near, &own, 24, bounds),
        ];
        seat.refused("token_move", rows).await?;
        if version == Version::V1_5 {
            let message = "Players cannot move tokens while the session is paused or ended";
            for status in ["PAUSED", "INACTIVE"] {
                table.set_status(status);
                let rests = ask("in a break", &near, &own, 4, forbidden(message));
                seat.refused("token_move", [rests]).await?;
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn token_delete_is_refused_for_what_is_not_there_and_to_all_but_the_dm() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::take(&table, "dm").await?;
        let (near, chest) = token(&table, "Ferry Chest")?;
        let theirs = table.map_in("Elsewhere", "Far Shore").context("no map")?;
        let ask = |why, map: &str, token: &str, message: &str| {
            let arguments = json!({"map_id": map, "token_id": token});
            let path = one_token(&table, map, token);
            row(why, arguments, ("DELETE", path), missing(message))
        };
        let far = map(&table, FAR)?;
        let lost = "Token not found on this map";
        let rows = [
            ask("no map", "m", "t", "Map not found"),
            ask(
                "another campaign's map",
                &theirs,
                "t",
                "Map not found in this campaign",
            ),
            ask("no token", &near, "t", lost),
            ask("a token of another map", &far, &chest, lost),
        ];
        seat.refused("token_delete", rows).await?;
        let arguments = json!({"map_id": near, "token_id": chest});
        let path = one_token(&table, &near, &chest);
        seat.refused_to_all_but_the_dm("token_delete", arguments, ("DELETE", path))
            .await?;
        assert!(table.token_named("Ferry Chest").is_some(), "{version}");
    }
    Ok(())
}

/// The scene with a creature whose picture is the one of that id.
fn with_picture(picture: &str) -> Scene {
    let ghost = CreaturePlan::new("Mill Ghost", 12, 30).image(picture);
    crowded().main(|campaign| campaign.creature(ghost))
}

#[tokio::test]
async fn token_place_creature_is_refused_for_its_creature_its_place_and_its_map() -> Result<()> {
    for version in Version::ALL {
        // The same scene gives the same ids.
        let mut picture = "ghost".to_owned();
        if version == Version::V1_5 {
            picture = document(
                &crowded_table(version, with_picture("ghost")).await?,
                "Diary",
            )?;
        }
        let table = crowded_table(version, with_picture(&picture)).await?;
        let seat = Seat::take(&table, "dm").await?;
        let near = map(&table, NEAR)?;
        let creature = |name: &str| table.creature_named(name).context("no creature");
        let stalker = creature("Reed Stalker")?;
        let theirs = table.map_in("Elsewhere", "Far Shore").context("no map")?;
        let read = |id: &str| ("GET", under(&table, &format!("creatures/{id}")));
        let place = |creature: &str, map: &str, x: f64| json!({"creature_id": creature, "map_id": map, "x": x, "y": 1});
        let unknown = || missing("Creature template not found");
        let put = |why, map: &str, x: f64, answer| {
            row(why, place(&stalker, map, x), tokens(&table, map), answer)
        };
        let mut rows = vec![
            row("no creature", place("c", &near, 1.0), read("c"), unknown()),
            put("no map", "m", 1.0, missing("Map not found")),
            put(
                "another campaign's map",
                &theirs,
                1.0,
                missing("Map not found in this campaign"),
            ),
            put("too far right", &near, 24.0, invalid(OUT_OF_BOUNDS)),
        ];
        if version == Version::V1_5 {
            let wight = creature("Shore Wight")?;
            let ghost = creature("Mill Ghost")?;
            let full = map(&table, "Crowded")?;
            rows.extend([
                row(
                    "another campaign's creature",
                    place(&wight, &near, 1.0),
                    read(&wight),
                    unknown(),
                ),
                row(
                    "somebody else's picture",
                    place(&ghost, &near, 1.0),
                    tokens(&table, &near),
                    forbidden(HIDDEN),
                ),
                put("half a square", &near, 0.5, invalid(HALF)),
                put("a full map", &full, 1.0, bad("Limit Exceeded", FULL)),
            ]);
        }
        seat.refused("token_place_creature", rows).await?;
    }
    Ok(())
}

#[tokio::test]
async fn token_place_creature_is_refused_to_all_but_the_dm() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::take(&table, "dm").await?;
        let near = map(&table, NEAR)?;
        let creature = table
            .creature_named("Reed Stalker")
            .context("no creature")?;
        let place = json!({"creature_id": creature, "map_id": near, "x": 1, "y": 1});
        let read = ("GET", under(&table, &format!("creatures/{creature}")));
        let tool = "token_place_creature";
        if version == Version::V1_5 {
            seat.refused_to_all_but_the_dm(tool, place, read).await?;
        } else {
            // There any member reads of creatures, and the token is what is refused.
            table.transfer_dm("player2");
            let message = "This action requires Dungeon Master (DM) role";
            let path = tokens(&table, &near);
            let player = row("as a player", place.clone(), path, forbidden(message));
            seat.refused(tool, [player]).await?;
            seat.refused_to_strangers(tool, place, read).await?;
        }
    }
    Ok(())
}

const HP: &str = "character.hp.update";
const NOT_THEIRS: &str = "You do not have permission to update this character's HP";

#[tokio::test]
async fn token_hp_update_is_refused_for_characters_that_are_not_there_or_have_no_hit_points()
-> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::take(&table, "dm").await?;
        let cases = [
            ("no character", "nobody".to_owned(), "Character not found"),
            (
                "a character of no campaign",
                character(&table, "The Loner")?,
                "Character is not in this campaign",
            ),
            (
                "a sheet without hit points",
                character(&table, "The Blank")?,
                "Character does not have HP tracking",
            ),
            (
                "a Shadowrun sheet",
                character(&table, "The Runner")?,
                "HP tracking not supported for this game system",
            ),
            (
                "a flexible sheet",
                character(&table, "The Free")?,
                "HP tracking not supported for this game system",
            ),
        ];
        let rows = cases.map(|(why, id, sentence)| {
            told(why, json!({"character_id": id, "delta": -1}), HP, sentence)
        });
        seat.told("token_hp_update", rows).await?;
    }
    Ok(())
}

#[tokio::test]
async fn token_hp_update_is_refused_to_all_but_the_owner_and_the_dm() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let id = character(&table, "Brannoc Thornfield")?;
        let watching = if version == Version::V1_5 {
            "Spectators cannot change a character"
        } else {
            NOT_THEIRS
        };
        for (account, sentence) in [("player2", NOT_THEIRS), ("spectator", watching)] {
            let seat = Seat::take(&table, account).await?;
            let harm = json!({"character_id": id, "delta": -1});
            let row = told("somebody else's character", harm, HP, sentence);
            seat.told("token_hp_update", [row]).await?;
        }
        assert_eq!(table.sheet(&id)["hp"]["current"], 34, "{version}");
    }
    Ok(())
}

#[tokio::test]
async fn token_hp_update_is_told_of_too_many_changes() -> Result<()> {
    let table = narrow().await?;
    let seat = Seat::take(&table, "dm").await?;
    let id = character(&table, "Brannoc Thornfield")?;
    let harm = json!({"character_id": id, "delta": -1});
    let sentence = "Too many hit point changes at once. Try again in a moment.";
    let row = told("over the ceiling", harm, HP, sentence);
    seat.told("token_hp_update", [row]).await
}
