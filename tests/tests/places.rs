//! Where a client sits: in another campaign than the daemon's own, with settings that it
//! brought along, or as somebody who only looks.

#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot go on has failed

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use cozyvtt_proto::control::LoginPhase;
use cozyvtt_table::{CampaignPlan, Role, Scene, Table};
use cozyvtt_tests::agent::{Agent, Era};
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::in_process::{configured, ground, pass};
use cozyvtt_tests::raw::{Wire, rpc};
use cozyvtt_tests::{binaries, until};
use cozyvttd::audit::Audit;
use cozyvttd::campaigns::{Campaign, Campaigns};
use futures_util::FutureExt as _;
use rmcp::model::ErrorCode;
use rmcp::service::ServiceError;
use serde_json::{Value, json};
use tokio::process::Command;

const SECOND: &str = "The Second Table";

/// A table with two campaigns of the same people.
async fn two_campaigns() -> Result<(Table, String)> {
    let second = CampaignPlan::new(SECOND).seats([("dm", Role::Dm), ("player1", Role::Player)]);
    let scene = Scene::default().campaign(second);
    let table = Table::builder().scene(scene).start().await?;
    let id = table.campaign_named(SECOND).context("no second campaign")?;
    Ok((table, id))
}

fn logins(table: &Table) -> usize {
    table.log().count("POST", "/api/auth/login")
}

/// A shim whose environment is that of a bridge for this account.
fn bridge(home: &Home, table: &Table, account: &str) -> Command {
    let account = table.account(account);
    let mut command = home.shim_command();
    command
        .env("COZYVTT_URL", table.url())
        .env("COZYVTT_EMAIL", &account.email)
        .env("COZYVTT_PASSWORD", &account.password)
        .env("COZYVTT_CAMPAIGN_ID", table.campaign_id());
    command
}

fn in_campaign(home: &Home, id: &str) -> Command {
    let mut command = home.shim_command();
    command.arg("--campaign").arg(id);
    command
}

/// The lines of chat that an agent polls.
async fn heard(agent: &Agent) -> Result<Vec<String>> {
    let page = agent.data("events_poll", json!({})).await?;
    let events = page["events"].as_array().context("no events")?;
    Ok(events
        .iter()
        .filter(|event| event["event"] == "chat.message")
        .filter_map(|event| Some(event["payload"]["content"].as_str()?.to_owned()))
        .collect())
}

async fn hears(agent: &Agent, line: &str) {
    until(line, || async {
        heard(agent)
            .await
            .ok()?
            .iter()
            .any(|heard| heard == line)
            .then_some(())
    })
    .await;
}

/// What a shim says that the daemon refuses.
async fn refusal(command: Command) -> Result<String> {
    match Agent::of_command(command, Era::Handshake).await {
        Ok(_) => anyhow::bail!("it was let in"),
        Err(error) => Ok(format!("{error:#}")),
    }
}

