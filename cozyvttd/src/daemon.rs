//! Puts the daemon together: start, serve, drain, stop.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cozyvtt_proto::paths::{self, CONTROL_SOCKET, MCP_SOCKET, PathError};
use cozyvtt_proto::profile::Profile;
use thiserror::Error;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::audit::Audit;
use crate::campaigns::Campaigns;
use crate::config::Config;
use crate::hub::Hub;
use crate::idle::idle_for;
use crate::listen::{ListenError, Listener};
use crate::private::{FolderError, FolderLock};
use crate::session::Ground;
use crate::session::clock::Clock;
use crate::{control, mcp};

/// How long running calls may take once the daemon is to stop; a little more
/// than one connection gives its own.
const DRAIN: Duration = Duration::from_secs(25);

/// How long control connections may take to end.
const FAREWELL: Duration = Duration::from_secs(5);

/// What a run of the daemon is started with.
#[derive(Debug, Default, Clone)]
pub struct Options {
    /// `--profile`
    pub profile: Option<Profile>,
    /// `--config`
    pub config: Option<PathBuf>,
    /// `--socket-dir`
    pub socket_dir: Option<PathBuf>,
    /// `--state-dir`
    pub state_dir: Option<PathBuf>,
    /// The folder that all daemons of the user share, when it is not the usual state
    /// folder: a daemon that is none of theirs (the demo's) has one of its own.
    pub shared_dir: Option<PathBuf>,
    /// `--spawned`: a shim has started it.
    pub spawned: bool,
    /// `--idle-exit`: after how many minutes without a client it leaves; 0 for never.
    pub idle_exit_minutes: Option<u64>,
}

/// After how many minutes without a client a daemon leaves that a shim has started.
const IDLE_EXIT_MINUTES: u64 = 30;

impl Options {
    /// The folder of the journal and the logs ([`paths::state_dir`]).
    ///
    /// # Errors
    ///
    /// [`StartError::NoStateDir`].
    pub fn state_dir(&self) -> Result<PathBuf, StartError> {
        paths::state_dir(self.state_dir.as_deref(), self.profile.as_ref())
            .ok_or(StartError::NoStateDir)
    }

    /// After how long without a client the daemon leaves, if it does: the flag's word,
    /// else the configuration's. A daemon that a shim has started leaves without either.
    fn idle_exit(&self, config: &Config) -> Option<Duration> {
        let usual = self.spawned.then_some(IDLE_EXIT_MINUTES);
        let minutes = self
            .idle_exit_minutes
            .or(config.idle_exit_minutes)
            .or(usual);
        minutes
            .filter(|minutes| *minutes > 0)
            .map(|minutes| Duration::from_secs(minutes.saturating_mul(60)))
    }
}

