//! Starts the daemon when nobody listens: through the user manager of systemd where
//! that knows the unit, else the program itself. Of several that are started at once
//! the daemon's own lock on its folders lets one live.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use cozyvtt_proto::exit::OCCUPIED;
use cozyvtt_proto::profile::{Profile, service};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::answer::Trouble;

/// The daemon's program.
const DAEMON: &str = "cozyvttd";

/// What every variable of ours begins with.
const OURS: &str = "COZYVTT_";

/// Those that say where things are. The others are this client's business: the
/// daemon serves all clients, and its environment must not be that of whichever was
/// first. Complete settings are offered in the hello, where it can weigh them.
const PLACES: [&str; 3] = ["COZYVTT_SOCKET_DIR", "COZYVTT_CONFIG", "COZYVTT_STATE_DIR"];

/// How long to wait before the daemon is started once more.
const AGAIN: Duration = Duration::from_secs(2);

/// How long systemd may take to say whether it knows the unit.
const QUESTION: Duration = Duration::from_secs(2);

/// How much of what a program has said is told.
const TOLD: usize = 2000;

/// How a start gets on.
#[derive(Debug)]
pub(crate) enum Progress {
    /// The daemon is on its way.
    Starting,
    /// Another daemon has its folders, and may be about to listen.
    Elsewhere(Trouble),
    /// It will not be there.
    Failed(Trouble),
}

/// Starts the daemon, one attempt at a time.
#[derive(Debug)]
pub(crate) struct Starter {
    /// Whether the socket is where the daemon's unit puts it.
    usual_place: bool,
    profile: Option<Profile>,
    attempt: Option<Attempt>,
    /// The daemon that was started last and has served; it is our child as long as
    /// both live.
    serving: Option<Child>,
}

#[derive(Debug)]
struct Attempt {
    begun: Instant,
    /// What was started, for the words of a trouble.
    what: String,
    program: Program,
}

#[derive(Debug)]
enum Program {
    /// It runs, and says why it cannot go on here.
    Running(Child, File),
    /// It has ended well, as `systemctl` does, or because another one was first.
    Done(Option<Trouble>),
}

impl Starter {
    /// For a socket in the `usual_place` or in another one, of the main daemon or that of
    /// a profile.
    pub(crate) fn new(usual_place: bool, profile: Option<Profile>) -> Self {
        Self {
            usual_place,
            profile,
            attempt: None,
            serving: None,
        }
    }

    /// Starts the daemon that is to listen at `socket`, or looks how that gets on.
    pub(crate) fn look(&mut self, socket: &Path) -> Progress {
        if let Some(attempt) = &self.attempt
            && attempt.is_over()
        {
            self.attempt = None;
        }
        let attempt = match self.attempt.take() {
            Some(attempt) => attempt,
            None => match begin(socket, self.usual_place, self.profile.as_ref()) {
                Ok(attempt) => attempt,
                Err(trouble) => return Progress::Failed(trouble),
            },
        };
        let attempt = self.attempt.insert(attempt);
        let progress = attempt.look(socket);
        if matches!(progress, Progress::Failed(_)) {
            self.attempt = None;
        }
        progress
    }

    /// Takes note of the end of a daemon that was started here, which would stay a
    /// zombie otherwise.
    pub(crate) fn reap(&mut self) {
        if let Some(child) = &mut self.serving {
            let _ = child.try_wait();
        }
    }

    /// The daemon serves, whoever started it.
    pub(crate) fn succeeded(&mut self) {
        if let Some(Attempt {
            program: Program::Running(child, _),
            ..
        }) = self.attempt.take()
        {
            self.serving = Some(child);
        }
    }
}

impl Attempt {
    /// Whether another attempt may be made.
    fn is_over(&self) -> bool {
        matches!(self.program, Program::Done(_)) && self.begun.elapsed() >= AGAIN
    }

    fn look(&mut self, socket: &Path) -> Progress {
        if let Program::Running(child, said) = &mut self.program {
            let status = match child.try_wait() {
                Ok(None) => return Progress::Starting,
                Ok(Some(status)) => status,
                Err(error) => {
                    let cause = format!("{} cannot be waited for: {error}", self.what);
                    return Progress::Failed(Trouble::not_started(cause));
                }
            };
            let said = words(said);
            let other = (status.code() == Some(OCCUPIED.into())).then(|| {
                let cause = format!("nobody listens there, and {said}");
                Trouble::unreachable(socket, cause)
            });
            if other.is_none() && !status.success() {
                let cause = format!("{} ended with {status}: {said}", self.what);
                return Progress::Failed(Trouble::not_started(cause));
            }
            self.program = Program::Done(other);
        }
        match &self.program {
            Program::Done(Some(trouble)) => Progress::Elsewhere(trouble.clone()),
            _ => Progress::Starting,
        }
    }
}

