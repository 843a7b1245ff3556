//! `cozyvttctl client-config`: what an MCP client has to know to start the shim.

pub(crate) mod client;
mod edit;
pub(crate) mod entry;
pub(crate) mod file;

use std::path::{Path, PathBuf};

use cozyvtt_proto::profile::Profile;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::terminal::{GOOD, Screen, remark};
use crate::text::json_pretty;
use client::Client;
use entry::{Entry, Wishes};
use file::Change;

/// Print what an MCP client needs to start the shim, or write it into the client's file
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Paths are absolute, since clients start programs with a PATH of their own. With --write the entry is merged \
into the client's file (Claude Code, Claude Desktop, Hermes Agent): everything else in it stays as it is, and \
the file as it was is kept beside it as FILE.bak-TIME. An entry of that name keeps its env. --remove takes \
the entry out again, and never the file.

Exit codes: 0 done, 1 there is no shim, or the file cannot be read or written; it is then as it was.

Examples:
  cozyvttctl client-config cursor
  cozyvttctl client-config claude-code --write
  cozyvttctl client-config hermes --write --toolsets play,docs
  cozyvttctl --profile player client-config claude-desktop --write
  cozyvttctl client-config claude-code --remove")]
pub(crate) struct Args {
    /// The client
    #[arg(value_enum)]
    client: Client,

    #[command(flatten)]
    wishes: Wishes,

    /// Merge the entry into the client's file
    #[arg(long)]
    write: bool,

    /// Take the entry out of the client's file
    #[arg(long, conflicts_with = "write")]
    remove: bool,

    /// The client's file, when it is not the usual one
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Print the entry, the file and what was done as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(
    args: &Args,
    profile: Option<&Profile>,
    socket_dir: Option<&Path>,
    screen: &mut Screen,
) -> Result<Exit, Failure> {
    let client = args.client;
    let entry = Entry::new(profile, socket_dir, &args.wishes)?;
    let usual = || client.file(&|name| std::env::var_os(name).map(PathBuf::from));
    let file = args.file.clone().or_else(usual);
    let change = match (&file, args.write || args.remove) {
        (_, false) => None,
        (Some(file), true) if client.can_be_written() => Some(if args.remove {
            file::take(file, client, &entry.name, None)?
        } else {
            file::put(file, client, &entry)?
        }),
        _ => {
            return Err(Failure::usage(format!(
                "the file of {} is not written by this command",
                client.title()
            ))
            .advise(format!(
                "Without --write it prints the lines: cozyvttctl client-config {}",
                client.name()
            )));
        }
    };
    let shown = file.as_ref().map(|file| file.display().to_string());
    if args.json {
        screen.line(&json_pretty(&json!({
            "client": client.name(),
            "name": entry.name,
            "command": entry.command,
            "args": entry.args,
            "file": shown,
            "snippet": entry.snippet(client),
            "change": change.as_ref().map(Change::name),
            "backup": change.as_ref().and_then(Change::backup).map(|path| path.display().to_string()),
        })))?;
        return Ok(Exit::Fine);
    }
    if let (Some(change), Some(file)) = (&change, &shown) {
        let told = change.told(client, file);
        screen.line(&format!("{GOOD}{told}{GOOD:#}"))?;
        if matches!(change, Change::Written { .. }) {
            remark(client.after());
        }
    } else {
        screen.line(entry.snippet(client).trim_end())?;
        hint(client, &entry, shown.as_deref());
    }
    Ok(Exit::Fine)
}

/// Where the lines go, beside them.
fn hint(client: Client, entry: &Entry, file: Option<&str>) {
    match file {
        Some(file) => remark(&format!("For {file}. {}", client.after())),
        None => remark(client.after()),
    }
    if client == Client::ClaudeCode {
        let args = entry.args.join(" ");
        remark(&format!(
            "Or: claude mcp add --scope user {} -- {} {args}",
            entry.name, entry.command
        ));
    }
}
