//! One run of the daemon: what serves both sockets with one configuration, until it is
//! to end. Another configuration of the table is another run of the same process.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::audit::Audit;
use crate::campaigns::Campaigns;
use crate::hub::{Hub, Next};
use crate::idle::idle_for;
use crate::listen::Listener;
use crate::options::Source;
use crate::session::Ground;
use crate::session::clock::Clock;
use crate::systemd::{self, Notify};
use crate::{control, mcp};

/// How long running calls may take once the run is to end; a little more than one
/// connection gives its own.
const DRAIN: Duration = Duration::from_secs(25);

/// How long control connections may take to end.
const FAREWELL: Duration = Duration::from_secs(5);

/// What all runs of the daemon have in common.
#[derive(Debug)]
pub(crate) struct Place {
    /// The folder of the sockets.
    pub socket_dir: PathBuf,
    /// The folder of the journal and the logs.
    pub state_dir: PathBuf,
    /// The folder that all daemons of the user share.
    pub shared_dir: PathBuf,
    /// Where the configuration comes from.
    pub source: Source,
    /// Who hears how the daemon is.
    pub notify: Notify,
    /// systemd holds the sockets.
    pub activated: bool,
}

/// The sockets, bound for as long as somebody holds them.
#[derive(Debug, Clone)]
pub(crate) struct Listeners {
    pub mcp: Arc<Listener>,
    pub control: Arc<Listener>,
}

/// A run.
#[derive(Debug)]
pub(crate) struct Run {
    /// What it shares with its faces.
    pub hub: Arc<Hub>,
    mcp: JoinHandle<()>,
    control: JoinHandle<()>,
}

impl Run {
    /// Serves the sockets and begins to connect. `leave` is cancelled when the daemon is to
    /// leave altogether.
    pub(crate) fn begin(
        Next { config, by_word }: Next,
        place: &Place,
        listeners: Listeners,
        leave: &CancellationToken,
    ) -> Self {
        let ground = Ground {
            clock: Clock::real(),
            folder: place.state_dir.clone(),
            shared: place.shared_dir.clone(),
            by_word,
        };
        let instance = instance();
        let idle_exit = place.source.options().idle_exit(&config);
        let audit = Audit::new(&place.state_dir);
        let campaigns = Campaigns::open(config, ground, &instance, audit.clone());
        let folders = (place.socket_dir.clone(), place.state_dir.clone());
        let source = place.source.clone();
        let hub = Hub::new(instance, folders, campaigns, audit, source);
        let hub = hub.until(leave).activated(place.activated);
        let hub = Arc::new(hub.leaving_after(idle_exit));
        tokio::spawn(leave_when_idle(Arc::clone(&hub)));
        tokio::spawn(systemd::tell_standing(Arc::clone(&hub), place.notify));
        let watchdog = place.notify.watchdog();
        Self {
            mcp: tokio::spawn(mcp::serve(listeners.mcp, Arc::clone(&hub), watchdog)),
            control: tokio::spawn(control::serve(listeners.control, Arc::clone(&hub))),
            hub,
        }
    }

    /// Finishes the calls that run, and leaves the table; the control socket answers still.
    pub(crate) async fn drain(&mut self) {
        tracing::info!(running = self.hub.running(), "finishing what runs");
        self.hub.campaigns.drain();
        let drained = timeout(DRAIN, async {
            self.hub.idle().await;
            (&mut self.mcp).await.ok();
        });
        if drained.await.is_err() {
            tracing::warn!(running = self.hub.running(), "left calls behind");
        }
        self.hub.campaigns.close().await;
    }

    /// Lets the control connections end.
    pub(crate) async fn end(self) {
        self.hub.gone.cancel();
        if timeout(FAREWELL, self.control).await.is_err() {
            tracing::warn!("left a control connection behind");
        }
    }
}

/// Stops the daemon once it has had no client for as long as the configuration says.
async fn leave_when_idle(hub: Arc<Hub>) {
    let mut limits = hub.watch_idle_exit();
    loop {
        let limit = *limits.borrow_and_update();
        let idle = async {
            match limit {
                Some(limit) => idle_for(limit, hub.clients.watch_count()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = hub.stop.cancelled() => return,
            Ok(()) = limits.changed() => {}
            () = idle => {
                let minutes = limit.unwrap_or_default().as_secs() / 60;
                tracing::info!(minutes, "no client for a while; leaving");
                return hub.leave();
            }
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
