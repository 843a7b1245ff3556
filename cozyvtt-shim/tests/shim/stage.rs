//! A temporary folder with a fake daemon's socket in it, and shims that look
//! for it there. Whatever is waited for has a deadline.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// More than anything here takes, even on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Runs `work` on a thread of its own, and gives its result through a channel.
pub(crate) fn eventually<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Receiver<T> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let _ = sender.send(work());
    });
    receiver
}

/// The folder of the sockets.
pub(crate) struct Stage {
    dir: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            dir: TempDir::new().unwrap(),
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("mcp.sock")
    }

    /// A daemon that listens.
    pub(crate) fn daemon(&self) -> Daemon {
        let _ = std::fs::remove_file(self.socket());
        Daemon(UnixListener::bind(self.socket()).unwrap())
    }

    /// The shim's command line for this folder.
    pub(crate) fn command(&self) -> Command {
        // The daemon is played here, and nobody wants to wait for one that never comes.
        self.patient(1)
    }

    /// The same, with requests that wait for so many seconds.
    pub(crate) fn patient(&self, seconds: u32) -> Command {
        let mut command = bare(Path::new(env!("CARGO_BIN_EXE_cozyvtt-shim")));
        command.arg("--socket-dir").arg(self.dir.path());
        command.args(["--no-start", "--wait", &seconds.to_string()]);
        command
    }

    /// A shim that runs.
    pub(crate) fn shim(&self) -> Shim {
        Shim::start(&mut self.command())
    }

    /// A shim with a connection to a daemon that has welcomed it.
    pub(crate) fn connected(&self) -> (Shim, Peer) {
        let daemon = self.daemon();
        let shim = self.shim();
        let mut peer = daemon.accept();
        peer.welcome();
        (shim, peer)
    }
}

/// The daemon's listening socket.
pub(crate) struct Daemon(UnixListener);

impl Daemon {
    /// Waits for the next connection.
    pub(crate) fn accept(&self) -> Peer {
        let listener = self.0.try_clone().unwrap();
        let accepted = eventually(move || listener.accept().unwrap().0);
        let stream = accepted.recv_timeout(DEADLINE).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        Peer(BufReader::new(stream))
    }
}

/// The daemon's end of one connection.
pub(crate) struct Peer(BufReader<UnixStream>);

impl Peer {
    /// The shim's next line, newline included; empty at the end.
    pub(crate) fn hear(&mut self) -> String {
        String::from_utf8(self.hear_bytes()).unwrap()
    }

    /// The same for a line that may be no text.
    pub(crate) fn hear_bytes(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).unwrap();
        line
    }

    /// Waits for the beginning of a line, and leaves the rest.
    pub(crate) fn hear_beginning(&mut self) {
        assert!(!self.0.fill_buf().unwrap().is_empty());
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// Reads the hello and accepts it.
    pub(crate) fn welcome(&mut self) -> Value {
        self.reply(&json!({
            "protocol": 1, "version": "0.1.0", "instance": "i",
            "knows": ["read_only", "expects", "settings"],
        }))
    }

    /// Reads the hello and accepts it as `instance`, with `verdicts` on what would be
    /// sent again.
    pub(crate) fn welcome_as(&mut self, instance: &str, verdicts: &Value) -> Value {
        self.reply(&json!({
            "protocol": 1, "version": "0.1.0", "instance": instance, "resends": verdicts,
        }))
    }

    /// Reads the hello and answers it with `reply`.
    pub(crate) fn reply(&mut self, reply: &Value) -> Value {
        let hello = serde_json::from_str(&self.hear()).unwrap();
        self.say(&format!("{}\n", json!({"cozyvtt": reply})));
        hello
    }

    /// Says nothing more, but still listens.
    pub(crate) fn hang_up(&self) {
        self.0.get_ref().shutdown(Shutdown::Write).unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // A process that another test is just starting may still hold a copy of
        // the socket; this ends the connection all the same.
        let _ = self.0.get_ref().shutdown(Shutdown::Both);
    }
}

/// A running shim, seen from the client.
pub(crate) struct Shim {
    pub(crate) pid: u32,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    log: Receiver<String>,
    exit: Receiver<ExitStatus>,
}

impl Shim {
    /// Runs `command`, with a pipe for each of its streams.
    pub(crate) fn start(command: &mut Command) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self::of(command.spawn().unwrap())
    }

    fn of(mut child: Child) -> Self {
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut stderr = child.stderr.take().unwrap();
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut line = String::new();
            while stdout.read_line(&mut line).unwrap() > 0 {
                let _ = sender.send(std::mem::take(&mut line));
            }
        });
        Self {
            pid: child.id(),
            stdin: child.stdin.take(),
            lines,
            log: eventually(move || {
                let mut log = String::new();
                stderr.read_to_string(&mut log).unwrap();
                log
            }),
            exit: eventually(move || child.wait().unwrap()),
        }
    }

    pub(crate) fn say(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
    }

    /// A request, as a line.
    pub(crate) fn ask(&mut self, id: u32, method: &str) {
        self.say(&request(id, method));
    }

    /// The shim's next line, newline included.
    pub(crate) fn hear(&mut self) -> String {
        self.lines.recv_timeout(DEADLINE).unwrap()
    }

    /// The shim's next line, which has to be an error: `(id, error)`.
    pub(crate) fn hear_error(&mut self) -> (Value, Value) {
        let mut answer: Value = serde_json::from_str(&self.hear()).unwrap();
        assert_eq!(answer["jsonrpc"], "2.0");
        assert!(answer["error"].is_object(), "{answer}");
        (answer["id"].take(), answer["error"].take())
    }

    /// Waits for as long as nothing is heard, which has to be `time`.
    pub(crate) fn is_silent_for(&self, time: Duration) {
        let heard = self.lines.recv_timeout(time);
        assert_eq!(heard, Err(RecvTimeoutError::Timeout));
    }

    /// How many times the scheduler has given it the processor, all threads together.
    pub(crate) fn turns(&self) -> u64 {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid)).unwrap();
        let turns = |thread: PathBuf| {
            let status = std::fs::read_to_string(thread.join("status")).unwrap();
            let counts = status.lines().filter_map(|line| {
                let (name, count) = line.split_once(':')?;
                let counts = name.ends_with("voluntary_ctxt_switches");
                counts.then(|| count.trim().parse::<u64>().unwrap())
            });
            counts.sum::<u64>()
        };
        threads.map(|thread| turns(thread.unwrap().path())).sum()
    }

    /// Closes stdin.
    pub(crate) fn end(&mut self) {
        self.stdin = None;
    }

    /// Waits for the end of the process: its exit code, and what it said on
    /// stdout since the last look and on stderr.
    pub(crate) fn exit(self) -> (Option<i32>, Vec<String>, String) {
        let status = self.exit.recv_timeout(DEADLINE).unwrap();
        let mut lines = Vec::new();
        loop {
            match self.lines.recv_timeout(DEADLINE) {
                Ok(line) => lines.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("stdout stays open"),
            }
        }
        (
            status.code(),
            lines,
            self.log.recv_timeout(DEADLINE).unwrap(),
        )
    }
}

/// The command line of the shim at `program`, without any argument.
pub(crate) fn bare(program: &Path) -> Command {
    let mut command = Command::new(program);
    // What the person who runs the tests has set up is none of their business.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("COZYVTT_") {
            command.env_remove(name);
        }
    }
    command
}

/// A request, as a line.
pub(crate) fn request(id: u32, method: &str) -> String {
    format!(
        "{}\n",
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {}})
    )
}
