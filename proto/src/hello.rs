//! The hello: the one line a client of `mcp.sock` may send before MCP begins.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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
