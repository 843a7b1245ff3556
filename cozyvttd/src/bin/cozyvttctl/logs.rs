//! `cozyvttctl logs`: what the daemon has written down, also when it does not run.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use cozyvtt_proto::control::NoParams;
use cozyvtt_proto::paths;
use cozyvtt_proto::profile::{self, Profile};
use serde_json::{Value, json};
use tokio::io::AsyncBufReadExt as _;
use tokio::process::Command;

use crate::daemon::{Daemon, PROMPT, RawStatus};
use crate::failure::{Exit, Failure};
use crate::systemctl;
use crate::terminal::{Screen, remark};
use crate::text::{json_line, plain};

/// How often a file is looked at for what is new.
const LOOK: Duration = Duration::from_millis(250);

/// Show the daemon's log
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Under systemd the log is in its journal and is shown by journalctl; otherwise it is in the files of the \
last seven days in the state folder. The daemon need not run. `RUST_LOG`-like filters are set where it is \
started (`cozyvttd --log debug`).

Exit codes: 0 shown, 1 there is no log or it cannot be read.

Examples:
  cozyvttctl logs
  cozyvttctl logs -n 500 | grep WARN
  cozyvttctl logs --follow")]
pub(crate) struct Args {
    /// Show the newest N lines
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
    lines: usize,

    /// Go on with what is written from now on, until interrupted
    #[arg(long, short)]
    follow: bool,

    /// Print each line as JSON: where it is from, and its text
    #[arg(long)]
    json: bool,
}

/// Where the log is.
enum Place {
    /// systemd's journal, under this unit.
    Journal(String),
    /// The files in a folder.
    Files(PathBuf),
}

pub(crate) async fn run(
    args: Args,
    profile: Option<&Profile>,
    daemon: &Daemon,
    screen: &mut Screen,
) -> Result<Exit, Failure> {
    match place(profile, daemon).await? {
        Place::Journal(unit) => journal(&args, &unit, screen).await,
        Place::Files(folder) => files(&args, &folder, screen).await,
    }
}

/// Where to look: where a running daemon says, else in the journal of a unit that is
/// installed, else in the state folder.
async fn place(profile: Option<&Profile>, daemon: &Daemon) -> Result<Place, Failure> {
    let unit = profile::service(profile);
    let status = daemon.try_ask::<RawStatus>(NoParams {}, PROMPT).await;
    if let Ok(status) = status {
        match status.get("log").and_then(Value::as_str) {
            Some("journal") => return Ok(Place::Journal(unit)),
            Some(folder) => return Ok(Place::Files(folder.into())),
            None => {}
        }
    }
    let installed = systemctl::systemctl(&["cat", &unit]).await.is_ok();
    let state = paths::state_dir(None, profile).ok_or_else(|| {
        Failure::failed("there is no place for a log: neither XDG_STATE_HOME nor HOME is set")
    })?;
    let folder = state.join("logs");
    if !installed {
        return Ok(Place::Files(folder));
    }
    if let Some(newest) = by_day(&folder).pop() {
        remark(&format!(
            "Shown is systemd's journal of {unit}. A daemon without systemd has left files as well, the newest {}.",
            newest.display()
        ));
    }
    Ok(Place::Journal(unit))
}

async fn journal(args: &Args, unit: &str, screen: &mut Screen) -> Result<Exit, Failure> {
    let cannot = |error: std::io::Error| {
        Failure::failed(format!("journalctl cannot be run: {error}")).advise(
            "The daemon logs to systemd's journal, which journalctl shows; is it in your PATH?",
        )
    };
    let mut command = Command::new("journalctl");
    command
        .args(["--user", "--no-pager", "--output=short-iso", "--unit", unit])
        .arg(format!("--lines={}", args.lines))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    if args.follow {
        command.arg("--follow");
    }
    let mut child = command.spawn().map_err(cannot)?;
    if let Some(output) = child.stdout.take() {
        let mut lines = tokio::io::BufReader::new(output).lines();
        while let Some(line) = lines.next_line().await.map_err(cannot)? {
            screen.line(&shown(args, unit, &line))?;
        }
    }
    let status = child.wait().await.map_err(cannot)?;
    Ok(if status.success() {
        Exit::Fine
    } else {
        Exit::Failed
    })
}

