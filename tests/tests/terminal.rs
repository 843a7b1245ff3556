//! What a person sees who sits before a real terminal.

use std::path::Path;

use anyhow::Result;
use cozyvtt_proto::client::Client;
use cozyvtt_proto::control::{DaemonStatus, DaemonStop, NoParams};
use cozyvtt_table::{CampaignPlan, Role, Scene, Table};
use cozyvtt_tests::between::Between;
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::terminal::Terminal;
use cozyvtt_tests::{PATIENCE, binaries, until};
use rustix::process::Signal;
use serde_json::json;
use tokio::process::Command;

const USUAL: (u16, u16) = (80, 24);

/// A command of cozyvttctl to the daemon of a home.
fn control(home: &Home, arguments: &[&str]) -> Command {
    let mut command = home.command(binaries::control());
    command.arg("--socket-dir").arg(home.socket_dir());
    command.args(arguments);
    command
}

fn fits(terminal: &Terminal, columns: usize) {
    let rows = terminal.rows();
    let widest = rows.iter().map(|row| row.chars().count()).max();
    assert!(widest.unwrap_or_default() <= columns, "{rows:#?}");
}

#[tokio::test]
async fn the_live_view_shows_the_table_and_gives_the_terminal_back() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let mut terminal = Terminal::run(&control(&home, &["status", "--watch"]), USUAL)?;
    for text in [
        "All is well",
        "websocket",
        "budgets",
        "clients 0",
        "q leaves",
    ] {
        terminal.shows(text).await;
    }
    assert!(terminal.is_taken());
    let line = json!({"content": "The bell rings."});
    let said = home.call("chat_send", line).await?;
    assert_eq!(said.envelope["ok"], true);
    terminal.shows("The bell rings.").await;
    assert_eq!(terminal.rows().len(), 24);
    fits(&terminal, 80);
    terminal.types("q").await?;
    assert!(terminal.ended().await?.success());
    assert!(!terminal.is_taken());
    Ok(())
}

#[tokio::test]
async fn the_live_view_leaves_with_a_signal_as_with_a_key() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let watch = || Terminal::run(&control(&home, &["status", "--watch"]), USUAL);
    let mut terminal = watch()?;
    terminal.shows("All is well").await;
    terminal.signal(Signal::TERM)?;
    terminal.ended().await?;
    assert!(!terminal.is_taken());
    // Ctrl-C is a key here, since the terminal is raw.
    let mut terminal = watch()?;
    terminal.shows("All is well").await;
    terminal.types("\u{3}").await?;
    assert!(terminal.ended().await?.success());
    assert!(!terminal.is_taken());
    Ok(())
}

#[tokio::test]
async fn the_live_view_fits_every_window_that_it_is_pulled_to() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let terminal = Terminal::run(&control(&home, &["status", "--watch"]), USUAL)?;
    terminal.shows("q leaves").await;
    for (columns, rows) in [(120, 40), (40, 12), (25, 10), (100, 8)] {
        terminal.resize((columns, rows))?;
        let foot = usize::from(rows) - 1;
        until("the last row is the foot", || async {
            let shown = terminal.rows();
            let is_foot = shown
                .get(foot)
                .is_some_and(|row| row.trim_end() == "q leaves");
            let is_whole = shown.len() == usize::from(rows);
            (is_whole && is_foot).then_some(())
        })
        .await;
        fits(&terminal, columns.into());
        // One row holds one line: nothing has run over into the next.
        let heads = terminal
            .rows()
            .iter()
            .filter(|row| row.contains("budgets "))
            .count();
        assert!(heads <= 1, "{:#?}", terminal.rows());
    }
    Ok(())
}

#[tokio::test]
async fn a_program_hears_of_each_change_in_a_line() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let daemon = home.start_at_table().await?;
    let arguments = ["status", "--watch", "--json"];
    let terminal = Terminal::run(&control(&home, &arguments), (4000, 24))?;
    let lines = || -> Vec<serde_json::Value> {
        let written = terminal.written();
        let lines = written
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        lines.collect()
    };
    until("the first line is there", || async {
        (lines().first()?["reachable"] == true).then_some(())
    })
    .await;
    assert!(daemon.stop().await?.success());
    let last = until("it has gone", || async {
        lines().into_iter().find(|line| line["reachable"] == false)
    })
    .await;
    assert!(last["fix"].is_string(), "{last}");
    Ok(())
}

#[tokio::test]
async fn events_have_colours_on_a_terminal_and_none_with_no_color() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    let roll = json!({"expression": "1d20", "purpose": "Perception"});
    for (set, has_colours) in [("", true), ("1", false)] {
        let mut command = control(&home, &["events", "--follow", "--kind", "dice,chat"]);
        if !set.is_empty() {
            command.env("NO_COLOR", set);
        }
        let terminal = Terminal::run(&command, USUAL)?;
        let rolled = home.call("dice_roll", roll.clone()).await?;
        assert_eq!(rolled.envelope["ok"], true, "{rolled:?}");
        terminal.shows("for Perception").await;
        assert_eq!(terminal.written().contains("\u{1b}[36m"), has_colours);
        fits(&terminal, 80);
    }
    Ok(())
}