/// Why the daemon cannot run at all. A wrong configuration or a server that is
/// down are no reasons: it serves and explains them.
#[derive(Debug, Error)]
pub enum StartError {
    /// No folder for the sockets.
    #[error(transparent)]
    Path(#[from] PathError),
    /// No folder for the state.
    #[error("no place for the journal: neither XDG_STATE_HOME nor HOME is set; give --state-dir")]
    NoStateDir,
    /// A folder cannot be used, or another daemon uses it.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A socket cannot be served.
    #[error(transparent)]
    Listen(#[from] ListenError),
}

impl StartError {
    /// Whether another daemon runs in the same folders.
    pub fn is_occupied(&self) -> bool {
        matches!(
            self,
            Self::Folder(FolderError::Occupied { .. }) | Self::Listen(ListenError::Taken { .. })
        )
    }
}

/// A daemon that is running.
#[derive(Debug)]
pub struct Daemon {
    /// What it shares with its faces.
    pub hub: Arc<Hub>,
    mcp: JoinHandle<()>,
    control: JoinHandle<()>,
    locks: Vec<FolderLock>,
}

impl Daemon {
    /// Takes its folders, serves both sockets and begins to connect.
    /// `environment` looks a variable of the configuration up.
    ///
    /// # Errors
    ///
    /// [`StartError`].
    pub fn start(
        options: &Options,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, StartError> {
        let state_dir = options.state_dir()?;
        let socket_dir =
            paths::socket_dir(options.socket_dir.as_deref(), options.profile.as_ref())?;
        let mut locks = vec![FolderLock::take(&state_dir)?];
        // One folder for both is locked once.
        if socket_dir != state_dir {
            locks.push(FolderLock::take(&socket_dir)?);
        }
        let control = Listener::bind(socket_dir.join(CONTROL_SOCKET))?;
        let mcp = Listener::bind(socket_dir.join(MCP_SOCKET))?;
        tracing::info!(sockets = %socket_dir.display(), state = %state_dir.display(), "serving");

        let config = Config::resolve(
            options.config.as_deref(),
            options.profile.as_ref(),
            environment,
        );
        let shared_dir = options.shared_dir.clone().or_else(paths::shared_state_dir);
        let ground = Ground {
            clock: Clock::real(),
            folder: state_dir.clone(),
            shared: shared_dir.unwrap_or_else(|| state_dir.clone()),
        };
        let instance = instance();
        let idle_exit = options.idle_exit(&config);
        let audit = Audit::new(&state_dir);
        let campaigns = Campaigns::open(config, ground, &instance, audit.clone());
        let hub = Hub::new(instance, socket_dir, state_dir, campaigns, audit);
        let hub = Arc::new(hub.leaving_after(idle_exit));
        if let Some(limit) = idle_exit {
            tokio::spawn(leave_when_idle(Arc::clone(&hub), limit));
        }
        Ok(Self {
            mcp: tokio::spawn(mcp::serve(mcp, Arc::clone(&hub))),
            control: tokio::spawn(control::serve(control, Arc::clone(&hub))),
            hub,
            locks,
        })
    }

    /// Cancelled to make the daemon leave.
    pub fn stopper(&self) -> CancellationToken {
        self.hub.stop.clone()
    }

    /// Waits for the order to stop, finishes the calls that run, and leaves.
    pub async fn run(self) {
        self.hub.stop.cancelled().await;
        tracing::info!(running = self.hub.running(), "stopping");
        self.hub.campaigns.drain();
        let drained = timeout(DRAIN, async {
            self.hub.idle().await;
            self.mcp.await.ok();
        });
        if drained.await.is_err() {
            tracing::warn!(running = self.hub.running(), "left calls behind");
        }
        self.hub.campaigns.close().await;
        // The control socket goes last, and the folders before it: who sees it gone
        // may start another daemon at once.
        drop(self.locks);
        self.hub.gone.cancel();
        if timeout(FAREWELL, self.control).await.is_err() {
            tracing::warn!("left a control connection behind");
        }
        tracing::info!("stopped");
    }
}

/// Stops the daemon once it has had no client for `limit`.
async fn leave_when_idle(hub: Arc<Hub>, limit: Duration) {
    let clients = hub.clients.watch_count();
    tokio::select! {
        () = hub.stop.cancelled() => {}
        () = idle_for(limit, clients) => {
            tracing::info!(minutes = limit.as_secs() / 60, "no client for a while; leaving");
            hub.stop.cancel();
        }
    }
}

/// A random name for this run.
fn instance() -> String {
    let mut random = [0; 8];
    if getrandom::fill(&mut random).is_err() {
        // Only told apart from the run before, which the process id does as well.
        random[..4].copy_from_slice(&std::process::id().to_le_bytes());
    }
    format!("{:016x}", u64::from_le_bytes(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_leaves_when_idle_if_a_shim_started_it_or_somebody_asked_for_it() {
        let config = |text: &str| {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("config.toml");
            std::fs::write(&file, text).unwrap();
            Config::resolve(Some(&file), None, &|_| None)
        };
        let after = |spawned, flag, text| {
            let options = Options {
                spawned,
                idle_exit_minutes: flag,
                ..Options::default()
            };
            let limit = options.idle_exit(&config(text));
            limit.map(|limit| limit.as_secs() / 60)
        };
        assert_eq!(after(false, None, ""), None);
        assert_eq!(after(true, None, ""), Some(30));
        assert_eq!(after(true, None, "idle_exit_minutes = 5"), Some(5));
        assert_eq!(after(true, None, "idle_exit_minutes = 0"), None);
        assert_eq!(after(false, Some(7), "idle_exit_minutes = 5"), Some(7));
    }
}
