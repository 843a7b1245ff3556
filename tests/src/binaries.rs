//! The binaries under test, built once a run: a test run does not build the
//! binaries of other packages by itself.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use escargot::CargoBuild;

static DAEMON: LazyLock<PathBuf> = LazyLock::new(|| build("cozyvttd", "cozyvttd"));
static CONTROL: LazyLock<PathBuf> = LazyLock::new(|| build("cozyvttd", "cozyvttctl"));
static SHIM: LazyLock<PathBuf> = LazyLock::new(|| build("cozyvtt-shim", "cozyvtt-shim"));

/// `cozyvttd`
pub fn daemon() -> &'static Path {
    &DAEMON
}

/// `cozyvttctl`
pub fn control() -> &'static Path {
    &CONTROL
}

/// `cozyvtt-shim`
pub fn shim() -> &'static Path {
    &SHIM
}

#[expect(clippy::panic, reason = "without its binary a test cannot run")]
fn build(package: &str, name: &str) -> PathBuf {
    // Cargo sets these for a test; build scripts that look at them would run again,
    // and everything on top of them.
    let of_the_test = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"));
    let cargo = of_the_test
        .fold(CargoBuild::new().bin(name), CargoBuild::env_remove)
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"));
    let cargo = if cfg!(debug_assertions) {
        // The whole workspace, so that the dependencies have the features with
        // which the test run has just built them and are not built once more.
        cargo.arg("--workspace")
    } else {
        // A bench is about what is shipped.
        cargo.package(package).release()
    };
    match cargo.run() {
        Ok(binary) => binary.path().to_path_buf(),
        Err(error) => panic!("{name} cannot be built: {error}"),
    }
}
