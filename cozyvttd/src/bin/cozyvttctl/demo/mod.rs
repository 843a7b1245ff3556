//! `cozyvttctl demo`: a short scene on a practice table, to see what this is.

mod agent;
mod stage;

use std::time::Duration;

use cozyvtt_proto::event::EventRecord;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep};

use crate::failure::{Exit, Failure};
use crate::names::Names;
use crate::narrate::narrate;
use crate::terminal::{DICE, GOOD, QUIET, STRONG, Screen};
use crate::text::{json_line, pad, plain};
use agent::Agent;
use stage::Stage;

/// A pause for the reader after each line, on a terminal.
const BREATH: Duration = Duration::from_millis(400);

/// Columns of the name at the beginning of a line.
const WHO: usize = 10;

/// Play a short scene on a practice table, with a daemon and two agents of its own
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Everything runs in this process and in a temporary folder, which is gone afterwards: no server, no \
account and no configuration is needed, and none of yours is touched.

Examples:
  cozyvttctl demo
  cozyvttctl demo --stay     then attach Claude Code, Cursor or another MCP client to it
  cozyvttctl demo --json")]
pub(crate) struct Args {
    /// Keep table and daemon up after the scene, and say how to attach a real MCP client
    #[arg(long)]
    stay: bool,

    /// Print nothing but a summary of the scene, as one JSON line
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, screen: &mut Screen) -> Result<Exit, Failure> {
    let stage = tokio::select! {
        stage = Stage::set() => stage?,
        () = asked_to_end() => return Ok(Exit::Fine),
    };
    // The folder is to be gone however this ends.
    let played = tokio::select! {
        played = play(&args, &stage, screen) => played,
        () = asked_to_end() => Ok(()),
    };
    stage.clear().await;
    played.map(|()| Exit::Fine)
}

/// Waits for Ctrl-C, SIGTERM, or the end of the terminal: what was made for the demo goes
/// with it.
async fn asked_to_end() {
    let comes = async |kind| match signal(kind) {
        Ok(mut signal) => signal.recv().await,
        Err(_) => std::future::pending().await,
    };
    tokio::select! {
        _ = comes(SignalKind::interrupt()) => {}
        _ = comes(SignalKind::terminate()) => {}
        _ = comes(SignalKind::hangup()) => {}
    }
}

async fn play(args: &Args, stage: &Stage, screen: &mut Screen) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut teller = Teller {
        screen,
        names: Names::default(),
        silent: args.json,
    };
    let summary = scene(stage, &mut teller).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let logins = stage.table.log().count("POST", "/api/auth/login");
    if args.json {
        screen.line(&json_line(&json!({
            "url": stage.table.url(),
            "roll": summary.roll,
            "total": summary.total,
            "secret_total": summary.secret_total,
            "calls": summary.calls,
            "logins": logins,
            "seconds": seconds,
        })))?;
    } else {
        screen.line("")?;
        screen.line(&format!(
            "{GOOD}Two agents, {} calls, {logins} login, one WebSocket.{GOOD:#} The server rolled {} for {}.",
            summary.calls, summary.total, summary.roll
        ))?;
    }
    if args.stay {
        stay(stage, screen).await?;
    } else if !args.json {
        let last = "Nothing is left behind. `cozyvttctl demo --stay` keeps the table up for a client of yours.";
        let lines = screen.layout.wrap(last, 0);
        screen.lines(lines.iter().map(|line| format!("{QUIET}{line}{QUIET:#}")))?;
    }
    Ok(())
}

/// What the scene came to.
struct Summary {
    roll: String,
    total: i64,
    secret_total: i64,
    calls: u32,
}

