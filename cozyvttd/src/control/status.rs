//! The way to the table, hop by hop, and what mends the one that is broken.

use std::time::Duration;

use cozyvtt_proto::control::{Hop, HopState, Sockets, Status};
use cozyvtt_proto::paths::{CONTROL_SOCKET, MCP_SOCKET};
use tokio::time::Instant;

use crate::hub::{Hub, VERSION};
use crate::session::Session;
use crate::session::live::Phase;
use crate::session::login::LoginState;

/// Looks at every hop.
pub(super) fn status(hub: &Hub) -> Status {
    let socket = |name| hub.socket_dir.join(name).display().to_string();
    Status {
        version: VERSION.to_owned(),
        instance: hub.instance.clone(),
        pid: std::process::id(),
        uptime_s: hub.started.elapsed().as_secs(),
        sockets: Sockets {
            mcp: socket(MCP_SOCKET),
            control: socket(CONTROL_SOCKET),
        },
        state_dir: hub.state_dir.display().to_string(),
        config_file: hub.config.file.display().to_string(),
        url: hub.config.url.clone(),
        clients: hub.clients(),
        hops: hops(hub),
    }
}

fn ok(name: &str, detail: impl Into<String>) -> Hop {
    hop(name, HopState::Ok, detail, None)
}

fn waiting(name: &str, detail: impl Into<String>) -> Hop {
    hop(name, HopState::Waiting, detail, None)
}

fn broken(name: &str, detail: impl Into<String>, fix: impl Into<String>) -> Hop {
    hop(name, HopState::Broken, detail, Some(fix.into()))
}

fn hop(name: &str, state: HopState, detail: impl Into<String>, fix: Option<String>) -> Hop {
    Hop {
        name: name.to_owned(),
        state,
        detail: detail.into(),
        fix,
    }
}

fn hops(hub: &Hub) -> Vec<Hop> {
    let mut hops = vec![ok(
        "daemon",
        format!("cozyvttd {VERSION} is up, {} calls running", hub.running()),
    )];
    let file = hub.config.file.display();
    match &hub.session {
        Ok(session) => {
            let source = if hub.config.file.exists() {
                format!("{file} and the environment")
            } else {
                format!("the environment; there is no {file}")
            };
            hops.push(ok("configuration", source));
            hops.push(rest(session));
            hops.push(login(session));
            hops.push(websocket(session));
            hops.push(campaign(session));
            hops.push(journal(session));
        }
        Err(trouble) => {
            if trouble.hop != "configuration" {
                hops.push(ok("configuration", file.to_string()));
            }
            for name in ["rest", "login", "websocket", "campaign"] {
                hops.push(waiting(name, format!("needs the {}", trouble.hop)));
            }
            let place = if trouble.hop == "configuration" {
                1
            } else {
                hops.len()
            };
            hops.insert(place, broken(trouble.hop, &trouble.what, &trouble.fix));
            if trouble.hop != "journal" {
                hops.push(waiting("journal", "opens with the configuration"));
            }
        }
    }
    hops
}

fn rest(session: &Session) -> Hop {
    let reach = session.rest().reach();
    // Signing in reaches the server as well, and comes first.
    let unreached = match &*session.login().watch().borrow() {
        LoginState::SignedOut { why } => why.clone(),
        _ => None,
    };
    match (reach.failed.or(unreached), reach.answered) {
        (Some(cause), _) => broken(
            "rest",
            format!("{} does not answer: {cause}", session.url()),
            "check that the server runs and that the address is right; cozyvttd tries again by itself",
        ),
        (None, Some(answered)) => ok(
            "rest",
            format!("{} answered {} ago", session.url(), ago(answered)),
        ),
        (None, None) => match &*session.login().watch().borrow() {
            LoginState::SignedIn { .. } | LoginState::Blocked { .. } => {
                ok("rest", format!("{} answered the login", session.url()))
            }
            _ => waiting("rest", format!("{} has not answered yet", session.url())),
        },
    }
}

fn login(session: &Session) -> Hop {
    match session.login().watch().borrow().clone() {
        LoginState::SignedIn { user, .. } => ok(
            "login",
            format!(
                "signed in as {}",
                user["displayName"]
                    .as_str()
                    .unwrap_or("an account without a name")
            ),
        ),
        LoginState::SigningIn => waiting("login", "signing in"),
        LoginState::SignedOut { why: None } => waiting("login", "not signed in yet"),
        LoginState::SignedOut { why: Some(_) } => waiting("login", "needs the server"),
        LoginState::CoolingDown { until, why } => broken(
            "login",
            format!(
                "{why}; the next attempt is in {}",
                span(until.saturating_duration_since(Instant::now()))
            ),
            "wait: the server locks an address out after five attempts in 15 minutes",
        ),
        LoginState::Blocked { why } => broken(
            "login",
            why,
            "correct the account in the configuration, then restart cozyvttd",
        ),
    }
}

fn websocket(session: &Session) -> Hop {
    let link = session.link.state();
    match link.phase {
        Phase::Authenticated => ok(
            "websocket",
            format!("connected, connection {}", link.generation),
        ),
        Phase::Idle => waiting("websocket", "not begun"),
        Phase::Connecting => waiting("websocket", "connecting"),
        Phase::Stopped => waiting("websocket", "stopped"),
        Phase::Waiting { shut_out: true, .. } => {
            waiting("websocket", "not used: the campaign is closed to us")
        }
        Phase::Waiting { until, .. } => {
            let why = link.last_error.unwrap_or_default();
            let next = span(until.saturating_duration_since(Instant::now()));
            match &*session.login().watch().borrow() {
                LoginState::SignedIn { .. } => broken(
                    "websocket",
                    format!("{why}; the next attempt is in {next}"),
                    "cozyvttd tries again by itself; if it stays so, look at the server and at proxies in front of it",
                ),
                _ => waiting("websocket", "needs the login"),
            }
        }
    }
}

fn campaign(session: &Session) -> Hop {
    let link = session.link.state();
    let known = session.facts().known();
    let name = known.name.as_deref().unwrap_or(session.campaign());
    if link.authenticated() {
        let role = link.role.as_deref().unwrap_or("a member");
        ok("campaign", format!("{name}, as {role}"))
    } else if let Phase::Waiting {
        until,
        shut_out: true,
    } = link.phase
    {
        let why = link.last_error.unwrap_or_default();
        let next = span(until.saturating_duration_since(Instant::now()));
        broken(
            "campaign",
            format!("{why}; the next attempt is in {next}"),
            "have the account invited to the campaign, or correct campaign_id in the configuration and \
             restart cozyvttd",
        )
    } else {
        waiting("campaign", "needs the websocket")
    }
}

fn journal(session: &Session) -> Hop {
    let path = session.journal.path().display().to_string();
    let health = session.journal.health();
    match health.trouble {
        Some(trouble) => broken(
            "journal",
            format!("{path} takes no events: {trouble}"),
            "make room on the disk and check the folder's permissions; events wait in memory meanwhile",
        ),
        None => ok(
            "journal",
            format!("{path}, newest event {}", session.journal.high_water()),
        ),
    }
}

fn ago(instant: Instant) -> String {
    span(instant.elapsed())
}

/// A span of time in its two largest units.
fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_told_in_its_two_largest_units() {
        let told = |seconds| span(Duration::from_secs(seconds));
        assert_eq!(
            (told(5), told(65), told(7300)),
            ("5 s".into(), "1 min 5 s".into(), "2 h 1 min".into())
        );
    }
}
