//! The log: to stderr, and to a file that begins anew each day; under systemd to its
//! journal, which keeps it by itself.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tracing::{Event, Level, Subscriber};
use tracing_appender::non_blocking::WorkerGuard;
use tracing_appender::rolling::{InitError, RollingFileAppender, Rotation};
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer, fmt};

use crate::private::{self, FolderError};
use crate::systemd;

/// What is logged when nothing else is asked for. rmcp repeats every message at
/// `info` and below, players' words included.
const DEFAULT_FILTER: &str = "info,rmcp=warn";

/// How many days' files are kept.
const KEPT: usize = 7;

/// Why nothing is written to a file.
#[derive(Debug, Error)]
enum FileError {
    /// The folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The file cannot be made.
    #[error("the log file cannot be made: {0}")]
    File(#[from] InitError),
}

/// Checks a filter, in the manner of tracing's `RUST_LOG`.
///
/// # Errors
///
/// What is wrong with it.
pub fn filter(text: &str) -> Result<String, String> {
    EnvFilter::try_new(text)
        .map(|_| text.to_owned())
        .map_err(|error| {
            format!("{error}; give something like debug or info,cozyvttd::session=debug")
        })
}

/// Starts logging with a checked [`filter`]. The file is written until the guard
/// goes. A log that cannot be written to a file goes to stderr alone: no reason
/// to leave a table alone. Under systemd there is no file.
///
/// # Errors
///
/// When logging was started before.
pub fn start(state_dir: &Path, filter: Option<&str>) -> Result<Option<WorkerGuard>, TryInitError> {
    let filter = || EnvFilter::new(filter.unwrap_or(DEFAULT_FILTER));
    if systemd::stderr_is_journal() {
        let to_journal = fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(false)
            .event_format(JournalLines(fmt::format().without_time().with_level(false)))
            .with_filter(filter());
        tracing_subscriber::registry().with(to_journal).try_init()?;
        return Ok(None);
    }
    let (file, guard, trouble) = match open(state_dir) {
        Ok(file) => {
            let (file, guard) = tracing_appender::non_blocking(file);
            (Some(file), Some(guard), None)
        }
        Err(error) => (None, None, Some(error)),
    };
    let to_stderr = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_filter(filter());
    let to_file = file.map(|file| {
        fmt::layer()
            .with_writer(file)
            .with_ansi(false)
            .with_filter(filter())
    });
    tracing_subscriber::registry()
        .with(to_stderr)
        .with(to_file)
        .try_init()?;
    if let Some(error) = trouble {
        tracing::warn!(%error, "logging to stderr alone");
    }
    Ok(guard)
}

/// Lines for systemd's journal: the priority in front, as sd-daemon(3) has it; the
/// journal adds time and unit.
struct JournalLines(Format<Full, ()>);

impl<S, N> FormatEvent<S, N> for JournalLines
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        let priority = match *event.metadata().level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            _ => 7,
        };
        write!(writer, "<{priority}>")?;
        self.0.format_event(context, writer, event)
    }
}

/// The folder of the log's files.
pub(crate) fn folder(state_dir: &Path) -> PathBuf {
    state_dir.join("logs")
}

fn open(state_dir: &Path) -> Result<RollingFileAppender, FileError> {
    let folder = folder(state_dir);
    private::ensure(&folder)?;
    Ok(RollingFileAppender::builder()
        .rotation(Rotation::DAILY)
        .filename_prefix("cozyvttd")
        .filename_suffix("log")
        .max_log_files(KEPT)
        .build(folder)?)
}