async fn files(args: &Args, folder: &Path, screen: &mut Screen) -> Result<Exit, Failure> {
    let cannot = |path: &Path, error: std::io::Error| {
        Failure::failed(format!(
            "the log {} cannot be read: {error}",
            path.display()
        ))
    };
    let all = by_day(folder);
    let Some(newest) = all.last() else {
        return Err(nothing(folder));
    };
    let mut end = None;
    // The beginning of a line that is not written out.
    let mut begun = Vec::new();
    // From the newest file back, until there are enough lines.
    let mut kept: VecDeque<(PathBuf, String)> = VecDeque::new();
    for path in all.iter().rev() {
        let file = File::open(path).map_err(|error| cannot(path, error))?;
        let room = args.lines.saturating_sub(kept.len());
        let mut tail = VecDeque::with_capacity(room.min(1024));
        let mut reader = BufReader::new(file);
        loop {
            let mut line = Vec::new();
            let read = reader.read_until(b'\n', &mut line);
            if read.map_err(|error| cannot(path, error))? == 0 {
                break;
            }
            if line.pop_if(|last| *last == b'\n').is_none() && args.follow && path == newest {
                begun = line;
                break;
            }
            if tail.len() == room {
                tail.pop_front();
            }
            if room > 0 {
                tail.push_back(String::from_utf8_lossy(&line).into_owned());
            }
        }
        // Read on from here, nothing that is written meanwhile is missed.
        end.get_or_insert(reader.into_inner());
        for line in tail.into_iter().rev() {
            kept.push_front((path.clone(), line));
        }
        if kept.len() >= args.lines {
            break;
        }
    }
    screen.lines(
        kept.iter()
            .map(|(path, line)| shown(args, &path.display().to_string(), line)),
    )?;
    if let (true, Some(file)) = (args.follow, end) {
        follow(args, folder, (newest.clone(), file, begun), screen).await?;
    }
    Ok(Exit::Fine)
}

/// Shows what is added to the newest file; at midnight that is another one.
async fn follow(
    args: &Args,
    folder: &Path,
    (mut path, mut file, mut pending): (PathBuf, File, Vec<u8>),
    screen: &mut Screen,
) -> Result<(), Failure> {
    let cannot =
        |error: std::io::Error| Failure::failed(format!("the log cannot be read: {error}"));
    loop {
        let read = file.read_to_end(&mut pending).map_err(cannot)?;
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line[..end]).into_owned();
            screen.line(&shown(args, &path.display().to_string(), &line))?;
        }
        if read > 0 {
            continue;
        }
        match by_day(folder).pop() {
            Some(newest) if newest > path => {
                path = newest;
                file = File::open(&path).map_err(cannot)?;
            }
            _ => tokio::time::sleep(LOOK).await,
        }
    }
}

/// The daily files, the oldest first: their names hold the day.
fn by_day(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "log"))
        .collect();
    files.sort_unstable();
    files
}

fn shown(args: &Args, from: &str, line: &str) -> String {
    if args.json {
        json_line(&json!({"from": from, "line": line}))
    } else {
        plain(line)
    }
}

fn nothing(folder: &Path) -> Failure {
    remark("Looked for a unit of systemd's user manager, and for files.");
    Failure::failed(format!("there is no log in {}", folder.display())).advise(
        "The daemon makes one when it starts; if it keeps its state elsewhere, name that with \
         COZYVTT_STATE_DIR.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_in_the_order_of_their_days() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "cozyvttd.2026-12-01.log",
            "cozyvttd.2026-11-30.log",
            "other",
        ] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let names: Vec<_> = by_day(folder.path())
            .into_iter()
            .filter_map(|path| path.file_name()?.to_str().map(str::to_owned))
            .collect();
        assert_eq!(
            names,
            ["cozyvttd.2026-11-30.log", "cozyvttd.2026-12-01.log"]
        );
        assert!(by_day(Path::new("/nowhere")).is_empty());
    }
}
