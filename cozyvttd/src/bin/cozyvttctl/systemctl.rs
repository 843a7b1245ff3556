//! Asks the programs of systemd that belong to the person's own user manager.

use std::process::Stdio;
use std::time::Duration;

use thiserror::Error;
use tokio::process::Command;
use tokio::time::timeout;

/// How long such a program may take: a unit that is started waits until it is ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why there is no answer.
#[derive(Debug, Error)]
pub(crate) enum NoAnswer {
    /// It is not installed, or cannot be run.
    #[error("{program} cannot be run: {cause}")]
    Missing {
        /// The program.
        program: &'static str,
        /// What the system said.
        cause: std::io::Error,
    },
    /// It has not ended in time.
    #[error("`{0}` has not ended within 60 s")]
    Slow(String),
    /// It ran and says no.
    #[error("`{command}` failed: {said}")]
    Refused {
        /// What was run.
        command: String,
        /// What it wrote to standard error, or its exit code.
        said: String,
    },
}

/// Runs `systemctl --user` with these arguments; what it wrote to standard output.
///
/// # Errors
///
/// [`NoAnswer`].
pub(crate) async fn systemctl(arguments: &[&str]) -> Result<String, NoAnswer> {
    let all: Vec<&str> = [&["--user", "--no-pager"], arguments].concat();
    run("systemctl", &all).await
}

/// Runs one of systemd's programs; what it wrote to standard output.
///
/// # Errors
///
/// [`NoAnswer`].
pub(crate) async fn run(program: &'static str, arguments: &[&str]) -> Result<String, NoAnswer> {
    let command = || format!("{program} {}", arguments.join(" "));
    let started = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(PATIENCE, started)
        .await
        .map_err(|_| NoAnswer::Slow(command()))?
        .map_err(|cause| NoAnswer::Missing { program, cause })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(NoAnswer::Refused {
        command: command(),
        said: if said.is_empty() {
            output.status.to_string()
        } else {
            said
        },
    })
}

/// Whether a user manager of systemd runs that listens to this person.
pub(crate) async fn manager_runs() -> bool {
    systemctl(&["show", "--property=Version"]).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_program_says_against_it_is_told() {
        let refused = run("ls", &["/nonexistent-cozyvtt"]).await.unwrap_err();
        let sentence = refused.to_string();
        assert!(
            sentence.contains("`ls /nonexistent-cozyvtt` failed"),
            "{sentence}"
        );
        let missing = run("no-such-program-of-cozyvtt", &[]).await.unwrap_err();
        assert!(matches!(missing, NoAnswer::Missing { .. }), "{missing}");
    }
}
