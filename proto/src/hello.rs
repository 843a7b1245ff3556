//! The hello: the one line a client of `mcp.sock` may send before MCP begins.

use std::fmt;
use std::path::PathBuf;

use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The line a client sends: `{"cozyvtt":{...}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HelloLine {
    /// What the client says of itself.
    pub cozyvtt: Hello,
}

/// What a client says of itself. Unknown fields are tolerated, so a newer shim
/// can talk to an older daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The protocol number it speaks, [`crate::PROTOCOL`].
    pub protocol: u32,
    /// Its own version, as `major.minor.patch`.
    pub version: String,
    /// Its process id: a label for people, not a proof of anything.
    pub pid: u32,
    /// A random name for this client process, kept over reconnects.
    pub client_id: String,
    /// The folder it runs in, absolute: where the client's relative paths begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// The presets that it wants to see ([`crate::preset`]); without, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolsets: Option<Vec<String>>,
    /// It wants to see, and to be able to call, only tools that change nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Where it expects to sit. A daemon that sits elsewhere refuses it.
    #[serde(default, skip_serializing_if = "Expected::is_nothing")]
    pub expects: Expected,
    /// Settings for a daemon that has none: all of them or none at all. One that has
    /// settings never uses these; it takes them as what the client expects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Offered>,
    /// After a reconnect: the instance ([`Welcome::instance`]) that it spoke to before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_instance: Option<String>,
    /// After a reconnect: the requests that had no answer yet when the connection
    /// broke, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resends: Vec<Resend>,
}

/// Where a client expects to sit; what it leaves out is as the daemon has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// The instance's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The account's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// The campaign's id. Another campaign of the same account is no reason to refuse:
    /// the daemon sits in that one as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub campaign: Option<String>,
}

impl Expected {
    /// Whether it leaves everything to the daemon.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Settings that a client brings along, as the `COZYVTT_*` variables of its
/// environment say them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offered {
    /// The instance's address; without, the usual one of a daemon that is not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The account's address.
    pub email: String,
    /// Its password.
    pub password: Hidden,
    /// The campaign's id.
    pub campaign: String,
}

/// A text that no Debug output shows.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hidden(String);

impl Hidden {
    /// The text itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Hidden {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// What of a hello a daemon may be too old to know of, and would pass over. A client
/// that asks for it goes on only when [`Welcome::knows`] names it.
pub mod ask {
    /// [`super::Hello::read_only`].
    pub const READ_ONLY: &str = "read_only";
    /// [`super::Hello::expects`].
    pub const EXPECTS: &str = "expects";
    /// [`super::Hello::settings`].
    pub const SETTINGS: &str = "settings";
    /// All that this version knows of.
    pub const ALL: [&str; 3] = [READ_ONLY, EXPECTS, SETTINGS];
}

/// A request that the client has sent before, to [`Hello::previous_instance`], and
/// that it would send again under the same id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resend {
    /// Its JSON-RPC id, a string or a number as it was.
    pub id: Value,
    /// Its method, as `tools/call`.
    pub method: String,
    /// The tool, for `tools/call`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// How long ago it was first sent, in milliseconds.
    pub age_ms: u64,
    /// Its id has stood for another request before, which was answered: what the daemon
    /// has noted of the id may be about that one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reused: bool,
}

/// What is to become of a [`Resend`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Send it again: nothing is done twice by that.
    Again,
    /// Do not send it: it may have been carried out. Also what a client takes a
    /// verdict for that it does not know.
    #[serde(other)]
    Unknown,
}

/// The line the daemon answers with: `{"cozyvtt":{...}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplyLine {
    /// The daemon's verdict.
    pub cozyvtt: Reply,
}

/// The daemon's verdict on a hello.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Reply {
    /// Go on with MCP.
    Welcome(Welcome),
    /// The daemon closes the connection.
    Refusal(Refusal),
}

/// The daemon accepts the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The protocol number the daemon speaks.
    pub protocol: u32,
    /// The daemon's version, as `major.minor.patch`.
    pub version: String,
    /// A random name for this run of the daemon; another one means that the
    /// daemon was restarted in between.
    pub instance: String,
    /// Which of [`ask`] the daemon acts upon.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub knows: Vec<String>,
    /// What is to become of each of [`Hello::resends`], in their order. A daemon that
    /// is too old to know of them says nothing; what reads may then be sent again, a
    /// `tools/call` may not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resends: Vec<Verdict>,
}

/// The daemon refuses the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The protocol number the daemon speaks.
    pub protocol: u32,
    /// The daemon's version, as `major.minor.patch`.
    pub version: String,
    /// Why, and what mends it, in one sentence for a person.
    pub refused: String,
}

/// What mends a daemon that is older than its shim.
const NEWER_DAEMON: &str = "run `cargo install --path cozyvttd` in the source of the newer \
                            version, then `cozyvttctl stop`; the next request starts it again";

/// What to say when a shim asks for something ([`ask`]) that the daemon does not know
/// of; `None` when it knows of it all.
pub fn unknown_wish(shim: &str, asks: &[&str], daemon: &Welcome) -> Option<String> {
    let unknown = asks
        .iter()
        .find(|ask| !daemon.knows.iter().any(|known| known == *ask))?;
    Some(format!(
        "cozyvtt-shim {shim} asks for {unknown:?}, which cozyvttd {} does not know of; the daemon \
         is the older one: {NEWER_DAEMON}",
        daemon.version
    ))
}

