//! What the shim remembers of a session, so that another connection can be brought
//! to where the last one was.

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::message::{Details, Id, Method, result};
use crate::outstanding::Entry;

/// What was settled with the daemon.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The parameters of the `initialize` that was answered.
    handshake: Option<Box<RawValue>>,
    /// The client's `notifications/initialized`.
    initialized: Option<Arc<[u8]>>,
    /// The catalog that the client was shown last.
    catalog: Option<Catalog>,
    /// The URIs that are subscribed to, each with the parameters.
    subscriptions: Vec<(String, Box<RawValue>)>,
    /// The instance of the daemon.
    instance: Option<String>,
}

#[derive(Debug)]
struct Catalog {
    /// What the client asked with.
    params: Option<Box<RawValue>>,
    result: Box<RawValue>,
}

/// What a new connection needs.
#[derive(Debug)]
pub(crate) struct Replay {
    /// The parameters of `initialize`.
    pub(crate) handshake: Option<Box<RawValue>>,
    /// The line that follows its answer.
    pub(crate) initialized: Option<Arc<[u8]>>,
    /// The parameters of each `resources/subscribe`.
    pub(crate) subscriptions: Vec<Box<RawValue>>,
    /// Whether the tools should be looked at again.
    pub(crate) catalog: Option<Look>,
}

/// A look at the tools.
#[derive(Debug)]
pub(crate) struct Look {
    /// The parameters of `tools/list`.
    pub(crate) params: Option<Box<RawValue>>,
}

impl Memory {
    /// The instance of the daemon that was spoken to last.
    pub(crate) fn instance(&self) -> Option<&str> {
        self.instance.as_deref()
    }

    /// A connection to `instance` has come about.
    pub(crate) fn met(&mut self, instance: String) {
        self.instance = Some(instance);
    }

    /// The client begins a handshake.
    pub(crate) fn begins(&mut self) {
        self.handshake = None;
        self.initialized = None;
    }

    /// The client is done with the handshake, in the words of `line`.
    pub(crate) fn initialized(&mut self, line: &[u8]) {
        self.initialized = Some(line.into());
    }

    /// What the client said when it was done with the handshake.
    pub(crate) fn told(&self) -> Option<&Arc<[u8]>> {
        self.initialized.as_ref()
    }

    /// What a connection to `instance` needs.
    pub(crate) fn replay(&self, instance: &str) -> Replay {
        // The tools of one instance do not change. Without a handshake, the client
        // asks again by itself and takes no notification unasked (MCP 2026-07-28).
        let look = self.handshake.is_some()
            && self.initialized.is_some()
            && self.instance.as_deref().is_some_and(|old| old != instance);
        let catalog = self.catalog.as_ref().filter(|_| look);
        Replay {
            handshake: self.handshake.clone(),
            initialized: self.initialized.clone(),
            subscriptions: self
                .subscriptions
                .iter()
                .map(|(_, params)| params.clone())
                .collect(),
            catalog: catalog.map(|catalog| Look {
                params: catalog.params.clone(),
            }),
        }
    }

    /// Notes what the answer `line` to the request `entry` means for later.
    pub(crate) fn note(&mut self, entry: &Entry, line: &[u8]) {
        let Some((_, method)) = entry.request() else {
            return;
        };
        if matches!(method, Method::Other | Method::Ping | Method::ToolsCall) {
            return;
        }
        let request = entry.line().and_then(|line| Details::of(line));
        let (Some(request), Some(result)) = (request, result(line)) else {
            return;
        };
        match method {
            Method::Initialize => self.handshake = request.params,
            Method::ToolsList if request.text("cursor").is_none() => {
                self.catalog = Some(Catalog {
                    params: request.params,
                    result: result.to_owned(),
                });
            }
            Method::Subscribe | Method::Unsubscribe => {
                let (Some(uri), Some(params)) = (request.text("uri"), request.params) else {
                    return;
                };
                self.subscriptions.retain(|(known, _)| *known != uri);
                if method == Method::Subscribe {
                    self.subscriptions.push((uri, params));
                }
            }
            _ => {}
        }
    }

    /// The answer to a `tools/list` with this `line`, from the last one.
    pub(crate) fn listed(&self, line: &[u8]) -> Option<&RawValue> {
        let catalog = self.catalog.as_ref()?;
        let whole = Details::of(line)?.text("cursor").is_none();
        whole.then_some(&*catalog.result)
    }

