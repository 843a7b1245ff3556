//! An in-memory stand-in for a CozyVTT server: the REST routes and the
//! Socket.IO events a client meets at a table, on loopback.
//!
//! It serves three purposes: end-to-end tests drive it as a library, a product
//! demo uses it as its practice table ([`Table::practice`]), and
//! `cozyvtt-table` runs it alone.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use cozyvtt_table::{Table, Version};
//!
//! let table = Table::builder().version(Version::V1_1_2).seed(7).start().await?;
//! println!("{} for {}", table.url(), table.account("dm").email);
//! table.say("player1", "Is anybody there?");
//! table.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! The table speaks for two releases, [`Version::V1_1_2`] and
//! [`Version::V1_5`]. [`Table::log`] holds all that went over the wire,
//! [`Table::faults`] makes things go wrong, and the other methods of [`Table`]
//! act as another person at the table would.

// An answer is a value and a refusal alike, and as large in both roles.
#![allow(clippy::result_large_err)]

mod builder;
mod dice;
mod faults;
mod hub;
mod limits;
mod log;
mod relay;
mod rest;
mod scene;
mod server;
mod socket;
mod table;
mod tls;
mod version;
mod world;
mod writes;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use builder::TableBuilder;
pub use faults::{Armed, Fault, Faults, Reply, SocketFault};
pub use log::{Direction, Exchange, Frame, Log};
pub use scene::{
    CampaignPlan, CharacterPlan, CreaturePlan, DocumentPlan, MapPlan, Person, Scene, TokenPlan,
    plain_sheet,
};
pub use table::{Account, ChatLine, Document, RollLine, Table};
pub use version::{UnknownVersion, Version};
pub use world::{GameSystem, Role};

/// Takes a lock; what a panicking thread left behind is still good enough for
/// the others.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
