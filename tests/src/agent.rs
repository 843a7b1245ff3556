//! An agent: rmcp's client, through the real shim or straight on the socket.

use anyhow::{Context as _, Result};
use cozyvtt_proto::paths::MCP_SOCKET;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, Implementation,
    ProtocolVersion,
};
use rmcp::service::{RunningService, ServiceError};
use rmcp::transport::TokioChildProcess;
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::process::Command;

use crate::daemon::Home;

/// Which era of MCP an agent speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// The `initialize` handshake.
    Handshake,
    /// The stateless protocol of 2026-07-28.
    Stateless,
}

impl Era {
    fn lifecycle(self) -> ClientLifecycleMode {
        match self {
            Self::Handshake => ClientLifecycleMode::Initialize,
            Self::Stateless => ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            },
        }
    }
}

/// An agent that has sat down.
pub struct Agent {
    client: RunningService<RoleClient, ClientConfig>,
}

impl Agent {
    /// Starts a shim, as an MCP client does, and shakes hands through it.
    pub async fn through_shim(home: &Home, era: Era) -> Result<Self> {
        Self::of_command(home.shim_command(), era).await
    }

    /// Starts a shim with this command and shakes hands through it.
    pub async fn of_command(command: Command, era: Era) -> Result<Self> {
        let transport = TokioChildProcess::new(command).context("starting cozyvtt-shim")?;
        let client = identity()
            .serve_with_lifecycle(transport, era.lifecycle())
            .await
            .context("shaking hands through the shim")?;
        Ok(Self { client })
    }

    /// Connects to `mcp.sock` without a shim and without a hello.
    pub async fn on_the_socket(home: &Home, era: Era) -> Result<Self> {
        let stream = UnixStream::connect(home.socket(MCP_SOCKET)).await?;
        let client = identity()
            .serve_with_lifecycle(stream, era.lifecycle())
            .await
            .context("shaking hands on mcp.sock")?;
        Ok(Self { client })
    }

    /// The connection, for what has no method here.
    pub fn client(&self) -> &RunningService<RoleClient, ClientConfig> {
        &self.client
    }

    /// Calls a tool.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<CallToolResult, ServiceError> {
        let mut request = CallToolRequestParams::new(tool.to_owned());
        request.arguments = arguments.as_object().cloned();
        self.client.call_tool(request).await
    }

    /// Calls a tool and gives the `data` of its envelope.
    pub async fn data(&self, tool: &str, arguments: Value) -> Result<Value> {
        let result = self.call(tool, arguments).await?;
        let envelope = result.structured_content.context("no structured content")?;
        anyhow::ensure!(envelope["ok"] == true, "{tool} failed: {envelope}");
        Ok(envelope["data"].clone())
    }

    /// Leaves, as a client does that closes its pipes.
    pub async fn leave(self) -> Result<()> {
        self.client.cancel().await?;
        Ok(())
    }
}

fn identity() -> ClientConfig {
    ClientConfig::new(
        ClientCapabilities::default(),
        Implementation::new("test-agent", "1.0.0"),
    )
}
