//! A seat at the table for the length of one run: a session of the daemon's own
//! kind, without its sockets and with a state folder that is gone afterwards.

use std::sync::Arc;
use std::time::Duration;

use cozyvtt_proto::event::EventRecord;
use cozyvtt_proto::paths;
use cozyvttd::config::Settings;
use cozyvttd::journal::Journal;
use cozyvttd::session::clock::Clock;
use cozyvttd::session::rest::{Expect, ROUTE_MISSING, Request};
use cozyvttd::session::{Ground, Session};
use cozyvttd::tools::files::{Files, ReadFolders};
use cozyvttd::tools::{Caller, Catalog, Context};
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::failure::Failure;

/// How long the link may take to say goodbye.
const FAREWELL: Duration = Duration::from_secs(5);

/// The two tools that a writing run may call besides those that only read.
pub(super) const WRITES: [&str; 2] = ["chat_send", "dice_roll"];

/// Why a call gave nothing.
#[derive(Debug)]
pub(super) enum Refusal {
    /// This server has no such route.
    RouteMissing,
    /// Anything else.
    Failed(String),
}

/// What a run may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Licence {
    Read,
    Write,
}

pub(super) struct Seat {
    pub(super) session: Arc<Session>,
    worker: JoinHandle<()>,
    catalog: Catalog,
    context: Context,
    /// Removed when this value goes.
    _folder: TempDir,
}

impl Seat {
    /// Takes a seat: signing in and connecting begin at once.
    pub(super) fn take(settings: Settings) -> Result<Self, Failure> {
        let failed = |what: &str, error: String| Failure::failed(format!("{what}: {error}"));
        let folder = tempfile::Builder::new()
            .prefix("cozyvtt-smoke-")
            .tempdir()
            .map_err(|error| failed("no temporary folder", error.to_string()))?;
        let journal = Journal::open(&folder.path().join("journal.sqlite"))
            .map_err(|error| failed("no journal", error.to_string()))?;
        let ground = Ground {
            clock: Clock::real(),
            folder: folder.path().to_owned(),
            // Its login counts like a daemon's, where there has ever been one.
            shared: paths::shared_state_dir()
                .filter(|shared| shared.is_dir())
                .unwrap_or_else(|| folder.path().to_owned()),
            by_word: false,
        };
        let (session, worker) = Session::start(settings, journal, ground)
            .map_err(|error| Failure::failed(error.to_string()))?;
        let context = Context {
            session: Arc::clone(&session),
            caller: Arc::new(Caller::default()),
            // No file is read or written: neither kind of run calls such a tool.
            files: Arc::new(Files::new(
                ReadFolders::default(),
                folder.path().to_owned(),
                None,
            )),
        };
        Ok(Self {
            session,
            worker,
            catalog: Catalog::default(),
            context,
            _folder: folder,
        })
    }

    /// The account's id.
    pub(super) fn me(&self) -> Option<String> {
        self.session.user_id()
    }

    /// Calls a tool and gives the envelope's `data`. A tool that does not say of
    /// itself that it changes nothing needs a licence and is one of [`WRITES`].
    pub(super) async fn call(
        &self,
        tool: &'static str,
        arguments: Value,
        licence: Licence,
    ) -> Result<Value, Refusal> {
        let reads = self
            .catalog
            .definitions()
            .any(|known| known.name == tool && known.hints.read_only);
        let may = reads || (licence == Licence::Write && WRITES.contains(&tool));
        if !may {
            return Err(Refusal::Failed(format!("this run may not call {tool}")));
        }
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let Some(call) = self.catalog.call(tool, arguments, Ok(self.context.clone())) else {
            return Err(Refusal::Failed(format!("there is no tool {tool}")));
        };
        data_of(call.await.envelope)
    }

    /// Reads one map.
    pub(super) async fn map(&self, id: &str) -> Result<Value, Refusal> {
        let request = Request::get(self.session.in_campaign(&["maps", id]));
        let answer = self.session.request(&request, Expect::Has("map")).await;
        answer
            .map(|mut body| body["map"].take())
            .map_err(|error| Refusal::Failed(error.to_string()))
    }

    /// Everything that the table has told so far.
    pub(super) async fn events(&self) -> Result<Vec<EventRecord>, String> {
        let mut events = Vec::new();
        let mut since = 0;
        loop {
            let page = self.session.journal.page(since, 500).await;
            let page = page.map_err(|error| error.to_string())?;
            if page.events.is_empty() {
                return Ok(events);
            }
            since = page.next_seq;
            events.extend(page.events);
        }
    }

    /// Leaves the table; the folder is gone then.
    pub(super) async fn leave(self) {
        self.session.stop();
        // A server that does not take the goodbye keeps nobody here.
        let _ = timeout(FAREWELL, self.worker).await;
    }
}

/// The `data` of an envelope that says `ok`.
fn data_of(mut envelope: Value) -> Result<Value, Refusal> {
    if envelope["ok"] == true {
        return Ok(envelope["data"].take());
    }
    let data = &envelope["data"];
    if data["status"] == 404 && data["upstream"]["message"] == ROUTE_MISSING {
        return Err(Refusal::RouteMissing);
    }
    let why = envelope["error"]
        .as_str()
        .unwrap_or("failed without a word");
    Err(Refusal::Failed(why.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_missing_route_is_told_apart_from_a_missing_thing() {
        let refused = |message: &str| {
            data_of(json!({"ok": false, "error": "no",
                "data": {"status": 404, "upstream": {"message": message}}}))
        };
        assert!(matches!(refused(ROUTE_MISSING), Err(Refusal::RouteMissing)));
        assert!(matches!(refused("Map not found"), Err(Refusal::Failed(_))));
        assert_eq!(
            data_of(json!({"ok": true, "data": {"a": 1}})).unwrap(),
            json!({"a": 1})
        );
    }

    #[test]
    fn t_smk_04_every_reading_says_of_itself_that_it_changes_nothing() {
        let catalog = Catalog::default();
        for reading in super::super::plan::READINGS {
            if let super::super::plan::Source::Tool(name) = reading.source {
                let tool = catalog
                    .definitions()
                    .find(|tool| tool.name == name)
                    .unwrap();
                assert!(tool.hints.read_only, "{name}");
            }
        }
        for name in WRITES {
            let tool = catalog
                .definitions()
                .find(|tool| tool.name == name)
                .unwrap();
            assert!(!tool.hints.read_only, "{name}");
        }
    }
}
