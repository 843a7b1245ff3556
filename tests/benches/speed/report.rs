//! What was measured, and how it is shown: a table for a terminal, a Markdown table, JSON.

use serde_json::{Value, json};

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// So many in a second.
    PerSecond,
    /// So many times as much.
    Times,
    /// Things.
    Count,
    /// Parts of a hundred.
    Percent,
}

/// A number with its unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quantity {
    number: f64,
    unit: Unit,
}

/// What a quantity is to be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    /// Less than this number.
    Below(f64),
    /// This number or less.
    AtMost(f64),
    /// This number or more.
    AtLeast(f64),
}

/// One line of the report.
#[derive(Debug)]
pub(crate) struct Figure {
    /// What it is, in a few words.
    what: String,
    value: Quantity,
    /// What 99 of 100 samples do not exceed, where the value is a median.
    high: Option<Quantity>,
    goal: Option<Goal>,
}

/// How the report is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// For a terminal.
    Text,
    /// For a README.
    Markdown,
    /// For programs.
    Json,
}

/// All lines, each with the measurement that it comes from.
#[derive(Debug, Default)]
pub(crate) struct Report(Vec<(&'static str, Figure)>);

/// A whole number as one with a fraction.
#[expect(
    clippy::cast_precision_loss,
    reason = "what is counted here is far below 2^52"
)]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}

impl Unit {
    fn of(self, number: f64) -> Quantity {
        Quantity { number, unit: self }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Bytes => "B",
            Self::PerSecond => "1/s",
            Self::Times => "times",
            Self::Count => "",
            Self::Percent => "%",
        }
    }
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = self.number;
        let size = number.abs();
        match self.unit {
            Unit::Seconds if size < 0.001 => write!(f, "{:.0} µs", number * 1e6),
            Unit::Seconds if size < 1.0 => write!(f, "{:.2} ms", number * 1e3),
            Unit::Seconds => write!(f, "{number:.2} s"),
            Unit::Bytes if size < 1e6 => write!(f, "{:.1} kB", number / 1e3),
            Unit::Bytes => write!(f, "{:.2} MB", number / 1e6),
            Unit::PerSecond => write!(f, "{}/s", thousands(number)),
            Unit::Times => write!(f, "{number:.0} x"),
            Unit::Count => write!(f, "{}", thousands(number)),
            Unit::Percent => write!(f, "{number:.2} %"),
        }
    }
}

/// A whole number with a comma between thousands.
fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        let left = digits.len() - place;
        if left.is_multiple_of(3) && text.ends_with(|c: char| c.is_ascii_digit()) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

impl Goal {
    fn is_held(self, number: f64) -> bool {
        match self {
            Self::Below(limit) => number < limit,
            Self::AtMost(limit) => number <= limit,
            Self::AtLeast(limit) => number >= limit,
        }
    }

    fn shown(self, unit: Unit) -> String {
        match self {
            Self::Below(limit) => format!("< {}", unit.of(limit)),
            Self::AtMost(limit) => format!("<= {}", unit.of(limit)),
            Self::AtLeast(limit) => format!(">= {}", unit.of(limit)),
        }
    }

    fn json(self) -> Value {
        match self {
            Self::Below(limit) => json!({"below": limit}),
            Self::AtMost(limit) => json!({"at_most": limit}),
            Self::AtLeast(limit) => json!({"at_least": limit}),
        }
    }
}

impl Figure {
    /// A figure without a goal.
    pub(crate) fn new(what: impl Into<String>, number: f64, unit: Unit) -> Self {
        Self {
            what: what.into(),
            value: unit.of(number),
            high: None,
            goal: None,
        }
    }

    /// The same with what 99 of 100 samples do not exceed.
    pub(crate) fn high(self, number: f64) -> Self {
        let high = Some(self.value.unit.of(number));
        Self { high, ..self }
    }

    /// The same with a goal for the value.
    pub(crate) fn goal(self, goal: Goal) -> Self {
        let goal = Some(goal);
        Self { goal, ..self }
    }

    /// Whether its goal is held, if it has one.
    fn is_held(&self) -> Option<bool> {
        self.goal.map(|goal| goal.is_held(self.value.number))
    }

    /// Its cells: what, value, 99 %, goal, verdict.
    fn cells(&self) -> [String; 5] {
        let verdict = match self.is_held() {
            Some(true) => "held",
            Some(false) => "MISSED",
            None => "",
        };
        [
            self.what.clone(),
            self.value.to_string(),
            self.high.map(|high| high.to_string()).unwrap_or_default(),
            self.goal
                .map(|goal| goal.shown(self.value.unit))
                .unwrap_or_default(),
            verdict.to_owned(),
        ]
    }

    fn json(&self, measurement: &str) -> Value {
        json!({
            "measurement": measurement,
            "what": self.what,
            "value": self.value.number,
            "unit": self.value.unit.name(),
            "p99": self.high.map(|high| high.number),
            "goal": self.goal.map(Goal::json),
            "held": self.is_held(),
        })
    }
}

impl Report {
    /// Takes the figures of a measurement in.
    pub(crate) fn add(&mut self, name: &'static str, figures: Vec<Figure>) {
        self.0
            .extend(figures.into_iter().map(|figure| (name, figure)));
    }

    /// Whether no goal was missed.
    pub(crate) fn all_held(&self) -> bool {
        self.0
            .iter()
            .all(|(_, figure)| figure.is_held() != Some(false))
    }

    /// The report as a text.
    pub(crate) fn shown(&self, form: Form) -> String {
        let head = ["measured", "median or value", "99 %", "goal", "verdict"].map(str::to_owned);
        let rows = self.0.iter().map(|(_, figure)| figure.cells());
        match form {
            Form::Json => {
                let figures: Vec<_> = self
                    .0
                    .iter()
                    .map(|(name, figure)| figure.json(name))
                    .collect();
                let report =
                    json!({"machine": machine(), "figures": figures, "held": self.all_held()});
                format!("{report:#}")
            }
            Form::Markdown => {
                let mut lines = vec![line(&head), "|---|---:|---:|---:|---|".to_owned()];
                lines.extend(rows.map(|cells| line(&cells)));
                format!("{}\n\nMeasured on: {}.", lines.join("\n"), machine())
            }
            Form::Text => {
                let lines =
                    std::iter::once(head)
                        .chain(rows)
                        .map(|[what, value, high, goal, verdict]| {
                            let line =
                                format!("{what:<48}{value:>16}{high:>10}{goal:>15}  {verdict}");
                            line.trim_end().to_owned()
                        });
                let lines: Vec<_> = lines.collect();
                format!("{}\n\nmeasured on: {}", lines.join("\n"), machine())
            }
        }
    }
}

/// A row of a Markdown table.
fn line(cells: &[String; 5]) -> String {
    format!("| {} |", cells.join(" | "))
}

/// What kind of machine this is, and how busy: figures from a busy one say little.
fn machine() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let release = read("/proc/sys/kernel/osrelease");
    let kernel: Vec<_> = release.trim().splitn(3, '.').take(2).collect();
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or_default();
    format!(
        "{cores} cores, Linux {} on {}, load {load} at the end",
        kernel.join("."),
        std::env::consts::ARCH
    )
}
