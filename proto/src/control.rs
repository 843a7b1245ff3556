//! The methods of the control socket, one type per request and result.
//!
//! Requests refuse fields they do not know, so that a typing error is not
//! taken for a wish; results tolerate them, so that an older program can read
//! a newer daemon's answer.

use std::collections::BTreeMap;
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
    /// `daemon.reload`: read the configuration again. One that cannot be used is refused
    /// ([`ErrorKind::NotConfigured`](crate::jsonrpc::ErrorKind)), and the old one stays.
    DaemonReload, "daemon.reload", NoParams => Reloaded
);
method!(
    /// `auth.login`: sign in, once, whatever the daemon would do by itself; lifts a
    /// block. What CozyVTT itself has asked for, and its limit on sign-ins, still hold.
    AuthLogin, "auth.login", LoginParams => LoginStatus
);
method!(
    /// `auth.logout`: end the session at the server, forget it, and stay signed out
    /// until `auth.login`.
    AuthLogout, "auth.logout", NoParams => LoggedOut
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

method!(
    /// `client.list`: who is connected to `mcp.sock`.
    ClientList, "client.list", NoParams => Clients
);
method!(
    /// `client.hold`: refuse the writes of a client, or of all and of those to come;
    /// reads go on. It outlives a restart.
    ClientHold, "client.hold", SomeClients => Clients
);
method!(
    /// `client.release`: let a client, or all, write again, and come back where they
    /// were sent away.
    ClientRelease, "client.release", SomeClients => Clients
);
method!(
    /// `client.kick`: end a client's connection, and refuse all that it asks for when it
    /// comes back.
    ClientKick, "client.kick", ThisClient => Clients
);
method!(
    /// `client.tell`: a note for a client, which its next `events_poll` shows as
    /// `system.note`.
    ClientTell, "client.tell", TellParams => Told
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
    /// systemd holds its sockets, and starts it whenever somebody connects.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub activated: bool,
    /// Where the log goes: `journal` to systemd's, else the folder of its files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// The configuration file that it read, or would read if it were there.
    pub config_file: String,
    /// The instance's address, when one is configured.
    pub url: Option<String>,
    /// MCP clients connected now.
    pub clients: u64,
    /// After how many seconds without a client the daemon leaves, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_exit_s: Option<u64>,
    /// The way to the table, from the daemon outwards.
    pub hops: Vec<Hop>,
    /// The login, when one is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<LoginStatus>,
    /// What all clients share of what the server allows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<BudgetUse>,
    /// How many events of which names came over the live link and are not journalled,
    /// since the daemon started.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ignored_events: BTreeMap<String, u64>,
    /// The campaigns that it sits in besides its own, for clients that asked for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub campaigns: Vec<OtherCampaign>,
}

/// A campaign that the daemon sits in besides its own, until ten minutes after the last
/// client that asked for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OtherCampaign {
    /// Its id.
    pub id: String,
    /// How many clients sit in it.
    pub clients: u64,
    /// What of the way to it is its own: websocket, campaign, journal.
    pub hops: Vec<Hop>,
}

/// How much of a budget is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetUse {
    /// Of what: `requests`, `rolls` or `chat`.
    pub name: String,
    /// Sends within the window, those that wait included.
    pub used: u64,
    /// Sends that the window holds.
    pub of: u64,
    /// The window, in seconds.
    pub window_s: u64,
    /// How long the next one would wait, in seconds, rounded up.
    pub wait_s: u64,
}

/// Where the login stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginStatus {
    /// Where it stands.
    pub state: LoginPhase,
    /// Why it is not signed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<LoginReason>,
    /// The same in one sentence.
    pub detail: String,
    /// The account's name at the table, while signed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// When the next attempt is, while cooling down: RFC 3339, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// How long that is from now, in seconds, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<u64>,
    /// What mends it, when a person can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// What a person should know beside that: few backup codes are left, say, or the
    /// state folder takes no writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
    /// The sign-ins that count against CozyVTT's limit.
    pub tally: LoginTally,
}

