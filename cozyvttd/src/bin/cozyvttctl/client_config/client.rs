//! The MCP clients that are known, and where each keeps its servers.

use std::path::PathBuf;

use clap::ValueEnum;

/// An MCP client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    /// Anthropic's terminal client.
    ClaudeCode,
    /// Anthropic's desktop client.
    ClaudeDesktop,
    /// Nous Research's agent.
    Hermes,
    /// The editor.
    Cursor,
    /// The editor with Copilot.
    Vscode,
    /// OpenAI's terminal client.
    Codex,
    /// Google's terminal client.
    Gemini,
    /// Any other one that takes a command.
    Generic,
}

/// How a client writes its servers down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// An object of servers under this key, in JSON.
    Json(&'static str),
    /// A mapping of servers under this key, in YAML.
    Yaml(&'static str),
    /// Tables `[KEY.NAME]`, in TOML.
    Toml(&'static str),
}

impl Client {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Hermes => "hermes",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Generic => "generic",
        }
    }

    /// Its name for people.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Hermes => "Hermes Agent",
            Self::Cursor => "Cursor",
            Self::Vscode => "VS Code",
            Self::Codex => "Codex CLI",
            Self::Gemini => "Gemini CLI",
            Self::Generic => "an MCP client",
        }
    }

    /// How it writes its servers down.
    pub(crate) fn format(self) -> Format {
        match self {
            Self::Hermes => Format::Yaml("mcp_servers"),
            Self::Codex => Format::Toml("mcp_servers"),
            Self::Vscode => Format::Json("servers"),
            _ => Format::Json("mcpServers"),
        }
    }

    /// Whether its file can be written by us.
    pub(crate) fn can_be_written(self) -> bool {
        matches!(self, Self::ClaudeCode | Self::ClaudeDesktop | Self::Hermes)
    }

    /// Whether its entries say what kind of server they are.
    pub(crate) fn wants_type(self) -> bool {
        matches!(self, Self::ClaudeCode | Self::Vscode)
    }

    /// The file of this user's servers, if that is one place; `variable` looks a variable up.
    pub(crate) fn file(self, variable: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
        let home = || std::env::home_dir().filter(|home| home.is_absolute());
        let set = |name: &str| variable(name).filter(|path| path.is_absolute());
        match self {
            Self::ClaudeCode => set("CLAUDE_CONFIG_DIR")
                .or_else(home)
                .map(|folder| folder.join(".claude.json")),
            Self::ClaudeDesktop => directories::BaseDirs::new()
                .map(|dirs| dirs.config_dir().join("Claude/claude_desktop_config.json")),
            Self::Hermes => set("HERMES_HOME")
                .or_else(|| home().map(|home| home.join(".hermes")))
                .map(|folder| folder.join("config.yaml")),
            Self::Cursor => home().map(|home| home.join(".cursor/mcp.json")),
            Self::Vscode => directories::BaseDirs::new()
                .map(|dirs| dirs.config_dir().join("Code/User/mcp.json")),
            Self::Codex => set("CODEX_HOME")
                .or_else(|| home().map(|home| home.join(".codex")))
                .map(|folder| folder.join("config.toml")),
            Self::Gemini => home().map(|home| home.join(".gemini/settings.json")),
            Self::Generic => None,
        }
    }

    /// What makes it see the change.
    pub(crate) fn after(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Start Claude Code anew; `/mcp` shows the server.",
            Self::ClaudeDesktop => "Quit Claude Desktop whole and open it again.",
            Self::Hermes => "Say /reload-mcp, or start Hermes Agent anew.",
            Self::Cursor => "Switch the server on in Cursor's settings, under MCP.",
            Self::Vscode => "Start the server from the file, or with `MCP: List Servers`.",
            Self::Codex => "Start Codex CLI anew.",
            Self::Gemini => "Start Gemini CLI anew; `/mcp` shows the server.",
            Self::Generic => "Put it where your client keeps its MCP servers.",
        }
    }
}
