//! What both faces share: the catalog, the session or why there is none, and
//! the calls that are running.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt;
use serde_json::{Map, Value};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::config::Config;
use crate::session::Session;
use crate::tools::files::Files;
use crate::tools::{Caller, Catalog, Context, Definition, Outcome, ToolError};

/// This program's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Shared by both faces.
#[derive(Debug)]
pub struct Hub {
    /// A random name for this run.
    pub instance: String,
    /// When it began.
    pub started: Instant,
    /// Where it listens.
    pub socket_dir: PathBuf,
    /// Where it keeps its journal.
    pub state_dir: PathBuf,
    /// The configuration it was started with.
    pub config: Config,
    /// The session, or why there is none.
    pub session: Result<Arc<Session>, Trouble>,
    /// Cancelled when the daemon is to leave.
    pub stop: CancellationToken,
    /// Cancelled when everything else has left: until then the control socket
    /// answers, so that a program can see when the daemon has gone.
    pub gone: CancellationToken,
    files: Arc<Files>,
    catalog: Catalog,
    clients: AtomicU64,
    calls: TaskTracker,
}

/// Why there is no session.
#[derive(Debug, Clone)]
pub struct Trouble {
    /// Which hop it is: `configuration`, `journal` or `rest`.
    pub hop: &'static str,
    /// What is wrong.
    pub what: String,
    /// What mends it.
    pub fix: String,
}

/// Counts an MCP client for as long as it lives.
#[derive(Debug)]
pub struct Client<'a>(&'a Hub);

impl Drop for Client<'_> {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Hub {
    /// A hub for one run of the daemon.
    pub fn new(
        instance: String,
        socket_dir: PathBuf,
        state_dir: PathBuf,
        config: Config,
        session: Result<Arc<Session>, Trouble>,
        files: Files,
    ) -> Self {
        Self {
            files: Arc::new(files),
            instance,
            started: Instant::now(),
            socket_dir,
            state_dir,
            config,
            session,
            stop: CancellationToken::new(),
            gone: CancellationToken::new(),
            catalog: Catalog::default(),
            clients: AtomicU64::new(0),
            calls: TaskTracker::new(),
        }
    }

    /// The tools' definitions, in the order in which they are listed.
    pub fn definitions(&self) -> impl Iterator<Item = &Definition> {
        self.catalog.definitions()
    }

    /// Calls a tool for `caller`; `None` when there is none of that name.
    pub async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        caller: Arc<Caller>,
    ) -> Option<Outcome> {
        let _running: TaskTrackerToken = self.calls.token();
        let available = match &self.session {
            Ok(session) => Ok(Context {
                session: Arc::clone(session),
                caller,
                files: Arc::clone(&self.files),
            }),
            Err(trouble) => Err(ToolError::Unavailable(format!(
                "{}; {}",
                trouble.what, trouble.fix
            ))),
        };
        let call = self.catalog.call(name, arguments, available)?;
        // One broken tool must not leave its caller waiting for ever.
        let outcome = AssertUnwindSafe(call).catch_unwind().await;
        Some(outcome.unwrap_or_else(|_| {
            tracing::error!(tool = name, "a tool panicked");
            Outcome::failure(&ToolError::Unavailable(
                "something broke inside cozyvttd, so the outcome is unknown: look before repeating \
                 it. Its log tells more; please report this."
                    .to_owned(),
            ))
        }))
    }

    /// Counts a new MCP client.
    pub fn client(&self) -> Client<'_> {
        self.clients.fetch_add(1, Ordering::Relaxed);
        Client(self)
    }

    /// MCP clients connected now.
    pub fn clients(&self) -> u64 {
        self.clients.load(Ordering::Relaxed)
    }

    /// Calls that are running now.
    pub fn running(&self) -> u64 {
        self.calls.len() as u64
    }

    /// Waits until no call is running.
    pub async fn idle(&self) {
        self.calls.close();
        self.calls.wait().await;
    }
}
