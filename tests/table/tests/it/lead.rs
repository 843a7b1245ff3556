//! The DM's seat changes hands.

use cozyvtt_table::{Role, Table, Version};
use serde_json::json;

use crate::guest::{Guest, seat, table};

fn path(table: &Table) -> String {
    format!("/api/campaigns/{}/dm", table.campaign_id())
}

#[tokio::test]
async fn the_new_dm_leads_at_once_and_the_old_one_plays() {
    let table = table(Version::V1_5).start().await.unwrap();
    let (dm, mut old_dm) = seat(&table, "dm").await;
    let (_player, mut new_dm) = seat(&table, "player1").await;
    old_dm.so_far().await;
    new_dm.so_far().await;
    let heir = &table.account("player1").user_id;
    let answer = dm.put(&path(&table), &json!({ "userId": heir })).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let memberships = answer.json()["memberships"].take();
    let leads: Vec<_> = memberships
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["role"] == "DM")
        .collect();
    assert_eq!((leads.len(), &leads[0]["userId"]), (1, &json!(heir)));
    assert!(leads[0]["user"]["displayName"].is_string());

    let heard: Vec<String> = old_dm.names_so_far().await;
    assert_eq!(
        heard,
        [
            "campaign.dm.transferred",
            "roster.updated",
            "roster.updated",
            "initiative.state",
            "map.changed",
        ]
    );
    let event = new_dm.event("campaign.dm.transferred").await;
    let expected = json!({
        "campaignId": table.campaign_id(), "newDmId": heir,
        "previousDmId": table.account("dm").user_id,
    });
    assert_eq!(event, expected);
    assert_eq!(
        (table.role_of("dm"), table.role_of("player1")),
        (Some(Role::Player), Some(Role::Dm))
    );
    let change = json!({ "mapId": table.current_map() });
    old_dm.emit("map.change", &change).await;
    assert_eq!(old_dm.error().await, "Only DMs can change the map");
    new_dm.so_far().await;
    new_dm.emit("map.change", &change).await;
    let shown = new_dm.event("map.changed").await;
    assert_eq!(shown["mapData"]["tokens"].as_array().unwrap().len(), 6);

    let campaign = dm
        .get(&format!("/api/campaigns/{}", table.campaign_id()))
        .await
        .json();
    assert_eq!(campaign["campaign"]["ownerId"], table.account("dm").user_id);
    let body = json!({ "userId": table.account("dm").user_id });
    assert_eq!(
        dm.put(&path(&table), &body).await.status,
        200,
        "the owner takes it back"
    );
}

#[tokio::test]
async fn refused_transfers_name_their_reason() {
    let table = table(Version::V1_5).start().await.unwrap();
    let dm = Guest::signed_in(&table, "dm").await;
    let player = Guest::signed_in(&table, "player1").await;
    let outsider = Guest::signed_in(&table, "outsider").await;
    let body = |key: &str| json!({ "userId": table.account(key).user_id });
    let path = path(&table);
    let nowhere = "/api/campaigns/00000000-0000-4000-8000-000000000000/dm";
    for (answer, status, message) in [
        (
            dm.put(&path, &body("dm")).await,
            400,
            "That member is already the Dungeon Master",
        ),
        (
            dm.put(&path, &body("outsider")).await,
            404,
            "That user is not a member of this campaign",
        ),
        (
            player.put(&path, &body("player1")).await,
            403,
            "Only the DM, the campaign owner, or an admin can transfer the DM role",
        ),
        (
            outsider.put(&path, &body("player1")).await,
            403,
            "Only the DM, the campaign owner, or an admin can transfer the DM role",
        ),
        (
            dm.put(nowhere, &body("dm")).await,
            404,
            "Campaign not found",
        ),
    ] {
        assert_eq!(
            (answer.status, answer.message().as_str()),
            (status, message)
        );
    }
    let odd = dm.put(&path, &json!({ "userId": "somebody" })).await;
    assert_eq!(
        (odd.status, &odd.json()["error"]),
        (400, &json!("Validation Error"))
    );

    table.set_platform_admin("outsider");
    assert_eq!(outsider.put(&path, &body("player2")).await.status, 200);
    assert_eq!(table.role_of("player2"), Some(Role::Dm));
}

#[tokio::test]
async fn in_1_1_2_there_is_no_such_route() {
    let table = table(Version::V1_1_2).start().await.unwrap();
    let dm = Guest::signed_in(&table, "dm").await;
    let body = json!({ "userId": table.account("player1").user_id });
    let answer = dm.put(&path(&table), &body).await;
    assert_eq!(answer.status, 404);
    assert_eq!(answer.message(), "The requested resource does not exist");
}
