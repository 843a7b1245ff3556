//! The control face: HTTP with JSON-RPC for people and scripts on `control.sock`.

mod clients;
mod http;
mod progress;
mod rpc;
mod status;
mod stream;

pub use http::serve;
pub(crate) use status::headline;
