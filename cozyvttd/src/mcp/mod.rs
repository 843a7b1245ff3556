//! The MCP face: clients on `mcp.sock`, each with a connection of its own.

mod hello;
mod line;
mod server;
mod transport;

use std::sync::Arc;

use rmcp::ServiceExt;
use tokio::net::UnixStream;
use tokio_util::task::TaskTracker;

use crate::hub::Hub;
use crate::listen::Listener;
use hello::Greeting;
use line::LineReader;
use server::Server;
pub(crate) use server::tool;
use transport::LineTransport;

/// Accepts clients until the daemon stops, then waits for their calls.
pub async fn serve(listener: Listener, hub: Arc<Hub>) {
    let connections = TaskTracker::new();
    let mut number = 0_u64;
    loop {
        let stream = tokio::select! {
            () = hub.stop.cancelled() => break,
            stream = listener.accept() => stream,
        };
        number += 1;
        connections.spawn(converse(stream, Arc::clone(&hub), number));
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn converse(stream: UnixStream, hub: Arc<Hub>, number: u64) {
    let _client = hub.client();
    let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
    tracing::debug!(client = number, pid, "a client connected");
    let (read, mut write) = stream.into_split();
    let mut lines = LineReader::new(read);
    let greeting = tokio::select! {
        () = hub.stop.cancelled() => return,
        greeting = hello::greet(&mut lines, &mut write, &hub.instance) => greeting,
    };
    let mut handler = Server::new(Arc::clone(&hub));
    let first = match greeting {
        Ok(Greeting::Welcomed(hello, selection)) => {
            tracing::info!(
                client = number,
                pid = hello.pid,
                version = hello.version,
                "a shim connected"
            );
            handler = handler.for_client(hello, selection);
            None
        }
        Ok(Greeting::None(first)) => Some(first),
        Ok(Greeting::Refused) => return,
        Err(error) => {
            tracing::debug!(client = number, %error, "a client left before it said anything");
            return;
        }
    };
    let transport = LineTransport::new(lines, write, first, hub.stop.clone());
    match handler.serve(transport).await {
        Ok(running) => {
            let reason = running.waiting().await;
            tracing::debug!(client = number, ?reason, "a client left");
        }
        Err(error) => tracing::debug!(client = number, %error, "a client left early"),
    }
}
