//! The methods of the control socket, one type per request and result.
//!
//! Requests refuse fields they do not know, so that a typing error is not
//! taken for a wish; results tolerate them, so that an older program can read
//! a newer daemon's answer.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::event::EventRecord;

/// A method: its name, what it takes and what it answers.
pub trait Method {
    /// The name on the wire, `noun.verb`.
    const NAME: &'static str;
    /// What it takes.
    type Params: Serialize + DeserializeOwned + Send;
    /// What it answers.
    type Result: Serialize + DeserializeOwned + Send;
}

macro_rules! method {
    ($(#[$doc:meta])* $type:ident, $name:literal, $params:ty => $result:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $type;

        impl Method for $type {
            const NAME: &'static str = $name;
            type Params = $params;
            type Result = $result;
        }
    };
}

method!(
    /// `daemon.status`: how the daemon is, hop by hop.
    DaemonStatus, "daemon.status", NoParams => Status
);
method!(
    /// `daemon.stop`: finish the calls that run, then leave. The answer comes
    /// before the daemon has gone.
    DaemonStop, "daemon.stop", NoParams => Stopping
);
method!(
    /// `tool.list`: the tools, as MCP's `tools/list` shows them.
    ToolList, "tool.list", NoParams => Tools
);
method!(
    /// `tool.call`: call a tool as an agent would.
    ToolCall, "tool.call", CallParams => CallResult
);
method!(
    /// `event.poll`: a page of the journal.
    EventPoll, "event.poll", PollParams => EventPage
);

/// For methods that take nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

/// How the daemon is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The daemon's version, as `major.minor.patch`.
    pub version: String,
    /// The random name of this run.
    pub instance: String,
    /// The daemon's process id.
    pub pid: u32,
    /// How long it has been running, in seconds.
    pub uptime_s: u64,
    /// Where it listens.
    pub sockets: Sockets,
    /// The folder that holds its journal and session.
    pub state_dir: String,
    /// The configuration file that it read, or would read if it were there.
    pub config_file: String,
    /// The instance's address, when one is configured.
    pub url: Option<String>,
    /// MCP clients connected now.
    pub clients: u64,
    /// The way to the table, from the daemon outwards.
    pub hops: Vec<Hop>,
}

/// The two socket files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sockets {
    /// Where MCP clients connect.
    pub mcp: String,
    /// Where this answer came from.
    pub control: String,
}

/// One stage on the way to the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// Which stage: `daemon`, `configuration`, `rest`, `login`, `websocket`,
    /// `campaign` or `journal`.
    pub name: String,
    /// How it is.
    pub state: HopState,
    /// What there is to say about it.
    pub detail: String,
    /// What mends it, when it is broken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// How a stage is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HopState {
    /// It works.
    Ok,
    /// Not yet tried, or on its way.
    Waiting,
    /// It does not work; `fix` says what mends it.
    Broken,
    /// A state that this version does not know.
    #[serde(other)]
    Unknown,
}

/// The daemon leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopping {
    /// Calls that were running and will be finished first.
    pub draining: u64,
}

/// The tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tools {
    /// MCP tool objects (`name`, `description`, `inputSchema`, `annotations`).
    pub tools: Vec<Value>,
}

/// Which tool to call, and with what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallParams {
    /// The tool's name.
    pub name: String,
    /// Its arguments.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// The caller's folder, absolute: where its relative paths begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
}

/// What the tool answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    /// The arguments did not fit; nothing was done.
    pub is_error: bool,
    /// The envelope: `{"ok":true,"data":…}` or `{"ok":false,"error":…}`.
    pub envelope: Value,
}

/// Which page of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PollParams {
    /// Records after this one; 0 reaches back to the oldest of the last 500.
    #[serde(default)]
    pub since: u64,
    /// At most this many, 1 to 500.
    #[serde(default = "PollParams::default_limit")]
    pub limit: u32,
}

impl PollParams {
    fn default_limit() -> u32 {
        100
    }
}

/// A page of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventPage {
    /// Oldest first.
    pub events: Vec<EventRecord>,
    /// The `since` of the next page: the number of this page's last record.
    pub next_seq: u64,
    /// The newest record there is.
    pub high_water_seq: u64,
    /// The oldest record that is kept; one above the newest when there is none.
    pub oldest_seq: u64,
    /// A record after `since` has been evicted.
    pub gap: bool,
    /// `since` was larger than any record; the page starts over.
    pub cursor_reset: bool,
    /// There are more records after this page.
    pub has_more: bool,
}
