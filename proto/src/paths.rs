//! Where the sockets and the state are. One rule for the daemon, the shim and the
//! control program, since they are often started with different environments.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::profile::Profile;

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
/// `run` in the state folder. To all of these but the flag a profile adds its name.
/// Relative variables count as unset, as the XDG base directory specification asks.
///
/// # Errors
///
/// [`PathError`] when no place can be named or the path is too long.
pub fn socket_dir(
    explicit: Option<&Path>,
    profile: Option<&Profile>,
) -> Result<PathBuf, PathError> {
    let uid = rustix::process::getuid().as_raw();
    let runtime = PathBuf::from(format!("/run/user/{uid}"));
    let ours = runtime
        .metadata()
        .is_ok_and(|meta| meta.is_dir() && meta.uid() == uid);
    choose(
        explicit,
        profile,
        &|name| std::env::var_os(name),
        ours.then_some(runtime),
    )
}

/// The folder of the journal and the logs: `explicit` (the flag `--state-dir`), else
/// that of a profile in the first of these, or the first of these itself:
/// `$COZYVTT_STATE_DIR`, `$XDG_STATE_HOME/cozyvtt`, `~/.local/state/cozyvtt`. systemd's
/// `$STATE_DIRECTORY`, which is of one unit and so of one profile already, comes before
/// the last two.
pub fn state_dir(explicit: Option<&Path>, profile: Option<&Profile>) -> Option<PathBuf> {
    state_dir_among(explicit, profile, &|name| std::env::var_os(name))
}

/// The state folder of all daemons of the user: `$XDG_STATE_HOME/cozyvtt`, else
/// `~/.local/state/cozyvtt`.
pub fn shared_state_dir() -> Option<PathBuf> {
    shared_state_dir_of(&|name| std::env::var_os(name))
}

type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

fn absolute(environment: Environment<'_>, name: &str) -> Option<PathBuf> {
    environment(name)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
}

fn shared_state_dir_of(environment: Environment<'_>) -> Option<PathBuf> {
    absolute(environment, "XDG_STATE_HOME")
        .or_else(|| absolute(environment, "HOME").map(|home| home.join(".local/state")))
        .map(|base| base.join("cozyvtt"))
}

fn state_dir_among(
    explicit: Option<&Path>,
    profile: Option<&Profile>,
    environment: Environment<'_>,
) -> Option<PathBuf> {
    let of_profile = |base: PathBuf| match profile {
        Some(profile) => base.join("profiles").join(profile.as_str()),
        None => base,
    };
    explicit
        .map(Path::to_path_buf)
        .or_else(|| absolute(environment, "COZYVTT_STATE_DIR").map(of_profile))
        .or_else(|| absolute(environment, "STATE_DIRECTORY"))
        .or_else(|| shared_state_dir_of(environment).map(of_profile))
}

fn choose(
    explicit: Option<&Path>,
    profile: Option<&Profile>,
    environment: Environment<'_>,
    runtime: Option<PathBuf>,
) -> Result<PathBuf, PathError> {
    let of_profile = |base: PathBuf| match profile {
        Some(profile) => base.join(profile.as_str()),
        None => base,
    };
    let usual = || {
        absolute(environment, "COZYVTT_SOCKET_DIR")
            .or_else(|| absolute(environment, "XDG_RUNTIME_DIR").map(|base| base.join("cozyvtt")))
            .or_else(|| runtime.map(|base| base.join("cozyvtt")))
            .or_else(|| shared_state_dir_of(environment).map(|state| state.join("run")))
    };
    let dir = explicit
        .map(Path::to_path_buf)
        .or_else(|| usual().map(of_profile))
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

    fn environment<'a>(vars: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        |name| {
            vars.iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| OsString::from(value))
        }
    }

    fn chosen(vars: &[(&str, &str)], runtime: Option<&str>) -> Result<PathBuf, PathError> {
        choose(None, None, &environment(vars), runtime.map(PathBuf::from))
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
            Some(&Profile::parse("dm").unwrap()),
            &|_| Some(OsString::from("/env")),
            None,
        );
        assert_eq!(place, Ok("/flag".into()));
    }

    #[test]
    fn a_profile_has_folders_of_its_own_in_the_places_of_all() {
        let dm = Profile::parse("dm").unwrap();
        let places = |vars: &[(&str, &str)]| {
            let environment = environment(vars);
            let sockets = choose(None, Some(&dm), &environment, None).unwrap();
            let state = state_dir_among(None, Some(&dm), &environment).unwrap();
            (sockets.display().to_string(), state.display().to_string())
        };
        let of = |sockets: &str, state: &str| (sockets.to_owned(), state.to_owned());
        assert_eq!(
            places(&[("XDG_RUNTIME_DIR", "/r"), ("HOME", "/h")]),
            of("/r/cozyvtt/dm", "/h/.local/state/cozyvtt/profiles/dm")
        );
        assert_eq!(
            places(&[("COZYVTT_SOCKET_DIR", "/s"), ("COZYVTT_STATE_DIR", "/t")]),
            of("/s/dm", "/t/profiles/dm")
        );
        // systemd has made it for the unit of this profile.
        assert_eq!(
            places(&[("HOME", "/h"), ("STATE_DIRECTORY", "/t")]),
            of("/h/.local/state/cozyvtt/run/dm", "/t")
        );
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
