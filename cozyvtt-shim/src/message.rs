//! What a line is, as far as a carrier must know: a request, an answer, or
//! something else. The line itself stays as it is.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The notification by which a client takes a request back.
const CANCELLED: &str = "notifications/cancelled";

/// A request's id: a JSON string or number.
#[derive(Debug, Clone)]
pub(crate) struct Id {
    /// As the client wrote it.
    raw: Box<RawValue>,
    /// A string's characters, since one string can be written in several ways.
    text: Option<Box<str>>,
}

impl Id {
    /// `None` for what cannot be an id, `null` among it (MCP forbids that one).
    fn new(raw: &RawValue) -> Option<Self> {
        let text = match raw.get().as_bytes().first()? {
            b'"' => Some(serde_json::from_str(raw.get()).ok()?),
            b'-' | b'0'..=b'9' => None,
            _ => return None,
        };
        Some(Self {
            raw: raw.to_owned(),
            text,
        })
    }

    /// As the client wrote it, JSON type and all.
    pub(crate) fn raw(&self) -> &RawValue {
        &self.raw
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        match (&self.text, &other.text) {
            (Some(one), Some(other)) => one == other,
            (None, None) => self.raw.get() == other.raw.get(),
            _ => false,
        }
    }
}

/// What a request asks for, as far as a carrier must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// `ping`: a sign of life, which any side of a proxy can give.
    Ping,
    /// `tools/call`: the one that may change something at the table.
    ToolsCall,
    /// Everything else; it reads.
    Other,
}

impl Method {
    fn of(name: &str) -> Self {
        match name {
            "ping" => Self::Ping,
            "tools/call" => Self::ToolsCall,
            _ => Self::Other,
        }
    }
}

/// What a line is.
#[derive(Debug, PartialEq)]
pub(crate) enum Message {
    /// It wants an answer under this id.
    Request {
        /// The id of the answer.
        id: Id,
        /// What is asked for.
        method: Method,
    },
    /// It answers a request of the other side.
    Answer {
        /// The id of that request.
        id: Id,
    },
    /// The client takes a request back; there may never be an answer to it.
    Cancelled {
        /// The id of that request.
        id: Id,
    },
    /// It wants no answer.
    Notification,
    /// No JSON-RPC message, or a batch of them. The daemon will say what it
    /// thinks of it.
    Unclear,
}

impl Message {
    /// Reads as little of `line` as it takes.
    pub(crate) fn of(line: &[u8]) -> Self {
        let Ok(head) = Head::of(line) else {
            return Self::Unclear;
        };
        let id = head.id.map(Id::new);
        match (id, head.method) {
            (Some(Some(id)), Some(method)) => Self::Request {
                id,
                method: Method::of(&method),
            },
            (Some(Some(id)), None) => Self::Answer { id },
            (None, Some(method)) if method == CANCELLED => {
                cancelled_id(head.params).map_or(Self::Notification, |id| Self::Cancelled { id })
            }
            (None, Some(_)) => Self::Notification,
            (Some(None), _) | (None, None) => Self::Unclear,
        }
    }

    /// The id of the request that a cut-off line would have answered, if the
    /// id came before the cut.
    pub(crate) fn answered_by_beginning(beginning: &[u8]) -> Option<Id> {
        let (Ok(head) | Err(head)) = Head::of(beginning);
        if head.method.is_some() {
            return None;
        }
        head.id.and_then(Id::new)
    }
}

fn cancelled_id(params: Option<&RawValue>) -> Option<Id> {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow, rename = "requestId")]
        request_id: &'a RawValue,
    }
    let params: Params<'_> = serde_json::from_str(params?.get()).ok()?;
    Id::new(params.request_id)
}

/// The members of a JSON-RPC message that matter here. The values borrow from
/// the line, so that a long one costs a scan and no copy.
#[derive(Debug, Default)]
struct Head<'a> {
    id: Option<&'a RawValue>,
    method: Option<Cow<'a, str>>,
    params: Option<&'a RawValue>,
}

