//! What is on this machine: the programs, the daemon, its sockets, the configuration.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Stdio;
use std::time::Duration;

use cozyvtt_proto::client::ClientError;
use cozyvtt_proto::control::{Hop, NoParams};
use cozyvtt_proto::paths::{CONTROL_SOCKET, MCP_SOCKET};
use cozyvttd::config::ConfigProblem;
use tokio::process::Command;
use tokio::time::timeout;

use super::{Patient, broken, hint, ok, quoted};
use crate::daemon::{PROMPT, RawStatus, VERSION, mismatch};
use crate::programs::{self, DAEMON, SHIM};

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether the programs are there, all of one version.
pub(super) async fn programs(_: &Patient<'_>) -> Vec<Hop> {
    let mut checks = Vec::new();
    for name in [DAEMON, SHIM] {
        let Some(path) = programs::find(name) else {
            checks.push(broken(
                name,
                "is neither beside cozyvttctl nor in PATH",
                format!(
                    "install it: `cargo install --path {name}` in the source folder, or the package"
                ),
            ));
            continue;
        };
        let mut command = Command::new(&path);
        command
            .arg("--version")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let said = match timeout(PATIENCE, command.output()).await {
            Ok(Ok(output)) => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it does not answer".to_owned(),
        };
        let place = path.display();
        checks.push(match said.strip_prefix(&format!("{name} ")) {
            Some(version) if version == VERSION => ok(name, format!("{version}, {place}")),
            Some(version) => broken(
                name,
                format!("{place} is version {version}, and cozyvttctl is {VERSION}"),
                "install all three programs of one version",
            ),
            None => broken(
                name,
                format!("{place} does not say its version: {said}"),
                "install it again",
            ),
        });
    }
    checks
}

/// Whether a daemon answers, and is of this version.
pub(super) async fn daemon(patient: &Patient<'_>) -> Hop {
    match &patient.status {
        Some(status) if status.version == VERSION => ok(
            "running",
            format!(
                "cozyvttd {VERSION}, pid {}, {} clients",
                status.pid, status.clients
            ),
        ),
        Some(status) => broken(
            "running",
            mismatch(&status.version),
            "run: cozyvttctl stop, then start cozyvttd again",
        ),
        None => match patient
            .daemon
            .try_ask::<RawStatus>(NoParams {}, PROMPT)
            .await
        {
            // It speaks, but not so that this version understands it.
            Ok(status) => {
                let version = status["version"]
                    .as_str()
                    .unwrap_or("of an unknown version");
                broken(
                    "running",
                    mismatch(version),
                    "run: cozyvttctl stop, then start cozyvttd again",
                )
            }
            Err(error @ ClientError::Unreachable { .. }) if !patient.daemon.socket().exists() => {
                let _ = error;
                hint(
                    "running",
                    "no daemon runs; the first client's shim starts it",
                    Some("to start it now: `cozyvttctl setup`, or `cozyvttd` in a terminal"),
                )
            }
            Err(error) => {
                let trouble = patient.daemon.trouble(&error);
                broken(
                    "running",
                    format!("{error}. {}", trouble.finding),
                    trouble.fix,
                )
            }
        },
    }
}

/// Whether folder and sockets are for this user alone.
pub(super) fn sockets(patient: &Patient<'_>) -> Option<Hop> {
    let folder = patient.socket_dir;
    let mut open = Vec::new();
    for (path, wanted) in [
        (folder.to_owned(), 0o700),
        (folder.join(MCP_SOCKET), 0o600),
        (folder.join(CONTROL_SOCKET), 0o600),
    ] {
        let Ok(meta) = path.metadata() else {
            continue;
        };
        let mode = meta.permissions().mode() & 0o777;
        if meta.uid() != rustix::process::geteuid().as_raw() {
            return Some(broken(
                "sockets",
                format!("{} belongs to another user", path.display()),
                "choose a folder of your own with COZYVTT_SOCKET_DIR",
            ));
        }
        if mode & 0o077 != 0 {
            open.push((path, mode, wanted));
        }
    }
    if open.is_empty() {
        return folder
            .exists()
            .then(|| ok("sockets", format!("{} is for you alone", folder.display())));
    }
    let told: Vec<String> = open
        .iter()
        .map(|(path, mode, _)| format!("{} (mode {mode:04o})", path.display()))
        .collect();
    let mends: Vec<String> = open
        .iter()
        .map(|(path, _, wanted)| format!("chmod {wanted:o} {}", quoted(path)))
        .collect();
    Some(broken(
        "sockets",
        format!("other users can reach {}", told.join(", ")),
        format!("run: {}", mends.join(" && ")),
    ))
}

/// Whether the configuration can be used.
pub(super) fn configuration(patient: &Patient<'_>) -> Hop {
    let config = &patient.config;
    match &config.settings {
        Ok(settings) => ok(
            "configuration",
            format!(
                "{}: {} at {}",
                config.file.display(),
                settings.email,
                settings.url
            ),
        ),
        Err(_)
            if patient
                .status
                .as_ref()
                .is_some_and(|status| status.login.is_some()) =>
        {
            ok(
                "configuration",
                "in the daemon's environment, or brought along by a client",
            )
        }
        Err(ConfigProblem::Exposed { path }) => broken(
            "configuration",
            format!(
                "{} holds a secret, and other users can read it",
                path.display()
            ),
            format!("run: chmod 600 {}", quoted(path)),
        ),
        Err(problem) => {
            let told = problem.to_string();
            // Some sentences name the mend already.
            let (what, fix) = match told.split_once(", or run: cozyvttctl setup") {
                Some((what, _)) => (what.to_owned(), "run: cozyvttctl setup"),
                None => (
                    told,
                    "run: cozyvttctl setup; or mend the file and run: cozyvttctl reload",
                ),
            };
            broken("configuration", what, fix)
        }
    }
}
