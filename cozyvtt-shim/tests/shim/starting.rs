//! What a daemon that the shim starts is told of where things are.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::stage::{Shim, bare};

/// A daemon that only tells what it was started with: in its last line on stderr, which
/// the shim repeats.
const TELLS: &str = "#!/bin/sh\n\
    echo \"$PWD|$*|$COZYVTT_SOCKET_DIR|$COZYVTT_CONFIG|$COZYVTT_STATE_DIR|\" >&2\n\
    exit 1\n";

/// The shim, with that daemon next to it in `folder`.
fn installed(folder: &Path) -> PathBuf {
    let shim = folder.join("cozyvtt-shim");
    // Both are written by processes of their own: what this one has open for writing, a
    // process that another test is just starting may hold open too, and it cannot be run.
    let script = "cp \"$1\" \"$2\" && printf %s \"$3\" >\"$4\" && chmod +x \"$4\"";
    let done = Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_cozyvtt-shim")])
        .arg(&shim)
        .arg(TELLS)
        .arg(folder.join("cozyvttd"))
        .status();
    assert!(done.unwrap().success());
    shim
}

#[test]
fn relative_places_are_those_of_the_shims_folder_for_a_daemon_that_it_starts() {
    let folder = TempDir::new().unwrap();
    let mut command = bare(&installed(folder.path()));
    command
        .args(["--wait", "1", "--socket-dir", "run"])
        .current_dir(folder.path())
        .env("COZYVTT_SOCKET_DIR", "sockets")
        .env("COZYVTT_CONFIG", "papers/config.toml")
        .env("COZYVTT_STATE_DIR", "/var/state");
    let mut shim = Shim::start(&mut command);
    shim.ask(1, "tools/list");
    let (id, error) = shim.hear_error();
    assert_eq!(id, 1);
    assert_eq!(error["data"]["kind"], "daemon_not_started", "{error}");
    let here = folder.path().canonicalize().unwrap();
    let here = here.display();
    let told = format!(
        "/|--spawned --socket-dir {here}/run|{here}/sockets|{here}/papers/config.toml|/var/state|"
    );
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&told), "{message}");
}
