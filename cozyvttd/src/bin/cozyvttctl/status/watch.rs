//! `status --watch`: the hops, the budgets, the clients and the newest events, as they
//! change, on a screen of its own.

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anstream::ColorChoice;
use cozyvtt_proto::control::{
    BudgetUse, ClientList, Clients, DaemonStatus, EventPage, EventPoll, HopState, NoParams,
    OtherCampaign, PollParams, Status,
};
use crossterm::event::{Event, EventStream, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use crossterm::{cursor, queue};
use futures_util::StreamExt as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};

use super::{headline, listed, rows};
use crate::clients;
use crate::daemon::{Daemon, PROMPT, VERSION, mismatch};
use crate::events::Teller;
use crate::failure::{Exit, Failure};
use crate::terminal::{BAD, CARE, GOOD, Layout, QUIET, STRONG};
use crate::text::{clip, cut, pad, plain};

/// How often the daemon is asked.
pub(super) const LOOK: Duration = Duration::from_millis(500);

/// Most events that are kept for a screen.
const EVENTS: usize = 200;

/// Clients that are shown before the rest is counted.
const CLIENTS: usize = 5;

/// Columns of a budget's bar.
const BAR: usize = 16;

/// Shows it until somebody presses q.
pub(super) async fn watch(daemon: &Daemon) -> Result<Exit, Failure> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::usage("--watch needs a terminal").advise(
            "A program reads `cozyvttctl status --watch --json`, and `cozyvttctl events --follow --json`.",
        ));
    }
    let mut view = View::default();
    let mut screen = FullScreen::enter()?;
    let mut keys = EventStream::new();
    // Who ends this program otherwise than by a key wants the terminal back as well.
    let mut ended = signal(SignalKind::terminate())?;
    let mut due = interval(LOOK);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let (instance, since) = (view.instance.clone(), view.since);
        let look = async {
            due.tick().await;
            look(daemon, &instance, since).await
        };
        tokio::pin!(look);
        // A daemon that takes its time keeps nobody here.
        let news = loop {
            tokio::select! {
                news = &mut look => break news,
                key = keys.next() => match key {
                    Some(Ok(Event::Key(key))) if leaves(key) => return Ok(Exit::Fine),
                    Some(Ok(Event::Resize(..))) => {
                        screen.forget();
                        screen.draw(&view)?;
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Ok(Exit::Fine),
                },
                _ = ended.recv() => return Ok(Exit::Fine),
            }
        };
        view.take(news);
        screen.draw(&view)?;
    }
}

/// Whether a key means that somebody has seen enough.
fn leaves(key: KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press
        && match key.code {
            KeyCode::Char('q') | KeyCode::Esc => true,
            KeyCode::Char('c') => control,
            _ => false,
        }
}

/// What the daemon says, or why nobody answers and what to do.
type News = Result<(Status, Option<Clients>, Option<EventPage>), (String, String)>;

/// Asks the daemon; the events are those after `since`, if it is still the same run.
async fn look(daemon: &Daemon, instance: &str, since: u64) -> News {
    let status = daemon.try_ask::<DaemonStatus>(NoParams {}, PROMPT).await;
    let status = status.map_err(|error| {
        let trouble = daemon.trouble(&error);
        (format!("{error}. {}", trouble.finding), trouble.fix)
    })?;
    let clients = daemon.try_ask::<ClientList>(NoParams {}, PROMPT).await.ok();
    let params = PollParams {
        since: if status.instance == instance {
            since
        } else {
            0
        },
        limit: 500,
        campaign: None,
    };
    // Without a configuration there are none.
    let page = daemon.try_ask::<EventPoll>(params, PROMPT).await.ok();
    Ok((status, clients, page))
}

/// The terminal while it is ours; it is as it was when this value goes.
struct FullScreen {
    shown: Vec<String>,
    colours: bool,
}

impl FullScreen {
    fn enter() -> io::Result<Self> {
        enable_raw_mode()?;
        let screen = Self {
            shown: Vec::new(),
            colours: anstream::AutoStream::choice(&io::stdout()) != ColorChoice::Never,
        };
        let mut out = io::stdout();
        queue!(out, EnterAlternateScreen, cursor::Hide)?;
        out.flush()?;
        Ok(screen)
    }

    /// Draws everything the next time.
    fn forget(&mut self) {
        self.shown.clear();
    }