async fn scene(stage: &Stage, teller: &mut Teller<'_>) -> Result<Summary, Failure> {
    let account = stage.account();
    teller.set(&format!(
        "A practice table opens at {}, and a daemon takes a seat as {}.",
        stage.table.url(),
        account.display_name
    ))?;
    let sockets = stage.socket_dir();
    let mut narrator = Agent::sit_down("Narrator", &sockets, false).await?;
    let mut scribe = Agent::sit_down("Scribe", &sockets, true).await?;
    teller.set("Two AI agents join through the daemon: the Narrator leads, the Scribe listens.")?;
    teller.set("")?;

    let here = narrator.call("campaign_get", json!({})).await?;
    teller
        .act(
            "Narrator",
            &format!(
                "looks around: {}, {}; the table is at {}.",
                text(&here["campaign"]["name"]),
                text(&here["role"]),
                text(&here["current_map"]["name"]),
            ),
        )
        .await?;

    narrator
        .call(
            "chat_send",
            json!({"content": "The mill wheel stops turning. Below the water, something rings.", "type": "DM"}),
        )
        .await?;
    let line = scribe.see(named("chat.message")).await?;
    teller.event("Scribe", &line).await?;

    stage
        .table
        .say("player1", "I lie down on the planks and listen.");
    let answer = scribe.see(named("chat.message")).await?;
    teller.event("Scribe", &answer).await?;

    let roll = "1d20+5";
    teller
        .act(
            "Narrator",
            &format!("asks the server for {roll}, in the open."),
        )
        .await?;
    let receipt = narrator
        .call(
            "dice_roll",
            json!({"expression": roll, "purpose": "Perception", "character_name": "Brannoc Thornfield"}),
        )
        .await?;
    let open = scribe
        .see(|event| event.event == "dice.rolled" && event.payload["secret"] == false)
        .await?;
    teller.event("Scribe", &open).await?;
    debug_assert!(open.seq > receipt["since"].as_u64().unwrap_or_default());

    teller
        .act(
            "Narrator",
            "rolls once more, where the players cannot see it.",
        )
        .await?;
    narrator
        .call(
            "dice_roll",
            json!({"expression": "2d6", "purpose": "What stirs in the weir", "is_secret": true}),
        )
        .await?;
    let secret = scribe
        .see(|event| event.event == "dice.rolled" && event.payload["secret"] == true)
        .await?;
    teller.event("Scribe", &secret).await?;

    let total = total(&open)?;
    let secret_total = self::total(&secret)?;
    let outcome = if total >= 15 {
        "Seven strokes, and then an eighth that no bell should have. It is closer than before."
    } else {
        "Only the river. But the planks under you are trembling."
    };
    narrator
        .call("chat_send", json!({"content": outcome, "type": "DM"}))
        .await?;
    let told = scribe.see(named("chat.message")).await?;
    teller.event("Scribe", &told).await?;

    let calls = narrator.calls + scribe.calls;
    narrator.leave().await;
    scribe.leave().await;
    Ok(Summary {
        roll: roll.to_owned(),
        total,
        secret_total,
        calls,
    })
}

async fn stay(stage: &Stage, screen: &mut Screen) -> Result<(), Failure> {
    let sockets = stage.socket_dir();
    let folder = sockets.display();
    let beside = std::env::current_exe()
        .ok()
        .map(|exe| exe.with_file_name("cozyvtt-shim"))
        .filter(|shim| shim.exists());
    let shim = beside.as_ref().map_or_else(
        || "cozyvtt-shim".to_owned(),
        |shim| shim.display().to_string(),
    );
    let snippet = json!({"mcpServers": {"cozyvtt": {
        "command": shim,
        "args": ["--socket-dir", folder.to_string()],
    }}});
    screen.line("")?;
    screen.lines([
        format!("{STRONG}The table stays up until Ctrl-C.{STRONG:#} Attach an MCP client with:"),
        String::new(),
        serde_json::to_string_pretty(&snippet).unwrap_or_default(),
        String::new(),
    ])?;
    if beside.is_none() {
        screen.line("The shim is not built yet: cargo build --release -p cozyvtt-shim")?;
    }
    screen.lines([
        format!("Look at it:  cozyvttctl --socket-dir {folder} status"),
        format!("Follow it:   cozyvttctl --socket-dir {folder} events --follow"),
    ])?;
    std::future::pending().await
}

fn named(name: &'static str) -> impl Fn(&EventRecord) -> bool {
    move |event| event.event == name
}

fn total(roll: &EventRecord) -> Result<i64, Failure> {
    roll.payload["result"]
        .as_i64()
        .ok_or_else(|| Failure::failed("the table sent a roll without a result"))
}

fn text(value: &Value) -> String {
    plain(value.as_str().unwrap_or("?"))
}

/// Tells the scene.
struct Teller<'a> {
    screen: &'a mut Screen,
    names: Names,
    silent: bool,
}

impl Teller<'_> {
    /// Sets the scene.
    fn set(&mut self, what: &str) -> Result<(), Failure> {
        if self.silent {
            return Ok(());
        }
        let lines = self.screen.layout.wrap(what, 0);
        self.screen
            .lines(lines.iter().map(|line| format!("{QUIET}{line}{QUIET:#}")))?;
        Ok(())
    }

    /// An agent does something.
    async fn act(&mut self, who: &str, what: &str) -> Result<(), Failure> {
        self.tell(&format!("{STRONG}{}{STRONG:#}", pad(who, WHO)), what)
            .await
    }

    /// An agent sees something.
    async fn event(&mut self, who: &str, event: &EventRecord) -> Result<(), Failure> {
        self.names.learn(event);
        let line = narrate(event, &self.names).text;
        self.tell(
            &format!("{DICE}{}{DICE:#}", pad(who, WHO)),
            &format!("sees: {line}"),
        )
        .await
    }

    async fn tell(&mut self, who: &str, what: &str) -> Result<(), Failure> {
        if self.silent {
            return Ok(());
        }
        let lines = self.screen.layout.narrower(WHO + 2).wrap(what, 6);
        for (number, line) in lines.iter().enumerate() {
            if number == 0 {
                self.screen.line(&format!("  {who}{line}"))?;
            } else {
                self.screen.line(&format!("  {}{line}", " ".repeat(WHO)))?;
            }
        }
        if self.screen.layout.width.is_some() {
            sleep(BREATH).await;
        }
        Ok(())
    }
}