/// Where a login stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoginPhase {
    /// Not signed in yet, or the server cannot be reached.
    SignedOut,
    /// The password is on its way.
    SigningIn,
    /// There is a session.
    SignedIn,
    /// The next attempt is at `until`.
    CoolingDown,
    /// There is no attempt before a person acts.
    Blocked,
    /// A state that this version does not know.
    #[serde(other)]
    Unknown,
}

/// Why a login is not signed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoginReason {
    /// Blocked: CozyVTT does not accept the address and the password.
    Rejected,
    /// Blocked: the account asks for a second factor.
    SecondFactor,
    /// Blocked: an administrator has to approve the account.
    Approval,
    /// Blocked: the account has to change its password first.
    PasswordChange,
    /// Blocked: CozyVTT refuses for another reason.
    Refused,
    /// Blocked: a person has signed out.
    SignedOut,
    /// Cooling down: CozyVTT has counted too many sign-ins.
    TooMany,
    /// Cooling down: so that CozyVTT does not come to count too many.
    Tally,
    /// Cooling down: the last attempt came to nothing.
    Failed,
    /// Cooling down: the last attempt was only just now.
    Spacing,
    /// Cooling down: the password could not be fetched.
    NoPassword,
    /// The server cannot be reached.
    Unreachable,
    /// A reason that this version does not know.
    #[serde(other)]
    Unknown,
}

/// The sign-ins that count against CozyVTT's limit: five in 15 minutes, in 1.1.2 good
/// ones and second factors included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginTally {
    /// How many all of this user's daemons have sent to this instance in the window.
    pub sent: u64,
    /// How many they send at most.
    pub limit: u64,
    /// The window, in seconds.
    pub window_s: u64,
    /// How many are left by the server's own word, which wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_remaining: Option<u64>,
    /// How long that word holds, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_resets_in_s: Option<u64>,
}

/// How to sign in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoginParams {
    /// The second factor: the six digits of an authenticator, or a backup code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
}

/// A code that works once. It is in no Debug output and no error message.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Code(String);

impl Code {
    /// The code.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Code {
    fn from(code: String) -> Self {
        Self(code)
    }
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Code(…)")
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // serde's own complaint about another type would quote it.
        match Value::deserialize(deserializer)? {
            Value::String(code) => Ok(Self(code)),
            _ => Err(serde::de::Error::custom("code has to be a string")),
        }
    }
}

/// The session has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedOut {
    /// The server knows it. Otherwise the session there ends by itself, in 30 days at
    /// the latest; nobody holds its cookie any more.
    pub ended_at_server: bool,
    /// Why the server does not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
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

/// The configuration was read again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// How it is followed.
    pub taken: Taken,
    /// What is another one than before: names of keys.
    pub changed: Vec<String>,
}

/// How another configuration is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Taken {
    /// There is nothing to follow: it says the same as before.
    Unchanged,
    /// It holds already.
    AtOnce,
    /// The calls that run are finished, then another run of the same process begins with
    /// it: another [`Status::instance`]. To the clients that is a restart.
    WithAnotherRun,
    /// A way that this version does not know.
    #[serde(other)]
    Unknown,
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
    /// The campaign's id, where that is not the daemon's own: it sits there for this, and
    /// ten minutes more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub campaign: Option<String>,
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PollParams {
    /// Records after this one; 0 reaches back to the oldest of the last 500.
    #[serde(default)]
    pub since: u64,
    /// At most this many, 1 to 500.
    #[serde(default = "PollParams::default_limit")]
    pub limit: u32,
    /// The campaign's id, where that is not the daemon's own: it sits there for this, and
    /// ten minutes more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub campaign: Option<String>,
}

impl PollParams {
    fn default_limit() -> u32 {
        100
    }
}

