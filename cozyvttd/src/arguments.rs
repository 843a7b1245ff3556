//! The command line of `cozyvttd`, and the help that explains it.

use std::path::PathBuf;

use clap::Parser;
use cozyvtt_proto::profile::Profile;

use crate::logging;

/// Holds one session with a CozyVTT table for many AI agents.
///
/// Serves MCP on mcp.sock (for cozyvtt-shim, which MCP clients start) and a
/// control API on control.sock (for cozyvttctl). It serves even when its
/// configuration is wrong or the table is down, and says so in every answer;
/// `cozyvttctl status` tells what to mend.
#[derive(Debug, Parser)]
#[command(name = "cozyvttd", version, after_long_help = HELP)]
pub struct Arguments {
    /// A name: this daemon is another one beside the main one, with a configuration
    /// (profiles/NAME.toml), a state and sockets of its own [env: COZYVTT_PROFILE]
    #[arg(long, value_name = "NAME")]
    pub profile: Option<Profile>,

    /// The configuration file; COZYVTT_CONFIG names that of the main daemon [default:
    /// cozyvtt/config.toml in the XDG config folder]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The folder of the sockets [default: cozyvtt in the XDG runtime folder]
    #[arg(long, value_name = "DIR")]
    pub socket_dir: Option<PathBuf>,

    /// The folder of the journal and the logs [env: COZYVTT_STATE_DIR] [default: cozyvtt in
    /// the XDG state folder]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,

    /// Leave after so many minutes without an MCP client; 0 for never [default: never, 30 with --spawned]
    #[arg(long, value_name = "MINUTES")]
    pub idle_exit: Option<u64>,

    /// For cozyvtt-shim, which starts the daemon so: take a session of its own, let go of
    /// stderr once the sockets serve, leave when idle
    #[arg(long)]
    pub spawned: bool,

    /// Say what the configuration comes to, or what is wrong with it, and end: 0 when it is
    /// good, 1 when it is not. Nothing is started, and nobody is asked
    #[arg(long)]
    pub check_config: bool,

    /// Say it as JSON
    #[arg(long, requires = "check_config")]
    pub json: bool,

    /// What to log: error, warn, info, debug, or module=level pairs
    #[arg(long, value_name = "FILTER", env = "COZYVTT_LOG", value_parser = logging::filter)]
    pub log: Option<String>,
}

const HELP: &str = "\
Configuration file, in TOML; a variable wins over its value:
  url = \"https://table.example\"      # COZYVTT_URL
  email = \"me@example.org\"           # COZYVTT_EMAIL
  campaign_id = \"…\"                  # COZYVTT_CAMPAIGN_ID
  # One of these three, and with the first: chmod 600
  password = \"…\"                     # COZYVTT_PASSWORD
  # password_file = \"~/…\"            # its first line; for your eyes alone
  # password_command = [\"pass\", \"show\", \"cozyvtt\"]
  read_folders = [\"~/games\"]         # uploads come from here [default: the home]
  idle_exit_minutes = 30             # as --idle-exit
  ca_file = \"~/our-authority.pem\"    # trusted besides the system's; COZYVTT_CA_FILE
  [extra_headers]                    # sent to the table alone, and never shown
  X-Access = \"…\"
  [policy]                           # what no client may do
  deny = [\"map_delete\"]
  [policy.clients.\"claude-code\"]     # those of this name, which is their own word
  deny = [\"token_delete\"]
systemd's credential cozyvtt-password wins over every other password. A daemon that has
none of url, email, password and campaign_id takes those that a client brings along.

Signals: SIGTERM and SIGINT let running calls finish, then stop it; SIGHUP makes it
read its configuration again, as `cozyvttctl reload`, and stops it in a terminal.

Under systemd it takes the sockets of its socket unit, says when it serves and how the
table stands, feeds the watchdog, and logs to the journal.

Exit codes:
  0  stopped in order (SIGTERM, SIGINT, cozyvttctl stop)
  1  a socket or a folder cannot be used; --check-config: the configuration is no good
  2  wrong usage
  3  another cozyvttd uses the folders";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::config::Config;

    #[test]
    fn the_configuration_in_the_help_can_be_copied() {
        let from = HELP.find("  url").unwrap();
        let to = HELP.find("systemd's credential").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        std::fs::write(&file, HELP[from..to].replace("\"…\"", "\"x\"")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let config = Config::resolve(Some(&file), None, &|_| None);
        assert!(config.settings.is_ok(), "{:?}", config.settings);
        assert_eq!(config.idle_exit_minutes, Some(30));
        assert!(HELP.lines().all(|line| line.chars().count() <= 88));
    }
}
