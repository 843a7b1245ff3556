//! cozyvttd: one session with a CozyVTT table for many AI agents.
//!
//! Calls flow downwards: `mcp` and `control` are the two faces, `tools` holds
//! the catalog, `session` the one login and the live link, `journal` the events.

pub mod config;
pub mod journal;
pub mod private;
pub mod session;
pub mod tools;
