//! `cozyvttctl status`: how the daemon is, and what mends what is broken.

mod changes;
mod watch;

use cozyvtt_proto::client::ClientError;
use cozyvtt_proto::control::{HopState, NoParams, Status};
use serde_json::{Value, json};

use crate::daemon::{Daemon, PROMPT, RawStatus, VERSION, mismatch};
use crate::failure::{Exit, Failure};
use crate::rows;
use crate::terminal::{CARE, Layout, QUIET, STRONG, Screen};
use crate::text::{json_pretty, pad, plain};

/// Show how the daemon is, hop by hop to the table, and what mends a broken hop
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes: 0 nothing is broken, 1 a hop is broken, 3 the daemon cannot be reached.

Examples:
  cozyvttctl status
  cozyvttctl status --watch
  cozyvttctl status --watch --json | jq -c '[.hops[] | select(.state != \"ok\").name]'
  cozyvttctl status --json | jq -r '.hops[] | select(.state == \"broken\") | .fix'
  cozyvttctl --socket-dir /run/user/1000/cozyvtt/evening status")]
pub(crate) struct Args {
    /// Print the daemon's answer as JSON, with `reachable` added; without a daemon, why and what to do
    #[arg(long)]
    json: bool,

    /// Show it live, with budgets, clients and the newest events, until q is pressed; with --json a line whenever
    /// it is another one, until interrupted
    #[arg(long, short)]
    watch: bool,
}

pub(crate) async fn run(args: Args, daemon: &Daemon, screen: &mut Screen) -> Result<Exit, Failure> {
    match (args.watch, args.json) {
        (true, true) => return changes::print(daemon, screen).await,
        (true, false) => return watch::watch(daemon).await,
        (false, _) => {}
    }
    let answer = match daemon.try_ask::<RawStatus>(NoParams {}, PROMPT).await {
        Ok(answer) => answer,
        Err(
            error @ (ClientError::Unreachable { .. }
            | ClientError::Broken { .. }
            | ClientError::Silent { .. }),
        ) if args.json => {
            screen.line(&json_pretty(&unreachable(daemon, &error)))?;
            return Ok(Exit::Unreachable);
        }
        Err(error) => return Err(daemon.explain(error).await),
    };
    let status: Status = match serde_json::from_value(answer.clone()) {
        Ok(status) => status,
        Err(error) => {
            return Err(daemon
                .explain(ClientError::Garbled(error.to_string()))
                .await);
        }
    };
    if args.json {
        screen.line(&json_pretty(&as_json(answer)))?;
    } else {
        screen.lines(report(&status, screen.layout))?;
    }
    let others = status.campaigns.iter().flat_map(|other| &other.hops);
    let mut all = status.hops.iter().chain(others);
    let broken = all.any(|hop| hop.state == HopState::Broken);
    Ok(if broken { Exit::Failed } else { Exit::Fine })
}

/// Why no daemon answers, for programs.
fn unreachable(daemon: &Daemon, error: &ClientError) -> Value {
    let trouble = daemon.trouble(error);
    json!({
        "reachable": false,
        "cozyvttctl": VERSION,
        "socket": daemon.socket().display().to_string(),
        "error": error.to_string(),
        "finding": trouble.finding,
        "fix": trouble.fix,
    })
}

/// The daemon's answer, for programs.
fn as_json(mut answer: Value) -> Value {
    if let Value::Object(fields) = &mut answer {
        fields.insert("reachable".into(), true.into());
        fields.insert("cozyvttctl".into(), VERSION.into());
    }
    answer
}

fn report(status: &Status, layout: Layout) -> Vec<String> {
    let mut lines: Vec<String> = layout
        .wrap(&headline(status), 0)
        .into_iter()
        .map(|line| format!("{STRONG}{line}{STRONG:#}"))
        .collect();
    if status.version != VERSION {
        lines.extend(
            layout
                .wrap(&plain(&mismatch(&status.version)), 0)
                .into_iter()
                .map(|line| format!("{CARE}{line}{CARE:#}")),
        );
    }
    lines.push(String::new());
    for (label, value) in facts(status) {
        lines.push(format!(
            "  {QUIET}{}{QUIET:#} {}",
            pad(label, 9),
            plain(&value)
        ));
    }
    lines.push(String::new());
    lines.extend(rows::lines(&status.hops, layout));
    for other in &status.campaigns {
        let clients = match other.clients {
            0 => "left soon, since no client wants it".to_owned(),
            1 => "for one client".to_owned(),
            many => format!("for {many} clients"),
        };
        let head = format!("Also in campaign {}, {clients}:", plain(&other.id));
        lines.push(String::new());
        lines.extend(layout.wrap(&head, 0));
        lines.extend(rows::lines(&other.hops, layout));
    }
    lines
}

/// The one sentence for somebody who reads no further.
fn headline(status: &Status) -> String {
    let named = |state: HopState| {
        status
            .hops
            .iter()
            .filter(|hop| hop.state == state)
            .map(|hop| plain(&hop.name))
            .chain(others(status, state))
            .collect::<Vec<_>>()
    };
    let daemon = format!("cozyvttd {}", plain(&status.version));
    let (broken, waiting) = (named(HopState::Broken), named(HopState::Waiting));
    if !broken.is_empty() {
        format!(
            "{daemon} runs, but something on the way to the table is broken: {}.",
            listed(&broken)
        )
    } else if !waiting.is_empty() {
        format!(
            "{daemon} is on its way to the table; still to come: {}.",
            listed(&waiting)
        )
    } else {
        let clients = match status.clients {
            0 => "no client is connected".to_owned(),
            1 => "serves one client".to_owned(),
            many => format!("serves {many} clients"),
        };
        format!(
            "All is well: {daemon} has been up for {} and {clients}.",
            duration(status.uptime_s)
        )
    }
}

