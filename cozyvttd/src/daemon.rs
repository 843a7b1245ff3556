//! Puts the daemon together: folders, sockets, and one run after another until it leaves.

use std::sync::Arc;

use cozyvtt_proto::paths::{self, CONTROL_SOCKET, MCP_SOCKET, PathError};
use thiserror::Error;
use tokio::sync::Notify as Bell;
use tokio_util::sync::CancellationToken;

use crate::hub::Next;
use crate::listen::{ListenError, Listener};
use crate::options::{Environment, Options, Source};
use crate::private::{FolderError, FolderLock};
use crate::reload::reload;
use crate::run::{Listeners, Place, Run};
use crate::systemd::{Notify, Sockets};

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
    place: Place,
    listeners: Listeners,
    locks: Vec<FolderLock>,
    run: Run,
    leave: CancellationToken,
    bell: Arc<Bell>,
}

impl Daemon {
    /// Takes its folders, serves both sockets, those of systemd where it has handed some
    /// over, and begins to connect. `environment` looks a variable of the configuration up.
    ///
    /// # Errors
    ///
    /// [`StartError`].
    pub fn start(
        options: Options,
        environment: Environment,
        mut handed_over: Sockets,
        notify: Notify,
    ) -> Result<Self, StartError> {
        let state_dir = options.state_dir().ok_or(StartError::NoStateDir)?;
        let socket_dir = match handed_over.folder() {
            Some(folder) => folder.to_owned(),
            None => options.socket_dir()?,
        };
        let activated = handed_over.folder().is_some();
        let mut locks = vec![FolderLock::take(&state_dir)?];
        // One folder for both is locked once.
        if socket_dir != state_dir {
            locks.push(FolderLock::take(&socket_dir)?);
        }
        let mut listen = |name| {
            let path = socket_dir.join(name);
            let listener = match handed_over.take(name) {
                Some(socket) => Listener::handed_over(socket, path),
                None => Listener::bind(path),
            };
            listener.map(Arc::new)
        };
        let listeners = Listeners {
            control: listen(CONTROL_SOCKET)?,
            mcp: listen(MCP_SOCKET)?,
        };
        tracing::info!(sockets = %socket_dir.display(), state = %state_dir.display(), "serving");
        let shared_dir = options.shared_dir.clone().or_else(paths::shared_state_dir);
        let place = Place {
            socket_dir,
            shared_dir: shared_dir.unwrap_or_else(|| state_dir.clone()),
            state_dir,
            source: Source::new(options, environment),
            notify,
            activated,
        };
        let leave = CancellationToken::new();
        let first = Next {
            config: place.source.read(),
            by_word: false,
        };
        let run = Run::begin(first, &place, listeners.clone(), &leave);
        notify.ready();
        Ok(Self {
            place,
            listeners,
            locks,
            run,
            leave,
            bell: Arc::default(),
        })
    }

    /// Cancelled to make the daemon leave.
    pub fn stopper(&self) -> CancellationToken {
        self.leave.clone()
    }

    /// Rung to make it read its configuration again.
    pub fn bell(&self) -> Arc<Bell> {
        Arc::clone(&self.bell)
    }

    /// Waits for the order to stop, finishes the calls that run, and leaves. Where the
    /// configuration has become another table's, one run follows the other.
    pub async fn run(self) {
        let Self {
            place,
            listeners: Listeners { mcp, control },
            locks,
            mut run,
            leave,
            bell,
        } = self;
        let mut mcp = Some(mcp);
        loop {
            tokio::select! {
                () = run.hub.stop.cancelled() => {}
                () = bell.notified() => {
                    // What becomes of it is in the log.
                    drop(reload(&run.hub));
                    continue;
                }
            }
            {
                let draining = run.drain();
                tokio::pin!(draining);
                tokio::select! {
                    biased;
                    // It may also come while one run gives way to another.
                    () = leave.cancelled() => {
                        place.notify.stopping();
                        // Its file goes with the last who holds it: who comes now shall
                        // not wait.
                        mcp.take();
                        draining.await;
                    }
                    () = &mut draining => {}
                }
            }
            let Some(mcp) = mcp.clone() else { break };
            if run.hub.pending().is_none() {
                break;
            }
            // Until its control connections have ended, a person may change their mind.
            let hub = Arc::clone(&run.hub);
            run.end().await;
            let Some(next) = hub.next_run() else { return };
            let control = Arc::clone(&control);
            run = Run::begin(next, &place, Listeners { mcp, control }, &leave);
        }
        // The control socket goes last, and the folders before it: who sees it gone
        // may start another daemon at once.
        drop((mcp, locks, control));
        run.end().await;
        tracing::info!("stopped");
    }
}
