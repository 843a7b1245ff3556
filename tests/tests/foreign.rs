//! MCP clients that are not ours, through the real shim: what the libraries and the
//! tool that other people use make of us. `tests/clients/install` gets them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use cozyvtt_proto::preset::all_tools;
use cozyvtt_table::{Fault, Table};
use cozyvtt_tests::agent::Era;
use cozyvtt_tests::calls::{data, high_water, refusal};
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::raw::{Wire, rpc};
use cozyvtt_tests::seat::fence;
use cozyvtt_tests::{PATIENCE, until};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Where `tests/clients/install` has put the libraries; by default where it does
/// without an argument.
fn installed() -> PathBuf {
    let folder = std::env::var_os("COZYVTT_FOREIGN_CLIENTS").map(PathBuf::from);
    folder.unwrap_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("../foreign-clients"))
}

/// A client with its driver, a program in `tests/clients`.
#[derive(Debug, Clone, Copy)]
enum Foreign {
    PythonSdk,
    FastMcp,
    TypeScriptSdk,
    Inspector,
}

impl Foreign {
    /// The command that runs its driver.
    fn driver(self, home: &Home) -> Command {
        let python = installed().join("python/bin/python");
        let (interpreter, program) = match self {
            Self::PythonSdk => (python.as_path(), "python_sdk.py"),
            Self::FastMcp => (python.as_path(), "fastmcp_client.py"),
            Self::TypeScriptSdk => (Path::new("node"), "typescript_sdk.mjs"),
            Self::Inspector => (Path::new("node"), "inspector.mjs"),
        };
        let mut command = home.command(interpreter);
        command
            .env("COZYVTT_FOREIGN_CLIENTS", installed())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .arg(
                Path::new(env!("CARGO_MANIFEST_DIR"))
                    .join("clients")
                    .join(program),
            );
        command
    }

    /// With which code it gives a call of a tool that there is not.
    fn no_such_tool(self) -> Value {
        match self {
            // It looks the tool up in the list, and never sends the call.
            Self::Inspector => json!("tool_not_found"),
            _ => json!(-32602),
        }
    }

    /// The version of MCP that it says it has settled on; the Inspector does not say.
    fn settles_on(self, era: Era) -> Value {
        match (self, era) {
            (Self::Inspector, _) => Value::Null,
            (_, Era::Handshake) => json!("2025-11-25"),
            (_, Era::Stateless) => json!("2026-07-28"),
        }
    }
}

/// A client that has sat down: the shim is its child, and the driver its voice.
struct Guest {
    wire: Wire,
    _driver: Child,
}

impl Guest {
    /// Starts a client, which starts the shim.
    async fn sit(foreign: Foreign, era: Era, home: &Home) -> Result<Self> {
        let shim = home.shim_command();
        let mut command = foreign.driver(home);
        command.arg(match era {
            Era::Handshake => "handshake",
            Era::Stateless => "stateless",
        });
        command.arg(shim.as_std().get_program());
        command.args(shim.as_std().get_args());
        let hint = || format!("{foreign:?} does not start; is it there? See tests/clients/install");
        let (mut wire, driver) = Wire::spawn(&mut command).with_context(hint)?;
        let ready = wire.next().await.with_context(hint)?;
        ensure!(ready["protocol"] == foreign.settles_on(era), "{ready}");
        let guest = Self {
            wire,
            _driver: driver,
        };
        Ok(guest)
    }

    /// The names of the tools.
    async fn tools(&mut self) -> Result<Value> {
        self.wire.send(&json!({"do": "list"})).await?;
        Ok(self.wire.next().await?["tools"].take())
    }

    /// Calls a tool without waiting for the answer.
    async fn ask(&mut self, tool: &str, arguments: Value) -> Result<()> {
        let order = json!({"do": "call", "tool": tool, "arguments": arguments});
        self.wire.send(&order).await
    }

