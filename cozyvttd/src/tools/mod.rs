//! The tools: a catalog, and one file per object of the table.
//!
//! Every call goes the same way: the arguments are read and checked, then the
//! session is asked for, then the tool runs. So a wrong argument never touches
//! the network, and is explained even when nothing is configured.

mod arguments;
mod campaign;
mod character;
mod chat;
mod creature;
mod dice;
mod document;
mod envelope;
mod event;
pub mod files;
mod gate;
mod initiative;
mod map;
mod merge;
mod receipt;
mod saved_roll;
mod session;
mod token;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::session::Session;
pub use envelope::{Outcome, ToolError};
pub use event::NOTE;
use files::Files;

/// A tool: everything that is to be known of it stands together.
trait Tool: 'static {
    /// Its name; part of the contract.
    const NAME: &'static str;
    /// Its name for people.
    const TITLE: &'static str;
    /// For the model: purpose, what else to use when, side effects, permission,
    /// failure, in this order.
    const DESCRIPTION: &'static str;
    /// What it does to the table.
    const HINTS: Hints;
    /// Its parameters; their documentation is what the model reads.
    type Arguments: DeserializeOwned + JsonSchema + Send;

    /// Checks what the types cannot say; the sentence tells what is allowed.
    fn check(_arguments: &Self::Arguments) -> Result<(), String> {
        Ok(())
    }

    /// Does it; the value is the envelope's `data`.
    fn run(
        arguments: Self::Arguments,
        context: &Context,
    ) -> impl Future<Output = Result<Value, ToolError>> + Send;
}

/// What a tool works with.
#[derive(Debug, Clone)]
pub struct Context {
    /// The session with the table.
    pub session: Arc<Session>,
    /// Who calls.
    pub caller: Arc<Caller>,
    /// Which files may be read and where fetched ones go.
    pub files: Arc<Files>,
}

/// Who calls a tool, as far as a tool has to know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// Where its relative paths begin.
    pub cwd: Option<PathBuf>,
    /// Its own random name, by which notes are addressed.
    pub id: String,
}

/// What a tool does to the table, in MCP's four hints. All tools reach out to a
/// world that others change as well (`openWorldHint`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: bool,
    /// It may change or consume what is there.
    pub destructive: bool,
    /// Doing it twice is as good as once.
    pub idempotent: bool,
}

impl Hints {
    /// Looks and changes nothing.
    const READS: Self = Self {
        read_only: true,
        destructive: false,
        idempotent: true,
    };
    /// Adds something with every call.
    const ADDS: Self = Self {
        read_only: false,
        destructive: false,
        idempotent: false,
    };
    /// Changes or consumes something.
    const CHANGES: Self = Self {
        read_only: false,
        destructive: true,
        idempotent: false,
    };
    /// Takes something away; it stays away however often it is asked for.
    const DELETES: Self = Self {
        read_only: false,
        destructive: true,
        idempotent: true,
    };
}

/// A tool as clients see it.
#[derive(Debug, Clone)]
pub struct Definition {
    /// Its name.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// What the model reads.
    pub description: &'static str,
    /// JSON Schema 2020-12 of its parameters: an object without `$ref`.
    pub schema: Arc<Map<String, Value>>,
    /// What it does to the table.
    pub hints: Hints,
}

/// What a tool works with, or why there is nothing to work with.
pub type Available = Result<Context, ToolError>;

/// A tool's body, its arguments read and checked.
type Body = Box<dyn FnOnce(Available) -> BoxFuture<'static, Outcome> + Send>;

type Read = fn(&Definition, Map<String, Value>) -> Result<Body, String>;

struct Entry {
    definition: Definition,
    read: Read,
}

/// A call; one whose arguments do not fit is carried out by saying so.
pub struct Order {
    /// Which tool it is for.
    pub tool: &'static str,
    /// What a write is known by; a read has none.
    pub mark: Option<Mark>,
    body: Body,
}

/// What a write is known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The key by which a repeat of it is recognised.
    pub key: Option<String>,
    /// A name for what it asks for: SHA-256 of its arguments, the key aside, as JSON with
    /// sorted keys, in hexadecimal.
    pub digest: String,
}

impl Order {
    /// Carries it out.
    pub fn carry_out(self, context: Available) -> BoxFuture<'static, Outcome> {
        (self.body)(context)
    }
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Order")
            .field("tool", &self.tool)
            .field("mark", &self.mark)
            .finish_non_exhaustive()
    }
}

/// All tools, in the order in which they are listed.
pub struct Catalog(Vec<Entry>);

impl Default for Catalog {
    fn default() -> Self {
        Self(vec![
            entry::<document::CampaignList>(),
            entry::<campaign::Get>(),
            entry::<campaign::TransferDm>(),
            entry::<character::Create>(),
            entry::<character::Delete>(),
            entry::<character::Get>(),
            entry::<character::HitDiceSpend>(),
            entry::<character::List>(),
            entry::<character::Update>(),
            entry::<character::Validate>(),
            entry::<chat::Read>(),
            entry::<chat::Send>(),
            entry::<creature::Search>(),
            entry::<dice::Roll>(),
            entry::<document::Create>(),
            entry::<document::Delete>(),
            entry::<document::List>(),
            entry::<document::Read>(),
            entry::<document::Share>(),
            entry::<document::Unshare>(),
            entry::<document::Update>(),
            entry::<document::UploadFile>(),
            entry::<event::Poll>(),
            entry::<initiative::Manage>(),
            entry::<initiative::Read>(),
            entry::<map::Create>(),
            entry::<map::Delete>(),
            entry::<map::List>(),
            entry::<map::Switch>(),
            entry::<saved_roll::Create>(),
            entry::<saved_roll::Delete>(),
            entry::<saved_roll::List>(),
            entry::<saved_roll::Update>(),
            entry::<session::List>(),
            entry::<session::Manage>(),
            entry::<session::NotesUpdate>(),
            entry::<token::Add>(),
            entry::<token::Delete>(),
            entry::<token::HpUpdate>(),
            entry::<token::Move>(),
            entry::<token::PlaceCreature>(),
        ])
    }
}

