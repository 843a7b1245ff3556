//! A daemon process in a folder of its own.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use cozyvtt_proto::client::Client;
use cozyvtt_proto::control::{CallParams, CallResult, DaemonStatus, NoParams, Status, ToolCall};
use cozyvtt_table::Table;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::{PATIENCE, binaries, mounts, until};

/// The variables with which the daemon is configured.
const VARIABLES: [&str; 4] = [
    "COZYVTT_URL",
    "COZYVTT_EMAIL",
    "COZYVTT_PASSWORD",
    "COZYVTT_CAMPAIGN_ID",
];

/// The lines of a configuration that say who sits where.
pub fn lines_for(table: &Table, account: &str) -> String {
    let account = table.account(account);
    format!(
        "url = {:?}\nemail = {:?}\npassword = {:?}\ncampaign_id = {:?}\n",
        table.url(),
        account.email,
        account.password,
        table.campaign_id()
    )
}

/// A folder for one daemon: its home, its sockets, its state.
#[derive(Debug)]
pub struct Home {
    folder: TempDir,
    settings: Vec<(String, String)>,
}

impl Home {
    /// A home without any configuration.
    pub fn empty() -> Result<Self> {
        binaries::ready();
        Ok(Self {
            folder: tempfile::Builder::new().prefix("cozyvtt-test-").tempdir()?,
            settings: Vec::new(),
        })
    }

    /// A home configured for an account of the table.
    pub fn at(table: &Table, account: &str) -> Result<Self> {
        let account = table.account(account);
        let mut home = Self::empty()?;
        let values = [
            table.url(),
            &account.email,
            &account.password,
            table.campaign_id(),
        ];
        for (name, value) in VARIABLES.into_iter().zip(values) {
            home.set(name, value);
        }
        Ok(home)
    }

    /// Sets a variable for the daemon.
    pub fn set(&mut self, name: &str, value: &str) {
        self.settings.retain(|(known, _)| known != name);
        self.settings.push((name.to_owned(), value.to_owned()));
    }

    /// Takes a variable away from the daemon.
    pub fn unset(&mut self, name: &str) {
        self.settings.retain(|(known, _)| known != name);
    }

    /// The file of its configuration, where a person would have it.
    pub fn config_file(&self) -> PathBuf {
        self.path().join(".config/cozyvtt/config.toml")
    }

