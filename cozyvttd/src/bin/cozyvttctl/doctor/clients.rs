//! The clients' own files: whether what they start is there, and sits where the daemon does.

use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use cozyvtt_proto::control::Hop;
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::CstRootNode;
use serde_json::{Map, Value, json};
use yaml_edit::{Document, Mapping};

use super::{Patient, broken, ok};
use crate::client_config::client::{Client, Format};
use crate::programs::SHIM;

pub(super) fn checks(patient: &Patient<'_>) -> Vec<Hop> {
    let mut checks = Vec::new();
    let mut good = Vec::new();
    for (client, file) in files() {
        for (name, server) in servers(&file, client) {
            match trouble(&server, client, patient) {
                Some((what, fix)) => {
                    let detail = format!("{}: {name} in {} {what}", client.title(), file.display());
                    checks.push(broken("client", detail, fix));
                }
                None => good.push(format!("{} ({name})", client.title())),
            }
        }
    }
    if !good.is_empty() {
        checks.push(ok("clients", format!("set up: {}", good.join(", "))));
    }
    checks
}

/// The clients' files that there are: those of the person, and that of this folder's
/// project, which Claude Code reads as well.
fn files() -> Vec<(Client, PathBuf)> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let own = Client::value_variants()
        .iter()
        .filter_map(|client| Some((*client, client.file(&variable)?)));
    let project = std::env::current_dir().ok();
    let project = project.map(|folder| (Client::ClaudeCode, folder.join(".mcp.json")));
    own.chain(project)
        .filter(|(_, file)| file.is_file())
        .collect()
}

/// The servers in a client's file that start the shim. A file that cannot be understood is
/// its client's affair.
fn servers(file: &Path, client: Client) -> Vec<(String, Value)> {
    let Ok(text) = std::fs::read_to_string(file) else {
        return Vec::new();
    };
    let (key, whole) = match client.format() {
        Format::Json(key) => {
            let parsed = CstRootNode::parse(&text, &ParseOptions::default());
            let whole = parsed.ok().and_then(|root| root.to_serde_value());
            (key, whole.unwrap_or_default())
        }
        Format::Toml(key) => (key, toml::from_str(&text).unwrap_or_default()),
        Format::Yaml(key) => (key, of_yaml(&text, key)),
    };
    // Claude Code has servers of projects besides those of the person.
    let projects = whole["projects"].as_object().into_iter().flatten();
    let of_projects = projects.map(|(folder, project)| (Some(folder), &project[key]));
    let lists = std::iter::once((None, &whole[key])).chain(of_projects);
    lists
        .flat_map(|(folder, list)| {
            let servers = list.as_object().into_iter().flatten();
            servers.map(move |(name, server)| {
                let name =
                    folder.map_or_else(|| name.clone(), |folder| format!("{name} of {folder}"));
                (name, server.clone())
            })
        })
        .filter(|(_, server)| {
            let command = Path::new(server["command"].as_str().unwrap_or_default());
            command.file_name().is_some_and(|name| name == SHIM)
        })
        .collect()
}

/// What matters of the servers in a YAML file: their commands and variables.
fn of_yaml(text: &str, key: &str) -> Value {
    let Ok(document) = text.parse::<Document>() else {
        return Value::Null;
    };
    let text_of = |mapping: &Mapping, key: &str| {
        let value = mapping.get(key)?;
        Some(value.as_scalar()?.as_string())
    };
    let Some(servers) = document.get_mapping(key) else {
        return Value::Null;
    };
    let mut told = Map::new();
    for name in servers
        .keys()
        .filter_map(|name| Some(name.as_scalar()?.as_string()))
    {
        let Some(server) = servers.get_mapping(name.as_str()) else {
            continue;
        };
        let env = server.get_mapping("env");
        let variables = ["COZYVTT_URL", "COZYVTT_EMAIL"];
        let set = variables.iter().filter_map(|variable| {
            Some((
                (*variable).to_owned(),
                text_of(env.as_ref()?, variable)?.into(),
            ))
        });
        let set: Map<String, Value> = set.collect();
        let command = text_of(&server, "command");
        told.insert(name, json!({"command": command, "env": set}));
    }
    json!({key: told})
}

/// What is wrong with an entry, and what mends it.
fn trouble(server: &Value, client: Client, patient: &Patient<'_>) -> Option<(String, String)> {
    let command = Path::new(server["command"].as_str().unwrap_or_default());
    if command.is_absolute() && !command.is_file() {
        return Some((
            format!("starts {}, which is not there", command.display()),
            if client.can_be_written() {
                format!(
                    "write it anew: cozyvttctl client-config {} --write",
                    client.name()
                )
            } else {
                format!(
                    "correct it: cozyvttctl client-config {} prints it",
                    client.name()
                )
            },
        ));
    }
    let settings = patient.config.settings.as_ref().ok()?;
    let env = &server["env"];
    let other = |name: &str, ours: &str| {
        let theirs = env[name].as_str().filter(|theirs| !theirs.is_empty())?;
        let same = theirs
            .trim_end_matches('/')
            .eq_ignore_ascii_case(ours.trim_end_matches('/'));
        (!same).then(|| name.to_owned())
    };
    let name = other("COZYVTT_URL", &settings.url.to_string())
        .or_else(|| other("COZYVTT_EMAIL", &settings.email))?;
    Some((
        format!("sets {name} to another one than the daemon has, which then refuses it"),
        format!("take {name} out of its env, or set up a profile for that account"),
    ))
}
