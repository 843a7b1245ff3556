//! One agent of the demo: an MCP client on `mcp.sock`, as any other would be.

use std::path::Path;
use std::time::Duration;

use cozyvtt_proto::event::EventRecord;
use cozyvtt_proto::paths::MCP_SOCKET;
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, Implementation, ProtocolVersion,
};
use rmcp::service::RunningService;
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

use crate::failure::Failure;

/// How long an agent waits for what it expects to see.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often it looks.
const LOOK: Duration = Duration::from_millis(30);

pub(super) struct Agent {
    client: RunningService<RoleClient, ClientConfig>,
    /// Where it goes on reading events.
    cursor: u64,
    /// How many calls it has made.
    pub(super) calls: u32,
}

impl Agent {
    /// Sits down: connects and introduces itself, with the handshake that most
    /// clients still use or with the stateless protocol of 2026.
    pub(super) async fn sit_down(
        name: &str,
        socket_dir: &Path,
        stateless: bool,
    ) -> Result<Self, Failure> {
        let failed =
            |error: String| Failure::failed(format!("the {name} could not sit down: {error}"));
        let stream = UnixStream::connect(socket_dir.join(MCP_SOCKET))
            .await
            .map_err(|error| failed(error.to_string()))?;
        let identity = ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new(name, env!("CARGO_PKG_VERSION")),
        );
        let lifecycle = if stateless {
            ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            }
        } else {
            ClientLifecycleMode::Initialize
        };
        let client = identity
            .serve_with_lifecycle(stream, lifecycle)
            .await
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self {
            client,
            cursor: 0,
            calls: 0,
        })
    }

    /// Calls a tool; gives the envelope's `data`.
    pub(super) async fn call(
        &mut self,
        tool: &'static str,
        arguments: Value,
    ) -> Result<Value, Failure> {
        self.calls += 1;
        let mut request = CallToolRequestParams::new(tool);
        request.arguments = arguments.as_object().cloned();
        let result = self
            .client
            .call_tool(request)
            .await
            .map_err(|error| Failure::failed(format!("{tool} failed: {error}")))?;
        let mut envelope = result.structured_content.unwrap_or_default();
        if envelope["ok"] == true {
            Ok(envelope["data"].take())
        } else {
            Err(Failure::failed(format!(
                "{tool} failed: {}",
                envelope["error"]
            )))
        }
    }

    /// Polls until an event comes that `wanted` accepts; passes over the others.
    pub(super) async fn see(
        &mut self,
        wanted: impl Fn(&EventRecord) -> bool,
    ) -> Result<EventRecord, Failure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut page = self
                .call("events_poll", json!({"since": self.cursor}))
                .await?;
            self.cursor = page["next_seq"].as_u64().unwrap_or(self.cursor);
            let events: Vec<EventRecord> =
                serde_json::from_value(page["events"].take()).map_err(|error| {
                    Failure::failed(format!("events_poll answered nonsense: {error}"))
                })?;
            if let Some(event) = events.into_iter().find(&wanted) {
                // What followed it in the page is still to be read.
                self.cursor = event.seq;
                return Ok(event);
            }
            if Instant::now() > deadline {
                return Err(Failure::failed(
                    "an event that the table should have sent did not come",
                ));
            }
            sleep(LOOK).await;
        }
    }

    /// Leaves the table.
    pub(super) async fn leave(self) {
        self.client.cancel().await.ok();
    }
}
