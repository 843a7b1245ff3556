//! What the daemon is started with, and what it makes of its configuration.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cozyvtt_proto::paths::{self, PathError};
use cozyvtt_proto::profile::Profile;

use crate::config::Config;

/// Looks a variable of the configuration up.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What the daemon is started with.
#[derive(Debug, Default, Clone)]
pub struct Options {
    /// `--profile`
    pub profile: Option<Profile>,
    /// `--config`
    pub config: Option<PathBuf>,
    /// `--socket-dir`
    pub socket_dir: Option<PathBuf>,
    /// `--state-dir`
    pub state_dir: Option<PathBuf>,
    /// The folder that all daemons of the user share, when it is not the usual state
    /// folder: a daemon that is none of theirs (the demo's) has one of its own.
    pub shared_dir: Option<PathBuf>,
    /// `--spawned`: a shim has started it.
    pub spawned: bool,
    /// `--idle-exit`: after how many minutes without a client it leaves; 0 for never.
    pub idle_exit_minutes: Option<u64>,
}

/// After how many minutes without a client a daemon leaves that a shim has started.
const IDLE_EXIT_MINUTES: u64 = 30;

impl Options {
    /// The folder of the journal and the logs, where there is a place for it
    /// ([`paths::state_dir`]).
    pub fn state_dir(&self) -> Option<PathBuf> {
        paths::state_dir(self.state_dir.as_deref(), self.profile.as_ref())
    }

    /// The folder of the sockets ([`paths::socket_dir`]).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn socket_dir(&self) -> Result<PathBuf, PathError> {
        paths::socket_dir(self.socket_dir.as_deref(), self.profile.as_ref())
    }

    /// After how long without a client the daemon leaves, if it does: the flag's word,
    /// else the configuration's. A daemon that a shim has started leaves without either.
    pub fn idle_exit(&self, config: &Config) -> Option<Duration> {
        let usual = self.spawned.then_some(IDLE_EXIT_MINUTES);
        let minutes = self
            .idle_exit_minutes
            .or(config.idle_exit_minutes)
            .or(usual);
        minutes
            .filter(|minutes| *minutes > 0)
            .map(|minutes| Duration::from_secs(minutes.saturating_mul(60)))
    }
}

/// Where the configuration comes from, as often as it is read.
#[derive(Clone)]
pub struct Source {
    options: Options,
    environment: Environment,
}

impl Source {
    /// The word of the command line and of the environment.
    pub fn new(options: Options, environment: Environment) -> Self {
        Self {
            options,
            environment,
        }
    }

    /// The command line.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Reads the configuration as it is now.
    pub fn read(&self) -> Config {
        let Options {
            config, profile, ..
        } = &self.options;
        Config::resolve(config.as_deref(), profile.as_ref(), &*self.environment)
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The environment may hold a password.
        f.debug_struct("Source")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_leaves_when_idle_if_a_shim_started_it_or_somebody_asked_for_it() {
        let config = |text: &str| {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("config.toml");
            std::fs::write(&file, text).unwrap();
            Config::resolve(Some(&file), None, &|_| None)
        };
        let after = |spawned, flag, text| {
            let options = Options {
                spawned,
                idle_exit_minutes: flag,
                ..Options::default()
            };
            let limit = options.idle_exit(&config(text));
            limit.map(|limit| limit.as_secs() / 60)
        };
        assert_eq!(after(false, None, ""), None);
        assert_eq!(after(true, None, ""), Some(30));
        assert_eq!(after(true, None, "idle_exit_minutes = 5"), Some(5));
        assert_eq!(after(true, None, "idle_exit_minutes = 0"), None);
        assert_eq!(after(false, Some(7), "idle_exit_minutes = 5"), Some(7));
    }
}
