//! The way to the table, hop by hop, and what mends the one that is broken.

use std::sync::Arc;
use std::time::Duration;

use cozyvtt_proto::control::{
    BudgetUse, Hop, HopState, LoginPhase, LoginReason, LoginStatus, OtherCampaign, Sockets, Status,
};
use cozyvtt_proto::paths::{CONTROL_SOCKET, MCP_SOCKET};
use cozyvtt_proto::profile::addressed;
use tokio::time::Instant;

use crate::campaigns::{Campaign, Trouble};
use crate::config::Origin;
use crate::hub::{Hub, VERSION};
use crate::logging;
use crate::session::Session;
use crate::session::budget::Use;
use crate::session::live::Phase;
use crate::session::login::{Login, LoginState};
use crate::systemd;
use crate::time::seconds_to_wait;

/// Looks at every hop.
pub(super) fn status(hub: &Hub) -> Status {
    let main = hub.campaigns.main();
    let session = main.as_ref().ok().map(|main| &main.session);
    let account = session.map(|session| session.account());
    let config = hub.campaigns.config();
    let url = account.map(|account| account.url().to_string());
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
        activated: hub.activated,
        log: Some(if systemd::stderr_is_journal() {
            "journal".to_owned()
        } else {
            logging::folder(&hub.state_dir).display().to_string()
        }),
        config_file: config.file.display().to_string(),
        url: url.or_else(|| config.url.clone()),
        clients: hub.clients.count() as u64,
        idle_exit_s: hub.idle_exit().map(|limit| limit.as_secs()),
        hops: hops(hub, &main),
        login: account.map(|account| standing(account.login())),
        budgets: account
            .map(|account| account.budgets().map(budget).into())
            .unwrap_or_default(),
        ignored_events: session
            .map(|session| session.link.ignored_events())
            .unwrap_or_default(),
        campaigns: hub
            .campaigns
            .others()
            .iter()
            .map(|campaign| other(campaign))
            .collect(),
    }
}

/// How the daemon is, in one sentence for systemd's status line.
pub(crate) fn headline(hub: &Hub) -> String {
    let hops = hops(hub, &hub.campaigns.main());
    let first = |state| hops.iter().find(|hop| hop.state == state);
    if let Some(hop) = first(HopState::Broken) {
        let fix = hop.fix.as_deref().unwrap_or("see `cozyvttctl status`");
        return addressed(&format!("{}: {}; {fix}", hop.name, hop.detail)).into_owned();
    }
    if let Some(hop) = first(HopState::Waiting) {
        return format!("on the way to the table; {}: {}", hop.name, hop.detail);
    }
    let table = hops.iter().find(|hop| hop.name == "campaign");
    let table = table.map_or("the table", |hop| hop.detail.as_str());
    match hub.clients.count() {
        0 => format!("at {table}; no client"),
        1 => format!("at {table}; one client"),
        many => format!("at {table}; {many} clients"),
    }
}

/// Where a login stands; what mends it is a command that can be copied.
pub(super) fn standing(login: &Login) -> LoginStatus {
    let mut standing = login.standing();
    standing.fix = standing.fix.map(|fix| addressed(&fix).into_owned());
    standing
}

/// Another campaign than the main one.
fn other(sat_in: &Campaign) -> OtherCampaign {
    let session = &sat_in.session;
    OtherCampaign {
        id: session.campaign().to_owned(),
        clients: sat_in.visitors() as u64,
        hops: vec![
            websocket(session),
            campaign(
                session,
                "have the account invited to the campaign, or correct --campaign or \
                 COZYVTT_CAMPAIGN_ID of the client that asked for it",
            ),
            journal(sat_in),
        ],
    }
}

fn budget((name, budget): (&str, Use)) -> BudgetUse {
    BudgetUse {
        name: name.to_owned(),
        used: budget.sends as u64,
        of: budget.of as u64,
        window_s: budget.window.as_secs(),
        wait_s: seconds_to_wait(budget.wait),
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
        fix: fix.map(|fix| addressed(&fix).into_owned()),
    }
}

