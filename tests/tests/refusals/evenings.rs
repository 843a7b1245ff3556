//! `session_list`, `session_manage`, `session_notes_update`

use std::time::Duration;

use anyhow::{Context as _, Result};
use cozyvtt_table::{Fault, Role, Version};
use cozyvtt_tests::asked::campaign_path;
use cozyvtt_tests::calls::NO_ROUTE;
use serde_json::{Value, json};

use crate::asking::{NOBODYS, Seat, bad, forbidden, invalid, missing, row};
use crate::{dice_over, table, under};

const MANAGE: &str = "session_manage";

#[tokio::test]
async fn session_list_is_refused_to_strangers_and_missing_in_1_1_2() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::take(&table, "spectator").await?;
        let path = ("GET", under(&table, "sessions"));
        if version == Version::V1_5 {
            seat.data("session_list", json!({})).await?;
            seat.refused_to_strangers("session_list", json!({}), path)
                .await?;
        } else {
            let row = row("as any member", json!({}), path, missing(NO_ROUTE));
            seat.refused("session_list", [row]).await?;
        }
    }
    Ok(())
}

fn to(action: &str) -> Value {
    json!({ "action": action })
}

#[tokio::test]
async fn session_manage_is_refused_for_a_second_session_and_to_all_but_the_dm() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::take(&table, "dm").await?;
        let start = || ("POST", under(&table, "sessions"));
        let second = row(
            "a second session",
            to("start"),
            start(),
            bad(
                "Bad Request",
                "A session is already active. Please end or pause the current session first.",
            ),
        );
        seat.refused(MANAGE, [second]).await?;
        let session = table.active_session().context("no session")?;
        let close = |action: &str| {
            (
                "PUT",
                under(&table, &format!("sessions/{session}/{action}")),
            )
        };
        let closed = "This action requires Dungeon Master (DM) role";
        table.transfer_dm("player2");
        for (role, why) in [
            (Role::Player, "as a player"),
            (Role::Spectator, "as a spectator"),
        ] {
            table.set_role("dm", role);
            let rows = [
                row(why, to("start"), start(), forbidden(closed)),
                row(why, to("pause"), close("pause"), forbidden(closed)),
                row(why, to("end"), close("end"), forbidden(closed)),
            ];
            seat.refused(MANAGE, rows).await?;
        }
        seat.refused_to_strangers(MANAGE, to("start"), start())
            .await?;
        // The others look at the campaign first, which is as far as they get.
        for action in ["pause", "end"] {
            let read = ("GET", campaign_path(&table));
            seat.refused_to_strangers(MANAGE, to(action), read).await?;
        }
        assert_eq!(table.active_session(), Some(session), "{version}");
    }
    Ok(())
}

/// Between the look for the active session and the write, the other window was faster.
#[tokio::test]
async fn session_manage_is_refused_for_a_session_that_ended_meanwhile() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let session = table.active_session().context("no session")?;
        let end = under(&table, &format!("sessions/{session}/end"));
        let late = Fault::Delay(Duration::from_secs(1));
        let _late = table.faults().route("PUT", &end, late);
        let one = Seat::take(&table, "dm").await?;
        let other = Seat::take(&table, "dm").await?;
        let ended = bad("Bad Request", "Session has already ended");
        one.refused_once(&other, MANAGE, to("end"), ("PUT", &end), ended)
            .await?;
    }
    Ok(())
}

#[tokio::test]
async fn session_notes_update_is_refused_for_no_session_long_notes_and_to_all_but_the_dm()
-> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::take(&table, "dm").await?;
        let session = table.active_session().context("no session")?;
        let tool = "session_notes_update";
        let path = |id: &str| ("PUT", under(&table, &format!("sessions/{id}/notes")));
        let notes = |id: &str, notes: &str| json!({"session_id": id, "notes": notes});
        if version == Version::V1_1_2 {
            let row = row(
                "a release without notes",
                notes(&session, "n"),
                path(&session),
                missing(NO_ROUTE),
            );
            seat.refused(tool, [row]).await?;
            continue;
        }
        let rows = [
            row(
                "no session",
                notes(NOBODYS, "n"),
                path(NOBODYS),
                missing("Session not found"),
            ),
            row(
                "notes that are long in UTF-16",
                notes(&session, &dice_over(2000)),
                path(&session),
                invalid("Notes must be text of at most 2000 characters"),
            ),
        ];
        seat.refused(tool, rows).await?;
        seat.refused_to_all_but_the_dm(tool, notes(&session, "n"), path(&session))
            .await?;
    }
    Ok(())
}