/// The other campaigns in which a hop is like this.
fn others(status: &Status, state: HopState) -> impl Iterator<Item = String> {
    status
        .campaigns
        .iter()
        .filter(move |other| other.hops.iter().any(|hop| hop.state == state))
        .map(|other| format!("campaign {}", plain(&other.id)))
}

fn listed(names: &[String]) -> String {
    match names {
        [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

fn facts(status: &Status) -> Vec<(&'static str, String)> {
    vec![
        (
            "versions",
            format!("cozyvttctl {VERSION}, cozyvttd {}", status.version),
        ),
        (
            "process",
            format!(
                "pid {}, instance {}, up {}",
                status.pid,
                status.instance,
                duration(status.uptime_s)
            ),
        ),
        (
            "table",
            status
                .url
                .clone()
                .unwrap_or_else(|| "none configured".into()),
        ),
        ("clients", status.clients.to_string()),
        ("mcp", status.sockets.mcp.clone()),
        ("control", status.sockets.control.clone()),
        ("settings", status.config_file.clone()),
        ("state", status.state_dir.clone()),
    ]
}

/// A length of time in its two largest units.
fn duration(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, ..) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use cozyvtt_proto::control::Hop;
    use textwrap::core::display_width;

    use super::*;

    fn hop(name: &str, state: HopState, detail: &str, fix: Option<&str>) -> Hop {
        Hop {
            name: name.into(),
            state,
            detail: detail.into(),
            fix: fix.map(Into::into),
        }
    }

    fn status(hops: &[Hop]) -> Status {
        serde_json::from_value(json!({
            "version": VERSION, "instance": "k3j2", "pid": 4711, "uptime_s": 7980,
            "sockets": {"mcp": "/run/m.sock", "control": "/run/c.sock"},
            "state_dir": "/state", "config_file": "/config.toml",
            "url": "https://vtt.example.org", "clients": 3,
            "hops": hops,
        }))
        .unwrap()
    }

    fn shown(status: &Status, layout: Layout) -> String {
        anstream::adapter::strip_str(&report(status, layout).join("\n")).to_string()
    }

    #[test]
    fn a_healthy_daemon_is_one_sentence() {
        let text = shown(
            &status(&[hop("login", HopState::Ok, "as Dana", None)]),
            Layout::test(80),
        );
        assert!(text.starts_with("All is well: cozyvttd"), "{text}");
        assert!(
            text.contains("up for 2 h 13 min and serves 3 clients."),
            "{text}"
        );
        assert!(text.ends_with("  ✓ login  as Dana"), "{text}");
    }

    #[test]
    fn a_broken_hop_is_named_first_and_followed_by_what_mends_it() {
        let text = shown(
            &status(&[
                hop("rest", HopState::Ok, "200 in 12 ms", None),
                hop(
                    "login",
                    HopState::Broken,
                    "wrong password",
                    Some("Run `cozyvttctl login`."),
                ),
                hop("websocket", HopState::Waiting, "after the login", None),
            ]),
            Layout::test(80),
        );
        assert!(
            text.lines().next().unwrap().contains("is broken: login"),
            "{text}"
        );
        assert!(
            text.contains(
                "  ✗ login      wrong password\n               → Run `cozyvttctl login`."
            ),
            "{text}"
        );
    }

    #[test]
    fn the_longest_word_on_the_login_fits_eighty_columns() {
        let refused = hop(
            "login",
            HopState::Broken,
            "Login rejected (HTTP 401): Invalid email or password. With these credentials no further \
             password attempts will be made.",
            Some(
                "correct the account in the configuration and run: cozyvttctl reload; if it was mended at the \
                 table instead, run: cozyvttctl login",
            ),
        );
        let text = shown(&status(&[refused]), Layout::test(80));
        let widest = text.lines().map(display_width).max();
        assert!(widest <= Some(80), "{text}");
        assert!(text.ends_with("cozyvttctl login"), "{text}");
    }

    #[test]
    fn without_unicode_the_marks_are_words() {
        let layout = Layout {
            width: Some(80),
            unicode: false,
        };
        let text = shown(
            &status(&[hop("login", HopState::Broken, "no", Some("yes"))]),
            layout,
        );
        assert!(
            text.contains("  FAIL login  no\n              -> yes"),
            "{text}"
        );
        assert!(text.is_ascii(), "{text}");
    }

    #[test]
    fn another_version_is_said_with_what_to_do() {
        let mut other = status(&[]);
        other.version = "0.0.1".into();
        assert!(shown(&other, Layout::test(80)).contains("restart the daemon"));
    }

    #[test]
    fn details_cannot_move_the_cursor() {
        let sly = hop(
            "campaign",
            HopState::Ok,
            "The \u{1b}[2JLost\u{202e} Mines",
            None,
        );
        let text = report(&status(&[sly]), Layout::test(80)).pop().unwrap();
        assert!(text.ends_with("The \u{fffd}[2JLost Mines"), "{text:?}");
    }

    #[test]
    fn long_details_stay_in_their_column() {
        let text = shown(
            &status(&[hop("journal", HopState::Ok, &"word ".repeat(40), None)]),
            Layout::test(60),
        );
        assert!(text.lines().all(|line| display_width(line) <= 60), "{text}");
    }

    #[test]
    fn json_says_that_the_daemon_was_reached() {
        let shown = as_json(json!({"version": "1.0.0", "new_field": 1}));
        assert_eq!(shown["reachable"], true);
        assert_eq!(shown["new_field"], 1);
    }
}