/// What to say when a shim and a daemon do not speak the same protocol: both
/// versions, and the commands that bring the older one up to the other. `None` when
/// they do. Each is given as (protocol, version); the versions are compared as
/// versions, and where they do not tell which is older, the protocol numbers do.
pub fn mismatch(shim: (u32, &str), daemon: (u32, &str)) -> Option<String> {
    if shim.0 == daemon.0 {
        return None;
    }
    let versions = (Version::parse(shim.1), Version::parse(daemon.1));
    let shim_is_older = match versions {
        (Ok(shim), Ok(daemon)) if shim != daemon => shim < daemon,
        _ => shim.0 < daemon.0,
    };
    let mend = if shim_is_older {
        "the shim is the older one: run `cargo install --path cozyvtt-shim` in the source of the \
         newer version, then reconnect this MCP server in the client"
            .to_owned()
    } else {
        format!("the daemon is the older one: {NEWER_DAEMON}")
    };
    Some(format!(
        "cozyvtt-shim {} speaks protocol {}, cozyvttd {} speaks protocol {}; {mend}",
        shim.1, shim.0, daemon.1, daemon.0
    ))
}

/// Whether `line` is a hello rather than an MCP message: a JSON object whose
/// only top-level key is `cozyvtt`.
pub fn is_hello(line: &[u8]) -> bool {
    // A cheap look first: this runs on the first line of every connection.
    let line = line.trim_ascii_start();
    line.first() == Some(&b'{')
        && line[1..].trim_ascii_start().starts_with(b"\"cozyvtt\"")
        && serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(line)
            .is_ok_and(|object| object.len() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_object_whose_single_key_is_cozyvtt_is_a_hello() {
        assert!(is_hello(br#"{"cozyvtt":{"protocol":1}}"#));
        assert!(is_hello(br#"  { "cozyvtt" : 5 }"#));
        assert!(!is_hello(br#"{"cozyvtt":{},"id":1}"#));
        assert!(!is_hello(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#));
        assert!(!is_hello(b"cozyvtt"));
        assert!(!is_hello(b""));
    }

    #[test]
    fn a_hello_of_a_newer_client_is_understood_without_its_new_fields() {
        let line =
            r#"{"cozyvtt":{"protocol":1,"version":"9.0.0","pid":7,"client_id":"a","new":true}}"#;
        let hello: HelloLine = serde_json::from_str(line).unwrap();
        assert_eq!(hello.cozyvtt.version, "9.0.0");
    }

    #[test]
    fn a_verdict_of_a_newer_daemon_counts_as_unknown() {
        let verdicts: Vec<Verdict> = serde_json::from_str(r#"["again","done"]"#).unwrap();
        assert_eq!(verdicts, [Verdict::Again, Verdict::Unknown]);
    }

    #[test]
    fn the_older_of_two_that_do_not_understand_each_other_is_named_with_its_mend() {
        assert_eq!(mismatch((1, "0.9.0"), (1, "0.10.0")), None);
        let told = mismatch((1, "0.9.0"), (2, "0.10.0")).unwrap();
        assert!(told.contains("0.9.0") && told.contains("0.10.0"), "{told}");
        assert!(told.contains("cargo install --path cozyvtt-shim"), "{told}");
        let told = mismatch((2, "0.10.0"), (1, "0.9.0")).unwrap();
        assert!(told.contains("cargo install --path cozyvttd"), "{told}");
        // A development build of the same number.
        let told = mismatch((1, "0.9.0"), (2, "0.9.0")).unwrap();
        assert!(told.contains("cargo install --path cozyvtt-shim"), "{told}");
    }

    #[test]
    fn an_offered_password_is_on_the_wire_and_in_no_debug_output() {
        let line = r#"{"cozyvtt":{"protocol":1,"version":"0.1.0","pid":7,"client_id":"a",
            "expects":{"campaign":"c"},"settings":{"email":"a@b","password":"canary","campaign":"c"}}}"#;
        let hello: HelloLine = serde_json::from_str(line).unwrap();
        assert!(!format!("{hello:?}").contains("canary"));
        let sent = serde_json::to_string(&hello).unwrap();
        assert!(
            sent.contains("canary") && !sent.contains("read_only"),
            "{sent}"
        );
    }

    #[test]
    fn what_an_older_daemon_would_pass_over_is_named_with_both_versions() {
        let older = r#"{"protocol":1,"version":"0.1.0","instance":"i"}"#;
        let older: Welcome = serde_json::from_str(older).unwrap();
        assert_eq!(unknown_wish("0.2.0", &[], &older), None);
        let told = unknown_wish("0.2.0", &[ask::READ_ONLY], &older).unwrap();
        assert!(told.contains("0.2.0") && told.contains("0.1.0"), "{told}");
        assert!(told.contains("cargo install --path cozyvttd"), "{told}");
        let newer = Welcome {
            knows: ask::ALL.map(str::to_owned).to_vec(),
            ..older
        };
        assert_eq!(unknown_wish("0.2.0", &ask::ALL, &newer), None);
    }

    #[test]
    fn welcome_and_refusal_are_told_apart_by_their_fields() {
        let welcome: ReplyLine =
            serde_json::from_str(r#"{"cozyvtt":{"protocol":1,"version":"0.1.0","instance":"i"}}"#)
                .unwrap();
        assert!(matches!(welcome.cozyvtt, Reply::Welcome(_)));
        let refusal: ReplyLine = serde_json::from_str(
            r#"{"cozyvtt":{"protocol":2,"version":"0.9.0","refused":"update the shim"}}"#,
        )
        .unwrap();
        assert!(matches!(refusal.cozyvtt, Reply::Refusal(_)));
    }
}
