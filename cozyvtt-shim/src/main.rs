//! `cozyvtt-shim`: the program that an MCP client spawns. It carries lines
//! between the client's stdio and cozyvttd's socket `mcp.sock`, and stays when
//! the daemon goes, because clients do not start it again.

mod answer;
mod carry;
mod client;
mod connection;
mod line;
mod memory;
mod message;
mod outstanding;
mod session;
mod start;
mod wire;
mod wish;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Parser;
use cozyvtt_proto::paths::{MCP_SOCKET, socket_dir};
use cozyvtt_proto::preset::{self, BadSelection, Selection};
use cozyvtt_proto::profile::{self, Profile};
use cozyvtt_shim::arguments::Args;

use crate::answer::Trouble;
use crate::client::Client;
use crate::connection::Introduction;
use crate::session::{SIGN_OF_LIFE, Session};
use crate::start::Starter;
use crate::wish::Wishes;

/// How long outstanding answers are waited for after the end of stdin.
const FAREWELL: Duration = Duration::from_secs(2);

/// The variable that chooses tools.
const TOOLSETS: &str = "COZYVTT_MCP_TOOLSETS";

/// The variable that says where the sockets are.
const SOCKET_DIR: &str = "COZYVTT_SOCKET_DIR";

/// The exit code of wrong usage, which clap has as well.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let args = Args::parse();
    if args.list_toolsets {
        return match writeln!(std::io::stdout(), "{}", preset::listing()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let selection = match selection(args.toolsets.as_deref(), std::env::var_os(TOOLSETS)) {
        Ok(selection) => selection,
        Err(bad) => return wrong_usage(&bad),
    };
    let variable = |name: &str| std::env::var_os(name);
    let profile = match Profile::chosen(args.profile.as_ref(), variable(profile::VARIABLE)) {
        Ok(profile) => profile,
        Err(bad) => return wrong_usage(&bad),
    };
    let wishes = match Wishes::new(args.read_only, args.campaign.as_deref(), variable) {
        Ok(wishes) => wishes,
        Err(bad) => return wrong_usage(&bad),
    };
    if let Some(profile) = &profile {
        profile::speak_for(profile.clone());
    }
    match run(&args, selection.as_ref(), wishes, profile) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "cozyvtt-shim: cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Says what is wrong with the flags or the environment.
fn wrong_usage(bad: &dyn std::fmt::Display) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "cozyvtt-shim: {bad}");
    ExitCode::from(USAGE)
}

/// The chosen tools: the flag replaces the variable, whatever that says. `None`
/// leaves it to the daemon, which then shows all.
fn selection(
    flag: Option<&str>,
    variable: Option<OsString>,
) -> Result<Option<Selection>, BadSelection> {
    let variable = variable.map(|text| text.to_string_lossy().into_owned());
    flag.or(variable.as_deref())
        .map(Selection::parse)
        .transpose()
}

/// Where the daemon listens. A folder that the flag names from this one's point of view is
/// the same for a daemon that is started in another folder.
fn socket(flag: Option<&Path>, profile: Option<&Profile>) -> Result<PathBuf, Trouble> {
    let flag = flag
        .map(std::path::absolute)
        .transpose()
        .map_err(Trouble::nowhere)?;
    socket_dir(flag.as_deref(), profile)
        .map(|dir| dir.join(MCP_SOCKET))
        .map_err(Trouble::nowhere)
}

/// Returns at the end of stdin. The other threads end with the process.
fn run(
    args: &Args,
    selection: Option<&Selection>,
    wishes: Wishes,
    profile: Option<Profile>,
) -> std::io::Result<()> {
    let socket = socket(args.socket_dir.as_deref(), profile.as_ref());
    let introduction = Introduction::new(selection, wishes)?;
    let (stdin, client) = Client::on_stdio()?;
    let patience = Duration::from_secs(args.wait);
    let session = Arc::new(Session::new(client, introduction.client_id(), patience));

    let silent = match &socket {
        Ok(socket) => Trouble::silent(socket, SIGN_OF_LIFE.as_secs()),
        Err(trouble) => trouble.clone(),
    };
    let kept = Arc::clone(&session);
    thread::Builder::new()
        .name("keeper".into())
        .spawn(move || kept.keep(&silent))?;
    // The unit's daemon listens in the usual folder and in no other one.
    let usual_place = args.socket_dir.is_none() && std::env::var_os(SOCKET_DIR).is_none();
    let starter = (!args.no_start).then(|| Starter::new(usual_place, profile));
    let inbound = Arc::clone(&session);
    thread::Builder::new()
        .name("from-daemon".into())
        .spawn(move || carry::from_daemon(&socket, &introduction, starter, &inbound))?;
    thread::Builder::new()
        .name("watch-client".into())
        .spawn(client::leave_when_gone)?;

    carry::from_client(stdin, &session);
    session.leave(FAREWELL);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_set_06_the_flag_replaces_the_variable_even_a_wrong_one() {
        let chosen = |flag: Option<&str>, variable: Option<&str>| {
            selection(flag, variable.map(OsString::from))
                .map(|chosen| chosen.map(|chosen| chosen.names().to_vec()))
        };
        assert_eq!(chosen(None, None), Ok(None));
        assert_eq!(chosen(None, Some("docs")), Ok(Some(vec!["docs"])));
        assert_eq!(chosen(Some("play"), Some("docs")), Ok(Some(vec!["play"])));
        let all = Selection::all().names().to_vec();
        assert_eq!(chosen(Some("all"), Some("oops")), Ok(Some(all)));
        assert_eq!(chosen(Some("play"), Some("")), Ok(Some(vec!["play"])));
        assert!(chosen(None, Some("")).is_err());
    }
}
