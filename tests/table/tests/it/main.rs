//! The table, seen from outside: over HTTP and over a raw WebSocket.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod assets;
mod binary;
mod bounds;
mod characters;
mod chat;
mod connect;
mod creatures;
mod dice;
mod documents;
mod evenings;
mod faults;
mod fights;
mod guest;
mod hit_points;
mod lead;
mod limits;
mod lost_updates;
mod people;
mod routes;
mod saved_rolls;
mod serving;
mod shapes;
mod tokens;
