//! What a measurement takes place on: a table in this process, and a daemon of its own
//! that sits at it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use cozyvtt_proto::client::Client;
use cozyvtt_proto::control::{DaemonStatus, Hop, HopState, NoParams};
use cozyvtt_table::{Account, Table};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::process::Owned;

/// How long the daemon may take to reach the table, and to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Requests in a minute: the table's limit must not be what is measured.
const API_LIMIT: u32 = 10_000_000;

/// The binaries under test, as they would be shipped.
pub(crate) struct Programs {
    daemon: PathBuf,
    pub(crate) shim: PathBuf,
}

impl Programs {
    /// Those of a folder, built by somebody else.
    pub(crate) fn of(folder: &Path) -> Result<Self> {
        let program = |name: &str| {
            let path = folder.join(name);
            path.canonicalize()
                .with_context(|| format!("there is no {}", path.display()))
        };
        Ok(Self {
            daemon: program("cozyvttd")?,
            shim: program("cozyvtt-shim")?,
        })
    }

    /// Builds them.
    pub(crate) fn build() -> Result<Self> {
        let release = |package: &str| -> Result<PathBuf> {
            let program = escargot::CargoBuild::new()
                .release()
                .package(package)
                .bin(package)
                .run()
                .with_context(|| format!("building {package}"))?;
            Ok(program.path().to_path_buf())
        };
        Ok(Self {
            daemon: release("cozyvttd")?,
            shim: release("cozyvtt-shim")?,
        })
    }
}

/// A table and a daemon that sits at it. Dropping it ends both.
pub(crate) struct Stage {
    pub(crate) daemon: Daemon,
    pub(crate) table: Table,
    _runtime: Runtime,
}

impl Stage {
    /// Sets the table and lets the daemon sit down.
    pub(crate) fn set(programs: &Programs) -> Result<Self> {
        let runtime = Runtime::new()?;
        let builder = Table::builder().api_limit(API_LIMIT).login_limit(u32::MAX);
        let table = runtime.block_on(builder.start())?;
        let account = table.account("dm");
        let daemon = Daemon::start(programs, table.url(), account, table.campaign_id())?;
        Ok(Self {
            daemon,
            table,
            _runtime: runtime,
        })
    }
}

/// A daemon that has been accepted by a campaign.
pub(crate) struct Daemon {
    pub(crate) process: Owned,
    pub(crate) sockets: PathBuf,
    _folders: [TempDir; 2],
}

impl Daemon {
    /// Starts it in a home of its own and waits until it sits.
    pub(crate) fn start(
        programs: &Programs,
        url: &str,
        account: &Account,
        campaign: &str,
    ) -> Result<Self> {
        let home = folder()?;
        // The path of a socket has to be short, and that of the target folder may be long.
        let short = TempDir::new()?;
        let sockets = short.path().join("run");
        let log = home.path().join("daemon.log");
        let process = Command::new(&programs.daemon)
            .arg("--socket-dir")
            .arg(&sockets)
            .arg("--state-dir")
            .arg(home.path().join("state"))
            // No configuration of the person who runs this may leak in.
            .env_clear()
            .env("HOME", home.path())
            .env("COZYVTT_URL", url)
            .env("COZYVTT_EMAIL", &account.email)
            .env("COZYVTT_PASSWORD", &account.password)
            .env("COZYVTT_CAMPAIGN_ID", campaign)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log)?)
            .spawn()
            .with_context(|| format!("starting {}", programs.daemon.display()))?;
        let daemon = Self {
            process: Owned(process),
            sockets,
            _folders: [home, short],
        };
        if let Err(error) = driver()?.block_on(seated(&daemon.sockets)) {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            return Err(error.context(format!("the daemon did not sit down; it said:\n{log}")));
        }
        Ok(daemon)
    }
}

/// Waits until the campaign has accepted the daemon.
async fn seated(sockets: &Path) -> Result<()> {
    let client = Client::new(sockets);
    let accepted = |hop: &Hop| hop.name == "campaign" && hop.state == HopState::Ok;
    let start = Instant::now();
    loop {
        let status = client.call::<DaemonStatus>(NoParams {}, PATIENCE).await;
        match status.map(|status| status.hops) {
            Ok(hops) if hops.iter().any(accepted) => return Ok(()),
            answer if start.elapsed() > PATIENCE => bail!("still {answer:?}"),
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// A runtime on this very thread: no other one stands between a client and its answer.
pub(crate) fn driver() -> Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime)
}

/// A folder that goes away, on a disk rather than in memory where that is to be had.
pub(crate) fn folder() -> Result<TempDir> {
    Ok(TempDir::new_in(env!("CARGO_TARGET_TMPDIR"))?)
}
