//! The flags, and the help that explains them.

use std::path::PathBuf;

use clap::Parser;
use clap::builder::NonEmptyStringValueParser;
use cozyvtt_proto::profile::Profile;

/// Connects an MCP client to the CozyVTT daemon of this user.
///
/// An MCP client (Claude Code, Cursor, ...) starts this program and talks to it on
/// stdin and stdout. It carries every line to cozyvttd and back; the daemon holds
/// the login and does the work. You do not start it yourself.
#[derive(Debug, Parser)]
#[command(name = "cozyvtt-shim", version, verbatim_doc_comment, after_long_help = AFTER_HELP)]
pub struct Args {
    /// The daemon of this profile, not the main one; wins over COZYVTT_PROFILE
    #[arg(long, value_name = "NAME")]
    pub profile: Option<Profile>,

    /// Folder of the daemon's sockets; without it, the environment decides
    #[arg(long, value_name = "DIR")]
    pub socket_dir: Option<PathBuf>,

    /// Presets of tools to show, separated by commas; wins over COZYVTT_MCP_TOOLSETS [default: all]
    #[arg(long, value_name = "NAMES", overrides_with = "toolsets")]
    pub toolsets: Option<String>,

    /// Show, and allow, only tools that change nothing
    #[arg(long)]
    pub read_only: bool,

    /// The campaign to sit in; wins over COZYVTT_CAMPAIGN_ID [default: the daemon's]
    #[arg(long, value_name = "ID", overrides_with = "campaign", value_parser = NonEmptyStringValueParser::new())]
    pub campaign: Option<String>,

    /// Do not start the daemon when it does not run
    #[arg(long)]
    pub no_start: bool,

    /// How long a request may wait for the daemon to come back, 1 to 600 seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub wait: u64,

    /// Print every preset with its tools, and end
    #[arg(long)]
    pub list_toolsets: bool,
}

const AFTER_HELP: &str = "\
In an MCP client's configuration:
  {\"mcpServers\": {\"cozyvtt\": {\"command\": \"cozyvtt-shim\"}}}
With Claude Code:
  claude mcp add cozyvtt -- cozyvtt-shim

The socket is mcp.sock in the first of these folders that is given:
  --socket-dir, $COZYVTT_SOCKET_DIR, $XDG_RUNTIME_DIR/cozyvtt,
  /run/user/UID/cozyvtt, ~/.local/state/cozyvtt/run
To all but the first a profile adds its name: with --profile dm (or COZYVTT_PROFILE)
this client plays through another daemon, which sits at the table with another account.

An agent pays for every tool that it is shown. --toolsets play,roster shows two
presets; --list-toolsets names them all.

When the daemon does not run, the first request starts it: `systemctl --user start
cozyvttd` (cozyvttd@NAME of a profile) where that unit is known, else the program `cozyvttd` next to this one or
in PATH. Such a daemon has none of this client's COZYVTT_* variables but those
that say where things are, serves every client, and leaves when it has had none for
half an hour. With --no-start you start it yourself.

Where this client expects to sit is in COZYVTT_URL, COZYVTT_EMAIL and
COZYVTT_CAMPAIGN_ID (or --campaign); an empty one counts as unset. The shim tells the
daemon on every connection, and a daemon that sits at another URL or under another
e-mail address refuses it; another campaign of the same account it serves as well.
If e-mail address, campaign and COZYVTT_PASSWORD are all there, the shim also offers
them, with the URL, to a daemon of this user that has no settings of its own: it keeps them in
memory, and has them offered again when it was restarted. If one of the three is
missing, nothing is offered and the password is not sent. Settings of the daemon's own
are never replaced. So a client that was set up for another bridge with these variables
needs only its command changed.

A daemon that is too old for --read-only, or for any of these variables, is not used:
every request is answered with both versions and the command that mends it.

When the daemon goes away, the shim stays, connects again, and sends again what was not
answered, unless that could do something twice: such a call is answered with
\"outcome unknown\". Requests wait --wait seconds at most, then are answered with an
error that says what to do; when 512 wait already, so is the next one at once.
`cozyvttctl status` tells how the daemon is.

Exit codes:
  0  stdin has ended, or the client is gone
  1  the shim could not start
  2  wrong usage";
