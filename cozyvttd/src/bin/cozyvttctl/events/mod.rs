//! `cozyvttctl events`: what happened at the table, and what happens now.

mod kind;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use anstyle::Style;
use cozyvtt_proto::client::ClientError;
use cozyvtt_proto::control::{EventPage, EventPoll, PollParams};
use cozyvtt_proto::event::EventRecord;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ZonedDateTime, civil::Date};

use crate::daemon::Daemon;
use crate::failure::{Exit, Failure};
use crate::names::Names;
use crate::narrate::{Line, Tone, narrate};
use crate::terminal::{BAD, DICE, Layout, QUIET, STRONG, Screen, remark};
use crate::text::{cut, json_line, plain};
use kind::Kind;

/// How long a page of the journal may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Records a page holds at most, and how far back one can look without a
/// cursor; both are the daemon's rules for `event.poll`.
const PAGE: u32 = 500;

/// Columns of an unknown event when the output is no terminal.
const RAW_WIDTH: usize = 400;

/// Show what happened at the table, and follow it live
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without --since: the newest records. With it: the records after N, oldest first, so that a program \
can read on from the last number that it has seen. A line is the local time, the record's number, \
and what happened. Text by players is shown without its control characters.

Examples:
  cozyvttctl events
  cozyvttctl events --follow --kind dice,chat,turn
  cozyvttctl events --since 4711 --limit 500 --json
  cozyvttctl events -f --json | jq 'select(.event == \"dice.rolled\").payload'")]
pub(crate) struct Args {
    /// Start after record number N; with --follow all records after it are shown first
    #[arg(long, value_name = "N")]
    since: Option<u64>,

    /// Show at most N past records [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,

    /// Go on with what happens from now on, until interrupted
    #[arg(long, short)]
    follow: bool,

    /// Show only these kinds, separated by commas: dice, chat, turn, session, character, token,
    /// map, people, system, or an event's whole name
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<Kind>,

    /// Show those of this campaign of the same account, instead of the daemon's own
    #[arg(long, value_name = "ID")]
    campaign: Option<String>,

    /// Print the records as JSON, one a line
    #[arg(long)]
    json: bool,
}

/// Whose journal is read.
struct Source<'a> {
    daemon: &'a Daemon,
    campaign: Option<String>,
}

impl Source<'_> {
    async fn page(&self, since: u64, limit: u32) -> Result<EventPage, Failure> {
        let params = PollParams {
            since,
            limit,
            campaign: self.campaign.clone(),
        };
        self.daemon.ask::<EventPoll>(params, PATIENCE).await
    }
}

pub(crate) async fn run(args: Args, daemon: &Daemon, screen: &mut Screen) -> Result<Exit, Failure> {
    let limit = args.limit.unwrap_or(100);
    for doubt in args.kind.iter().filter_map(Kind::doubt) {
        remark(&plain(&doubt));
    }
    let mut teller = Teller::new(args.json, args.kind, screen.layout);
    let source = Source {
        daemon,
        campaign: args.campaign,
    };
    let last = match (args.since, args.follow) {
        (None, _) if limit > PAGE => {
            return Err(Failure::usage(format!(
                "without --since, --limit reaches back {PAGE} records at most, not {limit}"
            ))
            .advise("Read older records from a cursor on: --since 1 --limit 5000."));
        }
        (Some(_), true) if args.limit.is_some() => {
            return Err(Failure::usage(
                "--limit says how far to look back, and so does --since: with --follow give one of them",
            ));
        }
        (None, _) => newest(limit, &source, screen, &mut teller).await?,
        // The stream itself replays what comes after the cursor.
        (Some(since), true) => since,
        (Some(since), false) => {
            onwards(since, limit, &source, screen, &mut teller).await?;
            return Ok(Exit::Fine);
        }
    };
    if args.follow {
        follow(last, &source, screen, &mut teller).await
    } else {
        Ok(Exit::Fine)
    }
}

