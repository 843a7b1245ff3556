//! cozyvttd: one session with a CozyVTT table for many AI agents.
//!
//! Calls flow downwards: `mcp` and `control` are the two faces, `tools` holds
//! the catalog, `session` the one login and the live link, `journal` the events.

pub mod arguments;
pub mod audit;
pub mod campaigns;
pub mod clients;
pub mod config;
pub mod control;
pub mod daemon;
pub mod hub;
mod idle;
pub mod journal;
pub mod listen;
mod lock;
pub mod logging;
pub mod mcp;
pub mod nearest;
pub mod options;
pub mod private;
pub mod reload;
mod run;
pub mod session;
pub mod systemd;
mod time;
pub mod tools;
mod writes;
