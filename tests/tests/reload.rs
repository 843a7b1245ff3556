//! A daemon that reads its configuration again while it runs.

use std::future::Future;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use anyhow::{Context as _, Result};
use cozyvtt_proto::control::HopState;
use cozyvtt_table::{Fault, Table};
use cozyvtt_tests::agent::{Agent, Era};
use cozyvtt_tests::daemon::{Home, lines_for};
use cozyvtt_tests::raw::rpc;
use cozyvtt_tests::until;
use rustix::process::Signal;
use serde_json::{Value, json};

/// A home whose daemon is configured by a file.
struct Place {
    home: Home,
    account: String,
}

impl Place {
    fn new(table: &Table, name: &str) -> Result<Self> {
        let place = Self {
            home: Home::empty()?,
            account: lines_for(table, name),
        };
        place.write("")?;
        Ok(place)
    }

    /// Writes the account, and more to it.
    fn write(&self, more: &str) -> Result<()> {
        self.home.configure(&format!("{}{more}", self.account))
    }

    /// Has a call run that takes its time, and does something meanwhile.
    async fn during_a_call<T>(&self, table: &Table, what: impl Future<Output = T>) -> Result<T> {
        let map = table.current_map().context("no map")?;
        let path = format!("/api/campaigns/{}/maps/{map}/tokens", table.campaign_id());
        let slow = table
            .faults()
            .route("POST", &path, Fault::Delay(Duration::from_secs(2)));
        let token = json!({"map_id": map, "name": "ghost", "image_url": "", "x": 1, "y": 1});
        let call = self.home.call("token_add", token);
        let meanwhile = async {
            until("it is on its way", || async {
                (slow.fired() > 0).then_some(())
            })
            .await;
            what.await
        };
        let (answer, done) = tokio::join!(call, meanwhile);
        assert_eq!(answer?.envelope["ok"], true);
        assert_eq!(table.log().count("POST", &path), 1);
        Ok(done)
    }
}

async fn reloaded(home: &Home) -> Result<Value> {
    rpc(home, "daemon.reload", json!({})).await
}

