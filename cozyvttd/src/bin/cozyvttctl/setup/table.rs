//! Setup's own look at the table: what is at the address, who we are, which campaigns there
//! are. It signs in once at most, and the daemon goes on with that session.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cozyvtt_proto::control::{LoginPhase, LoginReason};
use cozyvtt_proto::paths;
use cozyvttd::config::{BaseUrl, Origin, Settings};
use cozyvttd::session::Ground;
use cozyvttd::session::access::Access;
use cozyvttd::session::account::Account;
use cozyvttd::session::clock::Clock;
use cozyvttd::session::ids::ResourceId;
use secrecy::SecretString;
use serde_json::Value;
use tempfile::TempDir;

use super::answers::Secret;
use super::{Place, start};
use crate::daemon::Daemon;
use crate::failure::Failure;

/// What a login leaves in its folder: the session, and when the password was sent.
pub(super) const KEPT: [&str; 2] = ["session.json", "login.json"];

/// Who is to sit where.
pub(super) struct Chosen {
    pub(super) url: BaseUrl,
    pub(super) email: String,
    pub(super) secret: Secret,
    pub(super) ca_file: Option<PathBuf>,
}

/// The account at the table.
pub(super) struct Seat {
    /// What was chosen.
    pub(super) chosen: Chosen,
    /// It is another account than that of the daemon.
    pub(super) is_new: bool,
    account: Arc<Account>,
    folder: TempDir,
}

/// How signing in went.
pub(super) enum Entry {
    /// As whom.
    In(String),
    /// A code is asked for.
    SecondFactor,
    /// The password is not the right one.
    Rejected(Failure),
}

impl Seat {
    /// Goes to the table with what a daemon in `state_dir` has kept; that folder is only read.
    pub(super) fn take(chosen: Chosen, access: Access, state_dir: &Path) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::failed(format!("no temporary folder: {error}; nothing was changed"))
        };
        let folder = tempfile::Builder::new()
            .prefix("cozyvtt-setup-")
            .tempdir()
            .map_err(failed)?;
        for name in KEPT {
            let kept = state_dir.join(name);
            if kept.is_file() {
                std::fs::copy(kept, folder.path().join(name)).map_err(failed)?;
            }
        }
        let campaign = ResourceId::parse("unknown")
            .map_err(|_| Failure::failed("cozyvttctl is broken: no campaign"))?;
        let settings = Settings {
            url: chosen.url.clone(),
            email: chosen.email.clone(),
            password: chosen.secret.password()?,
            campaign,
            access,
            origin: Origin::Configured,
        };
        let shared = paths::shared_state_dir().unwrap_or_else(|| state_dir.to_owned());
        let ground = Ground {
            clock: Clock::real(),
            folder: folder.path().to_owned(),
            shared,
            by_word: true,
        };
        let account = Account::start(settings, ground)
            .map_err(|error| Failure::failed(format!("{error}; nothing was sent")))?;
        Ok(Self {
            chosen,
            is_new: false,
            account,
            folder,
        })
    }

    /// Whether the address is that of a CozyVTT.
    pub(super) async fn look(&self) -> Result<(), Failure> {
        let url = self.account.url();
        match self.account.is_instance().await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::failed(format!(
                "what answers at {url} is no CozyVTT; the password was not sent"
            ))
            .advise("Give the address that you open in the browser, with its path if it has one.")),
            Err(error) => Err(Failure::failed(format!("{url} cannot be used: {error}"))
                .advise("Is the address right, and does the server run? The password was not sent.")
                .advise("A certificate of your own authority is trusted with --ca-file FILE.")),
        }
    }

    /// Signs in, unless the kept session is alive.
    pub(super) async fn enter(&self, code: Option<SecretString>) -> Result<Entry, Failure> {
        let login = self.account.login();
        let outcome = login.by_hand(code).await;
        let standing = login.standing();
        if standing.state == LoginPhase::SignedIn {
            return Ok(Entry::In(standing.account.unwrap_or(standing.detail)));
        }
        let why = outcome
            .err()
            .map_or(standing.detail, |error| error.to_string());
        let failure = Failure::failed(why);
        let failure = match standing.wait_s {
            Some(seconds) => {
                failure.advise(format!("Run setup again in {} min.", seconds / 60 + 1))
            }
            None => failure,
        };
        match standing.reason {
            Some(LoginReason::SecondFactor) => Ok(Entry::SecondFactor),
            Some(LoginReason::Rejected) => {
                let tally = &standing.tally;
                let rejected =
                    Failure::failed("CozyVTT takes no such e-mail address with this password");
                Ok(Entry::Rejected(rejected.advise(format!(
                    "{} of {} sign-ins are used in {} min; CozyVTT locks an address out after five.",
                    tally.sent,
                    tally.limit,
                    tally.window_s / 60
                ))))
            }
            _ => Err(failure),
        }
    }

    /// The campaigns that the account is in.
    pub(super) async fn campaigns(&self) -> Result<Vec<Value>, Failure> {
        let campaigns = self.account.campaigns().await;
        campaigns.map_err(|error| Failure::failed(format!("the campaigns cannot be read: {error}")))
    }

    /// Ends the kept session at the server; whether the server knows of it.
    pub(super) async fn leave(&self) -> bool {
        self.account.log_out().await.untold.is_none()
    }

    /// Keeps the session of a setup that cannot go on: the next try shall not send the
    /// password again. Where a daemon runs its own session stays, and one of another account
    /// is ended.
    pub(super) async fn keep(&self, place: &Place<'_>, daemon: &Daemon) {
        if !start::runs(daemon).await {
            // At worst the next try signs in.
            let _ = self.hand_over(place.state_dir);
        } else if self.is_new {
            self.leave().await;
        }
    }

    /// Hands the session on to the daemon of `state_dir`, which then needs no password.
    pub(super) fn hand_over(&self, state_dir: &Path) -> Result<(), Failure> {
        let failed = |error: String| {
            Failure::failed(format!(
                "the session cannot be kept in {}: {error}",
                state_dir.display()
            ))
        };
        cozyvttd::private::ensure(state_dir).map_err(|error| failed(error.to_string()))?;
        for name in KEPT {
            let new = self.folder.path().join(name);
            let Ok(content) = std::fs::read(&new) else {
                continue;
            };
            let place = state_dir.join(name);
            if std::fs::read(&place).is_ok_and(|old| old == content) {
                continue;
            }
            cozyvttd::private::write(&place, &content)
                .map_err(|error| failed(error.to_string()))?;
        }
        Ok(())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.account.drain();
    }
}
