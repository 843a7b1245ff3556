//! Write lanes: on a server that loses parallel updates, none is lost.

use anyhow::Result;
use cozyvtt_table::{Table, Version};
use cozyvtt_tests::agent::{Agent, Era};
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::until;
use futures_util::future::join_all;
use serde_json::{Value, json};

const WRITES: usize = 20;

/// Three clients that share the daemon, of either kind.
async fn three_clients(home: &Home) -> Result<Vec<Agent>> {
    Ok(vec![
        Agent::through_shim(home, Era::Handshake).await?,
        Agent::through_shim(home, Era::Stateless).await?,
        Agent::on_the_socket(home, Era::Handshake).await?,
    ])
}

/// Calls a tool twenty times at once, spread over the clients.
async fn at_once(
    agents: &[Agent],
    tool: &str,
    arguments: impl Fn(usize) -> Value,
) -> Vec<Result<Value>> {
    join_all((0..WRITES).map(|number| {
        let agent = &agents[number % agents.len()];
        agent.data(tool, arguments(number))
    }))
    .await
}

fn map_of(table: &Table) -> String {
    table.current_map().unwrap_or_default()
}

#[tokio::test]
async fn without_lanes_parallel_writes_to_one_map_lose_some() -> Result<()> {
    let table = Table::builder().version(Version::V1_1_2).start().await?;
    let account = table.account("dm");
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder()
        .cookie_store(true)
        .no_proxy()
        .build()?;
    http.post(format!("{}/api/auth/login", table.url()))
        .json(&json!({"email": account.email, "password": account.password}))
        .send()
        .await?
        .error_for_status()?;
    let map = map_of(&table);
    let before = table.tokens(&map).len();
    let url = format!(
        "{}/api/campaigns/{}/maps/{map}/tokens",
        table.url(),
        table.campaign_id()
    );
    let answers = join_all((0..WRITES).map(|number| {
        let token = json!({"name": format!("t{number}"), "position": {"x": number % 10, "y": 1}});
        http.post(&url).json(&token).send()
    }))
    .await;
    for answer in answers {
        assert_eq!(answer?.status(), 201);
    }
    let kept = table.tokens(&map).len() - before;
    assert!(
        kept < WRITES,
        "the table is not supposed to keep all {WRITES}"
    );
    Ok(())
}

#[tokio::test]
async fn twenty_tokens_added_at_once_by_three_clients_are_all_there() -> Result<()> {
    let table = Table::builder().version(Version::V1_1_2).start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let agents = three_clients(&home).await?;
    let map = map_of(&table);
    let before = table.tokens(&map).len();
    let added = at_once(&agents, "token_add", |number| {
        json!({
            "map_id": map, "name": format!("t{number}"), "image_url": "",
            "x": number % 10, "y": number / 10,
        })
    })
    .await;
    for answer in added {
        assert_eq!(answer?["persisted"], true);
    }
    assert_eq!(table.tokens(&map).len() - before, WRITES);
    Ok(())
}

#[tokio::test]
async fn twenty_tokens_moved_at_once_by_three_clients_all_stand_where_they_should() -> Result<()> {
    let table = Table::builder().version(Version::V1_1_2).start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let agents = three_clients(&home).await?;
    let map = map_of(&table);
    let mut tokens = Vec::new();
    for number in 0..WRITES {
        let token = json!({
            "map_id": map, "name": format!("t{number}"), "image_url": "", "x": 0, "y": 0,
        });
        let added = agents[0].data("token_add", token).await?;
        tokens.push(added["token"]["id"].as_str().unwrap().to_owned());
    }
    let moved = at_once(&agents, "token_move", |number| {
        json!({"map_id": map, "token_id": tokens[number], "x": number % 10, "y": 1 + number / 10})
    })
    .await;
    for answer in moved {
        answer?;
    }
    let stored = table.tokens(&map);
    for (number, id) in tokens.iter().enumerate() {
        let token = stored
            .iter()
            .find(|token| token["id"] == id.as_str())
            .unwrap();
        let wanted = json!({"x": number % 10, "y": 1 + number / 10});
        assert_eq!(token["position"], wanted, "token {number}");
    }
    Ok(())
}

#[tokio::test]
async fn twenty_hits_at_once_by_three_clients_all_count() -> Result<()> {
    let table = Table::builder().version(Version::V1_1_2).start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let agents = three_clients(&home).await?;
    let character = table.character_named("Brannoc Thornfield").unwrap();
    let before = table.sheet(&character)["hp"]["current"].as_i64().unwrap();
    let hits = at_once(
        &agents,
        "token_hp_update",
        |_| json!({"character_id": character, "delta": -1}),
    )
    .await;
    for receipt in hits {
        assert_eq!(receipt?["status"], "pending");
    }
    let wanted = before - i64::try_from(WRITES)?;
    until("all hits have counted", || async {
        let now = table.sheet(&character)["hp"]["current"].as_i64()?;
        (now == wanted).then_some(())
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn reads_are_not_held_up_by_a_write() -> Result<()> {
    let table = Table::builder()
        .version(Version::V1_1_2)
        .write_hold(std::time::Duration::from_secs(5))
        .start()
        .await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let agents = three_clients(&home).await?;
    let map = map_of(&table);
    let token = json!({"map_id": map, "name": "slow", "image_url": "", "x": 0, "y": 0});
    let write = agents[0].data("token_add", token);
    let read = agents[1].data("map_list", json!({}));
    tokio::pin!(write, read);
    // The read is over while the write is still held.
    tokio::select! {
        _ = &mut write => panic!("the write was not held"),
        maps = &mut read => assert!(maps?["maps"].is_array()),
    }
    Ok(())
}