/// Shows the newest records; answers the number of the last one.
async fn newest(
    limit: u32,
    source: &Source<'_>,
    screen: &mut Screen,
    teller: &mut Teller,
) -> Result<u64, Failure> {
    let page = source.page(0, PAGE).await?;
    let keep = usize::try_from(limit).unwrap_or(usize::MAX);
    let wanted: Vec<_> = page
        .events
        .iter()
        .filter(|record| teller.wants(record))
        .collect();
    let skipped = wanted.len().saturating_sub(keep);
    if page.events.is_empty() {
        remark("Nothing has happened yet: the journal is empty.");
    } else if wanted.is_empty() {
        remark(&format!(
            "None of the newest {} records is of that kind.",
            page.events.len()
        ));
    }
    remark_on_memory(&page);
    // The older ones are not shown, but they tell the names of the newer ones.
    for record in &page.events {
        teller.names.learn(record);
    }
    for record in &wanted[skipped..] {
        screen.lines(teller.tell(record))?;
    }
    Ok(page.next_seq)
}

/// Shows up to `limit` records after `since`.
async fn onwards(
    mut since: u64,
    mut limit: u32,
    source: &Source<'_>,
    screen: &mut Screen,
    teller: &mut Teller,
) -> Result<(), Failure> {
    loop {
        let page = source.page(since, teller.page(limit)).await?;
        if page.cursor_reset {
            remark(&format!(
                "The journal ends at {}, before {since}: it is shown from its beginning.",
                page.high_water_seq
            ));
        } else if page.gap {
            remark(&format!(
                "No longer kept of what came after {since}: {}.",
                lost(&page.evicted)
            ));
        }
        if page.events.is_empty() && !page.cursor_reset {
            remark(&format!("Nothing has happened since {since}."));
        }
        let mut at_the_end = !page.has_more || page.events.is_empty();
        since = page.next_seq;
        for (number, record) in page.events.iter().enumerate() {
            screen.lines(teller.tell(record))?;
            limit -= u32::from(teller.wants(record));
            if limit == 0 {
                since = record.seq;
                at_the_end &= number + 1 == page.events.len();
                break;
            }
        }
        if at_the_end || limit == 0 {
            remark_on_memory(&page);
            if !at_the_end {
                remark(&format!("There is more: go on with --since {since}."));
            }
            return Ok(());
        }
    }
}

/// What was evicted, the most first.
fn lost(evicted: &BTreeMap<String, u64>) -> String {
    let mut counts: Vec<_> = evicted.iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(**count));
    let parts = counts
        .into_iter()
        .map(|(event, count)| match event.as_str() {
            "unknown" => "a file that could not be read".to_owned(),
            event => format!("{count} {}", plain(event)),
        });
    parts.collect::<Vec<_>>().join(", ")
}

fn remark_on_memory(page: &EventPage) {
    if let Some(note) = &page.note {
        remark(&plain(note));
    }
}

/// Shows what happens until the daemon goes.
async fn follow(
    mut last: u64,
    source: &Source<'_>,
    screen: &mut Screen,
    teller: &mut Teller,
) -> Result<Exit, Failure> {
    let Source { daemon, campaign } = source;
    let mut stream = daemon.events(last, campaign.as_deref()).await?;
    loop {
        match stream.next().await {
            Ok(Some(record)) => {
                last = record.seq;
                screen.lines(teller.tell(&record))?;
            }
            Ok(None) | Err(ClientError::Broken { .. }) => return Err(gone(last)),
            Err(error) => return Err(daemon.explain(error).await),
        }
    }
}

fn gone(last: u64) -> Failure {
    Failure::unreachable(format!(
        "the daemon has gone; the last record shown is {last}"
    ))
    .advise(format!(
        "When it is back: cozyvttctl events --follow --since {last}"
    ))
}

/// Puts records into lines.
pub(crate) struct Teller {
    json: bool,
    layout: Layout,
    zone: TimeZone,
    names: Names,
    day: Option<Date>,
    /// Only these are shown; without one all are.
    kinds: Vec<Kind>,
    /// The line about the order of a fight that was shown last.
    order: Option<String>,
}

impl Teller {
    pub(crate) fn new(json: bool, kinds: Vec<Kind>, layout: Layout) -> Self {
        Self {
            json,
            layout,
            zone: TimeZone::system(),
            names: Names::default(),
            day: None,
            kinds,
            order: None,
        }
    }

