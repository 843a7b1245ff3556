//! The password and where it comes from. What is not given outright is fetched when
//! the password is about to be sent, and forgotten afterwards: a session that lives
//! asks nobody for it.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretSlice, SecretString};
use thiserror::Error;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

/// How long `password_command` may take: a person may have to unlock a store.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest password, in bytes; more means that the file is another one.
const LONGEST: u64 = 64 * 1024;

/// What no program of the person's inherits: a password, and what systemd says to this
/// process alone.
const OURS_ALONE: [&str; 9] = [
    "COZYVTT_PASSWORD",
    "CREDENTIALS_DIRECTORY",
    "JOURNAL_STREAM",
    "LISTEN_FDNAMES",
    "LISTEN_FDS",
    "LISTEN_PID",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// The password of the account.
#[derive(Clone)]
pub struct Password(Source);

#[derive(Clone)]
enum Source {
    Given(SecretString),
    File(PathBuf),
    Command(Vec<String>),
}

/// Why there is no password. No sentence holds a part of it, nor what a program
/// wrote.
#[derive(Debug, Error)]
pub enum PasswordError {
    /// The file cannot be read.
    #[error("the password file {} cannot be read: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// Others can read the file.
    #[error("other users can read the password file {}; run: chmod 600 {}", path.display(), path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// Its first line is empty.
    #[error("the first line of the password file {} is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The first line is no text.
    #[error("the password from {origin} is not valid UTF-8")]
    NoText {
        /// Where it came from.
        origin: String,
    },
    /// The program cannot be started.
    #[error("password_command cannot be run: {program}: {cause}")]
    NoCommand {
        /// The program.
        program: String,
        /// What the system said.
        cause: io::Error,
    },
    /// The program did not end well.
    #[error("password_command {program} gave no password: {how}; run it by hand to see why")]
    Failed {
        /// The program.
        program: String,
        /// How it ended.
        how: String,
    },
}

impl Password {
    /// The first line of a file, read when it is needed.
    ///
    /// # Errors
    ///
    /// [`PasswordError::Unreadable`] and [`PasswordError::Exposed`] when it cannot be
    /// used as it is now.
    pub fn in_file(path: PathBuf) -> Result<Self, PasswordError> {
        check(&path)?;
        Ok(Self(Source::File(path)))
    }

    /// The first line that a program writes: its name and its arguments.
    pub fn from_command(argv: Vec<String>) -> Self {
        Self(Source::Command(argv))
    }

    /// Where it comes from, for people.
    pub fn origin(&self) -> String {
        match &self.0 {
            Source::Given(_) => "given outright".to_owned(),
            Source::File(path) => format!("in the file {}", path.display()),
            // Its arguments are the person's business.
            Source::Command(argv) => {
                let program = argv.first().map_or("", String::as_str);
                format!("from the program {program}")
            }
        }
    }

    /// Whether it is had without asking a program.
    pub(crate) fn is_at_hand(&self) -> bool {
        !matches!(self.0, Source::Command(_))
    }

    /// Whether it is given outright as the same text, or comes from the same place.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Source::Given(one), Source::Given(other)) => {
                one.expose_secret() == other.expose_secret()
            }
            (Source::File(one), Source::File(other)) => one == other,
            (Source::Command(one), Source::Command(other)) => one == other,
            _ => false,
        }
    }

    /// Whether it was given outright as this text.
    pub fn is(&self, text: &str) -> bool {
        matches!(&self.0, Source::Given(password) if password.expose_secret() == text)
    }

    /// Fetches it.
    ///
    /// # Errors
    ///
    /// [`PasswordError`].
    pub async fn reveal(&self) -> Result<SecretString, PasswordError> {
        match &self.0 {
            Source::Given(password) => Ok(password.clone()),
            Source::File(path) => {
                check(path)?;
                let unreadable = |cause| PasswordError::Unreadable {
                    path: path.clone(),
                    cause,
                };
                let file = tokio::fs::File::open(path).await.map_err(unreadable)?;
                let bytes = read(file).await.map_err(unreadable)?;
                let origin = || format!("the file {}", path.display());
                first_line(&bytes, origin)?
                    .ok_or_else(|| PasswordError::Empty { path: path.clone() })
            }
            Source::Command(argv) => run(argv).await,
        }
    }
}

impl From<SecretString> for Password {
    fn from(password: SecretString) -> Self {
        Self(Source::Given(password))
    }
}

impl From<String> for Password {
    fn from(password: String) -> Self {
        SecretString::from(password).into()
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Password({})", self.origin())
    }
}

fn check(path: &Path) -> Result<(), PasswordError> {
    let meta = path.metadata().map_err(|cause| PasswordError::Unreadable {
        path: path.into(),
        cause,
    })?;
    // A pipe that a shell opened for us alone is no file that lies around.
    if meta.is_file() && meta.permissions().mode() & 0o077 != 0 {
        return Err(PasswordError::Exposed { path: path.into() });
    }
    Ok(())
}