fn hops(hub: &Hub, main: &Result<Arc<Campaign>, Trouble>) -> Vec<Hop> {
    let leaves = hub.idle_exit().map_or_else(String::new, |limit| {
        let minutes = limit.as_secs() / 60;
        format!("; leaves after {minutes} min without a client")
    });
    let running = hub.running();
    let mut hops = vec![ok(
        "daemon",
        format!("cozyvttd {VERSION} is up, {running} calls running{leaves}"),
    )];
    let config = hub.campaigns.config();
    let file = &config.file;
    match main {
        Ok(main) => {
            let session = &main.session;
            let source = match session.account().settings().origin {
                Origin::Offered => {
                    "what a client brought along, kept in memory until cozyvttd ends".to_owned()
                }
                Origin::Configured if file.exists() && config.uses_environment => {
                    format!("{} and the environment", file.display())
                }
                Origin::Configured if file.exists() => file.display().to_string(),
                Origin::Configured => {
                    format!("the environment; there is no {}", file.display())
                }
            };
            hops.push(ok("configuration", source));
            hops.push(rest(session));
            hops.push(login(session));
            hops.push(websocket(session));
            hops.push(campaign(
                session,
                "have the account invited to the campaign, or correct campaign_id in the configuration \
                 and run: cozyvttctl reload",
            ));
            hops.push(journal(main));
        }
        Err(trouble) => {
            if trouble.hop != "configuration" {
                hops.push(ok("configuration", file.display().to_string()));
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
    let standing = session.login().standing();
    let (detail, used) = (&standing.detail, used(&standing));
    let notice = standing.notice.as_ref();
    let notice = notice
        .map(|notice| format!(". {notice}"))
        .unwrap_or_default();
    match standing.state {
        LoginPhase::SignedIn => ok("login", format!("{detail}{used}{notice}")),
        LoginPhase::SignedOut if standing.reason == Some(LoginReason::Unreachable) => {
            waiting("login", "needs the server")
        }
        LoginPhase::CoolingDown => {
            let left = span(session.login().cooling_for().unwrap_or_default());
            let detail = format!("{detail}; the next attempt is in {left}{used}{notice}");
            broken("login", detail, standing.fix.unwrap_or_default())
        }
        LoginPhase::Blocked => broken("login", detail, standing.fix.unwrap_or_default()),
        _ => waiting("login", detail),
    }
}

/// How much of CozyVTT's limit on sign-ins is used, if any.
fn used(standing: &LoginStatus) -> String {
    let tally = &standing.tally;
    if tally.sent == 0 {
        return String::new();
    }
    let minutes = tally.window_s / 60;
    let mine = format!(
        "{} of {} sign-ins used in {minutes} min",
        tally.sent, tally.limit
    );
    match tally.server_remaining {
        Some(left) => format!(" ({mine}; the server leaves {left})"),
        None => format!(" ({mine})"),
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

fn campaign(session: &Session, fix: &str) -> Hop {
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
            fix,
        )
    } else {
        waiting("campaign", "needs the websocket")
    }
}

fn journal(campaign: &Campaign) -> Hop {
    let Campaign {
        session, ledger, ..
    } = campaign;
    let health = session.journal.health();
    if let Some(trouble) = health.trouble {
        let detail = format!(
            "{}; new events are held in memory and are lost when cozyvttd ends",
            trouble.what
        );
        return broken("journal", detail, trouble.fix);
    }
    let mut detail = format!(
        "{}, newest event {}",
        session.journal.path().display(),
        session.journal.high_water()
    );
    if let Some(remark) = health.remark {
        detail.push_str("; ");
        detail.push_str(&remark);
    }
    if !ledger.is_durable() {
        detail.push_str(
            "; the ledger of writes is in memory, so a write that is repeated after a restart is done again",
        );
    }
    ok("journal", detail)
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
