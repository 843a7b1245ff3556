//! A listening Unix socket: its file, its mode, and who may connect.

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thiserror::Error;
use tokio::net::{UnixListener, UnixStream};

/// How long accepting rests after it has failed.
const RECOVERY: Duration = Duration::from_millis(100);

/// Why a socket cannot be served.
#[derive(Debug, Error)]
pub enum ListenError {
    /// Somebody answers on it.
    #[error("another program already serves {}; stop it, or choose another folder with --socket-dir", path.display())]
    Taken {
        /// The socket.
        path: PathBuf,
    },
    /// Something else is in its place.
    #[error("{} is in the way and is no socket; remove it, or choose another folder with --socket-dir", path.display())]
    InTheWay {
        /// What is no socket.
        path: PathBuf,
    },
    /// systemd has handed it over so that other users may reach it.
    #[error("other users can reach the socket {} (mode {mode:04o}) that systemd has handed over; put SocketMode=0600 and DirectoryMode=0700 into its unit, then restart that", path.display())]
    Open {
        /// The socket.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It cannot be made.
    #[error("the socket {} cannot be served: {source}", path.display())]
    Unusable {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A socket that is being served. The file of one that was bound here goes when this
/// value does; one that systemd has handed over is systemd's.
#[derive(Debug)]
pub struct Listener {
    path: PathBuf,
    socket: UnixListener,
    bound_here: bool,
    /// The last accept has failed.
    failing: AtomicBool,
}

impl Listener {
    /// Serves `path`, 0600. A file that nobody answers on is what a daemon that
    /// was killed left behind, and is replaced. The folder has to be private and
    /// locked already ([`crate::private`]).
    ///
    /// # Errors
    ///
    /// [`ListenError`].
    pub fn bind(path: PathBuf) -> Result<Self, ListenError> {
        let unusable = |source| ListenError::Unusable {
            path: path.clone(),
            source,
        };
        if path.symlink_metadata().is_ok() && !is_socket(&path) {
            return Err(ListenError::InTheWay { path });
        }
        match StdUnixStream::connect(&path) {
            Ok(_) => return Err(ListenError::Taken { path }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(&path).map_err(unusable)?;
            }
            Err(error) => return Err(unusable(error)),
        }
        let socket = UnixListener::bind(&path).map_err(unusable)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
            .map_err(unusable)?;
        Ok(Self {
            path,
            socket,
            bound_here: true,
            failing: AtomicBool::new(false),
        })
    }

    /// Serves a socket that systemd listens on already.
    ///
    /// # Errors
    ///
    /// [`ListenError::Open`] and [`ListenError::Unusable`].
    pub fn handed_over(socket: StdUnixListener, path: PathBuf) -> Result<Self, ListenError> {
        let unusable = |source| ListenError::Unusable {
            path: path.clone(),
            source,
        };
        let mode = path.metadata().map_err(unusable)?.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(ListenError::Open { path, mode });
        }
        socket.set_nonblocking(true).map_err(unusable)?;
        let socket = UnixListener::from_std(socket).map_err(unusable)?;
        Ok(Self {
            path,
            socket,
            bound_here: false,
            failing: AtomicBool::new(false),
        })
    }

    /// The socket's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether whoever connects is taken. Not so while no descriptors are left, for one.
    pub fn takes_clients(&self) -> bool {
        !self.failing.load(Ordering::Relaxed)
    }

    /// The next connection of our own user. One of anybody else is closed and
    /// logged; an accept that fails (no descriptors left) is tried again.
    pub async fn accept(&self) -> UnixStream {
        loop {
            match self.next().await {
                Ok(stream) if is_ours(&stream) => return stream,
                Ok(_) => {
                    tracing::warn!(socket = %self.path.display(), "refused a connection of another user");
                }
                Err(error) => {
                    if !self.failing.swap(true, Ordering::Relaxed) {
                        tracing::error!(%error, socket = %self.path.display(), "cannot accept connections");
                    }
                    tokio::time::sleep(RECOVERY).await;
                }
            }
        }
    }

    /// The next connection of anybody. After one that failed, nobody waiting is as good as
    /// one that comes: then accepting works again.
    async fn next(&self) -> io::Result<UnixStream> {
        let accepted = if self.takes_clients() {
            self.socket.accept().await
        } else if let Ok(accepted) = tokio::time::timeout(RECOVERY, self.socket.accept()).await {
            accepted
        } else {
            self.recovered();
            self.socket.accept().await
        };
        let (stream, _) = accepted?;
        self.recovered();
        Ok(stream)
    }

    fn recovered(&self) {
        if self.failing.swap(false, Ordering::Relaxed) {
            tracing::info!(socket = %self.path.display(), "connections are accepted again");
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if !self.bound_here {
            return;
        }
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(%error, socket = %self.path.display(), "the socket's file was gone already");
        }
    }
}

fn is_socket(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|meta| meta.file_type().is_socket())
}

fn is_ours(stream: &UnixStream) -> bool {
    stream
        .peer_cred()
        .is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_for_its_owner_alone_and_leaves_no_file_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sock");
        let listener = Listener::bind(path.clone()).unwrap();
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(matches!(
            Listener::bind(path.clone()),
            Err(ListenError::Taken { .. })
        ));
        drop(listener);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_file_that_nobody_answers_on_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        Listener::bind(path).unwrap();
    }

    #[tokio::test]
    async fn a_socket_that_was_handed_over_stays_and_must_be_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sock");
        let socket = StdUnixListener::bind(&path).unwrap();
        let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode));
        mode(0o666).unwrap();
        let refusal = Listener::handed_over(socket.try_clone().unwrap(), path.clone());
        assert!(matches!(
            refusal,
            Err(ListenError::Open { mode: 0o666, .. })
        ));
        mode(0o600).unwrap();
        drop(Listener::handed_over(socket, path.clone()).unwrap());
        assert!(path.exists());
    }

    #[tokio::test]
    async fn what_is_no_socket_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sock");
        std::fs::write(&path, "mine").unwrap();
        assert!(Listener::bind(path.clone()).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    }
}
