//! A call to the daemon, and what to tell the person when it does not work.

use std::io::ErrorKind as IoKind;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use cozyvtt_proto::client::{Client, ClientError, EventStream};
use cozyvtt_proto::control::{CallProgress, DaemonStatus, Method, NoParams};
use cozyvtt_proto::jsonrpc::{ErrorKind, RpcError};
use serde_json::Value;

use crate::failure::Failure;

/// This program's version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How long a question about the daemon itself may take.
pub(crate) const PROMPT: Duration = Duration::from_secs(5);

/// `daemon.status`, its answer as it came: readable whatever version sent it.
#[derive(Debug)]
pub(crate) struct RawStatus;

impl Method for RawStatus {
    const NAME: &'static str = DaemonStatus::NAME;
    type Params = NoParams;
    type Result = Value;
}

/// The daemon behind a control socket.
#[derive(Debug)]
pub(crate) struct Daemon {
    client: Client,
}

impl Daemon {
    pub(crate) fn new(socket_dir: &Path) -> Self {
        Self {
            client: Client::new(socket_dir),
        }
    }

    pub(crate) fn socket(&self) -> &Path {
        self.client.socket()
    }

    /// Calls a method.
    ///
    /// # Errors
    ///
    /// What to tell the person.
    pub(crate) async fn ask<M: Method>(
        &self,
        params: M::Params,
        patience: Duration,
    ) -> Result<M::Result, Failure> {
        match self.try_ask::<M>(params, patience).await {
            Ok(result) => Ok(result),
            Err(error) => Err(self.explain(error).await),
        }
    }

    /// Calls a method, for a caller that knows better what an error means.
    ///
    /// # Errors
    ///
    /// As the client reports them.
    pub(crate) async fn try_ask<M: Method>(
        &self,
        params: M::Params,
        patience: Duration,
    ) -> Result<M::Result, ClientError> {
        self.client.call::<M>(params, patience).await
    }

    /// Calls a method, and tells `heard` how it gets on.
    ///
    /// # Errors
    ///
    /// As the client reports them.
    pub(crate) async fn try_ask_told<M: Method>(
        &self,
        params: M::Params,
        patience: Duration,
        heard: impl FnMut(CallProgress),
    ) -> Result<M::Result, ClientError> {
        self.client.call_told::<M>(params, patience, heard).await
    }

    /// Opens the event stream of a campaign, or of the daemon's own, after record `since`.
    ///
    /// # Errors
    ///
    /// What to tell the person.
    pub(crate) async fn events(
        &self,
        since: u64,
        campaign: Option<&str>,
    ) -> Result<EventStream, Failure> {
        match self.client.events(Some(since), campaign).await {
            Ok(stream) => Ok(stream),
            Err(error) => Err(self.explain(error).await),
        }
    }

    /// What to tell the person about an error.
    pub(crate) async fn explain(&self, error: ClientError) -> Failure {
        let problem = error.to_string();
        match error {
            ClientError::Unreachable { .. }
            | ClientError::Broken { .. }
            | ClientError::Silent { .. } => {
                let trouble = self.trouble(&error);
                Failure::unreachable(problem)
                    .advise(trouble.finding)
                    .advise(trouble.fix)
            }
            ClientError::Garbled(_)
            | ClientError::Refused(RpcError {
                data:
                    cozyvtt_proto::jsonrpc::ErrorData {
                        kind: ErrorKind::MethodNotFound | ErrorKind::InvalidParams,
                    },
                ..
            }) => Failure::failed(problem).advise(self.misunderstanding().await),
            ClientError::Refused(_) => Failure::failed(problem),
        }
    }

    /// Why two programs that should understand each other do not.
    async fn misunderstanding(&self) -> String {
        let status = self.try_ask::<RawStatus>(NoParams {}, PROMPT).await;
        match status {
            Ok(status) => match status.get("version").and_then(Value::as_str) {
                Some(daemon) if daemon != VERSION => mismatch(daemon),
                Some(_) => format!(
                    "Daemon and cozyvttctl are both version {VERSION}, so this is a defect: please report it."
                ),
                None => {
                    "The daemon does not tell its version: is it another program's socket?".into()
                }
            },
            Err(error) => format!("Asked for its version, this came back: {error}"),
        }
    }