    /// Writes that file, for its owner alone.
    pub fn configure(&self, text: &str) -> Result<()> {
        let file = self.config_file();
        std::fs::create_dir_all(file.parent().context("no folder")?)?;
        std::fs::write(&file, text)?;
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600))?;
        Ok(())
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder of the sockets.
    pub fn socket_dir(&self) -> PathBuf {
        self.path().join("run")
    }

    /// The folder of the journal and the logs.
    pub fn state_dir(&self) -> PathBuf {
        self.path().join("state")
    }

    /// The path of a socket.
    pub fn socket(&self, name: &str) -> PathBuf {
        self.socket_dir().join(name)
    }

    /// What the daemon has written to stderr.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path().join("stderr")).unwrap_or_default()
    }

    /// A client of the control socket.
    pub fn control(&self) -> Client {
        Client::new(&self.socket_dir())
    }

    /// The command that starts a program of ours with nothing of this machine's
    /// environment but what `env` says.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", self.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .kill_on_drop(true);
        command
    }

    /// The command that starts the daemon here.
    pub fn daemon_command(&self) -> Result<Command> {
        let mut command = self.command(binaries::daemon());
        command
            .arg("--socket-dir")
            .arg(self.socket_dir())
            .arg("--state-dir")
            .arg(self.state_dir())
            .envs(self.settings.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(self.stderr()?);
        Ok(command)
    }

    /// The command that starts a shim here. It never starts a daemon, which nobody
    /// would stop after the test.
    pub fn shim_command(&self) -> Command {
        let mut command = self.command(binaries::shim());
        command
            .arg("--socket-dir")
            .arg(self.socket_dir())
            .arg("--no-start");
        command
    }

    fn stderr(&self) -> Result<File> {
        let mut options = File::options();
        let options = options.create(true).append(true);
        Ok(options.open(self.path().join("stderr"))?)
    }

    /// Starts the daemon; it serves its sockets when this returns.
    pub async fn start(&self) -> Result<Daemon<'_>> {
        self.start_with(self.daemon_command()?).await
    }

    /// Starts the daemon among mounts of its own, which the shell script `mounts`
    /// makes; `$STATE` is its state folder there. See [`mounts::possible`].
    pub async fn start_among(&self, mounts: &str) -> Result<Daemon<'_>> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(self.state_dir())?;
        let plain = self.daemon_command()?;
        let mut command = mounts::behind(plain.as_std(), mounts);
        command.env("STATE", self.state_dir()).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(self.stderr()?);
        self.start_with(command).await
    }

    /// Starts the daemon with this command, a [`Self::daemon_command`] with more to it.
    pub async fn start_with(&self, mut command: Command) -> Result<Daemon<'_>> {
        let process = command.spawn().context("starting cozyvttd")?;
        let daemon = Daemon {
            home: self,
            process,
        };
        until("the daemon serves", || async { self.status().await.ok() }).await;
        Ok(daemon)
    }

    /// Starts the daemon and waits until every hop to the table is fine.
    pub async fn start_at_table(&self) -> Result<Daemon<'_>> {
        let daemon = self.start().await?;
        until("every hop is fine", || async {
            let status = self.status().await.ok()?;
            status
                .hops
                .iter()
                .all(|hop| hop.state == cozyvtt_proto::control::HopState::Ok)
                .then_some(())
        })
        .await;
        self.campaign_read().await;
        Ok(daemon)
    }

    /// Waits until the daemon has read its campaign, which it does by itself once it
    /// is accepted: a test that counts requests must not count that one. A table
    /// that does not let it is not waited for long.
    async fn campaign_read(&self) {
        let id = self
            .settings
            .iter()
            .find(|(name, _)| name == "COZYVTT_CAMPAIGN_ID")
            .map(|(_, id)| id.as_str())
            .unwrap_or_default();
        let read = until("the campaign is read", || async {
            let status = self.status().await.ok()?;
            let hop = status.hops.into_iter().find(|hop| hop.name == "campaign")?;
            // Until then the id stands for the name.
            (!hop.detail.contains(id)).then_some(())
        });
        let _ = timeout(Duration::from_secs(2), read).await;
    }

    /// Asks the daemon how it is.
    pub async fn status(&self) -> Result<Status> {
        Ok(self
            .control()
            .call::<DaemonStatus>(NoParams {}, Duration::from_secs(5))
            .await?)
    }

    /// Calls a tool through the control socket.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<CallResult> {
        let params = CallParams {
            name: tool.to_owned(),
            arguments: arguments.as_object().cloned().unwrap_or_default(),
            cwd: None,
            campaign: None,
        };
        Ok(self.control().call::<ToolCall>(params, PATIENCE).await?)
    }

    /// Runs `cozyvttctl` here to its end.
    pub async fn ctl(&self, arguments: &[&str]) -> Result<std::process::Output> {
        let mut command = self.command(binaries::control());
        command
            .arg("--socket-dir")
            .arg(self.socket_dir())
            .args(arguments)
            .stdin(Stdio::null());
        timeout(PATIENCE, command.output())
            .await
            .context("cozyvttctl did not end")?
            .context("starting cozyvttctl")
    }
}

/// A home and the daemon that runs in it; that is killed when this value goes.
#[derive(Debug)]
pub struct Seated {
    /// Goes before the home does.
    _process: Child,
    home: Home,
}

impl Seated {
    /// Keeps a home together with the daemon that `start` starts in it.
    pub async fn by(
        home: Home,
        start: impl AsyncFnOnce(&Home) -> Result<Daemon<'_>>,
    ) -> Result<Self> {
        let process = start(&home).await?.process;
        Ok(Self {
            _process: process,
            home,
        })
    }
}

impl std::ops::Deref for Seated {
    type Target = Home;

    fn deref(&self) -> &Home {
        &self.home
    }
}

/// A daemon that runs; it is killed when this value goes.
#[derive(Debug)]
pub struct Daemon<'a> {
    home: &'a Home,
    process: Child,
}

impl Daemon<'_> {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id().unwrap_or_default()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.pid())
            .ok()
            .and_then(Pid::from_raw)
            .context("the daemon has gone")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Stops all of its threads where they are (SIGSTOP), and waits until they stand:
    /// the signal alone lets a thread finish what it is about.
    pub async fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        let threads = PathBuf::from(format!("/proc/{}/task", self.pid()));
        until("the daemon stands still", || async {
            let mut threads = std::fs::read_dir(&threads).ok()?;
            threads
                .all(|thread| thread.is_ok_and(|thread| stands(&thread.path())))
                .then_some(())
        })
        .await;
        Ok(())
    }

    /// Waits for its end.
    pub async fn ended(&mut self) -> Result<ExitStatus> {
        timeout(PATIENCE, self.process.wait())
            .await
            .with_context(|| format!("the daemon did not end; it said:\n{}", self.home.log()))?
            .context("waiting for cozyvttd")
    }

    /// Stops it with SIGTERM and waits for its end.
    pub async fn stop(mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.ended().await
    }
}

/// Whether a thread is stopped, as `/proc/PID/task/TID/stat` has it: the state comes
/// after the name, which is in parentheses and may hold some itself.
fn stands(thread: &Path) -> bool {
    std::fs::read_to_string(thread.join("stat")).is_ok_and(|stat| {
        stat.rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('T'))
    })
}
