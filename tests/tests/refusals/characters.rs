//! `character_list`, `character_get`, `character_create`, `character_update`,
//! `character_validate`, `character_hitdice_spend`, `character_delete`

use std::time::Duration;

use anyhow::{Context as _, Result};
use cozyvtt_table::{CharacterPlan, GameSystem, Role, Table, Version, plain_sheet};
use serde_json::{Value, json};

use crate::asking::{Answer, Seat, Told, forbidden, invalid, missing, row, told, too_large};
use crate::{BRANNOC, character, dice_over, document, narrow, scene, table, under};

const SUNNIVA: &str = "Sunniva Ashlocke";
const NAME: &str = "Character name must be 1 to 200 characters";
const SHEET: &str = "Character data does not match game system schema";
const HIDDEN: &str = "You do not have access to that image";

fn one(id: &str) -> Value {
    json!({ "character_id": id })
}

fn path(id: &str) -> String {
    format!("/api/characters/{id}")
}

/// The refusal of one who may not do `what` with somebody else's character.
fn not_theirs(what: &str) -> Answer {
    forbidden(&format!(
        "You do not have permission to {what} this character"
    ))
}

fn no_character() -> Answer {
    missing("Character not found")
}

/// Makes a body that is larger than the server takes, in one field of a sheet.
fn heavy() -> Value {
    json!({ "notes": "x".repeat(1024 * 1024) })
}

#[tokio::test]
async fn character_list_is_refused_to_strangers() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::take(&table, "spectator").await?;
        let path = ("GET", under(&table, "characters"));
        seat.refused_to_strangers("character_list", json!({}), path)
            .await?;
    }
    Ok(())
}

#[tokio::test]
async fn character_get_is_refused_for_none_and_for_those_of_other_tables() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let (brannoc, sunniva) = (character(&table, BRANNOC)?, character(&table, SUNNIVA)?);
        let loner = character(&table, "The Loner")?;
        let seat = Seat::take(&table, "dm").await?;
        let get = |why, id: &str, answer| row(why, one(id), ("GET", path(id)), answer);
        let view = || not_theirs("view");
        let rows = [
            get("no character", "c", no_character()),
            get("a character of no campaign", &loner, view()),
        ];
        seat.refused("character_get", rows).await?;
        if version == Version::V1_5 {
            table.remove_member("player1");
            let row = get("of one who has left", &brannoc, view());
            seat.refused("character_get", [row]).await?;
        }
        table.remove_member("dm");
        let row = get("as one who is no member", &sunniva, view());
        seat.refused("character_get", [row]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn character_create_is_refused_for_its_name_its_sheet_and_its_picture() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::take(&table, "player2").await?;
        let before = table.character_ids().len();
        let post = || ("POST", "/api/characters");
        let mut rows = vec![
            row("a blank name", json!({"name": "  "}), post(), invalid(NAME)),
            row(
                "a name that is long in UTF-16",
                json!({"name": dice_over(200)}),
                post(),
                invalid(NAME),
            ),
            row(
                "too much of a sheet",
                json!({"name": "Wren", "data": heavy()}),
                post(),
                too_large(&table),
            ),
        ];
        if version == Version::V1_5 {
            let picture = document(&table, "Diary")?;
            rows.push(row(
                "somebody else's picture",
                json!({"name": "Wren", "token_image_url": picture}),
                post(),
                forbidden(HIDDEN),
            ));
        }
        seat.refused("character_create", rows).await?;
        let sheet = json!({"name": "Wren", "data": {"level": "high"}});
        seat.refused_sheet("character_create", sheet, ("POST", "/api/characters"))
            .await?;
        assert_eq!(table.character_ids().len(), before, "{version}");
    }
    Ok(())
}

impl Seat<'_> {
    /// Asks with a sheet that does not fit: the server lists what is wrong with it,
    /// and all of that arrives.
    async fn refused_sheet(
        &self,
        tool: &str,
        arguments: Value,
        request: (&'static str, &str),
    ) -> Result<()> {
        let heard = self.envelope(tool, arguments.clone()).await?;
        let errors = &heard["data"]["upstream"]["validationErrors"];
        let level = errors.as_array().context("no errors")?.iter();
        let level = level.filter(|one| one["path"] == "level").count();
        assert_eq!(level, 1, "{heard}");
        let (status, mut body) = invalid(SHEET);
        body["validationErrors"] = errors.clone();
        let row = row(
            "a sheet that does not fit",
            arguments,
            request,
            (status, body),
        );
        self.refused(tool, [row]).await
    }
}