    /// Draws what is another line than before.
    fn draw(&mut self, view: &View) -> io::Result<()> {
        let (width, height) = size().unwrap_or((80, 24));
        // Narrower than lines can be laid out, their ends are cut off.
        let lines: Vec<String> = view
            .lines(Layout::of_stdout(), usize::from(height))
            .iter()
            .map(|line| clip(line, usize::from(width)))
            .collect();
        if lines == self.shown {
            return Ok(());
        }
        let mut out = io::stdout();
        if self.shown.is_empty() {
            queue!(out, Clear(ClearType::All))?;
        }
        for (row, line) in lines.iter().enumerate() {
            if self.shown.get(row) == Some(line) {
                continue;
            }
            let row = u16::try_from(row).unwrap_or(u16::MAX);
            queue!(out, cursor::MoveTo(0, row), Clear(ClearType::CurrentLine))?;
            if self.colours {
                write!(out, "{line}")?;
            } else {
                write!(out, "{}", anstream::adapter::strip_str(line))?;
            }
        }
        if lines.len() < self.shown.len() {
            let below = u16::try_from(lines.len()).unwrap_or(u16::MAX);
            queue!(
                out,
                cursor::MoveTo(0, below),
                Clear(ClearType::FromCursorDown)
            )?;
        }
        out.flush()?;
        self.shown = lines;
        Ok(())
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        let mut out = io::stdout();
        // There is no better place to complain than the one that does not work.
        let _ = queue!(out, cursor::Show, LeaveAlternateScreen);
        let _ = out.flush();
        let _ = disable_raw_mode();
    }
}

/// What is shown.
#[derive(Default)]
struct View {
    status: Option<Status>,
    clients: Vec<cozyvtt_proto::control::ClientInfo>,
    /// Why nobody answers, when nobody does.
    gone: Option<(String, String)>,
    /// The newest records.
    events: VecDeque<cozyvtt_proto::event::EventRecord>,
    /// The run that they are of, and the last of their numbers.
    instance: String,
    since: u64,
}

impl View {
    /// Takes what the daemon has said.
    fn take(&mut self, news: News) {
        let (status, clients, page) = match news {
            Ok(news) => news,
            Err(gone) => {
                self.gone = Some(gone);
                return;
            }
        };
        self.gone = None;
        if status.instance != self.instance {
            self.instance.clone_from(&status.instance);
            self.events.clear();
            self.since = 0;
        }
        self.status = Some(status);
        if let Some(there) = clients {
            self.clients = there.clients;
        }
        if let Some(page) = page {
            self.since = page.next_seq;
            self.events.extend(page.events);
            while self.events.len() > EVENTS {
                self.events.pop_front();
            }
        }
    }

    /// The screen, line by line, at most `height` of them.
    fn lines(&self, layout: Layout, height: usize) -> Vec<String> {
        let width = layout.width.unwrap_or(80);
        if let Some((why, fix)) = &self.gone {
            let mut lines = vec![format!("{BAD}No daemon answers.{BAD:#}")];
            lines.extend(layout.wrap(&plain(why), 2));
            lines.extend(layout.wrap(&format!("{} {}", layout.pick("→", "->"), plain(fix)), 2));
            lines.push(String::new());
            lines.extend(layout.wrap("This screen goes on as soon as one is there.", 0));
            return with_foot(lines, height);
        }
        let Some(status) = &self.status else {
            return vec!["…".to_owned()];
        };
        let mut lines: Vec<String> = layout
            .wrap(&headline(status), 0)
            .into_iter()
            .map(|line| format!("{STRONG}{line}{STRONG:#}"))
            .collect();
        if status.version != VERSION {
            let told = layout.wrap(&plain(&mismatch(&status.version)), 0);
            lines.extend(told.iter().map(|line| format!("{CARE}{line}{CARE:#}")));
        }
        lines.extend(rows::lines(&status.hops, layout));
        lines.extend(
            status
                .campaigns
                .iter()
                .map(|other| elsewhere(other, layout)),
        );
        lines.push(section("budgets", layout));
        lines.extend(status.budgets.iter().map(|budget| bar(budget, layout)));
        lines.push(section(&format!("clients {}", self.clients.len()), layout));
        lines.extend(self.clients.iter().take(CLIENTS).map(|client| {
            let last = client.last_call.as_ref();
            let last =
                last.map_or_else(String::new, |call| format!(", last {}", plain(&call.tool)));
            let told = format!(
                "  {} {}, {} calls, {} waiting{last}",
                pad(&cut(&clients::label(client), 20, layout.ellipsis()), 20),
                clients::state(client),
                client.calls,
                client.waiting,
            );
            cut(&told, width, layout.ellipsis())
        }));
        if let Some(more @ 1..) = self.clients.len().checked_sub(CLIENTS) {
            lines.push(format!("  and {more} more: `cozyvttctl clients`"));
        }
        lines.push(section("events", layout));
        let room = height.saturating_sub(lines.len() + 1);
        let mut teller = Teller::new(false, Vec::new(), layout);
        let told: Vec<String> = self
            .events
            .iter()
            .flat_map(|record| teller.tell(record))
            .collect();
        let newest = told.len().saturating_sub(room);
        lines.extend(told.into_iter().skip(newest));
        with_foot(lines, height)
    }
}

