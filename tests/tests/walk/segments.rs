//! An id is one segment of a path, whatever it holds; in a body it travels as it is.

use anyhow::{Context as _, Result};
use cozyvtt_table::{Exchange, Version};
use cozyvtt_tests::until;
use percent_encoding::percent_decode_str;
use serde_json::json;

use crate::{Walk, segments_of, table, with};

/// An id without anything in it that a path knows.
const PLAIN: &str = "plain";

/// Ids that would lead elsewhere if they were taken for more than a segment.
const ODD: [&str; 20] = [
    "a/b",
    "/",
    "../..",
    "a/../../b",
    "...",
    ".\t.",
    ".\n.",
    "%2e%2e",
    "%2F",
    "%",
    "%00",
    "a?b=c",
    "a#b",
    "a;b=c",
    "..\\..",
    "a\r\nHost: elsewhere\r\n\r\n",
    "\u{0}",
    " ",
    "\u{ff0e}\u{ff0e}",
    "\u{202e}\u{1f409}",
];

#[tokio::test]
async fn an_id_stays_within_its_segment_of_the_path() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let walk = Walk::begin(&table).await?;
    let fitting = walk.fitting().await?;
    let mut parameters = 0;
    for tool in &walk.tools {
        let fits = fitting(tool);
        for name in segments_of(tool) {
            parameters += 1;
            let asked = async |id: &str| -> Result<Vec<Exchange>> {
                table.log().clear();
                walk.call(&tool.name, &with(&fits, &name, json!(id)))
                    .await?;
                Ok(table.log().requests())
            };
            let plain = asked(PLAIN).await?;
            let holds = |one: &&Exchange| one.path.split('/').any(|segment| segment == PLAIN);
            let named = format!("{} {name}", tool.name);
            assert_eq!(plain.iter().filter(holds).count(), 1, "{named}");
            for id in ODD {
                let odd = asked(id).await?;
                let shape = |one: &Exchange, id: &str| -> (String, Vec<String>, Option<String>) {
                    let segments = one.path.split('/').map(|segment| {
                        let decoded = percent_decode_str(segment).decode_utf8_lossy();
                        if decoded == id { "<id>" } else { &decoded }.to_owned()
                    });
                    (one.method.clone(), segments.collect(), one.query.clone())
                };
                let odd: Vec<_> = odd.iter().map(|one| shape(one, id)).collect();
                let plain: Vec<_> = plain.iter().map(|one| shape(one, PLAIN)).collect();
                assert_eq!(odd, plain, "{named} {id:?}");
            }
        }
    }
    assert_eq!(parameters, 19);
    walk.end().await
}

/// The tools whose ids go in the body of a request: the argument and its key there.
const IN_BODIES: [(&str, &str, &str); 4] = [
    ("campaign_transfer_dm", "user_id", "userId"),
    ("document_share", "document_id", "assetId"),
    ("token_add", "character_id", "characterId"),
    ("token_add", "controlled_by", "controlledBy"),
];

/// Those whose ids go with an event, and its name.
const IN_EVENTS: [(&str, &str, &str, &str); 4] = [
    (
        "token_hp_update",
        "character_id",
        "characterId",
        "character.hp.update",
    ),
    (
        "character_hitdice_spend",
        "character_id",
        "characterId",
        "character.hitdice.spend",
    ),
    ("initiative_manage", "token_id", "tokenId", "initiative.add"),
    ("initiative_manage", "map_id", "mapId", "initiative.add"),
];

#[tokio::test]
async fn an_id_in_a_body_or_an_event_travels_as_it_is() -> Result<()> {
    let table = table(Version::V1_5).await?;
    let walk = Walk::begin(&table).await?;
    let fitting = walk.fitting().await?;
    let fits = |name: &str| {
        let tool = walk.tools.iter().find(|tool| tool.name == name);
        tool.map(&fitting).context("no such tool")
    };
    for (tool, name, key) in IN_BODIES {
        for id in ODD {
            table.log().clear();
            walk.call(tool, &with(&fits(tool)?, name, json!(id)))
                .await?;
            let requests = table.log().requests();
            let bodies: Vec<_> = requests.iter().map(|one| one.json()[key].clone()).collect();
            assert_eq!(bodies, [id], "{tool} {name}");
        }
    }
    for (tool, name, key, event) in IN_EVENTS {
        for id in ODD {
            table.log().clear();
            walk.call(tool, &with(&fits(tool)?, name, json!(id)))
                .await?;
            let sent = until("the event has come", || async {
                table.log().events_in(event).pop()
            });
            assert_eq!(sent.await.payload[key], id, "{tool} {name}");
        }
    }
    walk.end().await
}