async fn run(argv: &[String]) -> Result<SecretString, PasswordError> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(PasswordError::Failed {
            program: String::new(),
            how: "it names no program".to_owned(),
        });
    };
    let failed = |how: String| PasswordError::Failed {
        program: program.clone(),
        how,
    };
    let mut command = Command::new(program);
    for name in OURS_ALONE {
        command.env_remove(name);
    }
    let mut child = command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // A program that complains may quote what it should keep.
        .stderr(Stdio::null())
        // With its children it is ended as one.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|cause| PasswordError::NoCommand {
            program: program.clone(),
            cause,
        })?;
    let answer = tokio::time::timeout(COMMAND_TIMEOUT, output(&mut child)).await;
    let Ok(answer) = answer else {
        end(&child);
        let seconds = COMMAND_TIMEOUT.as_secs();
        return Err(failed(format!("it took longer than {seconds} s")));
    };
    let (bytes, status) = answer.map_err(|error| failed(error.to_string()))?;
    if !status.success() {
        return Err(failed(status.to_string()));
    }
    let origin = || format!("password_command {program}");
    first_line(&bytes, origin)?.ok_or_else(|| failed("its first line is empty".to_owned()))
}

async fn output(child: &mut Child) -> io::Result<(SecretSlice<u8>, std::process::ExitStatus)> {
    let stdout = child.stdout.take();
    let bytes = match stdout {
        Some(stdout) => read(stdout).await?,
        None => Vec::new().into(),
    };
    Ok((bytes, child.wait().await?))
}

/// Ends the program and what it has started.
fn end(child: &Child) {
    let group = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(rustix::process::Pid::from_raw);
    if let Some(group) = group {
        // It may have ended by itself just now.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

async fn read(from: impl tokio::io::AsyncRead + Unpin) -> io::Result<SecretSlice<u8>> {
    // Room for all there may be, so that growing leaves no copies behind.
    let mut bytes = Vec::with_capacity(usize::try_from(LONGEST).unwrap_or_default());
    from.take(LONGEST).read_to_end(&mut bytes).await?;
    Ok(bytes.into())
}

/// The first line, without its end; `None` when it is empty.
fn first_line(
    bytes: &SecretSlice<u8>,
    origin: impl Fn() -> String,
) -> Result<Option<SecretString>, PasswordError> {
    let line = bytes
        .expose_secret()
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = std::str::from_utf8(line).map_err(|_| PasswordError::NoText { origin: origin() })?;
    Ok((!line.is_empty()).then(|| SecretString::from(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &[u8], mode: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        (folder, path)
    }

    fn shell(script: &str) -> Password {
        Password::from_command(["sh", "-c", script].map(ToOwned::to_owned).to_vec())
    }

    async fn revealed(password: &Password) -> Result<String, String> {
        let secret = password.reveal().await.map_err(|error| error.to_string())?;
        Ok(secret.expose_secret().to_owned())
    }

    #[tokio::test]
    async fn a_file_gives_its_first_line_as_it_is_now() {
        let (_folder, path) = file(b"one\r\nuser: me\n", 0o600);
        let password = Password::in_file(path.clone()).unwrap();
        assert_eq!(revealed(&password).await, Ok("one".to_owned()));
        std::fs::write(&path, " two \n").unwrap();
        assert_eq!(revealed(&password).await, Ok(" two ".to_owned()));
        std::fs::write(&path, "\n").unwrap();
        assert!(revealed(&password).await.unwrap_err().contains("empty"));
        std::fs::write(&path, b"\xff").unwrap();
        assert!(revealed(&password).await.unwrap_err().contains("UTF-8"));
    }

    #[tokio::test]
    async fn a_file_that_others_can_read_is_refused_then_and_later() {
        let (_folder, path) = file(b"canary\n", 0o604);
        let refusal = Password::in_file(path.clone()).unwrap_err().to_string();
        assert!(refusal.contains("chmod 600"), "{refusal}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let password = Password::in_file(path.clone()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(revealed(&password).await.unwrap_err().contains("chmod 600"));
    }

    #[tokio::test]
    async fn a_command_gives_the_first_line_it_writes() {
        let password = shell("echo first; echo second");
        assert_eq!(revealed(&password).await, Ok("first".to_owned()));
    }

    #[tokio::test]
    async fn a_command_that_fails_is_told_without_what_it_wrote() {
        let refusal = revealed(&shell("echo canary; echo canary >&2; exit 3"))
            .await
            .unwrap_err();
        assert!(refusal.contains("exit status: 3"), "{refusal}");
        assert!(!refusal.contains("canary"), "{refusal}");
        let none = Password::from_command(vec!["/nowhere/pass".to_owned()]);
        let refusal = revealed(&none).await.unwrap_err();
        assert!(refusal.contains("/nowhere/pass"), "{refusal}");
        let silent = revealed(&shell("true")).await.unwrap_err();
        assert!(silent.contains("first line is empty"), "{silent}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_that_does_not_end_is_ended() {
        // The simulated clock jumps to the time limit as soon as all wait.
        let refusal = revealed(&shell("sleep 600 & wait")).await.unwrap_err();
        assert!(refusal.contains("longer than 10 s"), "{refusal}");
    }

    #[test]
    fn debug_output_names_the_place_and_not_the_password() {
        let given = Password::from("canary".to_owned());
        let command = shell("echo canary");
        let text = format!("{given:?} {command:?}");
        assert_eq!(
            text,
            "Password(given outright) Password(from the program sh)"
        );
    }
}
