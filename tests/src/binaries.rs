//! The binaries under test, built once a run: a test run does not build the
//! binaries of other packages by itself.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use escargot::CargoBuild;

static PROGRAMS: LazyLock<Programs> = LazyLock::new(|| Programs {
    daemon: build("cozyvttd", "cozyvttd"),
    control: build("cozyvttd", "cozyvttctl"),
    shim: build("cozyvtt-shim", "cozyvtt-shim"),
});

struct Programs {
    daemon: PathBuf,
    control: PathBuf,
    shim: PathBuf,
}

/// `cozyvttd`
pub fn daemon() -> &'static Path {
    &PROGRAMS.daemon
}

/// `cozyvttctl`
pub fn control() -> &'static Path {
    &PROGRAMS.control
}

/// `cozyvtt-shim`
pub fn shim() -> &'static Path {
    &PROGRAMS.shim
}

/// Builds all of them. A test does that before anything of it waits for an answer:
/// cargo runs in the thread which may carry its table as well.
pub(crate) fn ready() {
    LazyLock::force(&PROGRAMS);
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