/// The lines that fit, and in the last row how one leaves.
fn with_foot(mut lines: Vec<String>, height: usize) -> Vec<String> {
    lines.resize(height.saturating_sub(1), String::new());
    lines.push(format!("{QUIET}q leaves{QUIET:#}"));
    lines
}

/// How another campaign of the account stands, in one line.
fn elsewhere(other: &OtherCampaign, layout: Layout) -> String {
    let troubled: Vec<String> = other
        .hops
        .iter()
        .filter(|hop| hop.state != HopState::Ok)
        .map(|hop| plain(&hop.name))
        .collect();
    let (style, stands) = if troubled.is_empty() {
        (GOOD, "all is well".to_owned())
    } else {
        (CARE, format!("not yet: {}", listed(&troubled)))
    };
    let told = format!(
        "also in campaign {}, {} clients: {stands}",
        plain(&other.id),
        other.clients
    );
    let width = layout.width.unwrap_or(80).saturating_sub(2);
    format!("  {style}{}{style:#}", cut(&told, width, layout.ellipsis()))
}

/// A heading with a line behind it.
fn section(name: &str, layout: Layout) -> String {
    let width = layout.width.unwrap_or(80);
    let rule = layout
        .pick("─", "-")
        .repeat(width.saturating_sub(name.len() + 1));
    format!("{QUIET}{name} {rule}{QUIET:#}")
}

/// How much of a budget is used.
fn bar(budget: &BudgetUse, layout: Layout) -> String {
    let part =
        |of: u64| usize::try_from(budget.used.min(of) * BAR as u64 / of.max(1)).unwrap_or(BAR);
    let used = part(budget.of);
    let style = if budget.wait_s > 0 {
        BAD
    } else if used * 4 > BAR * 3 {
        CARE
    } else {
        GOOD
    };
    let wait = match budget.wait_s {
        0 => String::new(),
        seconds => format!(", the next waits {seconds} s"),
    };
    format!(
        "  {} {style}{}{style:#}{QUIET}{}{QUIET:#} {} of {} in {} s{wait}",
        pad(&plain(&budget.name), 9),
        layout.pick("█", "#").repeat(used),
        layout.pick("░", ".").repeat(BAR - used),
        budget.used,
        budget.of,
        budget.window_s,
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use textwrap::core::display_width;

    use super::*;

    fn view() -> View {
        let status = json!({
            "version": "0.1.0", "instance": "i", "pid": 1, "uptime_s": 60,
            "sockets": {"mcp": "m", "control": "c"}, "state_dir": "s", "config_file": "f",
            "url": "https://table.example", "clients": 1,
            "hops": [{"name": "login", "state": "ok", "detail": "signed in as Dana"}],
            "budgets": [{"name": "rolls", "used": 14, "of": 28, "window_s": 60, "wait_s": 0}],
        });
        let client = json!({"number": 1, "name": "claude-code", "calls": 3, "waiting": 0, "state": "active"});
        let event = |seq: u64| {
            json!({"seq": seq, "ts": 0.0, "event": "chat.message", "generation": 1,
                "payload": {"userName": "Paul", "content": format!("line {seq}"), "type": "PLAYER"}})
        };
        View {
            status: serde_json::from_value(status).unwrap(),
            clients: vec![serde_json::from_value(client).unwrap()],
            events: (1..50)
                .map(|seq| serde_json::from_value(event(seq)).unwrap())
                .collect(),
            ..View::default()
        }
    }

    fn shown(view: &View, width: usize, height: usize) -> Vec<String> {
        let lines = view.lines(Layout::test(width), height);
        let plain = |line: &String| anstream::adapter::strip_str(line).to_string();
        lines.iter().map(plain).collect()
    }

    #[test]
    fn everything_fits_a_small_terminal_and_the_newest_events_are_at_the_end() {
        let lines = shown(&view(), 80, 24);
        assert_eq!(lines.len(), 24, "{lines:#?}");
        assert!(
            lines.iter().all(|line| display_width(line) <= 80),
            "{lines:#?}"
        );
        assert!(lines[0].starts_with("All is well"), "{lines:#?}");
        assert!(
            lines
                .iter()
                .any(|line| line.contains("████████░░░░░░░░ 14 of 28"))
        );
        assert!(lines.iter().any(|line| line.contains("claude-code")));
        assert!(lines[22].ends_with("Paul: line 49"), "{lines:#?}");
        assert_eq!(lines[23], "q leaves");
    }

    #[test]
    fn a_daemon_that_has_gone_is_told_with_the_mend() {
        let mut gone = view();
        gone.gone = Some(("nobody".to_owned(), "Start it with `cozyvttd`.".to_owned()));
        let lines = shown(&gone, 40, 10);
        assert!(lines[0].contains("No daemon answers"));
        assert!(
            lines.iter().any(|line| line.contains("`cozyvttd`")),
            "{lines:#?}"
        );
    }
}
