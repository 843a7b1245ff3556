//! What is entered into a client's configuration: the shim's command, under a name.

use std::path::{Path, PathBuf};

use cozyvtt_proto::profile::Profile;
use serde_json::{Value, json};

use super::client::{Client, Format};
use crate::failure::Failure;
use crate::programs;

/// A server as clients know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its name.
    pub(crate) name: String,
    /// The absolute path of the shim.
    pub(crate) command: String,
    /// Its arguments.
    pub(crate) args: Vec<String>,
}

/// What the client asks of the daemon.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Wishes {
    /// Presets of tools for this client, separated by commas (`cozyvtt-shim --list-toolsets`)
    #[arg(long, value_name = "NAMES")]
    toolsets: Option<String>,

    /// Show this client only tools that change nothing
    #[arg(long)]
    read_only: bool,

    /// Seat this client in another campaign of the same account
    #[arg(long, value_name = "ID")]
    campaign: Option<String>,
}

impl Entry {
    /// The entry for the daemon of `profile`, whose sockets are in `socket_dir` where that is
    /// not the usual place.
    ///
    /// # Errors
    ///
    /// There is no shim, or its path is no text.
    pub(crate) fn new(
        profile: Option<&Profile>,
        socket_dir: Option<&Path>,
        wishes: &Wishes,
    ) -> Result<Self, Failure> {
        let shim = programs::find(programs::SHIM).ok_or_else(|| {
            Failure::failed("cozyvtt-shim is neither beside cozyvttctl nor in PATH").advise(
                "Install it: `cargo install --path cozyvtt-shim` in the source folder, or the package.",
            )
        })?;
        let text = |path: PathBuf| {
            path.into_os_string().into_string().map_err(|path| {
                let path = path.to_string_lossy().into_owned();
                Failure::failed(format!(
                    "{path:?} has characters that no configuration takes"
                ))
            })
        };
        let mut args = Vec::new();
        let mut add = |flag: &str, value: Option<String>| {
            if let Some(value) = value {
                args.extend([flag.to_owned(), value]);
            }
        };
        add(
            "--profile",
            profile.map(|profile| profile.as_str().to_owned()),
        );
        if let Some(folder) = socket_dir {
            let folder = std::path::absolute(folder)
                .map_err(|error| Failure::usage(format!("--socket-dir: {error}")))?;
            add("--socket-dir", Some(text(folder)?));
        }
        add("--toolsets", wishes.toolsets.clone());
        add("--campaign", wishes.campaign.clone());
        if wishes.read_only {
            args.push("--read-only".to_owned());
        }
        Ok(Self {
            name: Self::name_for(profile),
            command: text(shim)?,
            args,
        })
    }

    /// The name of the entry for the daemon of `profile`.
    pub(crate) fn name_for(profile: Option<&Profile>) -> String {
        profile.map_or_else(
            || "cozyvtt".to_owned(),
            |profile| format!("cozyvtt-{}", profile.as_str()),
        )
    }

    /// Its fields, as `client` has them.
    pub(crate) fn fields(&self, client: Client) -> Vec<(&'static str, Value)> {
        let kind = client.wants_type().then(|| ("type", json!("stdio")));
        kind.into_iter()
            .chain([("command", json!(self.command)), ("args", json!(self.args))])
            .collect()
    }

    /// The lines to put into the client's file.
    pub(crate) fn snippet(&self, client: Client) -> String {
        let fields = self.fields(client);
        // JSON's texts and lists are YAML's and TOML's as well.
        let lines = |sign: &str, indent: &str| {
            let line = |(name, value): &(&str, Value)| format!("{indent}{name}{sign}{value}\n");
            fields.iter().map(line).collect::<Vec<_>>().concat()
        };
        match client.format() {
            Format::Json(key) => {
                let fields: serde_json::Map<String, Value> = fields
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect();
                let whole = json!({ key: { self.name.clone(): fields } });
                format!("{whole:#}\n")
            }
            Format::Yaml(key) => format!("{key}:\n  {}:\n{}", self.name, lines(": ", "    ")),
            Format::Toml(key) => format!("[{key}.{}]\n{}", self.name, lines(" = ", "")),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    fn entry() -> Entry {
        Entry {
            name: "cozyvtt-dm".to_owned(),
            command: "/opt/my \"tools\"/cozyvtt-shim".to_owned(),
            args: vec!["--profile".to_owned(), "dm".to_owned()],
        }
    }

    #[test]
    fn each_snippet_reads_back_as_the_command_in_its_own_format() {
        let entry = entry();
        for client in Client::value_variants() {
            let snippet = entry.snippet(*client);
            let server: Value = match client.format() {
                Format::Json(key) => {
                    let whole: Value = serde_json::from_str(&snippet).unwrap();
                    whole[key]["cozyvtt-dm"].clone()
                }
                Format::Toml(key) => {
                    let whole: Value = toml::from_str(&snippet).unwrap();
                    whole[key]["cozyvtt-dm"].clone()
                }
                Format::Yaml(_) => continue,
            };
            assert_eq!(server["command"], entry.command, "{snippet}");
            assert_eq!(server["args"], json!(["--profile", "dm"]), "{snippet}");
        }
        assert_eq!(
            entry.snippet(Client::Hermes),
            "mcp_servers:\n  cozyvtt-dm:\n    command: \"/opt/my \\\"tools\\\"/cozyvtt-shim\"\n    \
             args: [\"--profile\",\"dm\"]\n"
        );
    }
}
