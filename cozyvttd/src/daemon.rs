//! Puts the daemon together: start, serve, drain, stop.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cozyvtt_proto::paths::{self, CONTROL_SOCKET, MCP_SOCKET, PathError};
use thiserror::Error;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::config::{BaseUrl, Config, Settings};
use crate::hub::{Hub, Trouble};
use crate::journal::Journal;
use crate::listen::{ListenError, Listener};
use crate::private::{FolderError, FolderLock};
use crate::session::Session;
use crate::tools::files::Files;
use crate::{control, mcp};

/// How long running calls may take once the daemon is to stop; a little more
/// than one connection gives its own.
const DRAIN: Duration = Duration::from_secs(25);

/// How long the link may take to say goodbye and the journal to commit.
const FAREWELL: Duration = Duration::from_secs(5);

/// What a run of the daemon is started with.
#[derive(Debug, Default, Clone)]
pub struct Options {
    /// `--config`
    pub config: Option<PathBuf>,
    /// `--socket-dir`
    pub socket_dir: Option<PathBuf>,
    /// `--state-dir`
    pub state_dir: Option<PathBuf>,
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

/// A daemon that is running.
#[derive(Debug)]
pub struct Daemon {
    /// What it shares with its faces.
    pub hub: Arc<Hub>,
    mcp: JoinHandle<()>,
    control: JoinHandle<()>,
    link: Option<JoinHandle<()>>,
    locks: Vec<FolderLock>,
}

/// The folder of the journal and the logs: the flag, else what systemd gives,
/// else the XDG state folder.
///
/// # Errors
///
/// [`StartError::NoStateDir`].
pub fn state_dir(explicit: Option<&Path>) -> Result<PathBuf, StartError> {
    explicit
        .map(Path::to_path_buf)
        .or_else(|| std::env::var_os("STATE_DIRECTORY").map(PathBuf::from))
        .or_else(paths::default_state_dir)
        .ok_or(StartError::NoStateDir)
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
        let state_dir = state_dir(options.state_dir.as_deref())?;
        let socket_dir = paths::socket_dir(options.socket_dir.as_deref())?;
        let mut locks = vec![FolderLock::take(&state_dir)?];
        // One folder for both is locked once.
        if socket_dir != state_dir {
            locks.push(FolderLock::take(&socket_dir)?);
        }
        let control = Listener::bind(socket_dir.join(CONTROL_SOCKET))?;
        let mcp = Listener::bind(socket_dir.join(MCP_SOCKET))?;
        tracing::info!(sockets = %socket_dir.display(), state = %state_dir.display(), "serving");

        let config = Config::resolve(options.config.as_deref(), environment);
        let (session, link) = match begin(&config, &state_dir) {
            Ok((session, link)) => (Ok(session), Some(link)),
            Err(trouble) => {
                tracing::error!(hop = trouble.hop, what = trouble.what, "no session");
                (Err(trouble), None)
            }
        };
        let files = files(&config, &state_dir);
        let hub = Arc::new(Hub::new(
            instance(),
            socket_dir,
            state_dir,
            config,
            session,
            files,
        ));
        Ok(Self {
            mcp: tokio::spawn(mcp::serve(mcp, Arc::clone(&hub))),
            control: tokio::spawn(control::serve(control, Arc::clone(&hub))),
            hub,
            link,
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
        if let Ok(session) = &self.hub.session {
            session.drain();
        }
        let drained = timeout(DRAIN, async {
            self.hub.idle().await;
            self.mcp.await.ok();
        });
        if drained.await.is_err() {
            tracing::warn!(running = self.hub.running(), "left calls behind");
        }
        if let Ok(session) = &self.hub.session {
            session.stop();
            if let Some(link) = self.link
                && timeout(FAREWELL, link).await.is_err()
            {
                tracing::warn!("the link did not say goodbye in time");
            }
            let high_water = session.journal.high_water();
            let committed = timeout(FAREWELL, session.journal.committed(high_water));
            if !matches!(committed.await, Ok(Ok(()))) {
                tracing::error!("the newest events could not be committed");
            }
        }
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

/// Opens the journal and starts the session.
fn begin(config: &Config, state_dir: &Path) -> Result<(Arc<Session>, JoinHandle<()>), Trouble> {
    let settings = config.settings.clone().map_err(|problem| Trouble {
        hop: "configuration",
        fix: "mend the configuration, then restart cozyvttd".to_owned(),
        what: problem.to_string(),
    })?;
    let path = state_dir.join(journal_name(&settings));
    let journal = Journal::open(&path).map_err(|error| Trouble {
        hop: "journal",
        what: error.to_string(),
        fix: "make the file usable, or move it away to begin a new journal, then restart cozyvttd"
            .to_owned(),
    })?;
    Session::start(settings, journal).map_err(|error| Trouble {
        hop: "rest",
        what: format!("the HTTP client cannot be set up: {error}"),
        fix: "check the system's TLS certificates, then restart cozyvttd".to_owned(),
    })
}

/// Which files may be read, and where fetched documents go: to a folder of the
/// campaign's, since ids are unique within one instance alone.
fn files(config: &Config, state_dir: &Path) -> Files {
    let place = config
        .settings
        .as_ref()
        .map_or_else(|_| String::new(), place_name);
    Files::new(
        config.read_folders.clone(),
        state_dir.join("documents").join(place),
        std::env::home_dir(),
    )
}

/// The journal's file: one per instance and campaign.
fn journal_name(settings: &Settings) -> String {
    format!("journal-{}.sqlite", place_name(settings))
}

/// A name for an instance and a campaign of it, which a person recognises. The
/// hash keeps two apart whose names look the same.
fn place_name(settings: &Settings) -> String {
    let readable = |text: &str| -> String {
        text.chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '.' {
                    c
                } else {
                    '-'
                }
            })
            .take(64)
            .collect()
    };
    let url = settings.url.to_string();
    let campaign = settings.campaign.as_str();
    let place = url
        .split_once("://")
        .map_or(url.as_str(), |(_, place)| place);
    format!(
        "{}-{}-{:08x}",
        readable(place),
        readable(campaign),
        fingerprint(&settings.url, campaign)
    )
}

/// FNV-1a, 32 bits: a name for a file, not a secret.
fn fingerprint(url: &BaseUrl, campaign: &str) -> u32 {
    format!("{url}\n{campaign}")
        .bytes()
        .fold(0x811c_9dc5, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        })
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
    use crate::session::ids::ResourceId;

    use super::*;

    #[test]
    fn journals_of_different_tables_never_share_a_file() {
        let name = |url: &str, campaign: &str| {
            journal_name(&Settings {
                url: BaseUrl::parse(url).unwrap(),
                email: String::new(),
                password: String::new().into(),
                campaign: ResourceId::parse(campaign).unwrap(),
            })
        };
        let one = name("https://table.example/a", "c1");
        assert!(one.starts_with("journal-table.example-a-c1-"), "{one}");
        assert_ne!(one, name("https://table.example-a", "c1"));
        assert_ne!(one, name("https://table.example/a", "c2"));
        assert!(!name("https://t/", "../../etc").contains('/'));
    }
}