    /// Whether a record is of a kind that is shown.
    fn wants(&self, record: &EventRecord) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|kind| kind.has(&record.event))
    }

    /// How many records are worth asking for when `limit` are to be shown.
    fn page(&self, limit: u32) -> u32 {
        if self.kinds.is_empty() {
            limit.min(PAGE)
        } else {
            PAGE
        }
    }

    /// The lines about `record`: a date when a new day has begun, then what
    /// happened, wrapped under itself. Nothing about one that is not wanted, or that says
    /// of a fight what was said last: CozyVTT sends the whole order at every small change.
    pub(crate) fn tell(&mut self, record: &EventRecord) -> Vec<String> {
        let wanted = self.wants(record);
        if self.json {
            return wanted.then(|| json_line(record)).into_iter().collect();
        }
        self.names.learn(record);
        if !wanted {
            return Vec::new();
        }
        let Line { tone, text } = narrate(record, &self.names);
        if record.event == "initiative.state" {
            if self.order.as_ref() == Some(&text) {
                return Vec::new();
            }
            self.order = Some(text.clone());
        }
        let mut lines = Vec::new();
        let when = moment(record.ts, &self.zone);
        if let Some(when) = when.as_ref().filter(|when| self.day != Some(when.date())) {
            self.day = Some(when.date());
            lines.push(format!(
                "{QUIET}{}{QUIET:#}",
                when.strftime("%A, %-d %B %Y")
            ));
        }
        let clock = when.map_or_else(
            || "--:--:--".to_owned(),
            |when| when.strftime("%H:%M:%S").to_string(),
        );
        let margin = format!("{clock} {:>5}  ", record.seq);
        let column = self.layout.narrower(margin.len());
        let texts = if tone == Tone::Raw {
            let width = column.width.unwrap_or(RAW_WIDTH);
            vec![cut(&text, width, self.layout.ellipsis())]
        } else {
            column.wrap(&text, 2)
        };
        let style = style(tone);
        for (number, text) in texts.into_iter().enumerate() {
            lines.push(if number == 0 {
                format!("{QUIET}{margin}{QUIET:#}{style}{text}{style:#}")
            } else {
                format!(
                    "{:indent$}{style}{text}{style:#}",
                    "",
                    indent = margin.len()
                )
            });
        }
        lines
    }
}

fn style(tone: Tone) -> Style {
    match tone {
        Tone::Speech | Tone::Change => Style::new(),
        Tone::Dice => DICE,
        Tone::Turn => STRONG,
        Tone::Aside | Tone::Raw => QUIET,
        Tone::Trouble => BAD,
    }
}

