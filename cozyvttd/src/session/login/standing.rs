//! Where the login stands, for people: the state, until when, why, and what mends it.

use cozyvtt_proto::control::{LoginPhase, LoginReason, LoginStatus};
use std::time::Duration;

use super::{Login, LoginState};

use crate::time::seconds_to_wait;

impl Login {
    /// Where it stands. Reads the shared tally.
    pub fn standing(&self) -> LoginStatus {
        let state = self.state.borrow().clone();
        let mut status = LoginStatus {
            state: LoginPhase::SignedOut,
            reason: None,
            detail: String::new(),
            account: None,
            until: None,
            wait_s: None,
            fix: None,
            notice: self.notice(),
            tally: self.tally.look(self.clock.wall()),
        };
        match state {
            LoginState::SignedOut { why } => {
                status.reason = why.is_some().then_some(LoginReason::Unreachable);
                status.detail = why.unwrap_or_else(|| "not signed in yet".to_owned());
            }
            LoginState::SigningIn => {
                status.state = LoginPhase::SigningIn;
                "signing in".clone_into(&mut status.detail);
            }
            LoginState::SignedIn { user, .. } => {
                let name = user["displayName"].as_str();
                let name = name.unwrap_or("an account without a name");
                status.state = LoginPhase::SignedIn;
                status.detail = format!("signed in as {name}");
                status.account = Some(name.to_owned());
            }
            LoginState::CoolingDown { until, reason, why } => {
                let left = self.clock.until(until);
                status.state = LoginPhase::CoolingDown;
                status.reason = Some(reason);
                status.detail = why;
                status.wait_s = Some(seconds_to_wait(left));
                status.until = jiff::Timestamp::try_from(self.clock.wall() + left)
                    .ok()
                    .and_then(|until| until.round(jiff::Unit::Second).ok())
                    .map(|until| until.to_string());
                status.fix = Some(wait_fix(reason).to_owned());
            }
            LoginState::Blocked { reason, why } => {
                status.state = LoginPhase::Blocked;
                status.reason = Some(reason);
                status.detail = why;
                status.fix = Some(block_fix(reason).to_owned());
            }
        }
        status
    }

    /// How long the present cool-down still takes.
    pub fn cooling_for(&self) -> Option<Duration> {
        match *self.state.borrow() {
            LoginState::CoolingDown { until, .. } => Some(self.clock.until(until)),
            _ => None,
        }
    }
}

fn wait_fix(reason: LoginReason) -> &'static str {
    match reason {
        LoginReason::TooMany | LoginReason::Tally => {
            "wait: the server locks an address out after five sign-ins in 15 minutes"
        }
        LoginReason::NoPassword => "mend where the password comes from, then run: cozyvttctl login",
        _ => "wait, or have it tried at once with: cozyvttctl login",
    }
}

/// What mends a block.
pub(super) fn block_fix(reason: LoginReason) -> &'static str {
    match reason {
        LoginReason::Rejected => {
            "correct the account in the configuration and run: cozyvttctl reload, or, where a client brought \
             it along, in that client's COZYVTT_* variables and reconnect it; if it was mended at the \
             table instead, run: cozyvttctl login"
        }
        LoginReason::PasswordChange => {
            "change the password in CozyVTT's web page, put the new one into the configuration and run: \
             cozyvttctl reload"
        }
        LoginReason::Approval => {
            "have an administrator of the table approve the account, then run: cozyvttctl login"
        }
        LoginReason::Refused => "settle this in CozyVTT's web page, then run: cozyvttctl login",
        LoginReason::SecondFactor => {
            "run: cozyvttctl login, and type the code; the session then lasts"
        }
        _ => "run: cozyvttctl login",
    }
}
