//! `campaign_get`, `campaign_transfer_dm`

use anyhow::Result;
use cozyvtt_table::Version;
use cozyvtt_tests::asked::campaign_path;
use cozyvtt_tests::calls::NO_ROUTE;
use serde_json::json;

use crate::asking::{NOBODYS, Seat, bad, forbidden, invalid, missing, row};
use crate::{table, under};

#[tokio::test]
async fn campaign_get_is_refused_to_strangers_and_for_a_campaign_that_there_is_not() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let path = campaign_path(&table);
        {
            let seat = Seat::take(&table, "spectator").await?;
            seat.refused_to_strangers("campaign_get", json!({}), ("GET", path))
                .await?;
        }
        // The same words: who is no member does not learn what there is.
        let seat = Seat::astray(&table, "dm").await?;
        let path = format!("/api/campaigns/{NOBODYS}");
        let message = "You are not a member of this campaign";
        let row = row("no campaign", json!({}), ("GET", path), forbidden(message));
        seat.refused("campaign_get", [row]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn campaign_transfer_dm_is_refused_for_whom_it_cannot_go_to_and_to_whom_it_is_not()
-> Result<()> {
    let table = table(Version::V1_5).await?;
    let tool = "campaign_transfer_dm";
    let path = || ("PUT", under(&table, "dm"));
    let to = |user: &str| json!({ "user_id": user });
    let id = |key: &str| table.account(key).user_id.clone();
    let closed = "Only the DM, the campaign owner, or an admin can transfer the DM role";
    let no_member = "That user is not a member of this campaign";
    {
        let dm = Seat::take(&table, "dm").await?;
        let rows = [
            row(
                "to no id",
                to("Wren"),
                path(),
                invalid("userId must be a valid UUID"),
            ),
            row("to nobody", to(NOBODYS), path(), missing(no_member)),
            row(
                "to a stranger",
                to(&id("outsider")),
                path(),
                missing(no_member),
            ),
            row(
                "to the DM",
                to(&id("dm")),
                path(),
                bad("Bad Request", "That member is already the Dungeon Master"),
            ),
        ];
        dm.refused(tool, rows).await?;
    }
    {
        let player = Seat::take(&table, "player1").await?;
        let ask = |why| row(why, to(&id("player1")), path(), forbidden(closed));
        player.refused(tool, [ask("as a player")]).await?;
        table.set_role("player1", cozyvtt_table::Role::Spectator);
        player.refused(tool, [ask("as a spectator")]).await?;
        table.remove_member("player1");
        player
            .refused(tool, [ask("as one who is no member")])
            .await?;
    }
    let stray = Seat::astray(&table, "dm").await?;
    let path = ("PUT", format!("/api/campaigns/{NOBODYS}/dm"));
    let row = row(
        "no campaign",
        to(&id("player2")),
        path,
        missing("Campaign not found"),
    );
    stray.refused(tool, [row]).await
}

#[tokio::test]
async fn campaign_transfer_dm_is_missing_in_1_1_2() -> Result<()> {
    let table = table(Version::V1_1_2).await?;
    let seat = Seat::take(&table, "dm").await?;
    let to = json!({"user_id": table.account("player1").user_id});
    let path = ("PUT", under(&table, "dm"));
    let row = row("as the DM", to, path, missing(NO_ROUTE));
    seat.refused("campaign_transfer_dm", [row]).await
}