/// Starts whatever brings the daemon up.
fn begin(socket: &Path, usual_place: bool, profile: Option<&Profile>) -> Result<Attempt, Trouble> {
    let unit = service(profile);
    if usual_place && is_known(&unit) {
        let mut command = systemctl();
        command.arg("start").arg(&unit);
        return spawn(command, format!("systemctl --user start {unit}"));
    }
    let program = daemon();
    let mut command = Command::new(&program);
    command.arg("--spawned");
    if let Some(profile) = profile {
        command.arg("--profile").arg(profile.as_str());
    }
    if let Some(folder) = socket.parent() {
        command.arg("--socket-dir").arg(folder);
    }
    spawn(command, program.display().to_string())
}

fn spawn(mut command: Command, what: String) -> Result<Attempt, Trouble> {
    let failed = |error: io::Error| {
        let cause = match error.kind() {
            io::ErrorKind::NotFound => format!(
                "{DAEMON} is neither next to cozyvtt-shim nor in PATH; install it with \
                 `cargo install --path {DAEMON}`"
            ),
            _ => format!("{what}: {error}"),
        };
        Trouble::not_started(cause)
    };
    for (name, value) in std::env::vars_os() {
        if is_this_clients(&name) {
            command.env_remove(name);
        } else if is_place(&name)
            && let Ok(place) = std::path::absolute(value)
        {
            // It was said from where this client is.
            command.env(name, place);
        }
    }
    // In memory, so that nothing is left behind and nobody has to read along.
    let said = memfd_create("cozyvttd-stderr", MemfdFlags::CLOEXEC)
        .map(File::from)
        .map_err(|error| failed(error.into()))?;
    let stderr = said.try_clone().map_err(failed)?;
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        // What the client's folder is must not matter to a daemon that outlives it.
        .current_dir("/")
        .spawn()
        .map_err(failed)?;
    Ok(Attempt {
        begun: Instant::now(),
        what,
        program: Program::Running(child, said),
    })
}

/// Whether a variable is none that the daemon should have from this client.
fn is_this_clients(name: &OsStr) -> bool {
    name.to_string_lossy().starts_with(OURS) && !is_place(name)
}

/// Whether a variable says where things are.
fn is_place(name: &OsStr) -> bool {
    PLACES.iter().any(|place| name == *place)
}

/// The daemon's program: next to this one, else whatever `PATH` has.
fn daemon() -> PathBuf {
    let beside = std::env::current_exe().map(|own| own.with_file_name(DAEMON));
    beside
        .ok()
        .filter(|path| path.is_file())
        .unwrap_or_else(|| DAEMON.into())
}

/// `systemctl --user`, which needs to know where the user manager is; MCP clients
/// seldom hand that on.
fn systemctl() -> Command {
    let mut command = Command::new("systemctl");
    command.arg("--user");
    if std::env::var_os("XDG_RUNTIME_DIR").is_none() {
        let uid = std::fs::metadata("/proc/self").map(|own| own.uid());
        if let Ok(uid) = uid {
            command.env("XDG_RUNTIME_DIR", format!("/run/user/{uid}"));
        }
    }
    command
}

/// Whether the user manager is there and knows the daemon's unit.
fn is_known(unit: &str) -> bool {
    let mut command = systemctl();
    command
        .args(["show", "--property=LoadState", "--value", unit])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let Ok(answer) = memfd_create("systemctl-stdout", MemfdFlags::CLOEXEC).map(File::from) else {
        return false;
    };
    let Ok(mut child) = answer.try_clone().and_then(|to| command.stdout(to).spawn()) else {
        return false;
    };
    let deadline = Instant::now() + QUESTION;
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(None) => thread::sleep(Duration::from_millis(2)),
            Ok(Some(status)) => return status.success() && words(&answer) == "loaded",
            Err(_) => return false,
        }
    }
    // One that hangs is not waited for again; it must not stay either.
    let _ = child.kill();
    let _ = child.wait();
    false
}

/// What a program has written to `file`, on one line, without its own name in front;
/// the end, where it is long.
fn words(file: &File) -> String {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = file.read_at(&mut buffer, text.len() as u64) {
        text.extend_from_slice(&buffer[..read]);
        if text.len() > 64 * TOLD {
            break;
        }
    }
    let text = String::from_utf8_lossy(&text);
    let last = text.lines().rfind(|line| !line.trim().is_empty());
    let last = last.unwrap_or("it did not say why").trim();
    let last = last.strip_prefix("cozyvttd: ").unwrap_or(last);
    last.chars().take(TOLD).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_variables_that_say_where_things_are_reach_the_daemon() {
        assert!(is_this_clients(OsStr::new("COZYVTT_PASSWORD")));
        assert!(is_this_clients(OsStr::new("COZYVTT_MCP_TOOLSETS")));
        assert!(!is_this_clients(OsStr::new("COZYVTT_SOCKET_DIR")));
        assert!(!is_this_clients(OsStr::new("PATH")));
    }

    #[test]
    fn the_last_words_of_a_program_are_told_without_its_name() {
        let file = File::from(memfd_create("words", MemfdFlags::CLOEXEC).unwrap());
        assert_eq!(words(&file), "it did not say why");
        file.write_at(b"a log line\ncozyvttd: it is broken\n\n", 0)
            .unwrap();
        assert_eq!(words(&file), "it is broken");
    }
}
