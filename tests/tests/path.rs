//! The whole path: an MCP client reaches a table through shim and daemon.

use anyhow::Result;
use cozyvtt_proto::preset::all_tools;
use cozyvtt_table::Table;
use cozyvtt_tests::agent::{Agent, Era};
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::until;
use serde_json::{Value, json};

#[tokio::test]
async fn a_client_of_either_era_lists_and_calls_through_shim_and_daemon() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let daemon = home.start_at_table().await?;
    for era in [Era::Handshake, Era::Stateless] {
        let agent = Agent::through_shim(&home, era).await?;
        let tools = agent.client().list_all_tools().await?;
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        let all: Vec<_> = all_tools().into_iter().collect();
        assert_eq!(names, all, "{era:?}");
        let campaign = agent.data("campaign_get", json!({})).await?;
        assert_eq!(campaign["campaign"]["id"], table.campaign_id(), "{era:?}");
        agent.leave().await?;
    }
    assert_eq!(table.log().count("POST", "/api/auth/login"), 1);
    assert!(daemon.stop().await?.success());
    Ok(())
}

#[tokio::test]
async fn a_roll_comes_back_as_an_event_that_a_second_agent_sees_as_well() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let first = Agent::through_shim(&home, Era::Handshake).await?;
    let second = Agent::on_the_socket(&home, Era::Stateless).await?;
    let receipt = first
        .data(
            "dice_roll",
            json!({"expression": "2d6+3", "purpose": "Damage"}),
        )
        .await?;
    assert_eq!(receipt["sent"], true);
    assert_eq!(receipt["confirmed"], false);
    assert_eq!(receipt["status"], "pending");
    for agent in [&first, &second] {
        let since = receipt["since"].clone();
        let roll: Value = until("the roll is seen", || async {
            let page = agent
                .data("events_poll", json!({"since": since}))
                .await
                .ok()?;
            let events = page["events"].as_array()?.clone();
            events
                .into_iter()
                .find(|event| event["event"] == "dice.rolled")
        })
        .await;
        assert_eq!(roll["payload"]["expression"], "2d6+3");
        assert_eq!(roll["payload"]["purpose"], "Damage");
        assert_eq!(roll["payload"]["result"], table.rolls()[0].result);
    }
    Ok(())
}