#[tokio::test]
async fn a_second_campaign_has_a_link_and_a_journal_of_its_own_and_the_same_login() -> Result<()> {
    let (table, second) = two_campaigns().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let here = Agent::through_shim(&home, Era::Handshake).await?;
    let there = Agent::of_command(in_campaign(&home, &second), Era::Stateless).await?;
    let also = Agent::of_command(in_campaign(&home, &second), Era::Handshake).await?;

    let campaign = there.data("campaign_get", json!({})).await?;
    assert_eq!(campaign["campaign"]["name"], SECOND);
    here.data("chat_send", json!({"content": "said here"}))
        .await?;
    there
        .data("chat_send", json!({"content": "said there"}))
        .await?;
    hears(&here, "said here").await;
    hears(&there, "said there").await;
    hears(&also, "said there").await;
    assert!(!heard(&here).await?.contains(&"said there".to_owned()));
    assert!(!heard(&there).await?.contains(&"said here".to_owned()));
    assert_eq!(logins(&table), 1);

    let status = home.status().await?;
    let [other] = &*status.campaigns else {
        panic!("{status:?}");
    };
    assert_eq!((other.id.as_str(), other.clients), (second.as_str(), 2));
    let shown = String::from_utf8(home.ctl(&["status"]).await?.stdout)?;
    assert!(
        shown.contains(&format!("Also in campaign {second}, for 2 clients:")),
        "{shown}"
    );
    let clients = rpc(&home, "client.list", json!({})).await?;
    let sitting: Vec<_> = clients["result"]["clients"]
        .as_array()
        .context("no clients")?
        .iter()
        .filter(|client| client["campaign"] == second.as_str())
        .collect();
    assert_eq!(sitting.len(), 2, "{clients}");

    // The person reaches both, and a note goes to where its reader polls.
    let events = ["events", "--campaign", &second, "--json"];
    let events = String::from_utf8(home.ctl(&events).await?.stdout)?;
    assert!(
        events.contains("said there") && !events.contains("said here"),
        "{events}"
    );
    let number = sitting[0]["number"].to_string();
    let told = home.ctl(&["tell", &number, "come here"]).await?;
    ensure!(told.status.success(), "{told:?}");
    let notes = async |agent: &Agent| -> Result<usize> {
        let page = agent.data("events_poll", json!({})).await?;
        let events = page["events"].as_array().context("no events")?.clone();
        Ok(events
            .iter()
            .filter(|event| event["event"] == "system.note")
            .count())
    };
    assert_eq!(notes(&here).await?, 0);
    assert_eq!(notes(&there).await? + notes(&also).await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_campaign_that_is_none_is_explained_and_too_many_are_refused() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let told = refusal(in_campaign(&home, "..")).await?;
    assert!(told.contains("no campaign id"), "{told}");
    let mut agents = Vec::new();
    for number in 0..8 {
        let command = in_campaign(&home, &format!("nowhere-{number}"));
        agents.push(Agent::of_command(command, Era::Handshake).await?);
    }
    let told = refusal(in_campaign(&home, "one-more")).await?;
    assert!(told.contains("its limit"), "{told}");
    let status = home.status().await?;
    let told = serde_json::to_string(&status.campaigns)?;
    assert!(told.contains("nowhere-0"), "{told}");
    // The others go on.
    let here = Agent::through_shim(&home, Era::Handshake).await?;
    here.data("campaign_get", json!({})).await?;
    let answer = agents[0].call("campaign_get", json!({})).await?;
    let envelope = answer.structured_content.context("no envelope")?;
    assert_eq!(envelope["ok"], false, "{envelope}");
    Ok(())
}

#[tokio::test]
async fn a_daemon_without_settings_takes_a_clients_and_is_offered_them_again() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::empty()?;
    let mut daemon = home.start().await?;
    let plain = Agent::through_shim(&home, Era::Handshake).await?;
    let before = plain.call("campaign_get", json!({})).await?;
    assert_eq!(before.structured_content.unwrap()["ok"], false);

    let agent = Agent::of_command(bridge(&home, &table, "dm"), Era::Handshake).await?;
    agent.data("campaign_get", json!({})).await?;
    // The daemon has them now, for everybody.
    plain.data("campaign_get", json!({})).await?;
    let shown = String::from_utf8(home.ctl(&["status"]).await?.stdout)?;
    assert!(shown.contains("what a client brought along"), "{shown}");
    assert_eq!(logins(&table), 1);

    daemon.signal(rustix::process::Signal::KILL)?;
    daemon.ended().await?;
    // No file keeps anything that would sign somebody in.
    let password = &table.account("dm").password;
    for file in std::fs::read_dir(home.state_dir())? {
        let path = file?.path();
        let bytes = std::fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(password.as_str()), "{}", path.display());
    }
    assert!(!home.state_dir().join("session.json").exists());
    table.faults().reset_limits();
    let _daemon = home.start().await?;
    // The shim brings them along again; that the password was sent a moment ago is
    // known all the same, and it is not sent again within three minutes.
    until("the settings are there again", || async {
        let status = home.status().await.ok()?;
        (status.url.as_deref() == Some(table.url())).then_some(())
    })
    .await;
    assert_eq!(logins(&table), 1);
    Ok(())
}

#[tokio::test]
async fn a_client_of_another_bridge_works_at_once_with_only_its_command_changed() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::empty()?;
    // It is looked for next to the shim.
    binaries::daemon();
    let account = table.account("dm");
    let mut command = home.command(binaries::shim());
    command
        .env("COZYVTT_SOCKET_DIR", home.socket_dir())
        .env("COZYVTT_URL", format!("{}/", table.url()))
        .env("COZYVTT_EMAIL", &account.email)
        .env("COZYVTT_PASSWORD", &account.password)
        .env("COZYVTT_CAMPAIGN_ID", table.campaign_id())
        .env("COZYVTT_MCP_TOOLSETS", "play");
    let agent = Agent::of_command(command, Era::Handshake).await?;
    let campaign = agent.data("campaign_get", json!({})).await;
    home.ctl(&["stop"]).await?;
    assert_eq!(campaign?["campaign"]["id"], table.campaign_id());
    Ok(())
}