impl<'a> Head<'a> {
    /// `Err` holds what was found before `line` turned out not to be one JSON
    /// object.
    fn of(line: &'a [u8]) -> Result<Self, Self> {
        let mut head = Self::default();
        let mut json = serde_json::Deserializer::from_slice(line);
        let read = json.deserialize_map(Filling(&mut head));
        match read.and_then(|()| json.end()) {
            Ok(()) => Ok(head),
            Err(_) => Err(head),
        }
    }
}

struct Filling<'h, 'a>(&'h mut Head<'a>);

impl<'a> Visitor<'a> for Filling<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON-RPC message")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(key)) = map.next_key()? {
            match &*key {
                "id" => self.0.id = Some(map.next_value()?),
                "method" => {
                    let Text(method) = map.next_value()?;
                    self.0.method = Some(method);
                }
                "params" => self.0.params = Some(map.next_value()?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// A string that is copied only if it holds escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn id(json: &str) -> Id {
        Id::new(&RawValue::from_string(json.to_owned()).unwrap()).unwrap()
    }

    #[test]
    fn requests_answers_and_notifications_are_told_apart() {
        let request = br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"id":8}}"#;
        assert_eq!(
            Message::of(request),
            Message::Request {
                id: id("7"),
                method: Method::ToolsCall
            }
        );
        assert_eq!(
            Message::of(br#"{"jsonrpc":"2.0","id":"a","result":{"method":"x"}}"#),
            Message::Answer { id: id("\"a\"") }
        );
        assert_eq!(
            Message::of(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            Message::Notification
        );
    }

    #[test]
    fn a_cancellation_names_the_request_that_is_taken_back() {
        let line =
            br#"{"method":"notifications/cancelled","params":{"requestId":"r1","reason":"no"}}"#;
        assert_eq!(Message::of(line), Message::Cancelled { id: id("\"r1\"") });
        let nameless = br#"{"method":"notifications/cancelled"}"#;
        assert_eq!(Message::of(nameless), Message::Notification);
    }

    #[test]
    fn what_is_no_message_is_unclear() {
        for line in [
            &b"hello"[..],
            b"{\"id\":1,\"method\":",
            b"[{\"id\":1,\"method\":\"ping\"}]",
            b"{}",
            b"{\"id\":null,\"method\":\"ping\"}",
            b"{\"id\":{},\"method\":\"ping\"}",
            b"{\"id\":1,\"method\":\"ping\"} more",
            b"\xff\xfe",
        ] {
            assert_eq!(Message::of(line), Message::Unclear, "{line:?}");
        }
    }

    #[test]
    fn the_same_string_is_the_same_id_however_it_is_written() {
        assert_eq!(id(r#""a/\u00e4""#), id(r#""a\/ä""#));
        assert_ne!(id("1"), id("\"1\""));
        assert_ne!(id("1"), id("2"));
    }

    #[test]
    fn a_method_with_escapes_is_understood() {
        let line = br#"{"id":1,"method":"tools\/call"}"#;
        let method = Method::ToolsCall;
        assert_eq!(
            Message::of(line),
            Message::Request {
                id: id("1"),
                method
            }
        );
    }

    #[test]
    fn the_id_of_a_cut_off_answer_is_found_when_it_came_early() {
        let early = br#"{"jsonrpc":"2.0","id":5,"result":{"text":"xxxx"#;
        assert_eq!(Message::answered_by_beginning(early), Some(id("5")));
        let late = br#"{"jsonrpc":"2.0","result":{"text":"xxxx"#;
        assert_eq!(Message::answered_by_beginning(late), None);
        let request = br#"{"id":5,"method":"elicitation/create","params":{"a":"xxxx"#;
        assert_eq!(Message::answered_by_beginning(request), None);
    }
}
