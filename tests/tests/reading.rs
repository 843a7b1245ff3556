//! What a person reads beside the table: events of a kind, the log, manual pages and
//! completions.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use anyhow::{Context as _, Result};
use cozyvtt_table::Table;
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::{binaries, until};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

async fn lines(home: &Home, arguments: &[&str]) -> Result<Vec<String>> {
    let output = home.ctl(arguments).await?;
    let error = String::from_utf8(output.stderr)?;
    anyhow::ensure!(output.status.success(), "{arguments:?}: {error}");
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().map(str::to_owned).collect())
}

#[tokio::test]
async fn events_of_a_kind_are_shown_alone_and_counted_alone() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start_at_table().await?;
    for number in 0..3 {
        let line = json!({"content": format!("line {number}")});
        home.call("chat_send", line).await?;
        home.call("dice_roll", json!({"expression": "1d20"}))
            .await?;
    }
    let of = async |kind: &str| {
        let arguments = [
            "events", "--kind", kind, "--json", "--since", "1", "--limit", "2",
        ];
        lines(&home, &arguments).await
    };
    until("the rolls are there", || async {
        let rolls = of("dice").await.ok()?;
        (rolls.len() == 2).then_some(())
    })
    .await;
    for (kind, name) in [("dice", "dice."), ("chat.message", "chat.message")] {
        let shown = of(kind).await?;
        assert_eq!(shown.len(), 2, "{shown:?}");
        for line in shown {
            let record: Value = serde_json::from_str(&line)?;
            assert!(
                record["event"]
                    .as_str()
                    .unwrap_or_default()
                    .starts_with(name)
            );
        }
    }
    let slip = home.ctl(&["events", "--kind", "dices"]).await?;
    assert_eq!(slip.status.code(), Some(2));
    assert!(String::from_utf8(slip.stderr)?.contains("did you mean dice?"));
    Ok(())
}

#[tokio::test]
async fn the_log_is_shown_with_and_without_a_daemon_and_followed() -> Result<()> {
    let home = Home::empty()?;
    let daemon = home.start().await?;
    let shown = lines(&home, &["logs"]).await?;
    assert!(
        shown.iter().any(|line| line.contains("serving")),
        "{shown:?}"
    );
    assert_eq!(lines(&home, &["logs", "-n", "1"]).await?.len(), 1);
    let mut follow = home.command(binaries::control());
    follow.arg("--socket-dir").arg(home.socket_dir());
    follow.args(["logs", "--follow", "-n", "1", "--json"]);
    let mut follow = follow.stdout(Stdio::piped()).stdin(Stdio::null()).spawn()?;
    let output = follow.stdout.take().context("no output")?;
    let mut output = BufReader::new(output).lines();
    assert!(output.next_line().await?.is_some());
    assert!(daemon.stop().await?.success());
    let line = output.next_line().await?.context("no line")?;
    let line: Value = serde_json::from_str(&line)?;
    assert!(
        line["from"]
            .as_str()
            .unwrap_or_default()
            .contains("/logs/cozyvttd."),
        "{line}"
    );
    follow.kill().await?;
    // It is shown when nobody runs as well.
    let mut command = home.command(binaries::control());
    command
        .arg("--socket-dir")
        .arg(home.socket_dir())
        .arg("logs");
    command.env("COZYVTT_STATE_DIR", home.state_dir());
    let output = command.stdin(Stdio::null()).output().await?;
    let text = String::from_utf8(output.stdout)?;
    assert!(text.contains("stopped"), "{text}");
    Ok(())
}

#[tokio::test]
async fn without_a_log_it_is_said_where_it_was_looked_for() -> Result<()> {
    let home = Home::empty()?;
    let output = home.ctl(&["logs"]).await?;
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr)?;
    assert!(told.contains(".local/state/cozyvtt/logs"), "{told}");
    Ok(())
}

#[tokio::test]
async fn under_systemd_the_log_is_that_of_the_unit() -> Result<()> {
    let home = Home::empty()?;
    let bin = home.path().join("bin");
    std::fs::create_dir(&bin)?;
    for (name, script) in [
        ("systemctl", "#!/bin/sh\nexit 0\n"),
        ("journalctl", "#!/bin/sh\necho \"$@\"\n"),
    ] {
        std::fs::write(bin.join(name), script)?;
        std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755))?;
    }
    let mut command = home.command(binaries::control());
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    command.args(["--profile", "dm", "logs", "-n", "7"]);
    let output = command.stdin(Stdio::null()).output().await?;
    let text = String::from_utf8(output.stdout)?;
    assert!(
        text.contains("--unit cozyvttd@dm.service --lines=7"),
        "{text}"
    );
    Ok(())
}

#[tokio::test]
async fn every_program_and_command_has_a_manual_page_and_completions() -> Result<()> {
    let home = Home::empty()?;
    let folder = home.path().join("man1");
    let pages = lines(&home, &["man", "--dir", &folder.display().to_string()]).await?;
    for page in [
        "cozyvttd",
        "cozyvtt-shim",
        "cozyvttctl",
        "cozyvttctl-reload",
    ] {
        let path = folder.join(format!("{page}.1"));
        assert!(pages.contains(&path.display().to_string()), "{pages:?}");
        assert!(std::fs::read_to_string(path)?.contains(".SH"));
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        for program in ["cozyvttctl", "cozyvttd", "cozyvtt-shim"] {
            let script = lines(&home, &["completions", shell, "--program", program]).await?;
            assert!(script.join("\n").contains("profile"), "{shell} {program}");
        }
    }
    // What bash makes of it.
    let script = lines(&home, &["completions", "bash"]).await?.join("\n");
    let mut bash = home.command("bash".as_ref());
    bash.arg("-c")
        .arg(format!("{script}\ncomplete -p cozyvttctl"));
    assert!(bash.stdin(Stdio::null()).output().await?.status.success());
    Ok(())
}
