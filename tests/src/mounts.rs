//! Mounts of a process's own: a folder that is read-only, a disk that is full. They
//! need no rights where the system lets users have namespaces of their own.

use std::process::{Command, Stdio};

/// Whether this machine lets us mount for a process of ours. Where it does not, this
/// says so, and the test has nothing to look at.
pub fn possible() -> bool {
    let mut attempt = Command::new("unshare");
    attempt.args(["-rm", "mount", "-t", "tmpfs", "none", "/tmp"]);
    attempt.stdin(Stdio::null()).stderr(Stdio::null());
    let possible = attempt.status().is_ok_and(|status| status.success());
    if !possible {
        eprintln!("left out: this machine allows no mounts in a namespace of one's own");
    }
    possible
}

/// The same command among the mounts that a shell script makes first. The process is
/// the daemon itself, not a shell that waits for it.
pub fn behind(command: &Command, mounts: &str) -> tokio::process::Command {
    let mut behind = tokio::process::Command::new("unshare");
    behind
        .args(["-rm", "sh", "-euc"])
        .arg(format!("{mounts}\nexec \"$@\""))
        .arg("sh")
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            behind.env(name, value);
        }
    }
    behind
}
