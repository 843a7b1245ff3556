//! Where the sockets are. One rule for the daemon, the shim and the control
//! program, since they are often started with different environments.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// File name of the MCP socket.
pub const MCP_SOCKET: &str = "mcp.sock";
/// File name of the control socket.
pub const CONTROL_SOCKET: &str = "control.sock";

/// Longest path a Unix socket can have on Linux, in bytes (`sun_path` without
/// its closing NUL, unix(7)).
const MAX_SOCKET_PATH_BYTES: usize = 107;

/// Why there is no socket folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathError {
    /// None of the places can be named.
    NoPlace,
    /// The path is longer than a Unix socket's path can be.
    TooLong(PathBuf),
}

impl std::fmt::Display for PathError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoPlace => f.write_str(
                "no place for the sockets: neither COZYVTT_SOCKET_DIR nor XDG_RUNTIME_DIR nor HOME is set; \
                 set COZYVTT_SOCKET_DIR or give --socket-dir",
            ),
            Self::TooLong(path) => write!(
                f,
                "the socket path {} is longer than the {MAX_SOCKET_PATH_BYTES} bytes that Linux allows; \
                 choose a shorter folder with COZYVTT_SOCKET_DIR or --socket-dir",
                path.display()
            ),
        }
    }
}

impl std::error::Error for PathError {}

/// The folder of both sockets: `explicit` (the flag `--socket-dir`), else
/// `$COZYVTT_SOCKET_DIR`, else `$XDG_RUNTIME_DIR/cozyvtt`, else
/// `/run/user/<uid>/cozyvtt` when that runtime folder is there and ours, else
/// `run` in the state folder. Relative variables count as unset, as the XDG
/// base directory specification asks.
///
/// # Errors
///
/// [`PathError`] when no place can be named or the path is too long.
pub fn socket_dir(explicit: Option<&Path>) -> Result<PathBuf, PathError> {
    let uid = rustix::process::getuid().as_raw();
    let runtime = PathBuf::from(format!("/run/user/{uid}"));
    let ours = runtime
        .metadata()
        .is_ok_and(|meta| meta.is_dir() && meta.uid() == uid);
    choose(
        explicit,
        &|name| std::env::var_os(name),
        ours.then_some(runtime),
    )
}

/// The state folder: `$XDG_STATE_HOME/cozyvtt`, else `~/.local/state/cozyvtt`.
pub fn default_state_dir() -> Option<PathBuf> {
    state_dir_of(&|name| std::env::var_os(name))
}

type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

fn absolute(environment: Environment<'_>, name: &str) -> Option<PathBuf> {
    environment(name)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
}

fn state_dir_of(environment: Environment<'_>) -> Option<PathBuf> {
    absolute(environment, "XDG_STATE_HOME")
        .or_else(|| absolute(environment, "HOME").map(|home| home.join(".local/state")))
        .map(|base| base.join("cozyvtt"))
}

fn choose(
    explicit: Option<&Path>,
    environment: Environment<'_>,
    runtime: Option<PathBuf>,
) -> Result<PathBuf, PathError> {
    let dir = explicit
        .map(Path::to_path_buf)
        .or_else(|| absolute(environment, "COZYVTT_SOCKET_DIR"))
        .or_else(|| absolute(environment, "XDG_RUNTIME_DIR").map(|base| base.join("cozyvtt")))
        .or_else(|| runtime.map(|base| base.join("cozyvtt")))
        .or_else(|| state_dir_of(environment).map(|state| state.join("run")))
        .ok_or(PathError::NoPlace)?;
    let longest = dir.join(CONTROL_SOCKET);
    if longest.as_os_str().as_bytes().len() > MAX_SOCKET_PATH_BYTES {
        return Err(PathError::TooLong(longest));
    }
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(vars: &[(&str, &str)], runtime: Option<&str>) -> Result<PathBuf, PathError> {
        let environment = |name: &str| {
            vars.iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| OsString::from(value))
        };
        choose(None, &environment, runtime.map(PathBuf::from))
    }

    #[test]
    fn the_first_place_that_is_named_wins() {
        let all = [
            ("COZYVTT_SOCKET_DIR", "/a"),
            ("XDG_RUNTIME_DIR", "/b"),
            ("HOME", "/c"),
        ];
        assert_eq!(chosen(&all, Some("/r")), Ok("/a".into()));
        assert_eq!(chosen(&all[1..], Some("/r")), Ok("/b/cozyvtt".into()));
        assert_eq!(chosen(&all[2..], Some("/r")), Ok("/r/cozyvtt".into()));
        assert_eq!(
            chosen(&all[2..], None),
            Ok("/c/.local/state/cozyvtt/run".into())
        );
        assert_eq!(chosen(&[], None), Err(PathError::NoPlace));
    }

    #[test]
    fn the_flag_wins_over_everything() {
        let place = choose(
            Some(Path::new("/flag")),
            &|_| Some(OsString::from("/env")),
            None,
        );
        assert_eq!(place, Ok("/flag".into()));
    }

    #[test]
    fn relative_variables_count_as_unset() {
        assert_eq!(
            chosen(&[("XDG_RUNTIME_DIR", "run"), ("HOME", "/c")], None),
            Ok("/c/.local/state/cozyvtt/run".into())
        );
    }

    #[test]
    fn a_path_that_no_socket_can_have_is_refused_with_its_name() {
        let long = format!("/{}", "x".repeat(120));
        let refusal = chosen(&[("COZYVTT_SOCKET_DIR", &long)], None).unwrap_err();
        assert!(refusal.to_string().contains("107 bytes"), "{refusal}");
    }
}