    /// Calls a tool; gives what the client made of the answer.
    async fn call(&mut self, tool: &str, arguments: Value) -> Result<Value> {
        self.ask(tool, arguments).await?;
        self.wire.next().await
    }

    /// Calls a tool that has to succeed; gives the `data` of its envelope.
    async fn data(&mut self, tool: &str, arguments: Value) -> Result<Value> {
        succeeded(self.call(tool, arguments).await?)
    }
}

/// The `data` of a call that has to have succeeded.
fn succeeded(answer: Value) -> Result<Value> {
    let envelope = &answer["envelope"];
    ensure!(
        answer["is_error"] == false && envelope["ok"] == true,
        "the call failed: {answer}"
    );
    // What reads no structured content reads the same.
    let text = answer["text"].as_str().context("no text")?;
    ensure!(
        serde_json::from_str::<Value>(text)? == *envelope,
        "{answer}"
    );
    Ok(envelope["data"].clone())
}

/// The table as the client sees it and changes it; `line` is what it says there.
async fn reads_and_writes(guest: &mut Guest, table: &Table, line: &str) -> Result<()> {
    let campaign = guest.data("campaign_get", json!({})).await?;
    assert_eq!(campaign["campaign"]["id"], table.campaign_id());
    let receipt = guest.data("chat_send", json!({"content": line})).await?;
    assert_eq!(receipt["status"], "pending");
    Ok(())
}

/// A client's evening: what it lists, reads, writes and gets wrong, and daemons that
/// go away under it.
async fn plays(foreign: Foreign, era: Era) -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    let mut daemon = home.start_at_table().await?;
    let mut guest = Guest::sit(foreign, era, &home).await?;
    let before = table.chat().len();

    let all: Vec<_> = all_tools().into_iter().collect();
    assert_eq!(all.len(), 41);
    assert_eq!(guest.tools().await?, json!(all));
    reads_and_writes(&mut guest, &table, "first").await?;

    // A mistake that an agent can mend is a result, with the sentence in it.
    let wrong = json!({"content": 5});
    let answer = guest.call("chat_send", wrong.clone()).await?;
    let sentence = refusal(&home, "chat_send", wrong).await?;
    assert_eq!(answer["is_error"], true, "{answer}");
    assert_eq!(answer["envelope"], json!({"ok": false, "error": sentence}));
    // One that only its programmer can mend is an error of the protocol.
    let answer = guest.call("chat_shout", json!({})).await?;
    assert_eq!(answer["error"]["code"], foreign.no_such_tool(), "{answer}");
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("chat_shout"), "{answer}");

    // A daemon dies over a call, which the next one answers.
    let hour = Fault::Delay(Duration::from_secs(3600));
    let maps = table.faults().route("GET", "/api/campaigns/*/maps", hour);
    guest.ask("map_list", json!({})).await?;
    until("the call is at the table", || async {
        (maps.fired() == 1).then_some(())
    })
    .await;
    daemon.signal(Signal::KILL)?;
    daemon.ended().await?;
    table.faults().clear();
    let daemon = home.start_at_table().await?;
    let listed = succeeded(guest.wire.next().await?)?;
    assert!(listed["maps"].is_array(), "{listed}");
    reads_and_writes(&mut guest, &table, "second").await?;

    // One is restarted while nothing is asked.
    assert!(daemon.stop().await?.success());
    let _daemon = home.start_at_table().await?;
    reads_and_writes(&mut guest, &table, "third").await?;

    fence(&table, &home).await?;
    let chat = table.chat().split_off(before);
    let said = chat.iter().filter(|line| line.user_id.is_some());
    let said: Vec<_> = said.map(|line| line.content.as_str()).collect();
    assert_eq!(said, ["first", "second", "third", "fence"]);
    Ok(())
}

