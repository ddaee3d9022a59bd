//! Finds the `linerate` binary under test; builds it by default.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Environment variable with the path of a binary to use instead of building one.
pub const VARIABLE: &str = "LINERATE_BIN";

/// Environment variable with the folder of the libraries to use instead of building them.
pub const LIBRARIES: &str = "LINERATE_LIB";

/// Environment variable with the folder of the examples to use instead of building them.
pub const EXAMPLES: &str = "LINERATE_EXAMPLES";

/// Environment variable with the folder of the programs for tests of failing system calls, instead of building them.
pub const FAULTS: &str = "LINERATE_FAULTS_DIR";

/// Path of the binary under test, in the same profile as the end-to-end tests.
pub fn linerate() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match std::env::var_os(VARIABLE) {
        Some(path) => existing(PathBuf::from(path)),
        None => built(),
    })
}

fn existing(path: PathBuf) -> PathBuf {
    assert!(path.is_file(), "{} is no file", path.display());
    path
}

/// Path of one of the project's examples, in the same profile as the end-to-end tests; [`EXAMPLES`] names another
/// folder.
pub fn example(name: &str) -> PathBuf {
    let folder = std::env::var_os(EXAMPLES).map(PathBuf::from);
    let built = || build(&["--workspace", "--example", name]).join("examples");
    existing(folder.unwrap_or_else(built).join(name))
}

/// Folder with the libraries for programs in C and for unmodified programs, in the same profile as the end-to-end
/// tests; [`LIBRARIES`] names another one.
pub fn libraries() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        std::env::var_os(LIBRARIES).map_or_else(|| build(&["--workspace", "--lib"]), PathBuf::from)
    })
}

/// Path of the library for unmodified programs.
pub fn preload() -> PathBuf {
    existing(libraries().join("liblinerate_preload.so"))
}

/// Folder with a `linerate` that makes all system calls by the C library, and the library that makes them fail.
pub fn faults() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| std::env::var_os(FAULTS).map_or_else(build_faults, PathBuf::from))
}

/// Builds into a directory of its own, because the features differ from those of all other builds.
fn build_faults() -> PathBuf {
    let target = target().1.join("faults");
    let what = ["-p", "linerate", "-p", "linerate-faults", "--features", "rustix/use-libc"];
    run(&target, "dev", &what);
    target.join("debug")
}

fn built() -> PathBuf {
    existing(build(&["--workspace", "--bin", "linerate", "--bin", "linerate-lab"]).join("linerate"))
}

/// Builds into the profile directory of the test executable.
fn build(what: &[&str]) -> PathBuf {
    let (folder, target) = target();
    run(&target, if folder.ends_with("release") { "release" } else { "dev" }, what);
    folder
}

/// Profile directory and target directory of the test executable, `TARGET/PROFILE/deps/e2e-HASH`.
fn target() -> (PathBuf, PathBuf) {
    let test = std::env::current_exe().unwrap_or_else(|error| panic!("no path of this test: {error}"));
    let folder = test.ancestors().nth(2).unwrap_or_else(|| panic!("{} is too short", test.display()));
    let target = folder.parent().unwrap_or_else(|| panic!("{} has no parent", folder.display()));
    (folder.to_owned(), target.to_owned())
}

fn run(target: &Path, profile: &str, what: &[&str]) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--profile", profile, "--target-dir"])
        .arg(target)
        .args(what)
        .status()
        .unwrap_or_else(|error| panic!("cannot run cargo to build {what:?}: {error}"));
    assert!(status.success(), "{what:?} does not build, so nothing can be tested");
}
