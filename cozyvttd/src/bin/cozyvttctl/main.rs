//! `cozyvttctl`: how a person sees and steers the daemon, over its control socket.

mod bar;
mod call;
mod charge;
mod client_config;
mod clients;
mod daemon;
#[cfg(feature = "practice")]
mod demo;
mod dice;
mod doctor;
mod events;
mod failure;
mod login;
mod logout;
mod logs;
mod names;
mod narrate;
mod pages;
mod programs;
mod reload;
mod rows;
mod setup;
mod smoke;
mod status;
mod stop;
mod systemctl;
mod terminal;
mod text;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use cozyvtt_proto::paths;
use cozyvtt_proto::profile::{self, Profile};

use crate::daemon::Daemon;
use crate::failure::{Exit, Failure};
use crate::terminal::Screen;

/// See and steer cozyvttd, the daemon that holds one CozyVTT session for many AI agents.
#[derive(Debug, Parser)]
#[command(name = "cozyvttctl", version, max_term_width = 100, after_help = AFTER_HELP)]
struct Cli {
    /// The folder that holds control.sock, when it is not the usual one
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        help_heading = "Global options"
    )]
    socket_dir: Option<PathBuf>,

    /// The daemon of this profile, not the main one [env: COZYVTT_PROFILE]
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        help_heading = "Global options"
    )]
    profile: Option<Profile>,

    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Every command takes --json, for programs. Colours appear on a terminal only; NO_COLOR turns them off.

The socket folder is that of --socket-dir, else $COZYVTT_SOCKET_DIR, else $XDG_RUNTIME_DIR/cozyvtt, else \
/run/user/<uid>/cozyvtt, else `run` in the state folder; the daemon and the shim look in the same places. \
A profile's sockets are in a folder of its name there.

Exit codes:
  0  it worked
  1  the call failed; for `status`: something on the way to the table is broken; for `login`: not
     signed in
  2  the command line is wrong
  3  the daemon cannot be reached

Examples:
  cozyvttctl setup                from nothing to a table
  cozyvttctl status               is everything well, and if not, what mends it?
  cozyvttctl doctor               look at every hop, also without a daemon
  cozyvttctl tools                what agents can do at the table
  cozyvttctl call campaign_get    do one of these things yourself
  cozyvttctl events --follow      watch the table live
  cozyvttctl client-config cursor what an MCP client has to know
  cozyvttctl clients              who plays along
  cozyvttctl hold                 let nobody but you change anything, until `release`
  cozyvttctl logs --follow        what the daemon writes down
  cozyvttctl login                sign in by hand, with a second factor if need be
  cozyvttctl reload               follow a changed configuration
  cozyvttctl stop                 let running calls finish, then stop the daemon
  cozyvttctl demo                 see it all on a practice table, without a server
  cozyvttctl smoke --dry-run      what a check of a live server would do";

#[derive(Debug, Subcommand)]
enum Command {
    Status(status::Args),
    Tools(tools::Args),
    Call(call::Args),
    ClientConfig(client_config::Args),
    Clients(clients::Args),
    Completions(pages::CompletionsArgs),
    Doctor(doctor::Args),
    Events(events::Args),
    #[cfg(feature = "practice")]
    Demo(demo::Args),
    Hold(charge::HoldArgs),
    Kick(charge::KickArgs),
    Login(login::Args),
    Logout(logout::Args),
    Logs(logs::Args),
    Man(pages::ManArgs),
    Release(charge::ReleaseArgs),
    Reload(reload::Args),
    Setup(Box<setup::Args>),
    Smoke(smoke::Args),
    Stop(stop::Args),
    Tell(charge::TellArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(run(cli)),
        Err(error) => Err(Failure::failed(format!("cannot start: {error}"))),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report().into(),
    }
}

async fn run(cli: Cli) -> Result<Exit, Failure> {
    let mut screen = Screen::stdout();
    let variable = std::env::var_os(profile::VARIABLE);
    let profile = Profile::chosen(cli.profile.as_ref(), variable)
        .map_err(|error| Failure::usage(error.to_string()))?;
    if let Some(profile) = &profile {
        profile::speak_for(profile.clone());
    }
    let explicit = cli.socket_dir;
    let socket_dir = paths::socket_dir(explicit.as_deref(), profile.as_ref())
        .map_err(|error| Failure::usage(error.to_string()))?;
    let daemon = Daemon::new(&socket_dir);
    match cli.command {
        Command::Status(args) => status::run(args, &daemon, &mut screen).await,
        Command::Tools(args) => tools::run(args, &daemon, &mut screen).await,
        Command::Call(args) => call::run(args, &daemon, &mut screen).await,
        Command::Completions(args) => pages::completions(&args, &mut screen),
        Command::ClientConfig(args) => {
            client_config::run(&args, profile.as_ref(), explicit.as_deref(), &mut screen)
        }
        Command::Clients(args) => clients::run(args, &daemon, &mut screen).await,
        Command::Events(args) => events::run(args, &daemon, &mut screen).await,
        #[cfg(feature = "practice")]
        Command::Demo(args) => demo::run(args, &mut screen).await,
        Command::Hold(args) => charge::hold(args, &daemon, &mut screen).await,
        Command::Kick(args) => charge::kick(args, &daemon, &mut screen).await,
        Command::Login(args) => login::run(args, &daemon, &mut screen).await,
        Command::Logout(args) => logout::run(args, &daemon, &mut screen).await,
        Command::Logs(args) => logs::run(args, profile.as_ref(), &daemon, &mut screen).await,
        Command::Man(args) => pages::man(&args, &mut screen),
        Command::Release(args) => charge::release(args, &daemon, &mut screen).await,
        Command::Reload(args) => reload::run(args, &daemon, &mut screen).await,
        Command::Doctor(args) => {
            doctor::run(args, profile.as_ref(), &socket_dir, &daemon, &mut screen).await
        }
        Command::Setup(args) => {
            let sockets = (socket_dir.as_path(), explicit.is_none());
            setup::run(*args, profile.as_ref(), sockets, &daemon, &mut screen).await
        }
        Command::Smoke(args) => smoke::run(args, profile.as_ref(), &mut screen).await,
        Command::Stop(args) => stop::run(args, &daemon, &mut screen).await,
        Command::Tell(args) => charge::tell(args, &daemon, &mut screen).await,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_takes_json_and_shows_examples() {
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            assert!(
                command
                    .get_arguments()
                    .any(|arg| arg.get_long() == Some("json")),
                "{name} lacks --json"
            );
            let examples = command.get_after_help().map(ToString::to_string);
            assert!(
                examples.is_some_and(|text| text.contains(&format!("cozyvttctl {name}"))),
                "{name} shows no example"
            );
        }
    }
}
