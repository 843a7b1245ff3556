//! What a line is, as far as a carrier must know: a request, an answer, or
//! something else. The line itself stays as it is.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};

use serde::Deserialize;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// The notification by which a client takes a request back.
const CANCELLED: &str = "notifications/cancelled";
/// The notification that ends the handshake.
const INITIALIZED: &str = "notifications/initialized";

/// A request's id: a JSON string or number.
#[derive(Debug, Clone)]
pub(crate) struct Id {
    /// As it was written.
    raw: Box<RawValue>,
    /// What was meant, since one string or number can be written in several ways.
    meaning: Meaning,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Meaning {
    /// A string's characters.
    Text(Box<str>),
    /// A whole number. One of 64 bits is exact.
    Whole(i128),
    /// Any other number, as the bits of an `f64`; most programs read it as that.
    Real(u64),
    /// A number beyond that, as it was written.
    Huge(Box<str>),
}

impl Meaning {
    fn of_number(written: &str) -> Self {
        // 2^64, from which on no whole number is read as one.
        const END: f64 = 18_446_744_073_709_551_616.0;
        let Ok(Value::Number(number)) = serde_json::from_str(written) else {
            return Self::Huge(written.into());
        };
        let whole = number.as_i64().map(i128::from);
        if let Some(whole) = whole.or_else(|| number.as_u64().map(i128::from)) {
            return Self::Whole(whole);
        }
        match number.as_f64() {
            #[expect(clippy::cast_possible_truncation, reason = "it is whole and fits")]
            Some(real) if real.fract() == 0.0 && real.abs() < END => Self::Whole(real as i128),
            Some(real) => Self::Real(real.to_bits()),
            None => Self::Huge(written.into()),
        }
    }
}

impl Id {
    /// `None` for what cannot be an id, `null` among it (MCP forbids that one).
    fn new(raw: &RawValue) -> Option<Self> {
        let meaning = match raw.get().as_bytes().first()? {
            b'"' => Meaning::Text(serde_json::from_str(raw.get()).ok()?),
            b'-' | b'0'..=b'9' => Meaning::of_number(raw.get()),
            _ => return None,
        };
        Some(Self {
            raw: raw.to_owned(),
            meaning,
        })
    }

    /// An id of the shim's own.
    pub(crate) fn own(name: &str) -> Self {
        // A string of plain characters: quoting it is all that JSON asks.
        let raw = RawValue::from_string(format!("\"{name}\"")).unwrap_or_default();
        Self {
            raw,
            meaning: Meaning::Text(name.into()),
        }
    }

    /// As it was written, JSON type and all.
    pub(crate) fn raw(&self) -> &RawValue {
        &self.raw
    }

    /// How many bytes of memory it takes at most, beyond those of every id.
    pub(crate) fn weight(&self) -> usize {
        // The meaning is no longer than what was written.
        2 * self.raw.get().len()
    }

    /// The `answer`, whose id `other` is the same, under this one, if that number is
    /// written in another way: a client may look for what it wrote.
    pub(crate) fn respelled(&self, other: &Self, answer: &[u8]) -> Option<Vec<u8>> {
        let alike = self.raw.get() == other.raw.get();
        if alike || matches!(self.meaning, Meaning::Text(_)) {
            return None;
        }
        let written = Head::of(answer).ok()?.id?.get();
        // It is a part of the answer, and this is where.
        let start = written.as_ptr().addr() - answer.as_ptr().addr();
        let (before, after) = (answer.get(..start)?, answer.get(start + written.len()..)?);
        Some([before, self.raw.get().as_bytes(), after].concat())
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.meaning == other.meaning
    }
}

impl Hash for Id {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.meaning.hash(hasher);
    }
}

/// What a request asks for, as far as a carrier must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// `ping`: a sign of life, which any side of a proxy can give.
    Ping,
    /// `initialize`: the handshake, which a new connection needs again.
    Initialize,
    /// `tools/call`: the one that may change something at the table.
    ToolsCall,
    /// `tools/list`: the catalog.
    ToolsList,
    /// `resources/subscribe`: what a new connection needs again.
    Subscribe,
    /// `resources/unsubscribe`: what takes that back.
    Unsubscribe,
    /// Everything else; it reads.
    Other,
}

