//! The tools: a catalog, and one file per object of the table.
//!
//! Every call goes the same way: the arguments are read and checked, then the
//! session is asked for, then the tool runs. So a wrong argument never touches
//! the network, and is explained even when nothing is configured.

mod arguments;
mod campaign;
mod chat;
mod dice;
mod envelope;
mod event;
mod map;
mod receipt;

use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::session::Session;
pub use envelope::{Outcome, ToolError};

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
        session: &Session,
    ) -> impl Future<Output = Result<Value, ToolError>> + Send;
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

/// How a session is got at, or why there is none.
pub type Available = Result<Arc<Session>, ToolError>;

type Call = fn(&Definition, Map<String, Value>, Available) -> BoxFuture<'static, Outcome>;

struct Entry {
    definition: Definition,
    call: Call,
}

/// All tools, in the order in which they are listed.
pub struct Catalog(Vec<Entry>);

impl Default for Catalog {
    fn default() -> Self {
        Self(vec![
            entry::<campaign::Get>(),
            entry::<chat::Read>(),
            entry::<chat::Send>(),
            entry::<dice::Roll>(),
            entry::<event::Poll>(),
            entry::<map::List>(),
        ])
    }
}

impl Catalog {
    /// The tools' definitions, sorted by name.
    pub fn definitions(&self) -> impl Iterator<Item = &Definition> {
        self.0.iter().map(|entry| &entry.definition)
    }

    /// Calls a tool; `None` when there is none of that name.
    pub fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        session: Available,
    ) -> Option<BoxFuture<'static, Outcome>> {
        let entry = self.0.iter().find(|entry| entry.definition.name == name)?;
        Some((entry.call)(&entry.definition, arguments, session))
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
    Entry {
        definition: Definition {
            name: T::NAME,
            title: T::TITLE,
            description: T::DESCRIPTION,
            schema: Arc::new(arguments::schema::<T::Arguments>()),
            hints: T::HINTS,
        },
        call: call::<T>,
    }
}

fn call<T: Tool>(
    definition: &Definition,
    arguments: Map<String, Value>,
    session: Available,
) -> BoxFuture<'static, Outcome> {
    let arguments = arguments::read::<T::Arguments>(T::NAME, arguments, &definition.schema)
        .and_then(|arguments| T::check(&arguments).map(|()| arguments));
    let arguments = match arguments {
        Ok(arguments) => arguments,
        Err(sentence) => return std::future::ready(Outcome::bad_arguments(sentence)).boxed(),
    };
    async move {
        let result = match session {
            Ok(session) => T::run(arguments, &session).await,
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
