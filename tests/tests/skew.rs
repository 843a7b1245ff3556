//! Shims of other versions than the daemon's: real ones, built for this.

#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot go on has failed

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::{Context as _, Result, ensure};
use cozyvtt_table::Table;
use cozyvtt_tests::agent::{Agent, Era};
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::raw::{Wire, handshake};
use cozyvtt_tests::until;
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;

/// The workspace.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// A copy of the shim's sources, to be built under other version numbers.
struct Sources(TempDir);

impl Sources {
    fn copy() -> Result<Self> {
        let folder = TempDir::new()?;
        for part in ["Cargo.lock", "proto", "cozyvtt-shim"] {
            let status = std::process::Command::new("cp")
                .arg("-r")
                .arg(Path::new(ROOT).join(part))
                .arg(folder.path())
                .status()?;
            ensure!(status.success(), "{part} cannot be copied");
        }
        Ok(Self(folder))
    }

    /// Builds the shim of `version`, which speaks `protocol`.
    fn build(&self, version: &str, protocol: u32) -> Result<PathBuf> {
        let folder = self.0.path();
        let manifest = fs::read_to_string(Path::new(ROOT).join("Cargo.toml"))?
            .replace(
                r#"members = ["proto", "cozyvttd", "cozyvtt-shim", "tests", "tests/table"]"#,
                r#"members = ["proto", "cozyvtt-shim"]"#,
            )
            .replace(
                "version = \"0.1.0\"\nedition",
                &format!("version = \"{version}\"\nedition"),
            )
            .replace(
                r#"path = "proto", version = "0.1.0""#,
                &format!(r#"path = "proto", version = "{version}""#),
            );
        ensure!(
            manifest.contains(version),
            "the manifest's version is another one"
        );
        fs::write(folder.join("Cargo.toml"), manifest)?;
        let library = folder.join("proto/src/lib.rs");
        let text = fs::read_to_string(Path::new(ROOT).join("proto/src/lib.rs"))?;
        let spoken = text.replace(
            "pub const PROTOCOL: u32 = 1;",
            &format!("pub const PROTOCOL: u32 = {protocol};"),
        );
        fs::write(library, spoken)?;
        let output = std::process::Command::new(env!("CARGO"))
            .args(["build", "--offline", "--quiet", "--package", "cozyvtt-shim"])
            .current_dir(folder)
            .env("CARGO_TARGET_DIR", folder.join("target"))
            .output()?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let built = folder.join("target/debug/cozyvtt-shim");
        let kept = folder.join(format!("cozyvtt-shim-{version}-{protocol}"));
        fs::copy(built, &kept)?;
        Ok(kept)
    }
}

/// The command of this shim.
fn command(home: &Home, shim: &Path) -> Command {
    let mut command = home.command(shim);
    command
        .arg("--socket-dir")
        .arg(home.socket_dir())
        .arg("--no-start");
    command
}

async fn plays(home: &Home, table: &Table, shim: &Path) -> Result<()> {
    let agent = Agent::of_command(command(home, shim), Era::Handshake).await?;
    agent.data("campaign_get", json!({})).await?;
    let line = shim.display().to_string();
    let line = line.rsplit('/').next().context("no name")?;
    agent.data("chat_send", json!({"content": line})).await?;
    until("the line is there", || async {
        let chat = table.chat();
        chat.iter().any(|said| said.content == line).then_some(())
    })
    .await;
    agent.leave().await
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn shims_of_other_versions_play_or_say_in_one_line_what_mends_it() -> Result<()> {
    let sources = Sources::copy()?;
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let mut daemon = home.start_at_table().await?;

    // An old shim with a new daemon, and a new shim with an old daemon.
    let older = sources.build("0.0.9", 1)?;
    plays(&home, &table, &older).await?;
    let newer = sources.build("0.10.0", 1)?;
    plays(&home, &table, &newer).await?;

    // Over a restart as well, which an update of one of them is.
    let (mut wire, _shim) = Wire::spawn(&mut command(&home, &older))?;
    wire.shake_hands().await?;
    daemon.signal(Signal::TERM)?;
    daemon.ended().await?;
    let _daemon = home.start_at_table().await?;
    let read = wire.call(1, "campaign_get", json!({})).await?;
    assert_eq!(read["result"]["structuredContent"]["ok"], true, "{read}");

    for (version, protocol, mend) in [
        ("0.0.9", 0, "cargo install --path cozyvtt-shim"),
        ("0.10.0", 2, "cargo install --path cozyvttd"),
    ] {
        let shim = sources.build(version, protocol)?;
        let (mut wire, shim) =
            Wire::spawn(command(&home, &shim).stderr(std::process::Stdio::piped()))?;
        wire.request(1, "initialize", handshake("2025-11-25"))
            .await?;
        let answer = wire.next().await?;
        let told = answer["error"]["message"].as_str().unwrap_or_default();
        let ours = env!("CARGO_PKG_VERSION");
        for word in [version, ours, mend] {
            assert!(told.contains(word), "{word}: {told}");
        }
        drop(wire);
        let said = stderr(&shim.wait_with_output().await?);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains(mend), "{said}");
    }
    Ok(())
}