#[tokio::test]
async fn a_client_that_expects_another_table_or_account_is_refused_with_both_named() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let before = table.log().requests().len();
    let mut elsewhere = bridge(&home, &table, "dm");
    elsewhere.env("COZYVTT_URL", "https://other.example");
    let told = refusal(elsewhere).await?;
    assert!(
        told.contains("other.example") && told.contains(table.url()),
        "{told}"
    );
    let told = refusal(bridge(&home, &table, "player1")).await?;
    let (theirs, ours) = (&table.account("player1").email, &table.account("dm").email);
    assert!(
        told.contains(theirs.as_str()) && told.contains(ours.as_str()),
        "{told}"
    );
    assert!(!told.contains(&table.account("player1").password), "{told}");
    assert_eq!(
        table.log().requests().len(),
        before,
        "nothing went to the table"
    );
    // The same ones are no reason to refuse.
    let agent = Agent::of_command(bridge(&home, &table, "dm"), Era::Handshake).await?;
    agent.data("campaign_get", json!({})).await?;
    assert_eq!(logins(&table), 1);
    Ok(())
}

#[tokio::test]
async fn a_part_of_a_configuration_is_never_mixed_with_an_offer() -> Result<()> {
    let table = Table::builder().start().await?;
    let mut home = Home::empty()?;
    home.set("COZYVTT_PASSWORD", "the stored one");
    let _daemon = home.start().await?;
    let agent = Agent::of_command(bridge(&home, &table, "dm"), Era::Handshake).await?;
    let answer = agent.call("campaign_get", json!({})).await?;
    let envelope = answer.structured_content.context("no envelope")?;
    assert!(envelope.to_string().contains("Missing"), "{envelope}");
    assert!(table.log().requests().is_empty());
    Ok(())
}

#[tokio::test]
async fn of_two_offers_the_first_one_holds() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let first = Agent::of_command(bridge(&home, &table, "dm"), Era::Handshake).await?;
    let told = refusal(bridge(&home, &table, "player1")).await?;
    assert!(told.contains("an earlier client"), "{told}");
    first.data("campaign_get", json!({})).await?;
    Ok(())
}

#[tokio::test]
async fn a_client_that_only_reads_sees_and_calls_only_what_changes_nothing() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let mut command = home.shim_command();
    command.arg("--read-only").arg("--toolsets").arg("play");
    let agent = Agent::of_command(command, Era::Handshake).await?;
    let tools = agent.client().list_all_tools().await?;
    assert!(!tools.is_empty());
    for tool in &tools {
        let hints = tool.annotations.as_ref().context("no hints")?;
        assert_eq!(hints.read_only_hint, Some(true), "{}", tool.name);
    }
    agent.data("map_list", json!({})).await?;
    let refused = agent.call("chat_send", json!({"content": "no"})).await;
    let Err(ServiceError::McpError(error)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
    assert!(error.message.contains("--read-only"), "{error}");
    assert!(table.chat().iter().all(|line| line.content != "no"));
    // One that is back on another connection is no other one.
    let clients = rpc(&home, "client.list", json!({})).await?;
    assert_eq!(
        clients["result"]["clients"][0]["read_only"], true,
        "{clients}"
    );
    Ok(())
}

#[tokio::test]
async fn what_an_older_connection_of_a_client_still_brings_is_not_begun() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let hello = |resends: Value| {
        json!({"cozyvtt": {"protocol": 1, "version": "0.1.0", "pid": 7, "client_id": "c",
            "previous_instance": null, "resends": resends}})
    };
    let mut old = Wire::connect(&home).await?;
    old.send(&hello(json!([]))).await?;
    let instance = old.next().await?["cozyvtt"]["instance"].clone();
    old.shake_hands().await?;

    let mut new = Wire::connect(&home).await?;
    let mut back =
        hello(json!([{"id": 9, "method": "tools/call", "tool": "chat_send", "age_ms": 5}]));
    back["cozyvtt"]["previous_instance"] = instance;
    new.send(&back).await?;
    let verdicts = new.next().await?["cozyvtt"]["resends"].clone();
    assert_eq!(verdicts, json!(["again"]));
    // The old one may still be open for a moment; whatever it says comes to nothing.
    let line = json!({"name": "chat_send", "arguments": {"content": "once"}});
    old.request(9, "tools/call", line.clone()).await.ok();
    new.shake_hands().await?;
    let answer = new.ask(9, "tools/call", line).await?;
    assert_eq!(
        answer["result"]["structuredContent"]["ok"], true,
        "{answer}"
    );
    // It may still be told so.
    while let Ok(late) = old.next().await {
        assert!(late.to_string().contains("nothing was sent"), "{late}");
    }
    cozyvtt_tests::seat::fence(&table, &home).await?;
    let said = table
        .chat()
        .iter()
        .filter(|line| line.content == "once")
        .count();
    assert_eq!(said, 1);
    Ok(())
}