    /// Whether the answer `line` to a question of our own shows other tools than the
    /// client was shown; they count as shown from then on.
    pub(crate) fn has_changed(&mut self, line: &[u8]) -> bool {
        let (Some(catalog), Some(result)) = (&mut self.catalog, result(line)) else {
            return false;
        };
        if same(&catalog.result, result) {
            return false;
        }
        catalog.result = result.to_owned();
        true
    }
}

/// Whether two texts are the same JSON, in whatever order the members come.
fn same(one: &RawValue, other: &RawValue) -> bool {
    let parsed = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).ok();
    one.get() == other.get() || parsed(one) == parsed(other)
}

/// The names of requests of the shim's own. The random one of this process is in
/// them, so that no client's id is like one of them.
#[derive(Debug)]
pub(crate) struct OwnIds {
    name: String,
    count: u64,
}

impl OwnIds {
    /// For the process that is called `name`.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            count: 0,
        }
    }

    /// An id that was never used before.
    pub(crate) fn next(&mut self) -> Id {
        self.count += 1;
        Id::own(&format!("cozyvtt-shim:{}:{}", self.name, self.count))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::message::Message;
    use crate::outstanding::Due;

    fn entry(line: &str) -> Entry {
        match Message::of(line.as_bytes()) {
            Message::Request { id, method } => {
                Entry::waiting(Due::Answer(id, method), line.as_bytes(), Instant::now())
            }
            other => panic!("{other:?}"),
        }
    }

    fn noted(memory: &mut Memory, request: &str, answer: &str) {
        memory.note(&entry(request), answer.as_bytes());
    }

    #[test]
    fn only_an_answered_handshake_is_replayed() {
        let mut memory = Memory::default();
        let initialize = r#"{"id":1,"method":"initialize","params":{"a":1}}"#;
        noted(&mut memory, initialize, r#"{"id":1,"error":{"code":1}}"#);
        assert!(memory.replay("i").handshake.is_none());
        noted(&mut memory, initialize, r#"{"id":1,"result":{}}"#);
        let replay = memory.replay("i");
        assert_eq!(replay.handshake.unwrap().get(), r#"{"a":1}"#);
        assert!(replay.initialized.is_none());
    }

    #[test]
    fn a_subscription_is_replayed_until_it_is_taken_back() {
        let mut memory = Memory::default();
        let ask = |method: &str| {
            format!(r#"{{"id":1,"method":"resources/{method}","params":{{"uri":"u"}}}}"#)
        };
        noted(&mut memory, &ask("subscribe"), r#"{"id":1,"result":{}}"#);
        noted(&mut memory, &ask("subscribe"), r#"{"id":1,"result":{}}"#);
        assert_eq!(memory.replay("i").subscriptions.len(), 1);
        noted(&mut memory, &ask("unsubscribe"), r#"{"id":1,"result":{}}"#);
        assert!(memory.replay("i").subscriptions.is_empty());
    }

    #[test]
    fn the_tools_of_another_instance_are_looked_at_and_compared() {
        let mut memory = Memory::default();
        noted(
            &mut memory,
            r#"{"id":1,"method":"initialize","params":{}}"#,
            r#"{"id":1,"result":{}}"#,
        );
        memory.initialized(b"{}\n");
        let list = r#"{"id":2,"method":"tools/list"}"#;
        noted(&mut memory, list, r#"{"id":2,"result":{"a":1,"b":[]}}"#);
        memory.met("one".to_owned());
        assert!(memory.replay("one").catalog.is_none());
        assert!(memory.replay("two").catalog.is_some());
        assert!(!memory.has_changed(br#"{"id":9,"result":{"b":[],"a":1}}"#));
        assert!(!memory.has_changed(br#"{"id":9,"error":{}}"#));
        assert!(memory.has_changed(br#"{"id":9,"result":{"b":[1],"a":1}}"#));
        assert_eq!(
            memory.listed(list.as_bytes()).unwrap().get(),
            r#"{"b":[1],"a":1}"#
        );
        let page = br#"{"id":2,"method":"tools/list","params":{"cursor":"c"}}"#;
        assert!(memory.listed(page).is_none());
    }
}
