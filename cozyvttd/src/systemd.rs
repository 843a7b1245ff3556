//! What systemd hands over, and what it wants to hear: the sockets that it listens on,
//! readiness, how the table stands, and that the daemon still lives.

use std::fs::File;
use std::future::pending;
use std::os::linux::fs::MetadataExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cozyvtt_proto::paths::{CONTROL_SOCKET, MCP_SOCKET};
use listenfd::ListenFd;
use rustix::net::sockopt::socket_acceptconn;
use sd_notify::NotifyState;
use thiserror::Error;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};

use crate::control;
use crate::hub::Hub;

/// How often the standing is looked at when nothing tells of a change.
const GLANCE: Duration = Duration::from_secs(60);

/// Why a socket that was handed over cannot be used.
#[derive(Debug, Error)]
pub enum HandoverError {
    /// It is no Unix stream socket that listens.
    #[error(
        "systemd has handed over something that is no listening Unix socket: {0}; look at the ListenStream lines of the socket unit"
    )]
    NoListener(String),
    /// It is not one of ours.
    #[error(
        "systemd has handed over {0:?}, and cozyvttd serves {MCP_SOCKET} and {CONTROL_SOCKET}; correct the ListenStream lines of the socket unit"
    )]
    Stranger(PathBuf),
    /// They lie in different folders.
    #[error("systemd has handed over sockets of two folders, {} and {}; correct the ListenStream lines of the socket unit", .0.display(), .1.display())]
    Apart(PathBuf, PathBuf),
}

/// The sockets that systemd listens on for us, told apart by their files' names, since all
/// of one unit have the same `FileDescriptorName`.
#[derive(Debug, Default)]
pub struct Sockets {
    /// The folder that all of them lie in.
    folder: Option<PathBuf>,
    mcp: Option<UnixListener>,
    control: Option<UnixListener>,
}

impl Sockets {
    /// Takes what was handed over to this very process, and clears the variables that
    /// tell of it. To be called before there are threads.
    ///
    /// # Errors
    ///
    /// [`HandoverError`].
    pub fn handed_over() -> Result<Self, HandoverError> {
        let own = std::process::id().to_string();
        let mut taken = Self::default();
        // A child of a service that was handed something finds its parent's number.
        if std::env::var("LISTEN_PID").as_deref() != Ok(&own) {
            return Ok(taken);
        }
        let mut handed = ListenFd::from_env();
        for index in 0..handed.len() {
            let socket = handed.take_unix_listener(index);
            let socket = socket.map_err(|error| HandoverError::NoListener(error.to_string()))?;
            if let Some(socket) = socket {
                taken.add(socket)?;
            }
        }
        Ok(taken)
    }

    fn add(&mut self, socket: UnixListener) -> Result<(), HandoverError> {
        let no_listener = |what: &str| HandoverError::NoListener(what.to_owned());
        if !socket_acceptconn(&socket).unwrap_or_default() {
            return Err(no_listener("it does not listen"));
        }
        let address = socket.local_addr();
        let address = address.map_err(|error| no_listener(&error.to_string()))?;
        let path = address
            .as_pathname()
            .ok_or_else(|| no_listener("it has no file"))?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        match &self.folder {
            Some(other) if other != folder => {
                return Err(HandoverError::Apart(other.clone(), folder.to_owned()));
            }
            _ => self.folder = Some(folder.to_owned()),
        }
        let place = match path.file_name().and_then(|name| name.to_str()) {
            Some(MCP_SOCKET) => &mut self.mcp,
            Some(CONTROL_SOCKET) => &mut self.control,
            _ => return Err(HandoverError::Stranger(path.to_owned())),
        };
        *place = Some(socket);
        Ok(())
    }

    /// The folder that they lie in, if there are any.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The socket of this name, if it was handed over; once.
    pub(crate) fn take(&mut self, name: &str) -> Option<UnixListener> {
        match name {
            MCP_SOCKET => self.mcp.take(),
            CONTROL_SOCKET => self.control.take(),
            _ => None,
        }
    }
}

/// Tells systemd how the daemon is, where it listens (`NOTIFY_SOCKET`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Notify {
    heard: bool,
    watchdog: Option<Duration>,
}