/// A page of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and a name on the wire"
)]
pub struct EventPage {
    /// Oldest first. Numbers grow, not always by one: see [`EventRecord::seq`].
    pub events: Vec<EventRecord>,
    /// The `since` of the next page: the number of this page's last record, or
    /// where this page began when it holds none.
    pub next_seq: u64,
    /// The newest record there is.
    pub high_water_seq: u64,
    /// The oldest record that is kept; one above the newest when there is none.
    pub oldest_seq: u64,
    /// Records after `since` are no longer kept, each of them counted in `evicted`.
    pub gap: bool,
    /// How many records after `since` are no longer kept, by the event's name. It
    /// is exact for a cursor that reaches back over 20,000 lost records at most,
    /// and an upper bound for an older one. `unknown` stands for a file that could
    /// not be read, and is counted as one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub evicted: BTreeMap<String, u64>,
    /// `since` was larger than any number handed out; the page starts over.
    pub cursor_reset: bool,
    /// There are more records after this page.
    pub has_more: bool,
    /// What is written now outlives the daemon. While it is false, `note` says why.
    #[serde(default = "EventPage::durable_unless_said")]
    pub durable: bool,
    /// Why new records are held in memory alone, and what mends that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl EventPage {
    fn durable_unless_said() -> bool {
        true
    }
}

/// Which clients, or all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SomeClients {
    /// A client's number, or its name, of which there may be several; without, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
}

/// Which client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThisClient {
    /// Its number, or its name, of which there may be several.
    pub client: String,
}

/// What to tell whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TellParams {
    /// The client's number, or its name, of which there may be several.
    pub client: String,
    /// What to tell it, 1 to 4000 characters.
    pub text: String,
}

/// The note is on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// The number of its record; clients find it after any smaller cursor.
    pub seq: u64,
    /// Those whom it is for.
    pub clients: Vec<ClientInfo>,
}

/// Clients: all that are connected, or those that a method was about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clients {
    /// By number.
    pub clients: Vec<ClientInfo>,
    /// Whoever comes now is held as well.
    #[serde(default)]
    pub all_held: bool,
}

/// How a call gets on, as the events `progress` of a `POST /rpc` tell it whose `Accept` is
/// `text/event-stream`; the answer comes as the event `answer`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallProgress {
    /// What is going on: "uploading", "fetching", or "waiting for …".
    pub what: String,
    /// How much of it is done: bytes of a file, or milliseconds of a wait.
    pub done: u64,
    /// How much it is in all, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// The numbers are bytes.
    pub bytes: bool,
}

/// A client of `mcp.sock`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientInfo {
    /// Its number in this run of the daemon.
    pub number: u64,
    /// Its name from the MCP handshake, once it has come: its own word.
    #[serde(default)]
    pub name: Option<String>,
    /// Its version from the MCP handshake.
    #[serde(default)]
    pub version: Option<String>,
    /// Its process, or that of its shim.
    #[serde(default)]
    pub pid: Option<u32>,
    /// The presets that it has chosen ([`crate::preset`]); empty: it sees all tools.
    #[serde(default)]
    pub toolsets: Vec<String>,
    /// It sees, and may call, only tools that change nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// The campaign that it has asked for, where that is not the daemon's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub campaign: Option<String>,
    /// How long it has been connected, in seconds.
    #[serde(default)]
    pub connected_s: u64,
    /// Calls so far on this connection.
    #[serde(default)]
    pub calls: u64,
    /// The newest one.
    #[serde(default)]
    pub last_call: Option<LastCall>,
    /// Calls that are not answered yet.
    #[serde(default)]
    pub waiting: u64,
    /// How it stands with the person in charge.
    pub state: ClientState,
}

/// A client's newest call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastCall {
    /// The tool.
    pub tool: String,
    /// How long ago it came, in seconds.
    pub ago_s: u64,
}

/// How a client stands with the person in charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientState {
    /// It may do what its account may.
    Active,
    /// Its writes are refused.
    Held,
    /// All its calls are refused.
    SentAway,
    /// A state that this version does not know.
    #[serde(other)]
    Unknown,
}