#[tokio::test]
async fn character_create_is_refused_to_strangers_and_half_refused_in_1_1_2() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::take(&table, "player2").await?;
        table.remove_member("player2");
        table.log().clear();
        let new = json!({"name": "Wren"});
        if version == Version::V1_5 {
            let message = "You must be a member of the campaign to create a character in it";
            let post = ("POST", "/api/characters");
            let row = row("as one who is no member", new, post, forbidden(message));
            seat.refused("character_create", [row]).await?;
            assert_eq!(table.character_named("Wren"), None);
            continue;
        }
        // There it is created all the same, and only the roster is closed to it.
        let envelope = seat.envelope("character_create", new).await?;
        let id = character(&table, "Wren")?;
        let sentence = format!(
            "Character {id} was created but roster assignment failed; assign it in the UI, do not \
             create again: HTTP 403: You are not a member of this campaign"
        );
        assert_eq!(envelope["error"], sentence);
        let data = &envelope["data"];
        assert_eq!(data["created"], true);
        assert_eq!(data["assigned"], false);
        assert_eq!(data["character"]["id"], id);
        let assign = format!("{}/assign", path(&id));
        let asked = ["/api/characters", &assign].map(|path| table.log().count("POST", path));
        assert_eq!(asked, [1, 1]);
    }
    Ok(())
}

#[tokio::test]
async fn character_create_is_refused_in_a_campaign_that_there_is_not() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::astray(&table, "player2").await?;
        let answer = if version == Version::V1_5 {
            missing("Campaign not found")
        } else {
            // 1.1.2 stumbles over it.
            let message = "Failed to create character";
            let body = json!({"error": "Internal Server Error", "message": message});
            (500, body)
        };
        let post = ("POST", "/api/characters");
        let row = row("no campaign", json!({"name": "Wren"}), post, answer);
        seat.refused("character_create", [row]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn character_update_is_refused_for_its_name_its_sheet_and_its_picture() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let id = character(&table, SUNNIVA)?;
        let seat = Seat::take(&table, "player2").await?;
        let sheet = table.sheet(&id);
        let put = |why, data: Value, answer| {
            let arguments = json!({"character_id": id, "data": data});
            row(why, arguments, ("PUT", path(&id)), answer)
        };
        let mut rows = vec![
            put("a blank name", json!({"name": " "}), invalid(NAME)),
            put("no name", json!({"name": null}), invalid(NAME)),
            put(
                "a name that is long in UTF-16",
                json!({"name": dice_over(200)}),
                invalid(NAME),
            ),
            put(
                "too much of a sheet",
                json!({"data": heavy()}),
                too_large(&table),
            ),
        ];
        if version == Version::V1_5 {
            let picture = document(&table, "Diary")?;
            let change = json!({"tokenImageUrl": picture});
            rows.push(put("somebody else's picture", change, forbidden(HIDDEN)));
        }
        seat.refused("character_update", rows).await?;
        let arguments = json!({"character_id": id, "data": {"data": {"level": "high"}}});
        seat.refused_sheet("character_update", arguments, ("PUT", &path(&id)))
            .await?;
        assert_eq!(table.sheet(&id), sheet, "{version}");
    }
    Ok(())
}

#[tokio::test]
async fn character_update_is_refused_for_none_and_to_all_but_the_owner_and_the_dm() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let (brannoc, sunniva) = (character(&table, BRANNOC)?, character(&table, SUNNIVA)?);
        let loner = character(&table, "The Loner")?;
        let seat = Seat::take(&table, "player2").await?;
        let change = |why, id: &str, method, answer| {
            let arguments = json!({"character_id": id, "data": {"name": "N"}});
            row(why, arguments, (method, path(id)), answer)
        };
        let edit = || not_theirs("edit");
        let rows = [
            // What cannot be read is not written.
            change("no character", "c", "GET", no_character()),
            change("of no campaign", &loner, "GET", not_theirs("view")),
            change("somebody else's", &brannoc, "PUT", edit()),
        ];
        seat.refused("character_update", rows).await?;
        table.set_role("player2", Role::Spectator);
        let mut rows = vec![change("as a spectator", &brannoc, "PUT", edit())];
        if version == Version::V1_5 {
            let message = "Spectators cannot edit a character in this campaign";
            let answer = forbidden(message);
            rows.push(change("their own as a spectator", &sunniva, "PUT", answer));
        }
        seat.refused("character_update", rows).await?;
    }
    Ok(())
}

/// Since 1.5 a save tells which state it goes out from.
#[tokio::test]
async fn character_update_is_refused_when_somebody_else_saved_meanwhile() -> Result<()> {
    let builder = Table::builder().write_hold(Duration::from_secs(1));
    let table = builder.start().await?;
    let id = character(&table, SUNNIVA)?;
    let dm = Seat::take(&table, "dm").await?;
    let owner = Seat::take(&table, "player2").await?;
    let change = json!({"character_id": id, "data": {"data": {"hp": {"current": 1}}}});
    let conflict = json!({
        "error": "Conflict", "code": "CHARACTER_CHANGED",
        "message": "This character was changed by someone else since you opened it.",
    });
    let put = path(&id);
    let tool = "character_update";
    dm.refused_once(&owner, tool, change, ("PUT", &put), (409, conflict))
        .await
}

