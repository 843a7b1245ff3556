//! Taking connections, and ceasing to.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum_server::Handle;
use axum_server::accept::NoDelayAcceptor;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use rustls::ServerConfig;
use socketioxide::SocketIo;
use tokio::task::JoinHandle;

use crate::hub::Hub;
use crate::relay::RelayAcceptor;
use crate::{rest, socket};

/// How long answers under way are waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often a port that was just given up is tried again, and how long apart.
const TRIES: u32 = 40;
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

/// The side of the table that faces the network.
pub(crate) struct Running {
    handle: Handle<SocketAddr>,
    task: JoinHandle<io::Result<()>>,
    io: SocketIo,
}

/// Takes a port of loopback; 0 takes any free one.
pub(crate) async fn listen(port: u16) -> anyhow::Result<TcpListener> {
    let mut tries = 1;
    loop {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries < TRIES => {
                tries += 1;
                tokio::time::sleep(BETWEEN_TRIES).await;
            }
            Err(error) => return Err(error).with_context(|| format!("cannot take port {port}")),
        }
    }
}

/// Starts serving.
pub(crate) fn serve(
    hub: &Arc<Hub>,
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
) -> anyhow::Result<Running> {
    let options = &hub.options;
    let (layer, io) = SocketIo::builder()
        .req_path("/socket.io")
        .ping_interval(options.ping_interval)
        .ping_timeout(options.ping_timeout)
        .max_payload(options.max_payload)
        .max_buffer_size(4096)
        .build_layer();
    socket::open(&io, hub);
    let app = rest::router(hub, layer).into_make_service_with_connect_info::<SocketAddr>();

    let handle = Handle::new();
    let server = axum_server::from_tcp(listener)?.handle(handle.clone());
    let faults = hub.faults.clone();
    let relay = RelayAcceptor {
        inner: NoDelayAcceptor::new(),
        lines: hub.lines.clone(),
        log: hub.log.clone(),
        refuses: Arc::new(move || faults.refuses_connection()),
        max_payload: options.max_payload,
    };
    let task = match tls {
        None => tokio::spawn(server.acceptor(relay).serve(app)),
        Some(config) => {
            let inner = RustlsAcceptor::new(RustlsConfig::from_config(config))
                .acceptor(NoDelayAcceptor::new());
            tokio::spawn(server.acceptor(relay.around(inner)).serve(app))
        }
    };
    Ok(Running { handle, task, io })
}

impl Running {
    /// Lets answers under way finish, then closes everything. Sockets end
    /// without a close frame, as when a real server is stopped.
    pub(crate) async fn stop(self, hub: &Hub) {
        hub.forget_memory();
        hub.lines.cut_websockets();
        self.handle.graceful_shutdown(Some(PATIENCE));
        self.io.close().await;
        // The task ends by itself once the last connection has.
        self.task.await.ok();
        hub.lines.cut_all();
    }

    /// Closes everything on the spot.
    pub(crate) fn kill(self, hub: &Hub) {
        hub.forget_memory();
        self.handle.shutdown();
        self.task.abort();
        hub.lines.cut_all();
    }
}
