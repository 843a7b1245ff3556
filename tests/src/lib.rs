//! The harness of the end-to-end suites: the real binaries, in folders of
//! their own, against a practice table.
//!
//! Tests never sleep to wait: [`until`] looks for a condition until it holds.

pub mod agent;
pub mod asked;
pub mod between;
pub mod binaries;
pub mod calls;
pub mod captures;
pub mod daemon;
pub mod in_process;
pub mod mounts;
pub mod peer;
pub mod raw;
pub mod seat;
pub mod terminal;

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long a test waits for what has to happen. Generous: a busy machine is no
/// failure, and a condition that holds is found at once.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `condition` gives a value.
///
/// # Panics
///
/// When it does not within [`PATIENCE`].
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, condition: impl Fn() -> F) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        // Between two looks, not instead of one.
        sleep(Duration::from_millis(5)).await;
    }
}
