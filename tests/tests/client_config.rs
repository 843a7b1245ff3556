//! `cozyvttctl client-config`: snippets for clients, and their files.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use cozyvtt_tests::binaries;
use cozyvtt_tests::daemon::Home;
use serde_json::{Value, json};

/// Runs it without `--socket-dir`, as a person does.
async fn run(home: &Home, arguments: &[&str]) -> Result<(Option<i32>, String, String)> {
    let mut command = home.command(binaries::control());
    let output = command.args(arguments).output().await?;
    Ok((
        output.status.code(),
        String::from_utf8(output.stdout)?,
        String::from_utf8(output.stderr)?,
    ))
}

fn backups(file: &std::path::Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(file.parent().context("no folder")?)?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths
        .filter(|path| path.to_string_lossy().contains(".bak-"))
        .collect())
}

#[tokio::test]
async fn every_client_gets_its_lines_with_the_absolute_path_of_the_shim() -> Result<()> {
    let home = Home::empty()?;
    let shim = binaries::shim().display().to_string();
    for client in [
        "claude-code",
        "claude-desktop",
        "hermes",
        "cursor",
        "vscode",
        "codex",
        "gemini",
        "generic",
    ] {
        let arguments = ["--profile", "dm", "client-config", client, "--read-only"];
        let (code, out, err) = run(&home, &arguments).await?;
        assert_eq!(code, Some(0), "{client}: {err}");
        for word in [shim.as_str(), "cozyvtt-dm", "--profile", "--read-only"] {
            assert!(out.contains(word), "{client} lacks {word}: {out}");
        }
        let (_, out, _) = run(&home, &["client-config", client, "--json"]).await?;
        let told: Value = serde_json::from_str(&out)?;
        assert_eq!(
            (&told["command"], &told["name"]),
            (&json!(shim), &json!("cozyvtt"))
        );
        assert_eq!(told["change"], Value::Null);
    }
    Ok(())
}

#[tokio::test]
async fn a_file_is_merged_kept_and_cleared_again() -> Result<()> {
    let home = Home::empty()?;
    let file = home.path().join(".claude.json");
    let before = "{\n  \"numStartups\": 7,\n  \"mcpServers\": {\n    \"other\": {\"command\": \"x\"}\n  }\n}\n";
    std::fs::write(&file, before)?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640))?;
    let (code, out, err) = run(&home, &["client-config", "claude-code", "--write"]).await?;
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains(".claude.json.bak-"), "{out}");
    let now: Value = serde_json::from_str(&std::fs::read_to_string(&file)?)?;
    assert_eq!(now["numStartups"], 7);
    assert_eq!(now["mcpServers"]["other"], json!({"command": "x"}));
    let shim = binaries::shim().display().to_string();
    assert_eq!(
        now["mcpServers"]["cozyvtt"],
        json!({"type": "stdio", "command": shim, "args": []})
    );
    assert_eq!(file.metadata()?.permissions().mode() & 0o777, 0o640);
    let kept = backups(&file)?;
    assert_eq!(kept.len(), 1);
    assert_eq!(std::fs::read_to_string(&kept[0])?, before);
    assert_eq!(kept[0].metadata()?.permissions().mode() & 0o777, 0o640);

    let (_, out, _) = run(&home, &["client-config", "claude-code", "--write"]).await?;
    assert!(out.contains("has it so already"), "{out}");
    assert_eq!(backups(&file)?.len(), 1);

    let (code, _, err) = run(&home, &["client-config", "claude-code", "--remove"]).await?;
    assert_eq!(code, Some(0), "{err}");
    let now: Value = serde_json::from_str(&std::fs::read_to_string(&file)?)?;
    assert_eq!(now, serde_json::from_str::<Value>(before)?);
    Ok(())
}

#[tokio::test]
async fn a_file_that_was_not_there_is_made_and_no_file_is_ever_removed() -> Result<()> {
    let home = Home::empty()?;
    for (client, file) in [
        (
            "claude-desktop",
            ".config/Claude/claude_desktop_config.json",
        ),
        ("hermes", ".hermes/config.yaml"),
    ] {
        let file = home.path().join(file);
        let (code, _, err) = run(&home, &["client-config", client, "--write"]).await?;
        assert_eq!(code, Some(0), "{err}");
        let text = std::fs::read_to_string(&file)?;
        assert!(text.contains("cozyvtt-shim"), "{text}");
        assert_eq!(file.metadata()?.permissions().mode() & 0o777, 0o600);
        let (code, _, err) = run(&home, &["client-config", client, "--remove"]).await?;
        assert_eq!(code, Some(0), "{err}");
        let text = std::fs::read_to_string(&file)?;
        assert!(!text.contains("cozyvtt"), "{text}");
        let (_, out, _) = run(&home, &["client-config", client, "--remove"]).await?;
        assert!(out.contains("has no such entry"), "{out}");
    }
    Ok(())
}

#[tokio::test]
async fn every_change_keeps_the_file_as_it_was_under_a_name_of_its_own() -> Result<()> {
    let home = Home::empty()?;
    let file = home.path().join(".claude.json");
    std::fs::write(&file, "{\"mine\": 1}")?;
    for _ in 0..3 {
        for flag in ["--write", "--remove"] {
            let (code, _, err) = run(&home, &["client-config", "claude-code", flag]).await?;
            assert_eq!(code, Some(0), "{err}");
        }
    }
    let kept = backups(&file)?;
    assert_eq!(kept.len(), 6, "{kept:?}");
    let first = kept.iter().map(std::fs::read_to_string);
    let first: Vec<String> = first.collect::<Result<_, _>>()?;
    assert!(first.contains(&"{\"mine\": 1}".to_owned()), "{first:?}");
    Ok(())
}

#[tokio::test]
async fn a_link_to_the_file_stays_one() -> Result<()> {
    let home = Home::empty()?;
    let real = home.path().join("dotfiles.json");
    std::fs::write(&real, "{}")?;
    let file = home.path().join(".claude.json");
    symlink(&real, &file)?;
    for (flag, there) in [("--write", true), ("--remove", false)] {
        let (code, _, err) = run(&home, &["client-config", "claude-code", flag]).await?;
        assert_eq!(code, Some(0), "{err}");
        assert!(file.symlink_metadata()?.is_symlink());
        let text = std::fs::read_to_string(&real)?;
        assert_eq!(text.contains("cozyvtt-shim"), there, "{text}");
    }
    // One that leads nowhere is not replaced by a file.
    std::fs::remove_file(&real)?;
    let (code, _, err) = run(&home, &["client-config", "claude-code", "--write"]).await?;
    assert_eq!(code, Some(1));
    assert!(err.contains("a link to a file that is not there"), "{err}");
    assert!(file.symlink_metadata()?.is_symlink() && !real.exists());
    Ok(())
}

#[tokio::test]
async fn a_file_that_cannot_be_understood_is_left_alone() -> Result<()> {
    let home = Home::empty()?;
    let file = home.path().join(".claude.json");
    std::fs::write(&file, "{ not json")?;
    let (code, _, err) = run(&home, &["client-config", "claude-code", "--write"]).await?;
    assert_eq!(code, Some(1));
    assert!(
        err.contains("was left as it is") && err.contains("by hand"),
        "{err}"
    );
    assert_eq!(std::fs::read_to_string(&file)?, "{ not json");
    assert!(backups(&file)?.is_empty());
    // And of a client whose file is not written, that is said.
    let (code, _, err) = run(&home, &["client-config", "cursor", "--write"]).await?;
    assert_eq!(code, Some(2));
    assert!(err.contains("cozyvttctl client-config cursor"), "{err}");
    Ok(())
}
