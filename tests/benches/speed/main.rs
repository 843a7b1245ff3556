//! How fast and how small the way to the table is: practice table, daemon and
//! shims as real processes on this machine, measured against the goals.
//!
//! ```sh
//! cargo bench -p cozyvtt-tests --bench speed -- [--only NAME[,NAME]] [--peer PYTHON]
//!     [--programs FOLDER] [--json|--markdown]
//! ```
//!
//! `--peer` takes a Python that has `fastmcp` and measures a trivial server of that kind
//! beside ours. `--programs` measures the daemon and the shim of that folder instead of
//! building them: installed ones, or those of before a change. Exit code 1 when a goal was
//! missed.

mod churn;
mod client;
mod direct;
mod idle;
mod initialize;
mod journal;
mod memory;
mod peer;
mod process;
mod read;
mod report;
mod sample;
mod stage;
mod wake;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use report::{Figure, Form, Report};
use stage::Programs;

/// A measurement: its name for `--only`, and what makes its figures.
type Measurement = (&'static str, fn(&Asked) -> Result<Vec<Figure>>);

/// In the order in which they are shown.
const MEASUREMENTS: [Measurement; 8] = [
    ("initialize", initialize::measure),
    ("memory", memory::measure),
    ("read", read::measure),
    ("wake-up", wake::measure),
    ("journal", journal::measure),
    ("idle", idle::measure),
    ("churn", churn::measure),
    ("peer", peer::measure),
];

/// What the measurements work with.
pub(crate) struct Asked {
    programs: Programs,
    /// A Python with `fastmcp`.
    peer: Option<PathBuf>,
}

/// What the command line says.
struct Arguments {
    form: Form,
    only: Option<Vec<String>>,
    peer: Option<PathBuf>,
    programs: Option<PathBuf>,
}

impl Arguments {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let mut arguments = Self {
            form: Form::Text,
            only: None,
            peer: None,
            programs: None,
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--json" => arguments.form = Form::Json,
                "--markdown" => arguments.form = Form::Markdown,
                "--only" => {
                    let names = words.next().context("--only takes names")?;
                    let names = names.split(',').map(str::to_owned).collect();
                    arguments.only = Some(names);
                }
                "--peer" => {
                    let python = words.next().context("--peer takes a Python")?;
                    arguments.peer = Some(python.into());
                }
                "--programs" => {
                    let folder = words.next().context("--programs takes a folder")?;
                    arguments.programs = Some(folder.into());
                }
                // `cargo bench` says this to every bench program.
                "--bench" => {}
                other => bail!(
                    "unknown argument {other}; there are --only, --peer, --programs, --json and --markdown"
                ),
            }
        }
        let known = MEASUREMENTS.map(|(name, _)| name);
        for name in arguments.only.iter().flatten() {
            if !known.contains(&name.as_str()) {
                bail!("there is no figure {name}; there are {}", known.join(", "));
            }
        }
        Ok(arguments)
    }

    fn wants(&self, name: &str) -> bool {
        match &self.only {
            Some(names) => names.iter().any(|one| one == name),
            None => name != "peer" || self.peer.is_some(),
        }
    }
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::read(std::env::args().skip(1))?;
    let asked = Asked {
        programs: match &arguments.programs {
            Some(folder) => Programs::of(folder)?,
            None => Programs::build()?,
        },
        peer: arguments.peer.clone(),
    };
    // The client library wants to know its TLS library even where it needs none; a second
    // time changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut report = Report::default();
    for (name, measure) in MEASUREMENTS {
        if arguments.wants(name) {
            eprintln!("measuring {name} …");
            let figures = measure(&asked).with_context(|| format!("measuring {name}"))?;
            report.add(name, figures);
        }
    }
    println!("{}", report.shown(arguments.form));
    Ok(if report.all_held() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
