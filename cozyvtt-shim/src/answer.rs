//! The lines that the shim says itself: errors in the daemon's place, and the
//! answer to a ping.

use std::path::Path;

use cozyvtt_proto::MAX_LINE_BYTES;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::message::{Id, Method};

/// JSON-RPC's number for a line that is no valid request.
const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC's first number for errors of the server's own making.
const SERVER_ERROR: i32 = -32000;

/// Between which two programs it broke.
const HOP: &str = "shim -> daemon";

/// Why requests cannot be passed on.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    kind: Kind,
    /// What failed and where, as a sentence without its full stop.
    what: String,
    /// What mends it, as whole sentences.
    mend: &'static str,
}

/// Which trouble it is, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    /// No connection came about.
    DaemonUnreachable,
    /// There was a connection, and it ended.
    DaemonGone,
    /// The daemon does not want this shim.
    Refused,
    /// The daemon's answer is over the limit.
    AnswerTooLong,
    /// The client's line is over the limit.
    LineTooLong,
}

impl Trouble {
    /// No connection to `socket` came about; `cause` completes "cannot reach
    /// the daemon at SOCKET: ".
    pub(crate) fn unreachable(socket: &Path, cause: impl std::fmt::Display) -> Self {
        Self {
            kind: Kind::DaemonUnreachable,
            what: format!("cannot reach the daemon at {}: {cause}", socket.display()),
            mend: "Start `cozyvttd`, then try again; `cozyvttctl status` tells how it is.",
        }
    }

    /// Nobody can say where the daemon's socket would be.
    pub(crate) fn nowhere(cause: impl std::fmt::Display) -> Self {
        Self {
            kind: Kind::DaemonUnreachable,
            what: format!("cannot look for the daemon: {cause}"),
            mend: "Once that is mended, start this MCP server again.",
        }
    }

    /// The connection to `socket` was there and ended.
    pub(crate) fn gone(socket: &Path, cause: Option<&std::io::Error>) -> Self {
        let cause = cause.map_or_else(String::new, |cause| format!(" ({cause})"));
        Self {
            kind: Kind::DaemonGone,
            what: format!("the daemon at {} went away{cause}", socket.display()),
            mend: "`cozyvttctl status` tells how the daemon is; start `cozyvttd` if it does not \
                   run, then reconnect this MCP server in the client.",
        }
    }

    /// The daemon's own words are in `sentence`, with what mends it.
    pub(crate) fn refused(socket: &Path, sentence: &str) -> Self {
        let sentence = sentence.trim_end_matches('.');
        Self {
            kind: Kind::Refused,
            what: format!(
                "the daemon at {} refuses this client: {sentence}",
                socket.display()
            ),
            mend: "`cozyvttctl status` tells how the daemon is.",
        }
    }

    /// One short sentence for the log.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }
}

/// What may have become of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The daemon never had it.
    NotSent,
    /// The daemon had it and did not answer.
    Unanswered {
        /// It is one that may change something at the table.
        may_act: bool,
    },
}

impl Fate {
    /// Of a request with this `method` that was passed on.
    pub(crate) fn of_sent(method: Method) -> Self {
        Self::Unanswered {
            may_act: method == Method::ToolsCall,
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Self::NotSent => "Nothing was sent, so nothing happened.",
            Self::Unanswered { may_act: true } => {
                "This call was not answered: outcome unknown, check before repeating."
            }
            Self::Unanswered { may_act: false } => {
                "This request was not answered; it changes nothing and can be repeated."
            }
        }
    }
}

/// The error that answers a request which the daemon does not answer. Without
/// an `id` it answers a line whose id could not be read.
pub(crate) fn failure(id: Option<&Id>, trouble: &Trouble, fate: Fate) -> Vec<u8> {
    let Trouble { kind, what, mend } = trouble;
    let message = format!("{what}. {} {mend}", fate.sentence());
    error(id, SERVER_ERROR, message, *kind, HOP)
}

/// The error that answers a line of the client that is over the limit.
pub(crate) fn line_too_long() -> Vec<u8> {
    let message = format!(
        "the line is longer than {MAX_LINE_BYTES} bytes (16 MiB), the limit for one message; it was \
         dropped, nothing was sent, and the session goes on. Send less at once."
    );
    error(None, INVALID_REQUEST, message, Kind::LineTooLong, HOP)
}

/// The error that stands for an answer of the daemon that is over the limit.
pub(crate) fn answer_too_long(id: &Id) -> Vec<u8> {
    let message = format!(
        "the daemon's answer is longer than {MAX_LINE_BYTES} bytes (16 MiB), the limit for one \
         message, and was dropped. The request itself was carried out: check before repeating, \
         and ask for less at once."
    );
    let hop = "daemon -> shim";
    error(Some(id), SERVER_ERROR, message, Kind::AnswerTooLong, hop)
}

/// The answer to a ping.
pub(crate) fn pong(id: &Id) -> Vec<u8> {
    #[derive(Serialize)]
    struct Empty {}
    #[derive(Serialize)]
    struct Pong<'a> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        result: Empty,
    }
    line(&Pong {
        jsonrpc: "2.0",
        id: id.raw(),
        result: Empty {},
    })
}

fn error(id: Option<&Id>, code: i32, message: String, kind: Kind, hop: &'static str) -> Vec<u8> {
    #[derive(Serialize)]
    struct Answer<'a> {
        jsonrpc: &'static str,
        id: Option<&'a RawValue>,
        error: Error,
    }
    #[derive(Serialize)]
    struct Error {
        code: i32,
        message: String,
        data: Data,
    }
    #[derive(Serialize)]
    struct Data {
        kind: Kind,
        hop: &'static str,
    }
    line(&Answer {
        jsonrpc: "2.0",
        id: id.map(Id::raw),
        error: Error {
            code,
            message,
            data: Data { kind, hop },
        },
    })
}

/// `message` on a line of its own.
pub(crate) fn line(message: &impl Serialize) -> Vec<u8> {
    // Plain structs of strings and numbers: there is nothing in them that
    // serde_json could refuse to write.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}
