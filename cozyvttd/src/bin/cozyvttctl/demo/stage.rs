//! What the demo plays on: a practice table and a daemon, in this process and a
//! folder of its own that is gone afterwards.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cozyvtt_proto::control::{HopState, NoParams, Status};
use cozyvtt_table::{Account, Table};
use cozyvttd::options::Options;
use cozyvttd::systemd::{Notify, Sockets};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::daemon::{Daemon as Control, PROMPT};
use crate::failure::Failure;

/// How long everything may take to come up.
const START: Duration = Duration::from_secs(10);

/// How often is looked whether it has.
const LOOK: Duration = Duration::from_millis(20);

pub(super) struct Stage {
    pub(super) table: Table,
    folder: TempDir,
    stop: CancellationToken,
    daemon: JoinHandle<()>,
}

impl Stage {
    /// Opens the table and starts the daemon; both serve when this returns.
    pub(super) async fn set() -> Result<Self, Failure> {
        let failed = |what: &str, error: String| Failure::failed(format!("{what}: {error}"));
        let table = Table::builder()
            .seed(chance())
            .start()
            .await
            .map_err(|error| failed("the practice table cannot be opened", error.to_string()))?;
        let folder = tempfile::Builder::new()
            .prefix("cozyvtt-demo-")
            .tempdir()
            .map_err(|error| failed("no temporary folder", error.to_string()))?;
        let config = folder.path().join("config.toml");
        write_config(&config, &table).map_err(|error| {
            failed(
                "the demo's configuration cannot be written",
                error.to_string(),
            )
        })?;
        let options = Options {
            config: Some(config),
            socket_dir: Some(folder.path().join("run")),
            state_dir: Some(folder.path().join("state")),
            shared_dir: Some(folder.path().join("state")),
            ..Options::default()
        };
        // Nothing of the person's own settings may get into the demo.
        let daemon = cozyvttd::daemon::Daemon::start(
            options,
            Arc::new(|_| None),
            Sockets::default(),
            Notify::default(),
        )
        .map_err(|error| failed("the daemon cannot be started", error.to_string()))?;
        let stop = daemon.stopper();
        let stage = Self {
            table,
            folder,
            stop,
            daemon: tokio::spawn(daemon.run()),
        };
        match stage.ready().await {
            Ok(()) => Ok(stage),
            Err(failure) => {
                stage.clear().await;
                Err(failure)
            }
        }
    }

    /// The folder of the sockets.
    pub(super) fn socket_dir(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// The account that the daemon uses.
    pub(super) fn account(&self) -> &Account {
        self.table.account("dm")
    }

    /// Ends daemon and table and removes the folder.
    pub(super) async fn clear(self) {
        self.stop.cancel();
        self.daemon.await.ok();
        self.table.stop().await;
    }

    async fn ready(&self) -> Result<(), Failure> {
        let control = Control::new(&self.socket_dir());
        let deadline = Instant::now() + START;
        loop {
            let status: Status = control
                .ask::<cozyvtt_proto::control::DaemonStatus>(NoParams {}, PROMPT)
                .await?;
            let lagging = status.hops.iter().find(|hop| hop.state != HopState::Ok);
            let Some(hop) = lagging else { return Ok(()) };
            if Instant::now() > deadline {
                return Err(Failure::failed(format!(
                    "the demo's daemon did not get to its table: {}: {}",
                    hop.name, hop.detail
                )));
            }
            sleep(LOOK).await;
        }
    }
}

/// Another evening, other dice.
fn chance() -> u64 {
    let mut random = [0; 8];
    // Without randomness it is the same evening again.
    let _ = getrandom::fill(&mut random);
    u64::from_le_bytes(random)
}

fn write_config(path: &Path, table: &Table) -> std::io::Result<()> {
    let account = table.account("dm");
    // JSON strings are TOML strings as well.
    let text = [
        ("url", table.url()),
        ("email", &account.email),
        ("password", &account.password),
        ("campaign_id", table.campaign_id()),
    ]
    .map(|(key, value)| format!("{key} = {}\n", serde_json::Value::from(value)))
    .concat();
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?
        .write_all(text.as_bytes())
}