impl Notify {
    /// What the environment says.
    pub fn of_environment() -> Self {
        Self {
            heard: std::env::var_os("NOTIFY_SOCKET").is_some(),
            watchdog: sd_notify::watchdog_enabled(),
        }
    }

    /// The sockets serve.
    pub fn ready(self) {
        self.tell(&[NotifyState::Ready]);
    }

    /// The daemon is about to leave.
    pub fn stopping(self) {
        self.tell(&[NotifyState::Stopping]);
    }

    fn tell(self, states: &[NotifyState<'_>]) {
        if self.heard
            && let Err(error) = sd_notify::notify(states)
        {
            tracing::debug!(%error, "systemd does not hear");
        }
    }

    /// The watchdog, if systemd has one for us.
    pub fn watchdog(self) -> Watchdog {
        let due = self.watchdog.map(|limit| {
            // systemd's own advice: at half the time.
            let mut due = interval((limit / 2).max(Duration::from_millis(1)));
            due.set_missed_tick_behavior(MissedTickBehavior::Delay);
            due
        });
        Watchdog { notify: self, due }
    }
}

/// Fed by the loop that accepts clients, so that systemd starts a daemon anew that takes
/// none any more.
#[derive(Debug)]
pub struct Watchdog {
    notify: Notify,
    due: Option<Interval>,
}

impl Watchdog {
    /// Feeds it whenever that is due and all is `well`, and never returns; to be polled by
    /// the loop.
    pub async fn keep_quiet(&mut self, well: impl Fn() -> bool) {
        let Some(due) = &mut self.due else {
            return pending().await;
        };
        loop {
            due.tick().await;
            if well() {
                self.notify.tell(&[NotifyState::Watchdog]);
            }
        }
    }
}

/// Keeps systemd's status line (`STATUS=`) true until the run ends.
pub(crate) async fn tell_standing(hub: Arc<Hub>, notify: Notify) {
    if !notify.heard {
        return;
    }
    let mut told = String::new();
    loop {
        let main = hub.campaigns.main().ok();
        let mut watched = main.as_ref().map(|main| {
            let session = &main.session;
            (session.link.watch(), session.login().watch())
        });
        let mut clients = hub.clients.watch_count();
        let standing = one_line(&control::headline(&hub));
        if standing != told {
            notify.tell(&[NotifyState::Status(&standing)]);
            told = standing;
        }
        let changed = async {
            match &mut watched {
                Some((link, login)) => tokio::select! {
                    Ok(()) = link.changed() => {}
                    Ok(()) = login.changed() => {}
                    else => pending().await,
                },
                None => pending().await,
            }
        };
        tokio::select! {
            () = hub.stop.cancelled() => return,
            () = changed => {}
            Ok(()) = clients.changed() => {}
            () = sleep(GLANCE) => {}
        }
    }
}

/// A line break would begin another word to systemd, and names come from the table.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// Whether what is written to stderr goes to systemd's journal, as `JOURNAL_STREAM` says
/// by device and file number.
pub(crate) fn stderr_is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    let stderr = rustix::io::dup(rustix::stdio::stderr()).map(File::from);
    let Some(meta) = stderr.ok().and_then(|file| file.metadata().ok()) else {
        return false;
    };
    stream == format!("{}:{}", meta.st_dev(), meta.st_ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_told_apart_by_their_files_and_strangers_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let listen = |name: &str| UnixListener::bind(folder.path().join(name)).unwrap();
        let mut sockets = Sockets::default();
        sockets.add(listen(CONTROL_SOCKET)).unwrap();
        assert_eq!(sockets.folder(), Some(folder.path()));
        assert!(sockets.take(MCP_SOCKET).is_none());
        assert!(sockets.take(CONTROL_SOCKET).is_some());
        let stranger = sockets.add(listen("other.sock"));
        assert!(matches!(stranger, Err(HandoverError::Stranger(_))));
        let elsewhere = tempfile::tempdir().unwrap();
        let apart = UnixListener::bind(elsewhere.path().join(MCP_SOCKET)).unwrap();
        assert!(matches!(sockets.add(apart), Err(HandoverError::Apart(..))));
    }

    #[test]
    fn a_campaign_s_name_cannot_tell_systemd_anything() {
        assert_eq!(one_line("Mines\nMAINPID=1"), "Mines MAINPID=1");
    }
}