/// The campaigns of a daemon in this process.
fn in_process(table: &Table, folder: &Path) -> Result<Campaigns> {
    let config = configured(table, "dm", folder)?;
    let (ground, _) = ground(folder);
    Ok(Campaigns::open(config, ground, "i1", Audit::new(folder)))
}

#[tokio::test]
async fn a_visit_that_is_given_up_halfway_leaves_one_campaign_that_is_listed() -> Result<()> {
    let (table, id) = two_campaigns().await?;
    let folder = tempfile::TempDir::new()?;
    let campaigns = in_process(&table, folder.path())?;
    for _ in 0..3 {
        let mut join = Box::pin(campaigns.join(&id));
        assert!(join.as_mut().now_or_never().is_none());
        drop(join);
    }
    let visit = campaigns.join(&id).await.unwrap();
    assert_eq!(campaigns.others().len(), 1);
    until("nobody else is there", || async {
        (visit.visitors() == 1).then_some(())
    })
    .await;
    campaigns.drain();
    campaigns.close().await;
    Ok(())
}

#[tokio::test]
async fn a_corrected_password_takes_the_place_of_one_that_was_rejected() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::empty()?;
    let _daemon = home.start().await?;
    let mut wrong = bridge(&home, &table, "dm");
    wrong.env("COZYVTT_PASSWORD", "not this one");
    let agent = Agent::of_command(wrong, Era::Handshake).await?;
    let answer = agent.call("campaign_get", json!({})).await?;
    let told = serde_json::to_string(&answer.structured_content)?;
    assert!(told.contains("that client's COZYVTT_* variables"), "{told}");
    agent.leave().await?;
    let agent = Agent::of_command(bridge(&home, &table, "dm"), Era::Handshake).await?;
    // The password was sent a moment ago, and three minutes have to pass.
    let answer = agent.call("campaign_get", json!({})).await?;
    let told = serde_json::to_string(&answer.structured_content)?;
    assert!(!told.contains("rejected"), "{told}");
    let status = home.status().await?;
    let login = status.login.context("no login")?;
    assert_eq!(login.state, LoginPhase::CoolingDown, "{login:?}");
    assert_eq!(logins(&table), 1);
    Ok(())
}

#[tokio::test]
async fn a_second_campaign_is_left_ten_minutes_after_its_last_client() -> Result<()> {
    let second = CampaignPlan::new(SECOND).seats([("dm", Role::Dm)]);
    let table = Table::builder()
        .scene(Scene::default().campaign(second))
        // Its sockets do not mind a clock that jumps.
        .ping_interval(Duration::from_secs(3600))
        .start()
        .await?;
    let id = table.campaign_named(SECOND).context("no second campaign")?;
    let folder = tempfile::TempDir::new()?;
    let campaigns = in_process(&table, folder.path())?;
    let linked = async |campaign: &Campaign| {
        until("the link is up", || async {
            campaign.session.link.state().authenticated().then_some(())
        })
        .await;
    };
    linked(&*campaigns.main().unwrap()).await;
    let visit = campaigns.join(&id).await.unwrap();
    let again = campaigns.join(&id).await.unwrap();
    linked(&visit).await;
    drop(visit);
    pass(Duration::from_secs(601)).await;
    assert_eq!(campaigns.others().len(), 1, "somebody is still there");
    drop(again);
    // It has to notice before the time passes.
    until("nobody is there", || async {
        (campaigns.others()[0].visitors() == 0).then_some(())
    })
    .await;
    tokio::task::yield_now().await;
    pass(Duration::from_secs(590)).await;
    assert_eq!(campaigns.others().len(), 1, "not yet");
    pass(Duration::from_secs(11)).await;
    until("it is left", || async {
        campaigns.others().is_empty().then_some(())
    })
    .await;
    // It can be sat in again, and the main one was never left.
    let back = campaigns.join(&id).await.unwrap();
    linked(&back).await;
    assert!(
        campaigns
            .main()
            .unwrap()
            .session
            .link
            .state()
            .authenticated()
    );
    campaigns.drain();
    campaigns.close().await;
    Ok(())
}