#[tokio::test]
async fn a_bar_shows_how_far_a_file_is() -> Result<()> {
    let table = Table::builder().start().await?;
    let between = Between::start(table.port()).await?;
    let mut home = Home::at(&table, "dm")?;
    home.set("COZYVTT_URL", between.url());
    std::fs::write(home.path().join("long.md"), "word ".repeat(2_500_000))?;
    let _daemon = home.start_at_table().await?;
    between.fall_silent();
    let upload = r#"{"file_path": "~/long.md"}"#;
    let call = control(&home, &["call", "document_upload", upload]);
    let mut terminal = Terminal::run(&call, USUAL)?;
    terminal.shows("uploading").await;
    terminal.shows("of 11.92 MiB").await;
    fits(&terminal, 80);
    between.speak_again();
    assert!(terminal.ended().await?.success());
    terminal.shows("Asset uploaded successfully").await;
    // The bar leaves nothing behind it.
    assert!(!terminal.rows().iter().any(|row| row.contains("uploading")));
    Ok(())
}

/// The daemon of a person whose home this is, wherever it was started.
async fn end_daemon(runtime: &Path) {
    let control = Client::new(&runtime.join("cozyvtt"));
    let _ = control.call::<DaemonStop>(NoParams {}, PATIENCE).await;
    until("the daemon has gone", || async {
        let status = control.call::<DaemonStatus>(NoParams {}, PATIENCE).await;
        status.is_err().then_some(())
    })
    .await;
}

#[tokio::test]
async fn setup_asks_and_the_password_is_never_on_the_screen() -> Result<()> {
    let second = CampaignPlan::new("The Second").seats([("dm", Role::Dm)]);
    let scene = Scene::default().campaign(second);
    let table = Table::builder().scene(scene).start().await?;
    let account = table.account("dm");
    let home = Home::empty()?;
    let runtime = home.path().join("runtime");
    std::fs::create_dir(&runtime)?;
    let mut command = home.command(binaries::control());
    command.arg("setup").env("XDG_RUNTIME_DIR", &runtime);
    let mut terminal = Terminal::run(&command, USUAL)?;
    terminal.shows("The address of your CozyVTT").await;
    terminal.types(&format!("{}\r", table.url())).await?;
    terminal.shows("A CozyVTT answers").await;
    terminal.shows("e-mail address").await;
    terminal.types(&format!("{}\r", account.email)).await?;
    terminal.shows("Its password:").await;
    terminal.types("wrong\r").await?;
    terminal.shows("1 of 4 sign-ins are used").await;
    until("it is asked again", || async {
        let rows = terminal.rows();
        let asked = rows.iter().filter(|row| row.contains("Its password:"));
        (asked.count() == 2).then_some(())
    })
    .await;
    terminal.types(&format!("{}\r", account.password)).await?;
    terminal.shows("Which campaign").await;
    terminal.shows("The Second").await;
    terminal.types("\r").await?;
    terminal.shows("The daemon sits at the table").await;
    terminal.shows("Which of your MCP clients").await;
    terminal.types("\r").await?;
    terminal.shows("A d20 at the table:").await;
    assert!(terminal.ended().await?.success(), "{:#?}", terminal.rows());
    assert!(!terminal.is_taken());
    let written = terminal.written();
    assert!(!written.contains(&account.password) && !written.contains("wrong"));
    fits(&terminal, 80);
    end_daemon(&runtime).await;
    Ok(())
}

#[tokio::test]
async fn who_leaves_setup_halfway_has_changed_nothing() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::empty()?;
    let mut terminal = {
        let mut command = home.command(binaries::control());
        command.arg("setup").env("XDG_RUNTIME_DIR", home.path());
        Terminal::run(&command, USUAL)?
    };
    terminal.shows("The address of your CozyVTT").await;
    terminal.types(&format!("{}\r", table.url())).await?;
    terminal.shows("e-mail address").await;
    terminal.types("\u{3}").await?;
    assert_eq!(terminal.ended().await?.code(), Some(1));
    terminal.shows("Nothing was changed").await;
    assert!(!terminal.is_taken());
    assert_eq!(std::fs::read_dir(home.path())?.count(), 0);
    Ok(())
}

#[tokio::test]
async fn a_daemon_in_a_terminal_leaves_in_order_when_its_window_is_closed() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let terminal = Terminal::run(&home.daemon_command()?, USUAL)?;
    until("it sits at the table", || async {
        let status = home.status().await.ok()?;
        status
            .hops
            .iter()
            .any(|hop| hop.name == "campaign")
            .then_some(())
    })
    .await;
    let mut daemon = terminal.close();
    let status = tokio::time::timeout(PATIENCE, daemon.wait()).await??;
    assert!(status.success(), "{status:?}");
    assert!(!home.socket("mcp.sock").exists());
    Ok(())
}

#[tokio::test]
async fn a_demo_whose_window_is_closed_leaves_nothing_behind() -> Result<()> {
    let home = Home::empty()?;
    let mut command = home.command(binaries::control());
    command.args(["demo", "--stay"]).env("TMPDIR", home.path());
    let terminal = Terminal::run(&command, USUAL)?;
    terminal.shows("The table stays up until Ctrl-C").await;
    assert_ne!(std::fs::read_dir(home.path())?.count(), 0);
    let mut demo = terminal.close();
    let status = tokio::time::timeout(PATIENCE, demo.wait()).await??;
    assert!(status.success(), "{status:?}");
    assert_eq!(std::fs::read_dir(home.path())?.count(), 0);
    Ok(())
}
