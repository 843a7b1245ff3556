//! The MCP face: clients on `mcp.sock`, each with a connection of its own.

mod hello;
mod line;
mod server;
mod transport;

use std::sync::Arc;

use rmcp::ServiceExt;
use tokio::net::UnixStream;
use tokio_util::task::TaskTracker;

use crate::clients::MOST_CLIENTS;
use crate::hub::Hub;
use crate::listen::Listener;
use crate::systemd::Watchdog;
use hello::{Greeting, Welcomed};
use line::LineReader;
use server::Server;
pub(crate) use server::tool;
use transport::LineTransport;

/// Accepts clients until the daemon stops, then waits for their calls.
pub async fn serve(listener: Arc<Listener>, hub: Arc<Hub>, mut watchdog: Watchdog) {
    let connections = TaskTracker::new();
    loop {
        let stream = tokio::select! {
            () = hub.stop.cancelled() => break,
            () = watchdog.keep_quiet(|| listener.takes_clients()) => continue,
            stream = listener.accept() => stream,
        };
        connections.spawn(converse(stream, Arc::clone(&hub)));
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

fn too_many() -> String {
    format!(
        "cozyvttd serves {MOST_CLIENTS} clients already, which is its limit; close some of them, \
         `cozyvttctl clients` lists them"
    )
}

async fn converse(stream: UnixStream, hub: Arc<Hub>) {
    let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
    let Some(seat) = hub.clients.enter(pid.and_then(|pid| pid.try_into().ok())) else {
        tracing::warn!(pid, "refused a client: there are too many");
        return transport::refuse(stream, &too_many()).await;
    };
    let (client, number) = (Arc::clone(&seat.client), seat.client.number);
    tracing::debug!(client = number, pid, "a client connected");
    let (read, mut write) = stream.into_split();
    let mut lines = LineReader::new(read);
    let greeting = tokio::select! {
        () = hub.stop.cancelled() => return,
        () = client.closing.cancelled() => return,
        greeting = hello::greet(&mut lines, &mut write, &hub, &client) => greeting,
    };
    let unanswered = Arc::default();
    let mut handler = Server::new(
        Arc::clone(&hub),
        Arc::clone(&client),
        Arc::clone(&unanswered),
    );
    let first = match greeting {
        Ok(Greeting::Welcomed(welcomed)) => {
            let Welcomed {
                hello,
                selection,
                visit,
            } = *welcomed;
            tracing::info!(
                client = number,
                pid = hello.pid,
                version = hello.version,
                read_only = hello.read_only,
                "a shim connected"
            );
            if let Some(visit) = &visit {
                client.sits_in(visit.session.campaign());
            }
            handler = handler.choosing(selection, hello.read_only, visit);
            None
        }
        Ok(Greeting::None(first)) => Some(first),
        Ok(Greeting::Refused) => return,
        Err(error) => {
            tracing::debug!(client = number, %error, "a client left before it said anything");
            return;
        }
    };
    let transport = LineTransport::new(
        lines,
        write,
        first,
        unanswered,
        hub.stop.clone(),
        client.closing.clone(),
    );
    // Its end comes through the transport, so that what is under way is answered.
    match handler.serve(transport).await {
        Ok(running) => {
            let reason = running.waiting().await;
            tracing::debug!(client = number, ?reason, "a client left");
        }
        Err(error) => tracing::debug!(client = number, %error, "a client left early"),
    }
}