async fn at_table(home: &Home) {
    until("every hop is fine", || async {
        let status = home.status().await.ok()?;
        let fine = status.hops.iter().all(|hop| hop.state == HopState::Ok);
        fine.then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_clients_may_do_holds_at_once_and_nobody_has_to_come_back() -> Result<()> {
    let table = Table::builder().start().await?;
    let place = Place::new(&table, "dm")?;
    let home = &place.home;
    let _daemon = home.start().await?;
    at_table(home).await;
    let before = home.status().await?.instance;
    assert_eq!(
        reloaded(home).await?["result"],
        json!({"taken": "unchanged", "changed": []})
    );
    let line = json!({"content": "hello"});
    let said = home.call("chat_send", line.clone()).await?;
    assert_eq!(said.envelope["ok"], true, "{said:?}");
    place.write(
        "idle_exit_minutes = 7\nread_folders = ['/nowhere']\n[policy]\ndeny = ['chat_send']\n",
    )?;
    assert_eq!(
        reloaded(home).await?["result"],
        json!({"taken": "at_once", "changed": ["read_folders", "idle_exit_minutes", "policy"]})
    );
    let denied = home.call("chat_send", line).await?.envelope;
    assert!(
        denied["error"]
            .as_str()
            .unwrap_or_default()
            .contains("[policy]"),
        "{denied}"
    );
    std::fs::write(home.path().join("notes.md"), "notes")?;
    let upload = json!({"file_path": "~/notes.md"});
    let refused = home.call("document_upload", upload).await?.envelope;
    assert!(refused.to_string().contains("/nowhere"), "{refused}");
    let status = home.status().await?;
    assert_eq!((status.instance, status.idle_exit_s), (before, Some(420)));
    assert_eq!(table.log().count("POST", "/api/auth/login"), 1);
    Ok(())
}

#[tokio::test]
async fn a_configuration_that_is_no_good_is_refused_and_the_old_one_stays() -> Result<()> {
    let table = Table::builder().start().await?;
    let place = Place::new(&table, "dm")?;
    let home = &place.home;
    let _daemon = home.start().await?;
    at_table(home).await;
    let before = home.status().await?.instance;
    place.write("[policy]\ndenny = []\n")?;
    let refused = reloaded(home).await?;
    assert_eq!(refused["error"]["data"]["kind"], "not_configured");
    let sentence = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(
        sentence.contains("did you mean deny?") && sentence.ends_with("nothing was changed"),
        "{sentence}"
    );
    let by_person = home.ctl(&["reload"]).await?;
    assert_eq!(by_person.status.code(), Some(1));
    let told = String::from_utf8(by_person.stderr)?;
    assert!(told.contains("did you mean deny?"), "{told}");
    at_table(home).await;
    assert_eq!(home.status().await?.instance, before);
    Ok(())
}

#[tokio::test]
async fn another_account_is_taken_by_another_run_and_agents_stay() -> Result<()> {
    let table = Table::builder().start().await?;
    let mut place = Place::new(&table, "dm")?;
    let daemon = place.home.start().await?;
    at_table(&place.home).await;
    let before = place.home.status().await?;
    let agent = Agent::through_shim(&place.home, Era::Handshake).await?;
    let role = async || -> Result<Value> {
        Ok(agent.data("campaign_get", json!({})).await?["role"].clone())
    };
    let dm = role().await?;
    // Ours while the daemon lives: nobody else takes them in between.
    let socket = place.home.socket("mcp.sock").metadata()?.ino();
    place.account = lines_for(&table, "player1");
    place.write("")?;
    let done = place.home.ctl(&["reload"]).await?;
    let told = String::from_utf8(done.stdout)?;
    assert!(done.status.success(), "{told}");
    assert!(told.contains("Changed: email, password."), "{told}");
    at_table(&place.home).await;
    let after = place.home.status().await?;
    assert_eq!(after.pid, before.pid);
    assert_ne!(after.instance, before.instance);
    assert_eq!(place.home.socket("mcp.sock").metadata()?.ino(), socket);
    assert_ne!(role().await?, dm);
    agent.leave().await?;
    assert!(daemon.stop().await?.success());
    assert!(!place.home.socket("mcp.sock").exists());
    Ok(())
}

#[tokio::test]
async fn a_call_that_runs_is_finished_before_another_run_begins() -> Result<()> {
    let table = Table::builder().start().await?;
    let place = Place::new(&table, "dm")?;
    let _daemon = place.home.start().await?;
    at_table(&place.home).await;
    let reload = async {
        place.home.configure(&lines_for(&table, "player1"))?;
        place.home.ctl(&["reload"]).await
    };
    let done = place.during_a_call(&table, reload).await??;
    assert!(done.status.success());
    Ok(())
}

#[tokio::test]
async fn a_daemon_that_is_told_to_stop_while_it_changes_tables_stops() -> Result<()> {
    let table = Table::builder().start().await?;
    let mut place = Place::new(&table, "dm")?;
    let daemon = place.home.start().await?;
    at_table(&place.home).await;
    place.account = lines_for(&table, "player1");
    place.write("")?;
    assert_eq!(
        reloaded(&place.home).await?["result"]["taken"],
        "with_another_run"
    );
    assert!(daemon.stop().await?.success());
    assert!(!place.home.socket("mcp.sock").exists());
    Ok(())
}

#[tokio::test]
async fn sighup_makes_it_read_the_configuration_again() -> Result<()> {
    let table = Table::builder().start().await?;
    let place = Place::new(&table, "dm")?;
    let home = &place.home;
    let daemon = home.start().await?;
    at_table(home).await;
    place.write("idle_exit_minutes = 5\n")?;
    daemon.signal(Signal::HUP)?;
    until("it holds", || async {
        let status = home.status().await.ok()?;
        (status.idle_exit_s == Some(300)).then_some(())
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_daemon_without_a_table_gets_to_it_by_a_reload() -> Result<()> {
    let table = Table::builder().start().await?;
    let place = Place::new(&table, "dm")?;
    let home = &place.home;
    let right = place.account.clone();
    let wrong = right.replace("email = ", "email = 'x'\n#");
    home.configure(&wrong)?;
    let _daemon = home.start().await?;
    until("the password is rejected", || async {
        let status = home.status().await.ok()?;
        let login = status.hops.into_iter().find(|hop| hop.name == "login")?;
        (login.state == HopState::Broken).then_some(())
    })
    .await;
    home.configure(&right)?;
    let done = home.ctl(&["reload", "--json"]).await?;
    let told: Value = serde_json::from_slice(&done.stdout).context("no JSON")?;
    assert_eq!(told["taken"], "with_another_run", "{told}");
    assert_eq!(told["changed"], json!(["email"]));
    Ok(())
}

#[tokio::test]
async fn a_second_word_during_a_change_of_tables_is_the_one_that_counts() -> Result<()> {
    let table = Table::builder().start().await?;
    let place = Place::new(&table, "dm")?;
    let _daemon = place.home.start().await?;
    at_table(&place.home).await;
    let before = place.home.status().await?.instance;
    let words = async {
        place.home.configure(&lines_for(&table, "player1"))?;
        let first = reloaded(&place.home).await?;
        // Back to the account of before, while the call holds the change up.
        place.write("idle_exit_minutes = 7\n")?;
        anyhow::Ok((first, reloaded(&place.home).await?))
    };
    let (first, second) = place.during_a_call(&table, words).await??;
    assert_eq!(first["result"]["taken"], "with_another_run", "{first}");
    assert_eq!(second["result"]["taken"], "with_another_run", "{second}");
    until(
        "another run sits at the table of the second word",
        || async {
            let status = place.home.status().await.ok()?;
            let is_there = status.instance != before && status.idle_exit_s == Some(420);
            let login = status.hops.iter().find(|hop| hop.name == "login")?;
            let dm = &table.account("dm").display_name;
            (is_there && login.detail.contains(dm.as_str())).then_some(())
        },
    )
    .await;
    assert_eq!(table.log().count("POST", "/api/auth/login"), 1);
    Ok(())
}
