//! The lines that the shim says itself: errors in the daemon's place, and the
//! answer to a ping.

use std::path::Path;

use cozyvtt_proto::MAX_LINE_BYTES;
use cozyvtt_proto::profile::addressed;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::message::{Id, Method};
use crate::outstanding::Limit;

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
    /// Whether waiting can help.
    outlook: Outlook,
}

/// Whether waiting can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outlook {
    /// The daemon may be back in a moment.
    Passing,
    /// The same, and nobody listens: the daemon can be started.
    NobodyListens,
    /// Somebody has to do something.
    Lasting,
}

/// Which trouble it is, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    /// No connection came about.
    DaemonUnreachable,
    /// The daemon could not be started.
    DaemonNotStarted,
    /// There was a connection, and it ended.
    DaemonGone,
    /// The daemon is there, and does not answer.
    DaemonSilent,
    /// The connection ended, and there is another one.
    DaemonBack,
    /// More waits for the daemon than may.
    TooMuchWaits,
    /// The daemon does not want this shim, or this shim not that daemon.
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
            outlook: Outlook::Passing,
        }
    }

    /// The first connection has not come about yet.
    pub(crate) fn connecting() -> Self {
        Self {
            kind: Kind::DaemonUnreachable,
            what: "there is no connection to the daemon yet".to_owned(),
            mend: "Try again; `cozyvttctl status` tells how the daemon is.",
            outlook: Outlook::Passing,
        }
    }

    /// Nobody listens at `socket`, as `error` tells.
    pub(crate) fn nobody(socket: &Path, error: &std::io::Error) -> Self {
        Self {
            outlook: Outlook::NobodyListens,
            ..Self::unreachable(socket, error)
        }
    }

    /// The daemon has not answered at `socket` within `seconds`.
    pub(crate) fn silent(socket: &Path, seconds: u64) -> Self {
        Self {
            kind: Kind::DaemonSilent,
            what: format!(
                "the daemon at {} is there but did not answer within {seconds} s",
                socket.display()
            ),
            mend: "If it was stopped, let it go on (`kill -CONT`); if it is stuck, end it (`kill -9`) \
                   and start `cozyvttd` again.",
            outlook: Outlook::Passing,
        }
    }

    /// The daemon has not answered within `seconds` after the client had closed stdin.
    pub(crate) fn late(seconds: u64) -> Self {
        Self {
            kind: Kind::DaemonSilent,
            what: format!("stdin has ended, and the daemon did not answer within {seconds} s"),
            mend: "Keep stdin open until the answers are there.",
            outlook: Outlook::Passing,
        }
    }

    /// Nobody can say where the daemon's socket would be.
    pub(crate) fn nowhere(cause: impl std::fmt::Display) -> Self {
        Self {
            kind: Kind::DaemonUnreachable,
            what: format!("cannot look for the daemon: {cause}"),
            mend: "Once that is mended, start this MCP server again.",
            outlook: Outlook::Lasting,
        }
    }

    /// The daemon could not be started; `cause` is a sentence without its full stop.
    pub(crate) fn not_started(cause: impl std::fmt::Display) -> Self {
        Self {
            kind: Kind::DaemonNotStarted,
            what: format!("the daemon does not run and could not be started: {cause}"),
            mend: "Once that is mended, the next request starts it; `cozyvttd` in a terminal shows \
                   the same.",
            outlook: Outlook::Lasting,
        }
    }

    /// The connection to `socket` was there and ended.
    pub(crate) fn gone(socket: &Path, cause: Option<&std::io::Error>) -> Self {
        let cause = cause.map_or_else(String::new, |cause| format!(" ({cause})"));
        Self {
            kind: Kind::DaemonGone,
            what: format!("the daemon at {} went away{cause}", socket.display()),
            mend: "`cozyvttctl status` tells how the daemon is; start `cozyvttd` if it does not run.",
            outlook: Outlook::Passing,
        }
    }

    /// The connection to `socket` ended, there is another one, and the daemon does not
    /// know what became of a request.
    pub(crate) fn back(socket: &Path) -> Self {
        Self {
            kind: Kind::DaemonBack,
            what: format!(
                "the connection to the daemon at {} broke during this call; it is back",
                socket.display()
            ),
            mend: "Reads and further calls work again.",
            outlook: Outlook::Passing,
        }
    }

    /// No more may wait for the daemon because of `limit`.
    pub(crate) fn crowded(limit: Limit) -> Self {
        let what = match limit {
            Limit::Messages(most) => {
                format!("{most} messages wait for the daemon already, and no more may")
            }
            Limit::Bytes(most) => format!(
                "the messages that are not answered would be longer than {most} bytes ({} MiB) \
                 together, and no more are kept",
                most >> 20
            ),
        };
        Self {
            kind: Kind::TooMuchWaits,
            what,
            mend: "Send less at once, and wait for answers; `cozyvttctl status` tells how the daemon \
                   is.",
            outlook: Outlook::Passing,
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
            outlook: Outlook::Lasting,
        }
    }

    /// What listens at `socket` is none of this user's, and is told no password.
    pub(crate) fn foreign(socket: &Path) -> Self {
        Self {
            kind: Kind::Refused,
            what: format!(
                "the program that listens at {} belongs to another user; the settings of this \
                 client's environment are not offered to it",
                socket.display()
            ),
            mend: "Give the folder of your own daemon with --socket-dir, or take COZYVTT_PASSWORD \
                   out of the environment of this MCP server.",
            outlook: Outlook::Lasting,
        }
    }

    /// Shim and daemon do not understand each other; `sentence` says why and what
    /// mends it.
    pub(crate) fn mismatch(sentence: String) -> Self {
        Self {
            kind: Kind::Refused,
            what: sentence,
            mend: "`cozyvttctl status` tells how the daemon is.",
            outlook: Outlook::Lasting,
        }
    }

    /// One short sentence for the log.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    /// Whether requests need not wait for it to pass.
    pub(crate) fn lasts(&self) -> bool {
        self.outlook == Outlook::Lasting
    }

    /// Whether nobody listens, so that the daemon can be started.
    pub(crate) fn nobody_listens(&self) -> bool {
        self.outlook == Outlook::NobodyListens
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
    let Trouble {
        kind, what, mend, ..
    } = trouble;
    let message = format!("{what}. {} {mend}", fate.sentence());
    error(
        id,
        SERVER_ERROR,
        addressed(&message).into_owned(),
        *kind,
        HOP,
    )
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
    answer(id, Empty {})
}

/// An answer to request `id`, with the `result` that another one had.
pub(crate) fn repeated(id: &Id, result: &RawValue) -> Vec<u8> {
    answer(id, result)
}

fn answer(id: &Id, result: impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Answer<'a, R> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        result: R,
    }
    line(&Answer {
        jsonrpc: "2.0",
        id: id.raw(),
        result,
    })
}

/// A request of the shim's own.
pub(crate) fn request(id: &Id, method: &str, params: Option<&RawValue>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Request<'a> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        method: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        params: Option<&'a RawValue>,
    }
    line(&Request {
        jsonrpc: "2.0",
        id: id.raw(),
        method,
        params,
    })
}

/// What tells the client that the tools are others now.
pub(crate) const TOOLS_CHANGED: &[u8] =
    b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n";

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
