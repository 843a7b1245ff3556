//! Where the three programs are.

use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The daemon.
pub(crate) const DAEMON: &str = "cozyvttd";
/// What an MCP client starts.
pub(crate) const SHIM: &str = "cozyvtt-shim";

/// The absolute path of one of our programs: the one beside this one, since they are
/// installed together, else the first in PATH.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let beside = env::current_exe()
        .ok()
        .and_then(|own| Some(own.parent()?.to_owned()));
    let path = env::var_os("PATH").unwrap_or_default();
    find_in(name, beside.as_deref(), &path)
}

fn find_in(name: &str, beside: Option<&Path>, path: &OsStr) -> Option<PathBuf> {
    let in_path = env::split_paths(path).filter(|folder| folder.is_absolute());
    beside
        .map(Path::to_owned)
        .into_iter()
        .chain(in_path)
        .map(|folder| folder.join(name))
        .find(|file| runs(file))
}

fn runs(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    #[test]
    fn the_program_beside_this_one_comes_before_those_in_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let [beside, other] = ["beside", "other"].map(|name| folder.path().join(name));
        for place in [&beside, &other] {
            fs::create_dir(place).unwrap();
            fs::write(place.join(SHIM), "").unwrap();
        }
        fs::set_permissions(other.join(SHIM), Permissions::from_mode(0o755)).unwrap();
        let path = env::join_paths(["relative".as_ref(), other.as_path()]).unwrap();
        let found = || find_in(SHIM, Some(&beside), &path);
        // A file that cannot be run is no program.
        assert_eq!(found(), Some(other.join(SHIM)));
        fs::set_permissions(beside.join(SHIM), Permissions::from_mode(0o755)).unwrap();
        assert_eq!(found(), Some(beside.join(SHIM)));
        assert_eq!(find_in(DAEMON, Some(&beside), &path), None);
    }
}
