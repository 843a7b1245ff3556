//! What both ends of cozyvttd's two sockets agree on.
//!
//! cozyvttd serves two Unix sockets in one folder ([`paths`] says which):
//!
//! * `mcp.sock` carries MCP exactly as stdio does, so any MCP client that can
//!   open a Unix socket is a client;
//! * `control.sock` speaks HTTP/1.1 with JSON-RPC 2.0, so `curl` is a client.
//!
//! This crate needs nothing but serde, semver and a few system calls, and these are the
//! rules for a program in any other language:
//!
//! # mcp.sock
//!
//! 1. Connect. The folder is 0700 and the socket 0600; a peer of another user
//!    is closed at once.
//! 2. Optional, and only as the very first line: send a hello, one JSON object
//!    on one line whose only top-level key is `cozyvtt`
//!    ([`hello::HelloLine`]). The daemon answers with one line of the same
//!    form: either its version and instance ([`hello::Welcome`]) or a refusal
//!    ([`hello::Refusal`]) whose sentence says what to do; after a refusal it
//!    closes the connection. A client that reconnects announces in it the
//!    requests that are still unanswered, and sends again only those that the
//!    daemon's answer allows ([`hello::Resend`], [`hello::Verdict`]). What an older
//!    daemon would pass over is listed in [`hello::ask`]: a client that asks for it
//!    leaves when the answer's `knows` does not name it.
//! 3. From then on every line in both directions is one JSON-RPC message of MCP,
//!    either with the `initialize` handshake (MCP 2024-11-05 to 2025-11-25) or
//!    with the stateless requests of MCP 2026-07-28; one connection may mix both.
//! 4. A line ends with `\n`, holds no other newline and is at most
//!    [`MAX_LINE_BYTES`] long. A line that is no JSON, no JSON-RPC message or too
//!    long is answered with a JSON-RPC error; the connection stays up. Empty
//!    lines are ignored. A last line without its `\n` may be cut off and is
//!    never acted upon (cozyvtt-shim completes the one of a client that has closed
//!    its pipe).
//! 5. To leave, half-close the connection (`SHUT_WR`), read the answers that
//!    are still due, and close.
//!
//! # control.sock
//!
//! * `POST /rpc`: a JSON-RPC 2.0 request, answered in the response body. The
//!   methods, with their parameters and results, are in [`control`].
//! * `GET /events?since=N&campaign=ID`: server-sent events; first what the journal holds
//!   after `N` (without `since`: nothing), then live; of the daemon's own campaign
//!   without `campaign`. `id:` is the sequence
//!   number, `event:` the event's name, `data:` an [`event::EventRecord`]. A
//!   comment line keeps the connection alive every 15 s.
//! * `GET /health`: `{"status":"ok","version":...,"instance":...}` as long as
//!   the daemon serves at all, whatever the state of the table.

pub mod control;
pub mod event;
pub mod exit;
pub mod hello;
pub mod jsonrpc;
pub mod paths;
pub mod preset;
pub mod profile;
pub mod text;

#[cfg(feature = "client")]
pub mod client;

/// Number of this protocol. It grows when a program that speaks the old one
/// could no longer be understood; added fields do not change it.
pub const PROTOCOL: u32 = 1;

/// Longest line on `mcp.sock`, in bytes without the newline (16 MiB, the limit
/// that MCP SDKs share for stdio).
pub const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;