impl Catalog {
    /// The tools' definitions, sorted by name.
    pub fn definitions(&self) -> impl Iterator<Item = &Definition> {
        self.0.iter().map(|entry| &entry.definition)
    }

    /// Reads a call; `None` when there is no tool of that name.
    pub fn order(&self, name: &str, arguments: Map<String, Value>) -> Option<Order> {
        let entry = self.0.iter().find(|entry| entry.definition.name == name)?;
        Some(entry.order(arguments))
    }

    /// Calls a tool; `None` when there is none of that name.
    pub fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        context: Available,
    ) -> Option<BoxFuture<'static, Outcome>> {
        Some(self.order(name, arguments)?.carry_out(context))
    }
}

impl Entry {
    fn order(&self, mut arguments: Map<String, Value>) -> Order {
        let Definition { name, hints, .. } = self.definition;
        let key = if hints.read_only {
            Ok(None)
        } else {
            arguments::take_key(name, &mut arguments)
        };
        let mark = (!hints.read_only).then(|| Mark {
            key: key.clone().unwrap_or_default(),
            digest: arguments::fingerprint(&arguments),
        });
        let body = key.and_then(|_| (self.read)(&self.definition, arguments));
        Order {
            tool: name,
            mark,
            body: body.unwrap_or_else(|sentence| {
                Box::new(|_| std::future::ready(Outcome::bad_arguments(sentence)).boxed())
            }),
        }
    }
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.definitions().map(|tool| tool.name))
            .finish()
    }
}

fn entry<T: Tool>() -> Entry {
    let mut schema = arguments::schema::<T::Arguments>();
    if !T::HINTS.read_only {
        arguments::admit_key(&mut schema);
    }
    Entry {
        definition: Definition {
            name: T::NAME,
            title: T::TITLE,
            description: T::DESCRIPTION,
            schema: Arc::new(schema),
            hints: T::HINTS,
        },
        read: read::<T>,
    }
}

fn read<T: Tool>(definition: &Definition, arguments: Map<String, Value>) -> Result<Body, String> {
    let arguments = arguments::read::<T::Arguments>(T::NAME, arguments, &definition.schema)?;
    T::check(&arguments)?;
    Ok(Box::new(move |context| {
        async move {
            let result = match context {
                Ok(context) => T::run(arguments, &context).await,
                Err(unavailable) => Err(unavailable),
            };
            match result {
                Ok(data) => Outcome::success(data),
                Err(error) => {
                    tracing::info!(tool = T::NAME, %error, "a tool failed");
                    Outcome::failure(&error)
                }
            }
        }
        .boxed()
    }))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_tool_is_described_and_hinted_and_its_schema_stands_alone() {
        let catalog = Catalog::default();
        let mut names = HashSet::new();
        for tool in catalog.definitions() {
            assert!(names.insert(tool.name), "{} twice", tool.name);
            let schema = Value::Object((*tool.schema).clone());
            assert_eq!(schema["type"], "object", "{}", tool.name);
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
            let text = schema.to_string();
            assert!(!text.contains("$ref") && !text.contains("$defs"), "{text}");
            let properties = schema["properties"]
                .as_object()
                .cloned()
                .unwrap_or_default();
            for (name, property) in &properties {
                let described = property["description"].as_str().unwrap_or_default();
                assert!(!described.is_empty(), "{}.{name}", tool.name);
            }
            let least = if properties.is_empty() { 120 } else { 200 };
            assert!(tool.description.len() >= least, "{}", tool.name);
        }
    }

    #[test]
    fn the_catalog_holds_exactly_the_tools_of_the_presets() {
        let catalog = Catalog::default();
        let names: std::collections::BTreeSet<_> =
            catalog.definitions().map(|tool| tool.name).collect();
        assert_eq!(names, cozyvtt_proto::preset::all_tools());
    }

    #[test]
    fn tools_are_listed_in_the_order_of_their_names() {
        let catalog = Catalog::default();
        let names: Vec<_> = catalog.definitions().map(|tool| tool.name).collect();
        assert!(names.is_sorted(), "{names:?}");
    }

    #[tokio::test]
    async fn a_wrong_argument_is_explained_before_anything_else() {
        let catalog = Catalog::default();
        let nothing = || Err(ToolError::Unavailable("no configuration".to_owned()));
        let call = |name: &str, arguments: Value| {
            let Value::Object(arguments) = arguments else {
                panic!("no object");
            };
            catalog.call(name, arguments, nothing()).unwrap()
        };
        let outcome = call("chat_read", serde_json::json!({"limit": 0})).await;
        assert!(outcome.is_error);
        assert_eq!(outcome.envelope["error"], "limit must be in 1..100");
        let outcome = call("chat_read", serde_json::json!({})).await;
        assert!(!outcome.is_error);
        assert_eq!(outcome.envelope["error"], "no configuration");
        assert!(catalog.call("no_tool", Map::new(), nothing()).is_none());
    }
}
