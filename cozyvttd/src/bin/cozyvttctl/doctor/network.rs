//! The way to the server: its name, its certificate, its answer, its clock; and what the
//! account may do there.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use cozyvtt_proto::control::{Hop, HopState, LoginReason};
use cozyvttd::config::Settings;
use cozyvttd::session::Ground;
use cozyvttd::session::account::Account;
use cozyvttd::session::clock::Clock;
use cozyvttd::session::login::glance::{Kept, glance};
use cozyvttd::session::rest::RestError;
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::lookup_host;
use tokio::time::timeout;
use url::Url;

use super::{Patient, broken, hint, ok};
use crate::text::plain;

/// How long the name service may take.
const NAME_SERVICE: Duration = Duration::from_secs(10);

/// More than this apart, sessions and codes of a second factor go wrong, in seconds.
const APART: u64 = 60;

/// The hops that a running daemon tells best itself.
const TOLD: [&str; 3] = ["login", "campaign", "websocket"];

pub(super) async fn checks(patient: &Patient<'_>) -> Vec<Hop> {
    let mut checks = Vec::new();
    let reached = if let Ok(settings) = &patient.config.settings {
        server(patient, settings, &mut checks).await
    } else {
        let unknown = "which one is not known without a configuration";
        checks.push(hint("server", unknown, None));
        None
    };
    // The daemon's own word counts, as long as it has one.
    let told = patient.status.iter().flat_map(|status| &status.hops);
    let told: Vec<Hop> = told
        .filter(|hop| TOLD.contains(&hop.name.as_str()))
        .cloned()
        .collect();
    if told.iter().any(|hop| hop.state != HopState::Waiting) {
        checks.extend(told);
    } else if let (Some((account, _folder)), Ok(settings)) = (reached, &patient.config.settings) {
        checks.extend(seat(patient, &account, settings).await);
    }
    checks
}

/// Name, TLS, answer and clock; the account, when the server has answered.
async fn server(
    patient: &Patient<'_>,
    settings: &Settings,
    checks: &mut Vec<Hop>,
) -> Option<(Arc<Account>, TempDir)> {
    let address = settings.url.to_string();
    let Ok(url) = Url::parse(&address) else {
        return None;
    };
    checks.push(name(&url).await);
    let (account, folder) = match account(patient, settings) {
        Ok(found) => found,
        Err(check) => {
            checks.push(check);
            return None;
        }
    };
    match account.is_instance().await {
        Ok(true) => {
            if url.scheme() == "https" {
                checks.push(ok("tls", "the server's certificate is good"));
            }
            checks.push(ok("server", format!("a CozyVTT answers at {address}")));
            checks.push(clock(account.clock_ahead()));
            checks.push(health(&account).await);
            Some((account, folder))
        }
        Ok(false) => {
            checks.push(broken(
                "server",
                format!("what answers at {address} is no CozyVTT"),
                "correct url in the configuration: the address that you open in the browser; run: cozyvttctl setup",
            ));
            None
        }
        Err(error) => {
            checks.push(unreached(&address, &error));
            None
        }
    }
}

fn unreached(address: &str, error: &RestError) -> Hop {
    let why = plain(&error.to_string());
    let has = |words: &[&str]| words.iter().any(|word| why.contains(word));
    if has(&["UnknownIssuer"]) {
        broken(
            "tls",
            format!("nobody whom this machine knows vouches for the certificate of {address}"),
            "if it is an authority of your own, name its file with ca_file in the configuration (or \
             cozyvttctl setup --ca-file FILE)",
        )
    } else if has(&["NotValidForName"]) {
        broken(
            "tls",
            format!("the certificate is one of another name than that in {address}"),
            "correct url in the configuration to the name that the certificate is for",
        )
    } else if has(&["Expired", "NotValidYet"]) {
        broken(
            "tls",
            format!("the certificate of {address} is not valid now"),
            "look at this machine's clock; if that is right, have the server's certificate renewed",
        )
    } else {
        broken(
            "server",
            format!("{address} cannot be used: {why}"),
            "look whether the server runs, and whether url in the configuration is right; run: cozyvttctl setup",
        )
    }
}

/// Whether the server's name leads anywhere.
async fn name(url: &Url) -> Hop {
    let (host, port) = (
        url.host_str().unwrap_or_default(),
        url.port_or_known_default(),
    );
    let bare = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    if bare.parse::<IpAddr>().is_ok() {
        return ok("dns", format!("{host} is an address already"));
    }
    let asked = lookup_host((bare, port.unwrap_or(443)));
    match timeout(NAME_SERVICE, asked).await {
        Ok(Ok(mut found)) => match found.next() {
            Some(address) => ok("dns", format!("{host} is {}", address.ip())),
            None => broken(
                "dns",
                format!("{host} has no address"),
                "correct url in the configuration",
            ),
        },
        Ok(Err(error)) => broken(
            "dns",
            format!("{host} is not found: {error}"),
            "correct url in the configuration, or look at this machine's network",
        ),
        Err(_) => broken(
            "dns",
            format!(
                "nobody says within {} s who {host} is",
                NAME_SERVICE.as_secs()
            ),
            "look at this machine's network",
        ),
    }
}

