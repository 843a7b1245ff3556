//! `creature_search`

use anyhow::Result;
use cozyvtt_table::Version;
use serde_json::json;

use crate::asking::Seat;
use crate::{table, under};

#[tokio::test]
async fn creature_search_is_refused_to_strangers_and_since_1_5_to_all_but_the_dm() -> Result<()> {
    for version in Version::ALL {
        let table = table(version).await?;
        let seat = Seat::take(&table, "dm").await?;
        let path = ("GET", under(&table, "creatures"));
        // The source is named, so that the campaign's game system need not be read.
        let ask = json!({"source": "custom"});
        if version == Version::V1_5 {
            seat.refused_to_all_but_the_dm("creature_search", ask, path)
                .await?;
        } else {
            table.transfer_dm("player2");
            seat.data("creature_search", ask.clone()).await?;
            seat.refused_to_strangers("creature_search", ask, path)
                .await?;
        }
    }
    Ok(())
}