impl Method {
    fn of(name: &str) -> Self {
        match name {
            "ping" => Self::Ping,
            "initialize" => Self::Initialize,
            "tools/call" => Self::ToolsCall,
            "tools/list" => Self::ToolsList,
            "resources/subscribe" => Self::Subscribe,
            "resources/unsubscribe" => Self::Unsubscribe,
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
    /// The client is done with the handshake.
    Initialized,
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
            (None, Some(method)) if method == INITIALIZED => Self::Initialized,
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

/// What a request says beyond its [`Message`]; looked at only when that matters.
#[derive(Debug)]
pub(crate) struct Details {
    /// Its method.
    pub(crate) method: String,
    /// Its parameters, as the client wrote them.
    pub(crate) params: Option<Box<RawValue>>,
}

impl Details {
    /// Of a line that is a request.
    pub(crate) fn of(line: &[u8]) -> Option<Self> {
        let head = Head::of(line).ok()?;
        Some(Self {
            method: head.method?.into_owned(),
            params: head.params.map(ToOwned::to_owned),
        })
    }

    /// The string that the parameters hold under `key`.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        let params = serde_json::from_str::<Value>(self.params.as_ref()?.get()).ok()?;
        Some(params.get(key)?.as_str()?.to_owned())
    }
}

/// The `result` of an answer; `None` when it is an error.
pub(crate) fn result(answer: &[u8]) -> Option<&RawValue> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        result: Option<&'a RawValue>,
    }
    serde_json::from_slice::<Answer<'_>>(answer).ok()?.result
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
            Message::Initialized
        );
        assert_eq!(
            Message::of(br#"{"jsonrpc":"2.0","method":"notifications/progress"}"#),
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
    fn the_same_number_is_the_same_id_however_it_is_written() {
        for (one, other) in [
            ("1e2", "100"),
            ("1e2", "100.0"),
            ("100", "100.00"),
            ("-5E-1", "-0.5"),
            ("-0", "0"),
            ("-0.0", "0e7"),
            ("1e19", "10000000000000000000"),
            // Beyond 64 bits all programs but a few read the nearest `f64`.
            ("36893488147419103232", "3.6893488147419103e19"),
        ] {
            assert_eq!(id(one), id(other));
        }
        for (one, other) in [
            ("100", "\"100\""),
            ("1e2", "\"1e2\""),
            ("100", "-100"),
            ("0.1", "0.10000000000000002"),
            ("9007199254740993", "9007199254740992"),
            ("18446744073709551615", "18446744073709551614"),
            ("-9223372036854775808", "-9223372036854775807"),
            ("1e400", "1e500"),
        ] {
            assert_ne!(id(one), id(other));
        }
        assert_eq!(id("1e400"), id("1e400"));
    }

    #[test]
    fn an_answer_is_given_under_the_number_that_was_written() {
        let said = |id: &Id, answer: &str| {
            let other = match Message::of(answer.as_bytes()) {
                Message::Answer { id } => id,
                other => panic!("{other:?}"),
            };
            let said = id.respelled(&other, answer.as_bytes());
            said.map(|said| String::from_utf8(said).unwrap())
        };
        let answer = r#"{"jsonrpc":"2.0", "id" : 100.0,"result":{"id":100.0}}"#;
        let expected = r#"{"jsonrpc":"2.0", "id" : 1e2,"result":{"id":100.0}}"#;
        assert_eq!(said(&id("1e2"), answer).as_deref(), Some(expected));
        assert_eq!(said(&id("100.0"), answer), None);
        assert_eq!(said(&id(r#""a""#), r#"{"id":"\u0061","result":{}}"#), None);
    }

    #[test]
    fn an_id_of_the_shims_own_is_like_any_other() {
        assert_eq!(Id::own("a/1"), id(r#""a\/1""#));
        assert_eq!(Id::own("a/1").raw().get(), "\"a/1\"");
    }

    #[test]
    fn the_tool_of_a_call_is_found() {
        let call = br#"{"id":1,"method":"tools/call","params":{"name":"dice_roll"}}"#;
        let details = Details::of(call).unwrap();
        assert_eq!(details.method, "tools/call");
        assert_eq!(details.text("name").as_deref(), Some("dice_roll"));
        assert_eq!(details.text("cursor"), None);
    }

    #[test]
    fn a_result_is_told_from_an_error() {
        let raw = |line: &str| result(line.as_bytes()).map(|result| result.get().to_owned());
        assert_eq!(
            raw(r#"{"id":1,"result":{"a": 1}}"#).as_deref(),
            Some(r#"{"a": 1}"#)
        );
        assert_eq!(raw(r#"{"id":1,"error":{}}"#), None);
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
