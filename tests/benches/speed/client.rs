//! MCP clients: one that spawns a program and talks to its stdio, one that talks to
//! `mcp.sock` itself.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use cozyvtt_proto::paths::MCP_SOCKET;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use crate::process::Owned;
use crate::stage::PATIENCE;

/// Where a client's lines go, and where those for it come from.
pub(crate) trait Ends {
    /// Sends `line`, which ends with its newline.
    fn send(&mut self, line: &str) -> Result<()>;
    /// Adds the next line to `line`; nothing at the end.
    fn receive(&mut self, line: &mut String) -> Result<()>;
}

/// The pipes of a spawned program.
pub(crate) struct Pipes {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Ends for Pipes {
    fn send(&mut self, line: &str) -> Result<()> {
        Ok(self.stdin.write_all(line.as_bytes())?)
    }

    fn receive(&mut self, line: &mut String) -> Result<()> {
        // A pipe has no time limit of its own.
        let limit = Timespec::try_from(PATIENCE)?;
        while !line.ends_with('\n') {
            if self.stdout.buffer().is_empty() {
                let mut pipe = [PollFd::new(self.stdout.get_ref(), PollFlags::IN)];
                let ready = poll(&mut pipe, Some(&limit))?;
                ensure!(ready > 0, "no answer within {} s", PATIENCE.as_secs());
            }
            if self.stdout.read_line(line)? == 0 {
                break;
            }
        }
        Ok(())
    }
}

/// A connection to `mcp.sock`.
pub(crate) struct Socket(BufReader<UnixStream>);

impl Ends for Socket {
    fn send(&mut self, line: &str) -> Result<()> {
        Ok(self.0.get_mut().write_all(line.as_bytes())?)
    }

    fn receive(&mut self, line: &mut String) -> Result<()> {
        self.0.read_line(line)?;
        Ok(())
    }
}

/// An MCP client.
pub(crate) struct Client<E> {
    ends: E,
    last_id: u32,
}

impl<E: Ends> Client<E> {
    fn say(&mut self, message: &Value) -> Result<()> {
        self.ends.send(&format!("{message}\n"))
    }

    fn hear(&mut self) -> Result<String> {
        let mut line = String::new();
        self.ends.receive(&mut line)?;
        ensure!(line.ends_with('\n'), "the other side has ended");
        Ok(line)
    }

    /// The result that `method` has, and how long it took to have it in hand. What else
    /// comes meanwhile is passed over.
    fn ask(&mut self, method: &str, params: &Value) -> Result<(Value, Duration)> {
        self.last_id += 1;
        let id = self.last_id;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let request = format!("{request}\n");
        let start = Instant::now();
        self.ends.send(&request)?;
        loop {
            let line = self.hear()?;
            // What the client makes of it is its own affair.
            let took = start.elapsed();
            let mut answer: Value = serde_json::from_str(&line)?;
            if answer["id"] == id && answer.get("method").is_none() {
                ensure!(answer.get("result").is_some(), "{method}: {answer}");
                return Ok((answer["result"].take(), took));
            }
        }
    }

    fn initialize(&mut self) -> Result<()> {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "speed", "version": "1"},
        });
        self.ask("initialize", &params).map(drop)
    }

    fn initialized(&mut self) -> Result<()> {
        self.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    }

    /// How long `map_list` took.
    pub(crate) fn map_list(&mut self) -> Result<Duration> {
        let params = json!({"name": "map_list", "arguments": {}});
        let (result, took) = self.ask("tools/call", &params)?;
        // A call that failed is fast, and says nothing.
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        let envelope: Value = serde_json::from_str(text).unwrap_or_default();
        ensure!(
            result["isError"] != true && envelope["ok"] == true,
            "map_list: {result}"
        );
        Ok(took)
    }

    /// How many tools there are.
    pub(crate) fn tools(&mut self) -> Result<usize> {
        let (result, _) = self.ask("tools/list", &json!({}))?;
        Ok(result["tools"].as_array().context("no tools")?.len())
    }
}

/// A spawned program whose session is initialized, seen from its client.
pub(crate) struct Spawned {
    pub(crate) process: Owned,
    pub(crate) client: Client<Pipes>,
    /// How long it took from the spawn to the answer to `initialize`.
    pub(crate) took: Duration,
}

impl Spawned {
    /// Spawns `command`.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let start = Instant::now();
        let mut child = command.spawn().context("spawning an MCP server")?;
        let stdin = child.stdin.take().context("no stdin")?;
        let stdout = child.stdout.take().context("no stdout")?;
        let process = Owned(child);
        let mut client = Client {
            ends: Pipes {
                stdin,
                stdout: BufReader::new(stdout),
            },
            last_id: 0,
        };
        client.initialize()?;
        let took = start.elapsed();
        client.initialized()?;
        Ok(Self {
            process,
            client,
            took,
        })
    }

    /// Spawns a shim of the daemon that serves in `sockets`.
    pub(crate) fn shim(program: &Path, sockets: &Path) -> Result<Self> {
        Self::start(
            Command::new(program)
                .arg("--no-start")
                .arg("--socket-dir")
                .arg(sockets),
        )
    }
}

/// Connects to `mcp.sock` as a shim does, the hello included, and initializes.
pub(crate) fn connect(sockets: &Path) -> Result<Client<Socket>> {
    let stream = UnixStream::connect(sockets.join(MCP_SOCKET))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut client = Client {
        ends: Socket(BufReader::new(stream)),
        last_id: 0,
    };
    client.say(&json!({"cozyvtt": {
        "protocol": cozyvtt_proto::PROTOCOL,
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "client_id": "speed",
    }}))?;
    client.hear()?;
    client.initialize()?;
    client.initialized()?;
    Ok(client)
}