/// What the server says of itself. Which version it is it tells nobody.
async fn health(account: &Account) -> Hop {
    match account.health().await {
        Ok(Some(told)) => {
            let word = |value: &Value| plain(value.as_str().unwrap_or("unknown"));
            let database = word(&told["services"]["database"]);
            let told = word(&told["status"]);
            if told == "healthy" {
                ok("health", format!("{told}, its database is {database}"))
            } else {
                sick(&format!("it says {told}, and its database is {database}"))
            }
        }
        Ok(None) => ok(
            "health",
            "not told: the proxy of CozyVTT up to 1.4 does not pass /health on",
        ),
        Err(RestError::Http { status: 503, .. }) => sick("it answers, but not with its database"),
        Err(error) => hint("health", plain(&error.to_string()), None),
    }
}

fn sick(what: &str) -> Hop {
    broken(
        "health",
        what,
        "look at the server: its database does not run, or cannot be reached from it",
    )
}

fn clock(ahead: i64) -> Hop {
    let apart = ahead.unsigned_abs();
    if apart <= APART {
        return ok("clock", "as the server's");
    }
    let way = if ahead > 0 { "behind" } else { "ahead of" };
    broken(
        "clock",
        format!("this machine is {apart} s {way} the server"),
        "set the clock: timedatectl set-ntp true; if it is right, the server's is wrong",
    )
}

/// The account with a copy of what the daemon has kept; its password is never sent.
fn account(patient: &Patient<'_>, settings: &Settings) -> Result<(Arc<Account>, TempDir), Hop> {
    let told = |error: std::io::Error| {
        let detail = format!("not looked at, since there is no temporary folder: {error}");
        hint(
            "server",
            detail,
            Some("free some space there, or set TMPDIR"),
        )
    };
    let folder = tempfile::Builder::new()
        .prefix("cozyvtt-doctor-")
        .tempdir()
        .map_err(told)?;
    let kept = patient.state_dir.join("session.json");
    if kept.is_file() {
        std::fs::copy(&kept, folder.path().join("session.json")).map_err(told)?;
    }
    let ground = Ground {
        clock: Clock::real(),
        folder: folder.path().to_owned(),
        shared: folder.path().to_owned(),
        by_word: false,
    };
    let account = Account::start(settings.clone(), ground).map_err(|error| {
        broken(
            "tls",
            error.to_string(),
            "correct ca_file in the configuration",
        )
    })?;
    // Whatever it does by itself it shall not do here.
    account.drain();
    Ok((account, folder))
}

/// What the kept session may do, without a daemon.
async fn seat(patient: &Patient<'_>, account: &Account, settings: &Settings) -> Vec<Hop> {
    if let Some(kept) = kept(patient, settings).await {
        return vec![kept];
    }
    if !account.has_kept_session() {
        return vec![hint(
            "login",
            "no session is kept; the daemon signs in when it starts",
            None,
        )];
    }
    let expired = |error: &RestError| matches!(error, RestError::Http { status: 401, .. });
    let me = match account.look(&["api", "auth", "me"]).await {
        Ok(me) => me,
        Err(error) if expired(&error) => {
            return vec![broken(
                "login",
                "the kept session has expired",
                "start cozyvttd, which signs in anew, or run: cozyvttctl login",
            )];
        }
        Err(error) => return vec![hint("login", plain(&error.to_string()), None)],
    };
    let who = plain(
        me["user"]["displayName"]
            .as_str()
            .unwrap_or("an account without a name"),
    );
    let mut checks = vec![ok("login", format!("the kept session is alive, as {who}"))];
    let campaign = settings.campaign.as_str();
    checks.push(match account.look(&["api", "campaigns", campaign]).await {
        Ok(answer) => {
            let name = plain(answer["campaign"]["name"].as_str().unwrap_or(campaign));
            let role = plain(
                answer["campaign"]["userRole"]
                    .as_str()
                    .unwrap_or("a member"),
            );
            ok("campaign", format!("{name}, as {role}"))
        }
        Err(RestError::Http {
            status: 403 | 404, ..
        }) => broken(
            "campaign",
            format!("the account is not in campaign {campaign}"),
            "have it invited, or choose one of its campaigns: run: cozyvttctl setup",
        ),
        Err(error) => hint("campaign", plain(&error.to_string()), None),
    });
    checks.push(hint("websocket", "only a running daemon can tell", None));
    checks
}

/// What an earlier run has written down against signing in.
async fn kept(patient: &Patient<'_>, settings: &Settings) -> Option<Hop> {
    match glance(&patient.state_dir, settings).await? {
        Kept::Blocked {
            of_these: Some(false),
            ..
        } => None,
        Kept::Blocked {
            reason,
            why,
            of_these,
        } => {
            let fix = match reason {
                LoginReason::SignedOut => "run: cozyvttctl login, once cozyvttd runs",
                _ => {
                    "correct the account: run: cozyvttctl setup; if it was mended at the table, run: \
                     cozyvttctl login"
                }
            };
            let why = plain(&why);
            Some(if of_these == Some(true) {
                broken("login", why, fix)
            } else {
                let why = format!("{why} Whether that was about the present password is not known");
                hint("login", why, Some(fix))
            })
        }
        Kept::Waiting { why, left } => {
            let detail = format!(
                "{}; not before {} min have gone",
                plain(&why),
                left.as_secs() / 60 + 1
            );
            Some(broken(
                "login",
                detail,
                "wait; cozyvttd tries again by itself",
            ))
        }
    }
}