#[tokio::test]
async fn character_validate_is_refused_for_none_for_flexible_ones_and_to_all_but_the_owner()
-> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let sunniva = character(&table, SUNNIVA)?;
        let free = character(&table, "The Free")?;
        let get = |why, id: &str, answer| {
            row(
                why,
                one(id),
                ("GET", format!("{}/validate", path(id))),
                answer,
            )
        };
        for account in ["dm", "player1"] {
            let seat = Seat::take(&table, account).await?;
            let rows = [
                get("no character", "c", no_character()),
                get("somebody else's", &sunniva, not_theirs("validate")),
            ];
            seat.refused("character_validate", rows).await?;
            if account == "dm" {
                continue;
            }
            // An answer without the usual two keys.
            let heard = seat.envelope("character_validate", one(&free)).await?;
            let body = heard["data"]["upstream"].clone();
            assert_eq!(heard["data"]["status"], 400);
            assert_eq!(body["isValid"], false);
            assert_eq!(body["errors"][0]["code"], "no_game_system");
            let error = heard["error"].as_str().context("no sentence")?;
            assert!(error.starts_with("HTTP 400: "), "{error}");
        }
    }
    Ok(())
}

const SPENDS: &str = "character.hitdice.spend";

fn spend(why: &'static str, id: &str, index: u32, sentence: &str) -> Told {
    let arguments = json!({"character_id": id, "index": index});
    told(why, arguments, SPENDS, sentence)
}

/// 1.1.2 knows nothing of hit dice and stays silent.
#[tokio::test]
async fn character_hitdice_spend_is_refused_for_no_character_no_pool_and_no_dice() -> Result<()> {
    let mut spent = plain_sheet(Some(GameSystem::Dnd5e), "The Weary");
    spent["hitDice"] = json!([{"class": "Ranger", "total": "4d10", "remaining": 0}]);
    let weary = CharacterPlan::new("player1", "The Weary").sheet(spent);
    let scene = scene().main(|campaign| campaign.character(weary));
    let table = Table::builder().scene(scene).start().await?;
    let seat = Seat::take(&table, "player1").await?;
    let id = |name: &str| character(&table, name);
    let rows = [
        spend("no character", "nobody", 0, "Character not found"),
        spend(
            "a character of no campaign",
            &id("The Loner")?,
            0,
            "Character is not in this campaign",
        ),
        spend(
            "other rules",
            &id("The Runner")?,
            0,
            "Hit dice are not tracked for this game system",
        ),
        spend(
            "no pool",
            &id(BRANNOC)?,
            9,
            "No hit dice pool at that position",
        ),
        spend(
            "an empty pool",
            &id("The Weary")?,
            0,
            "No hit dice remaining to spend",
        ),
    ];
    seat.told("character_hitdice_spend", rows).await
}

#[tokio::test]
async fn character_hitdice_spend_is_refused_to_all_but_the_owner_and_the_dm() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let id = character(&table, BRANNOC)?;
    let sheet = table.sheet(&id);
    for (account, sentence) in [
        (
            "player2",
            "You do not have permission to spend this character's hit dice",
        ),
        ("spectator", "Spectators cannot change a character"),
    ] {
        let seat = Seat::take(&table, account).await?;
        let row = spend("somebody else's", &id, 0, sentence);
        seat.told("character_hitdice_spend", [row]).await?;
    }
    assert_eq!(table.sheet(&id), sheet);
    Ok(())
}

#[tokio::test]
async fn character_hitdice_spend_is_told_of_too_many_hit_dice() -> Result<()> {
    let table = narrow().await?;
    let seat = Seat::take(&table, "player1").await?;
    let sentence = "Too many hit dice spent at once. Try again in a moment.";
    let row = spend(
        "over the ceiling",
        &character(&table, BRANNOC)?,
        0,
        sentence,
    );
    seat.told("character_hitdice_spend", [row]).await
}

#[tokio::test]
async fn character_delete_is_refused_for_none_and_to_all_but_the_owner() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let id = character(&table, SUNNIVA)?;
        let delete = |why, id: &str, answer| row(why, one(id), ("DELETE", path(id)), answer);
        let seat = Seat::take(&table, "dm").await?;
        let rows = [
            delete("no character", "c", no_character()),
            delete("as the DM", &id, not_theirs("delete")),
        ];
        seat.refused("character_delete", rows).await?;
        table.transfer_dm("player2");
        let row = delete("as a player", &id, not_theirs("delete"));
        seat.refused("character_delete", [row]).await?;
        assert!(table.character_named(SUNNIVA).is_some(), "{version}");
    }
    Ok(())
}
