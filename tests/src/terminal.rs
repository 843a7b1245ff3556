//! A terminal in which a program of ours runs, as a person sits before it.

use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use pty_process::{OwnedWritePty, Size};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::{PATIENCE, until};

/// What stands on the screen, and everything that was ever written to it.
struct Shown {
    parser: vt100::Parser,
    written: Vec<u8>,
}

/// A terminal with a program in it. Both go when this value does.
pub struct Terminal {
    shown: Arc<Mutex<Shown>>,
    keys: OwnedWritePty,
    child: Child,
    reader: JoinHandle<()>,
}

impl Terminal {
    /// Runs a command in a terminal of this size, whose locale has UTF-8.
    pub fn run(command: &Command, (columns, rows): (u16, u16)) -> Result<Self> {
        let command = command.as_std();
        let (terminal, program_side) = pty_process::open()?;
        terminal.resize(Size::new(rows, columns))?;
        let set = command
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?)));
        let child = pty_process::Command::new(command.get_program())
            .args(command.get_args())
            .env_clear()
            .envs(set)
            .env("TERM", "xterm-256color")
            .env("LANG", "C.UTF-8")
            .kill_on_drop(true)
            .spawn(program_side)?;
        let size = |number: u16| number.try_into().context("no size");
        let parser = vt100::Parser::new(size(rows)?, size(columns)?, 0);
        let shown = Arc::new(Mutex::new(Shown {
            parser,
            written: Vec::new(),
        }));
        let (mut screen, keys) = terminal.into_split();
        let watcher = Arc::clone(&shown);
        let reader = tokio::spawn(async move {
            let mut bytes = [0; 4096];
            // Once the program has left, reading fails.
            while let Ok(length @ 1..) = screen.read(&mut bytes).await {
                let mut shown = lock(&watcher);
                shown.parser.process(&bytes[..length]);
                shown.written.extend(&bytes[..length]);
            }
        });
        Ok(Self {
            shown,
            keys,
            child,
            reader,
        })
    }

    /// The rows of the screen.
    pub fn rows(&self) -> Vec<String> {
        let shown = lock(&self.shown);
        let contents = shown.parser.screen().contents();
        contents.lines().map(str::to_owned).collect()
    }

    /// Everything that the program has written, sequences included.
    pub fn written(&self) -> String {
        String::from_utf8_lossy(&lock(&self.shown).written).into_owned()
    }

    /// Whether the program has taken the whole screen, and hidden the cursor.
    pub fn is_taken(&self) -> bool {
        let shown = lock(&self.shown);
        let screen = shown.parser.screen();
        screen.alternate_screen() || screen.hide_cursor()
    }

    /// Waits until this stands on the screen.
    ///
    /// # Panics
    ///
    /// When it does not in time, or the program has left.
    pub async fn shows(&self, text: &str) {
        let seen = until(&format!("the terminal shows {text:?}"), || async {
            let is_shown = self.rows().iter().any(|row| row.contains(text));
            // A program that has left writes nothing more.
            (is_shown || self.reader.is_finished()).then_some(is_shown)
        })
        .await;
        assert!(
            seen,
            "the program left without {text:?}: {:#?}",
            self.rows()
        );
    }

    /// Types it.
    pub async fn types(&mut self, keys: &str) -> Result<()> {
        Ok(self.keys.write_all(keys.as_bytes()).await?)
    }

    /// Pulls the window to another size.
    pub fn resize(&self, (columns, rows): (u16, u16)) -> Result<()> {
        let size = |number: u16| number.try_into().context("no size");
        let mut shown = lock(&self.shown);
        shown.parser.set_size(size(rows)?, size(columns)?);
        self.keys.resize(Size::new(rows, columns))?;
        Ok(())
    }

    /// Sends the program a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.child.id().context("it has ended")?;
        let pid = Pid::from_raw(pid.try_into()?).context("no process")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Waits until the program has left, and all that it wrote is shown.
    pub async fn ended(&mut self) -> Result<ExitStatus> {
        let status = tokio::time::timeout(PATIENCE, self.child.wait()).await??;
        tokio::time::timeout(PATIENCE, &mut self.reader).await??;
        Ok(status)
    }

    /// Closes the window; the program, to which its terminal is lost.
    pub fn close(self) -> Child {
        self.reader.abort();
        self.child
    }
}

fn lock(shown: &Mutex<Shown>) -> MutexGuard<'_, Shown> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}
