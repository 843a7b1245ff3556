//! What stands between a client and a server: a line that can fall silent without
//! ending, or break the moment certain bytes pass.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// To the server.
    Up,
    /// To the client.
    Down,
}

#[derive(Debug, Default)]
struct Orders {
    /// The line is reset before bytes that hold this go on.
    breaks: Mutex<Option<(Way, Vec<u8>)>>,
    broken: AtomicU64,
}

/// A relay to a server on this machine.
#[derive(Debug)]
pub struct Between {
    url: String,
    orders: Arc<Orders>,
    silent: watch::Sender<bool>,
}

impl Between {
    /// Puts itself before the server at `port`.
    pub async fn start(port: u16) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let between = Self {
            url: format!("http://{}", listener.local_addr()?),
            orders: Arc::default(),
            silent: watch::Sender::new(false),
        };
        let (orders, silent) = (Arc::clone(&between.orders), between.silent.subscribe());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let line = Line {
                    orders: Arc::clone(&orders),
                    silent: silent.clone(),
                };
                tokio::spawn(line.carry(client, port));
            }
        });
        Ok(between)
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// From now on nothing goes through, and nobody is told.
    pub fn fall_silent(&self) {
        self.silent.send_replace(true);
    }

    /// Whatever was held back goes on.
    pub fn speak_again(&self) {
        self.silent.send_replace(false);
    }

    /// The next line that would carry `bytes` that way is reset instead.
    pub fn break_once_at(&self, way: Way, bytes: &str) {
        let mut breaks = self
            .orders
            .breaks
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *breaks = Some((way, bytes.as_bytes().to_vec()));
    }

    /// How many lines were reset.
    pub fn broken(&self) -> u64 {
        self.orders.broken.load(Ordering::SeqCst)
    }
}

struct Line {
    orders: Arc<Orders>,
    silent: watch::Receiver<bool>,
}

impl Line {
    async fn carry(self, client: TcpStream, port: u16) {
        let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else {
            return;
        };
        // Whichever way ends first, the line ends in a reset: both halves go.
        let _ = client.set_zero_linger();
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::select! {
            () = self.pass(Way::Up, from_client, to_server) => {}
            () = self.pass(Way::Down, from_server, to_client) => {}
        }
    }

    async fn pass(&self, way: Way, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut silent = self.silent.clone();
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut bytes).await {
            let speaks = silent.wait_for(|silent| !silent).await.is_ok();
            if !speaks || self.breaks(way, &bytes[..length]) {
                return;
            }
            if to.write_all(&bytes[..length]).await.is_err() {
                return;
            }
        }
    }

    fn breaks(&self, way: Way, bytes: &[u8]) -> bool {
        let mut breaks = self
            .orders
            .breaks
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let hit = breaks.as_ref().is_some_and(|(wanted, needle)| {
            *wanted == way && bytes.windows(needle.len()).any(|window| window == needle)
        });
        if hit {
            *breaks = None;
            self.orders.broken.fetch_add(1, Ordering::SeqCst);
        }
        hit
    }
}
