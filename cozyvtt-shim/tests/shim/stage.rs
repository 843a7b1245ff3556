//! A temporary folder with a fake daemon's socket in it, and shims that look
//! for it there. Whatever is waited for has a deadline.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// More than anything here takes, even on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Runs `work` on a thread of its own, and gives its result through a channel.
fn eventually<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
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
        let mut command = Command::new(env!("CARGO_BIN_EXE_cozyvtt-shim"));
        command.arg("--socket-dir").arg(self.dir.path());
        command
    }

    /// A shim that runs.
    pub(crate) fn shim(&self) -> Shim {
        let mut command = self.command();
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Shim::of(command.spawn().unwrap())
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
        let hello = serde_json::from_str(&self.hear()).unwrap();
        self.say("{\"cozyvtt\":{\"protocol\":1,\"version\":\"0.1.0\",\"instance\":\"i\"}}\n");
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

/// A request, as a line.
pub(crate) fn request(id: u32, method: &str) -> String {
    format!(
        "{}\n",
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {}})
    )
}