    /// What there is on the way to a daemon that does not answer, and what to do.
    pub(crate) fn trouble(&self, error: &ClientError) -> Trouble {
        if let ClientError::Silent { .. } = error {
            return Trouble {
                finding: "Something takes the connection, but says nothing.".into(),
                fix: "Look at the daemon's log, or end it and start it again with `cozyvttd`."
                    .into(),
            };
        }
        let socket = self.socket();
        let folder = socket.parent().unwrap_or(Path::new("/")).display();
        let finding = match socket.symlink_metadata() {
            Ok(meta) if meta.file_type().is_socket() => {
                "The socket file is there, but no daemon behind it.".to_owned()
            }
            Ok(_) => format!("{} is no socket.", socket.display()),
            Err(error) if error.kind() == IoKind::PermissionDenied => {
                format!(
                    "The folder {folder} cannot be looked into: does it belong to another user?"
                )
            }
            Err(_) if socket.parent().is_some_and(Path::is_dir) => {
                format!("The folder {folder} is there, but no control.sock in it.")
            }
            Err(_) => format!("The folder {folder} does not exist."),
        };
        Trouble {
            finding,
            fix:
                "Start the daemon with `cozyvttd`; if it runs with another folder, name that with \
                  --socket-dir DIR or COZYVTT_SOCKET_DIR."
                    .into(),
        }
    }
}

/// Why a daemon does not answer.
#[derive(Debug)]
pub(crate) struct Trouble {
    /// What was found, one sentence.
    pub(crate) finding: String,
    /// What to do, one sentence.
    pub(crate) fix: String,
}

/// What to do about a daemon of another version.
pub(crate) fn mismatch(daemon: &str) -> String {
    let older = |version: &str| {
        version
            .split(['-', '+'])
            .next()
            .unwrap_or_default()
            .split('.')
            .map(|part| part.parse::<u64>().unwrap_or(0))
            .collect::<Vec<_>>()
    };
    if older(daemon) < older(VERSION) {
        format!(
            "The daemon is version {daemon}, cozyvttctl {VERSION}: restart the daemon to bring it up to date \
             (`cozyvttctl stop`, then `cozyvttd`)."
        )
    } else {
        format!(
            "The daemon is version {daemon}, cozyvttctl {VERSION}: this cozyvttctl is out of date; is an old copy \
             first in your PATH?"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_of_two_versions_is_the_one_to_renew() {
        assert!(mismatch("0.0.9").contains("restart the daemon"));
        assert!(mismatch("0.10.0").contains("cozyvttctl is out of date"));
        assert!(mismatch("99.0.0-rc.1").contains("cozyvttctl is out of date"));
    }

    #[test]
    fn a_missing_folder_a_missing_socket_and_a_dead_one_are_told_apart() {
        let folder = std::env::temp_dir().join(format!("cozyvttctl-{}", std::process::id()));
        let daemon = Daemon::new(&folder);
        let finding = || {
            let socket = daemon.socket().to_owned();
            let cause = String::new();
            daemon
                .trouble(&ClientError::Unreachable { socket, cause })
                .finding
        };
        assert!(finding().contains("does not exist"));
        std::fs::create_dir(&folder).unwrap();
        assert!(finding().contains("no control.sock"));
        std::fs::write(daemon.socket(), "").unwrap();
        assert!(finding().contains("is no socket"));
        std::fs::remove_file(daemon.socket()).unwrap();
        drop(std::os::unix::net::UnixListener::bind(daemon.socket()).unwrap());
        assert!(finding().contains("no daemon behind it"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[tokio::test]
    async fn nobody_at_the_socket_ends_as_unreachable() {
        let daemon = Daemon::new(Path::new("/nonexistent/cozyvtt"));
        let failure = daemon
            .ask::<RawStatus>(NoParams {}, PROMPT)
            .await
            .unwrap_err();
        let Failure::Told(told) = failure else {
            panic!("a told failure")
        };
        assert_eq!(told.exit, crate::failure::Exit::Unreachable);
        assert!(told.problem.contains("/nonexistent/cozyvtt/control.sock"));
    }
}
