//! The log: to stderr, and to a file that begins anew each day.

use std::io::IsTerminal;
use std::path::Path;

use thiserror::Error;
use tracing_appender::non_blocking::WorkerGuard;
use tracing_appender::rolling::{InitError, RollingFileAppender, Rotation};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

use crate::private::{self, FolderError};

/// What is logged when nothing else is asked for. rmcp repeats every message at
/// `info` and below, players' words included.
const DEFAULT_FILTER: &str = "info,rmcp=warn";

/// How many days' files are kept.
const KEPT: usize = 7;

/// Why there is no log.
#[derive(Debug, Error)]
pub enum LogError {
    /// The folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The file cannot be made.
    #[error("the log file cannot be made: {0}")]
    File(#[from] InitError),
    /// The filter is not understood.
    #[error("the log filter is not understood: {0}; give something like info or debug,hyper=warn")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// Logging was set up before.
    #[error(transparent)]
    Twice(#[from] tracing_subscriber::util::TryInitError),
}

/// Starts logging with `filter`, in the manner of tracing's `RUST_LOG`. The file
/// is written until the guard goes.
///
/// # Errors
///
/// [`LogError`].
pub fn start(state_dir: &Path, filter: Option<&str>) -> Result<WorkerGuard, LogError> {
    let folder = state_dir.join("logs");
    private::ensure(&folder)?;
    let file = RollingFileAppender::builder()
        .rotation(Rotation::DAILY)
        .filename_prefix("cozyvttd")
        .filename_suffix("log")
        .max_log_files(KEPT)
        .build(folder)?;
    let (file, guard) = tracing_appender::non_blocking(file);
    let filter = || EnvFilter::try_new(filter.unwrap_or(DEFAULT_FILTER));
    let to_stderr = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_filter(filter()?);
    let to_file = fmt::layer()
        .with_writer(file)
        .with_ansi(false)
        .with_filter(filter()?);
    tracing_subscriber::registry()
        .with(to_stderr)
        .with(to_file)
        .try_init()?;
    Ok(guard)
}