/// The local time of a record, which says it in seconds since 1970; `None` for a time that
/// no calendar has.
pub(crate) fn moment(seconds: f64, zone: &TimeZone) -> Option<ZonedDateTime> {
    let since_1970 = SignedDuration::try_from_secs_f64(seconds).ok()?;
    let timestamp = Timestamp::from_duration(since_1970).ok()?;
    Some(timestamp.to_zoned_datetime(zone.clone()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use textwrap::core::display_width;

    use super::*;

    fn record(seq: u64, ts: f64, event: &str, payload: Value) -> EventRecord {
        EventRecord {
            seq,
            ts,
            event: event.into(),
            payload,
            generation: 1,
        }
    }

    fn teller(json: bool, width: Option<usize>) -> Teller {
        Teller {
            zone: TimeZone::UTC,
            ..Teller::new(
                json,
                Vec::new(),
                Layout {
                    width,
                    unicode: true,
                },
            )
        }
    }

    fn shown(teller: &mut Teller, record: &EventRecord) -> Vec<String> {
        teller
            .tell(record)
            .iter()
            .map(|line| anstream::adapter::strip_str(line).to_string())
            .collect()
    }

    fn chat(seq: u64, ts: f64, text: &str) -> EventRecord {
        let payload = json!({"userName": "Paul", "content": text, "type": "PLAYER"});
        record(seq, ts, "chat.message", payload)
    }

    #[test]
    fn what_is_lost_is_told_the_most_first() {
        let counts = [("map.changed", 3), ("token.moved", 12), ("unknown", 1)];
        let counts = counts.map(|(name, count)| (name.to_owned(), count)).into();
        assert_eq!(
            lost(&counts),
            "12 token.moved, 3 map.changed, a file that could not be read"
        );
    }

    #[test]
    fn a_day_is_named_once_and_a_line_has_time_number_and_words() {
        let mut teller = teller(false, Some(80));
        assert_eq!(
            shown(&mut teller, &chat(7, 1_796_052_613.8, "hello")),
            ["Monday, 30 November 2026", "15:30:13     7  Paul: hello"]
        );
        assert_eq!(
            shown(&mut teller, &chat(8, 1_796_052_614.0, "again")),
            ["15:30:14     8  Paul: again"]
        );
        assert_eq!(
            shown(&mut teller, &chat(9, 1_796_090_000.0, "late"))[0],
            "Tuesday, 1 December 2026"
        );
    }

    #[test]
    fn only_the_wanted_kinds_are_shown_and_the_others_tell_names_all_the_same() {
        let mut teller = teller(false, Some(80));
        teller.kinds = vec!["dice".parse().unwrap()];
        assert!(shown(&mut teller, &chat(1, 0.0, "hello")).is_empty());
        let cleared = record(2, 0.0, "dice.historyCleared", json!({}));
        assert_eq!(shown(&mut teller, &cleared).len(), 2);
        assert_eq!(
            (
                teller.page(7),
                Teller::new(false, Vec::new(), teller.layout).page(7)
            ),
            (500, 7)
        );
    }

    #[test]
    fn an_order_that_reads_the_same_is_shown_once() {
        let mut teller = teller(false, None);
        let order = |seq, round| {
            let payload = json!({"isActive": true, "round": round, "currentTurnIndex": 0,
                "entries": [{"id": "e1", "name": "Goblin", "initiative": 12}]});
            record(seq, 0.0, "initiative.state", payload)
        };
        assert_eq!(shown(&mut teller, &order(1, 1)).len(), 2);
        assert!(shown(&mut teller, &order(2, 1)).is_empty());
        assert_eq!(shown(&mut teller, &order(3, 2)).len(), 1);
    }

    #[test]
    fn long_speech_is_wrapped_and_an_unknown_event_cut() {
        let mut narrow = teller(false, Some(60));
        let lines = shown(&mut narrow, &chat(1, 0.0, &"word ".repeat(40)));
        assert!(lines.len() > 4, "{lines:?}");
        let odd = record(2, 0.0, "fog:cells", json!({"cells": vec![1; 500]}));
        let cut = shown(&mut narrow, &odd);
        assert_eq!(cut.len(), 1);
        assert!(cut[0].ends_with('…'), "{cut:?}");
        for line in lines.iter().chain(&cut) {
            assert!(display_width(line) <= 60, "{line}");
        }
    }

    #[test]
    fn a_file_gets_speech_whole_and_an_unknown_event_bounded() {
        let mut wide = teller(false, None);
        assert_eq!(
            shown(&mut wide, &chat(1, 0.0, &"word ".repeat(400))).len(),
            2
        );
        let odd = record(2, 0.0, "fog:cells", json!({"cells": vec![1; 5000]}));
        assert!(display_width(&shown(&mut wide, &odd)[0]) < 500);
    }

    #[test]
    fn json_is_the_record_on_one_line_without_hidden_characters() {
        let record = chat(1, 0.5, "a\u{202e}b\nc\u{9b}");
        let lines = teller(true, Some(40)).tell(&record);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains(r"a\u202eb\nc\u009b"), "{lines:?}");
        assert_eq!(
            serde_json::from_str::<EventRecord>(&lines[0]).unwrap(),
            record
        );
    }

    #[test]
    fn a_time_that_no_calendar_has_is_no_reason_to_stop() {
        let mut teller = teller(false, Some(80));
        assert_eq!(
            shown(&mut teller, &chat(1, 1e300, "x")),
            ["--:--:--     1  Paul: x"]
        );
        assert_eq!(
            shown(&mut teller, &chat(1, f64::NAN, "x")),
            ["--:--:--     1  Paul: x"]
        );
    }
}
