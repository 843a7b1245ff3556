//! Clients written by hand: what a program in another language would do, with
//! no library of ours or of MCP in between.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail, ensure};
use cozyvtt_proto::paths::{CONTROL_SOCKET, MCP_SOCKET};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _,
    BufReader,
};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::PATIENCE;
use crate::daemon::Home;

type Reader = Box<dyn AsyncBufRead + Send + Unpin>;
type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// An MCP client that writes its lines by hand.
pub struct Wire {
    read: Reader,
    write: Writer,
    /// How many ids of its own it has used.
    used: u32,
}

impl Wire {
    /// Connects to `mcp.sock`.
    pub async fn connect(home: &Home) -> Result<Self> {
        let stream = UnixStream::connect(home.socket(MCP_SOCKET)).await?;
        let (read, write) = stream.into_split();
        Ok(Self {
            read: Box::new(BufReader::new(read)),
            write: Box::new(write),
            used: 0,
        })
    }

    /// Connects, and shakes hands as clients before 2026 do.
    pub async fn shaken(home: &Home) -> Result<Self> {
        let mut wire = Self::connect(home).await?;
        wire.shake_hands().await?;
        Ok(wire)
    }

    /// Starts `command` and talks to its stdin and stdout.
    pub fn spawn(command: &mut Command) -> Result<(Self, Child)> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let write = child.stdin.take().context("no stdin")?;
        let read = child.stdout.take().context("no stdout")?;
        let wire = Self {
            read: Box::new(BufReader::new(read)),
            write: Box::new(write),
            used: 0,
        };
        Ok((wire, child))
    }

    /// Sends `text` and a newline.
    pub async fn line(&mut self, text: &str) -> Result<()> {
        self.bytes(format!("{text}\n").as_bytes()).await
    }

    /// Sends bytes as they are.
    pub async fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        timeout(PATIENCE, self.write.write_all(bytes))
            .await
            .context("nobody reads what is sent")??;
        Ok(self.write.flush().await?)
    }

    /// Sends a message.
    pub async fn send(&mut self, message: &Value) -> Result<()> {
        self.line(&message.to_string()).await
    }

    /// Sends a request.
    pub async fn request(
        &mut self,
        id: impl Into<Value>,
        method: &str,
        params: Value,
    ) -> Result<()> {
        let id: Value = id.into();
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await
    }

    /// The next message.
    pub async fn next(&mut self) -> Result<Value> {
        let line = self.read_line().await?;
        ensure!(line.ends_with('\n'), "the connection ended: {line:?}");
        serde_json::from_str(&line).with_context(|| format!("no JSON: {line}"))
    }

    /// Sends a request and gives the next message, which has to answer it.
    pub async fn ask(
        &mut self,
        id: impl Into<Value>,
        method: &str,
        params: Value,
    ) -> Result<Value> {
        let id: Value = id.into();
        self.request(id.clone(), method, params).await?;
        let answer = self.next().await?;
        ensure!(answer["id"] == id, "expected an answer to {id}: {answer}");
        Ok(answer)
    }

    /// Calls a tool and gives the whole answer.
    pub async fn call(
        &mut self,
        id: impl Into<Value>,
        tool: &str,
        arguments: Value,
    ) -> Result<Value> {
        let params = json!({"name": tool, "arguments": arguments});
        self.ask(id, "tools/call", params).await
    }

    /// The handshake of 2025-11-25; gives the result of `initialize`.
    pub async fn shake_hands(&mut self) -> Result<Value> {
        let answer = self
            .ask("hands", "initialize", handshake("2025-11-25"))
            .await?;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await?;
        Ok(answer["result"].clone())
    }

    /// Says that nothing more will be sent; answers still come.
    pub async fn half_close(&mut self) -> Result<()> {
        self.write.shutdown().await?;
        // A pipe ends only when its end is dropped.
        self.write = Box::new(tokio::io::sink());
        Ok(())
    }

    /// Waits for the end of the connection, before which nothing more may come.
    pub async fn ended(&mut self) -> Result<()> {
        let rest = self.read_line().await?;
        ensure!(rest.is_empty(), "instead of the end came {rest}");
        Ok(())
    }

    /// Whether the connection still works: it answers a ping.
    pub async fn is_alive(&mut self) -> Result<()> {
        let id = self.new_id();
        let answer = self.ask(id, "ping", json!({})).await?;
        ensure!(
            answer["result"].is_object(),
            "no answer to a ping: {answer}"
        );
        Ok(())
    }

    /// An id that no test thinks of.
    fn new_id(&mut self) -> String {
        self.used += 1;
        format!("own-{}", self.used)
    }

    async fn read_line(&mut self) -> Result<String> {
        let mut line = String::new();
        timeout(PATIENCE, self.read.read_line(&mut line))
            .await
            .context("nothing came")??;
        Ok(line)
    }
}

/// The parameters of `initialize` for a version of MCP.
pub fn handshake(version: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "by-hand", "version": "1.0.0"},
    })
}

/// The parameters of a request of MCP 2026-07-28, which stands alone.
pub fn stateless(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "by-hand", "version": "1.0.0"},
    });
    params
}

/// What came back from the control socket.
#[derive(Debug)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The header fields, names lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Reply {
    /// The body as JSON.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.body).with_context(|| format!("no JSON: {}", self.body))
    }

    /// A header field.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

