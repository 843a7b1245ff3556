//! The clients' own files: whether what they start is there, and sits where the daemon does.

use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use cozyvtt_proto::control::Hop;
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::CstRootNode;
use serde_json::Value;

use super::{Patient, broken, ok};
use crate::client_config::client::{Client, Format};
use crate::programs::SHIM;

pub(super) fn checks(patient: &Patient<'_>) -> Vec<Hop> {
    let mut checks = Vec::new();
    let mut good = Vec::new();
    for client in Client::value_variants() {
        let file = client.file(&|name| std::env::var_os(name).map(PathBuf::from));
        let Some(file) = file.filter(|file| file.is_file()) else {
            continue;
        };
        for (name, server) in servers(&file, *client) {
            match trouble(&server, patient) {
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

/// The servers in a client's file that start the shim. A file that cannot be understood is
/// its client's affair.
fn servers(file: &Path, client: Client) -> Vec<(String, Value)> {
    let Ok(text) = std::fs::read_to_string(file) else {
        return Vec::new();
    };
    let whole: Value = match client.format() {
        Format::Json(_) => {
            let parsed = CstRootNode::parse(&text, &ParseOptions::default());
            parsed
                .ok()
                .and_then(|root| root.to_serde_value())
                .unwrap_or_default()
        }
        Format::Toml(_) => toml::from_str(&text).unwrap_or_default(),
        Format::Yaml(_) => {
            // A line is enough to see what is started.
            let command = text.lines().find_map(|line| {
                let (_, command) = line.split_once("command:")?;
                let command = command.trim().trim_matches(['"', '\'']);
                command.contains(SHIM).then(|| command.to_owned())
            });
            return command
                .map(|command| {
                    (
                        "cozyvtt".to_owned(),
                        serde_json::json!({"command": command}),
                    )
                })
                .into_iter()
                .collect();
        }
    };
    let key = match client.format() {
        Format::Json(key) | Format::Toml(key) | Format::Yaml(key) => key,
    };
    let servers = whole
        .get(key)
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    let ours = |server: &Value| {
        let command = server["command"].as_str().unwrap_or_default();
        Path::new(command)
            .file_name()
            .is_some_and(|name| name == SHIM)
    };
    servers
        .into_iter()
        .filter(|(_, server)| ours(server))
        .collect()
}

/// What is wrong with an entry, and what mends it.
fn trouble(server: &Value, patient: &Patient<'_>) -> Option<(String, String)> {
    let command = Path::new(server["command"].as_str().unwrap_or_default());
    if command.is_absolute() && !command.is_file() {
        return Some((
            format!("starts {}, which is not there", command.display()),
            "write it anew: cozyvttctl client-config CLIENT --write".to_owned(),
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