/// Polls for the events after `since`, up to the line of chat that says `last`.
async fn follow(guest: &mut Guest, since: u64, last: &str) -> Result<Vec<Value>> {
    let mut since = json!(since);
    let mut seen = Vec::new();
    loop {
        let mut page = guest.data("events_poll", json!({"since": since})).await?;
        since = page["next_seq"].take();
        for event in page["events"].as_array().context("no events")? {
            seen.push(event.clone());
            if event["payload"]["content"] == last {
                return Ok(seen);
            }
        }
    }
}

// `.ci/run` chooses by these modules when it has not got everything.

mod python {
    use super::*;

    #[tokio::test]
    async fn the_python_sdk_plays_after_a_handshake() -> Result<()> {
        plays(Foreign::PythonSdk, Era::Handshake).await
    }

    #[tokio::test]
    async fn the_python_sdk_plays_without_a_handshake() -> Result<()> {
        plays(Foreign::PythonSdk, Era::Stateless).await
    }

    #[tokio::test]
    async fn fastmcp_plays_after_a_handshake() -> Result<()> {
        plays(Foreign::FastMcp, Era::Handshake).await
    }

    #[tokio::test]
    async fn fastmcp_plays_without_a_handshake() -> Result<()> {
        plays(Foreign::FastMcp, Era::Stateless).await
    }
}

mod node {
    use super::*;

    #[tokio::test]
    async fn the_typescript_sdk_plays_after_a_handshake() -> Result<()> {
        plays(Foreign::TypeScriptSdk, Era::Handshake).await
    }

    #[tokio::test]
    async fn the_typescript_sdk_plays_without_a_handshake() -> Result<()> {
        plays(Foreign::TypeScriptSdk, Era::Stateless).await
    }

    #[tokio::test]
    async fn the_inspector_plays_after_a_handshake() -> Result<()> {
        plays(Foreign::Inspector, Era::Handshake).await
    }

    #[tokio::test]
    async fn the_inspector_plays_without_a_handshake() -> Result<()> {
        plays(Foreign::Inspector, Era::Stateless).await
    }
}

mod both {
    use super::*;

    #[tokio::test]
    async fn three_different_clients_at_once_see_the_same_events() -> Result<()> {
        let table = Table::builder().start().await?;
        let home = Home::at(&table, "dm")?;
        let _daemon = home.start_at_table().await?;
        let (mut sdk, mut fastmcp, mut typescript) = tokio::try_join!(
            Guest::sit(Foreign::PythonSdk, Era::Handshake, &home),
            Guest::sit(Foreign::FastMcp, Era::Stateless, &home),
            Guest::sit(Foreign::TypeScriptSdk, Era::Handshake, &home),
        )?;
        let since = high_water(&home).await?;
        for guest in [&mut sdk, &mut fastmcp, &mut typescript] {
            guest.data("events_poll", json!({"since": since})).await?;
        }
        // By these names a person may deny them tools.
        let answer = rpc(&home, "client.list", json!({})).await?;
        let clients = answer["result"]["clients"].as_array().context("no list")?;
        let names: BTreeSet<_> = clients
            .iter()
            .filter_map(|one| one["name"].as_str())
            .collect();
        assert_eq!(names, BTreeSet::from(["fastmcp", "mcp", "typescript-sdk"]));

        let speak = async {
            for line in ["one", "two", "three"] {
                data(&home, "dice_roll", json!({"expression": "1d20"})).await?;
                data(&home, "chat_send", json!({"content": line})).await?;
            }
            Ok(())
        };
        let all = async {
            tokio::try_join!(
                follow(&mut sdk, since, "three"),
                follow(&mut fastmcp, since, "three"),
                follow(&mut typescript, since, "three"),
                speak,
            )
        };
        let (one, two, three, ()) = timeout(PATIENCE, all).await.context("polled in vain")??;
        assert_eq!(one, two);
        assert_eq!(one, three);
        let rolls = one.iter().filter(|event| event["event"] == "dice.rolled");
        assert_eq!(rolls.count(), 3, "{one:?}");
        Ok(())
    }
}