/// One exchange with the control socket, as `curl --unix-socket` would do it.
pub async fn http(home: &Home, method: &str, path: &str, body: &str) -> Result<Reply> {
    let exchange = async {
        let mut answer = Answer::of(home, method, path, &[], body).await?;
        let body = answer.rest().await?;
        Ok(Reply {
            status: answer.status,
            headers: answer.headers,
            body,
        })
    };
    timeout(PATIENCE, exchange).await.context("no answer")?
}

/// A call of a control method: the JSON-RPC answer.
pub async fn rpc(home: &Home, method: &str, params: Value) -> Result<Value> {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let reply = http(home, "POST", "/rpc", &request.to_string()).await?;
    ensure!(reply.status == 200, "{reply:?}");
    reply.json()
}

/// One server-sent event.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    /// Its `id:` field.
    pub id: String,
    /// Its `event:` field.
    pub event: String,
    /// Its `data:` field.
    pub data: Value,
}

/// An open event stream.
pub struct Stream {
    answer: Answer,
    text: String,
}

impl Stream {
    /// Asks for `path` and reads up to the comment that says the stream is open.
    pub async fn open(home: &Home, path: &str, headers: &[(&str, &str)]) -> Result<Self> {
        let answer = timeout(PATIENCE, Answer::of(home, "GET", path, headers, ""))
            .await
            .context("no answer")??;
        ensure!(
            answer.status == 200,
            "the stream is refused: {}",
            answer.status
        );
        let mut stream = Self {
            answer,
            text: String::new(),
        };
        let first = stream.block().await?.context("the stream ended at once")?;
        ensure!(first.starts_with(':'), "no comment first: {first}");
        Ok(stream)
    }

    /// A header field of the answer.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.answer.headers.iter();
        headers
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> Result<Option<Sent>> {
        while let Some(block) = self.block().await? {
            if block.starts_with(':') {
                continue;
            }
            let field = |name: &str| {
                let mut lines = block.lines();
                lines
                    .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
                    .with_context(|| format!("no {name} in {block:?}"))
            };
            return Ok(Some(Sent {
                id: field("id")?.to_owned(),
                event: field("event")?.to_owned(),
                data: serde_json::from_str(field("data")?)?,
            }));
        }
        Ok(None)
    }

    /// The next event of that name; others are passed over.
    pub async fn next_named(&mut self, event: &str) -> Result<Sent> {
        loop {
            let sent = self.next().await?.context("the stream ended")?;
            if sent.event == event {
                return Ok(sent);
            }
        }
    }

    async fn block(&mut self) -> Result<Option<String>> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let block = self.text[..end].to_owned();
                self.text.drain(..end + 2);
                return Ok(Some(block));
            }
            let part = timeout(PATIENCE, self.answer.part())
                .await
                .context("the stream is silent")??;
            match part {
                Some(part) => self.text.push_str(&part),
                None => return Ok(None),
            }
        }
    }
}

/// An HTTP/1.1 answer whose body is still to be read.
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: BufReader<UnixStream>,
    chunked: bool,
}

impl Answer {
    async fn of(
        home: &Home,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<Self> {
        let mut stream = BufReader::new(UnixStream::connect(home.socket(CONTROL_SOCKET)).await?);
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            write!(head, "{name}: {value}\r\n")?;
        }
        let request = format!("{head}\r\n{body}");
        stream.write_all(request.as_bytes()).await?;
        let first = header_line(&mut stream).await?;
        let status = first
            .split_whitespace()
            .nth(1)
            .and_then(|status| status.parse().ok())
            .with_context(|| format!("no HTTP: {first}"))?;
        let mut headers = Vec::new();
        loop {
            let line = header_line(&mut stream).await?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').context("no header field")?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let chunked = headers
            .iter()
            .any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        Ok(Self {
            status,
            headers,
            body: stream,
            chunked,
        })
    }

    /// What comes next of the body; `None` at its end.
    async fn part(&mut self) -> Result<Option<String>> {
        let mut bytes;
        if self.chunked {
            let size = header_line(&mut self.body).await?;
            let size = usize::from_str_radix(&size, 16).context("no chunk")?;
            bytes = vec![0; size];
            self.body.read_exact(&mut bytes).await?;
            let end = header_line(&mut self.body).await?;
            ensure!(end.is_empty(), "a chunk runs on: {end}");
        } else {
            bytes = Vec::new();
            self.body.read_to_end(&mut bytes).await?;
        }
        Ok((!bytes.is_empty()).then_some(String::from_utf8(bytes)?))
    }

    async fn rest(&mut self) -> Result<String> {
        let mut body = String::new();
        while let Some(part) = self.part().await? {
            body.push_str(&part);
        }
        Ok(body)
    }
}

async fn header_line(stream: &mut BufReader<UnixStream>) -> Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    match line.strip_suffix("\r\n") {
        Some(line) => Ok(line.to_owned()),
        None => bail!("the connection broke off after {line:?}"),
    }
}

/// All files below a folder, with what they hold. Sockets are passed over.
pub fn files_below(folder: &Path) -> Result<Vec<(std::path::PathBuf, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files_below(&path)?);
        } else if path.is_file() {
            let bytes = std::fs::read(&path)?;
            found.push((path, bytes));
        }
    }
    Ok(found)
}
