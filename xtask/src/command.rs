//! Runs programs: prints the command line first, and terminates programs that exceed their time limit.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::failures::{Failures, pass_on};
use crate::steps::Outcome;

/// Root directory of the workspace.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

/// Cargo's target directory.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

const OTHER_BINARY: &str = "LINERATE_BIN";
/// Time after which a build counts as hung; those beside other steps have a part of a core.
pub(crate) const BUILD: Duration = Duration::from_mins(30);
/// Exit code of `cargo test` if a test program failed.
const TESTS_FAILED: i32 = 101;
/// Timeout for the remaining output of a terminated program.
const LEFTOVERS: Duration = Duration::from_secs(5);

/// The release build of `linerate`, or the program that `LINERATE_BIN` names.
pub(crate) fn linerate() -> PathBuf {
    built("release")
}

/// The `linerate` of the profile with this folder, or the program that `LINERATE_BIN` names.
pub(crate) fn built(profile: &str) -> PathBuf {
    let own = || target().join(profile).join("linerate");
    std::env::var_os(OTHER_BINARY).map_or_else(own, PathBuf::from)
}

/// Builds [`linerate`], unless `LINERATE_BIN` names a program.
pub(crate) fn build_linerate() -> Result<()> {
    let packages = ["linerate", "linerate-lab", "linerate-ffi", "linerate-preload"];
    let packages: Vec<_> = packages.iter().flat_map(|package| ["--package", package]).collect();
    build(&[&["--release"], &packages[..]].concat(), Vec::new())
}

/// Builds with these arguments and variables of cargo, unless `LINERATE_BIN` names a program.
pub(crate) fn build(arguments: &[&str], variables: Vec<(&str, OsString)>) -> Result<()> {
    if std::env::var_os(OTHER_BINARY).is_some() {
        eprintln!("not built: {OTHER_BINARY} names {}", linerate().display());
        return Ok(());
    }
    run(cargo(&[&["build"], arguments].concat()).envs(variables), BUILD)
}

/// The `cargo` that runs this program.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    if SAVES_SPACE.load(Ordering::Relaxed) {
        command.envs(SMALL.into_iter().filter(|(name, _)| std::env::var_os(name).is_none()));
    }
    command
}

/// Whether builds leave out what only later builds and debuggers need, as `.ci/run` does.
static SAVES_SPACE: AtomicBool = AtomicBool::new(false);
/// The data of incremental builds alone are half of the target directory after all tests.
const SMALL: [(&str, &str); 3] =
    [("CARGO_INCREMENTAL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "0"), ("CARGO_PROFILE_RELEASE_DEBUG", "0")];

/// Makes all builds from now on leave out debug information and the data of incremental builds.
pub(crate) fn save_space() {
    SAVES_SPACE.store(true, Ordering::Relaxed);
}

/// `cargo` of another toolchain. Removes the variables of the running toolchain, which would override the choice.
pub(crate) fn cargo_of(toolchain: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.arg(format!("+{toolchain}")).args(arguments).current_dir(root());
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command
}

/// Runs a program. Returns an error if it fails or exceeds `limit`.
pub(crate) fn run(command: &Command, limit: Duration) -> Result<()> {
    let line = announced(command);
    let status = limited(command, limit).status();
    validate(status.with_context(|| format!("cannot run `{line}`"))?, &line, limit)
}

/// As [`run`], for programs that run tests: the error names the failed tests and repeats their output. Returns
/// [`Outcome::Skipped`] if tests only lacked something on this machine.
pub(crate) fn run_tests(command: &Command, limit: Duration) -> Result<Outcome> {
    run_tests_to(command, limit, std::io::stdout(), std::io::stderr())
}

/// As [`run_tests`], for programs that run beside others: the output is printed as a whole.
pub(crate) fn run_tests_held(command: &Command, limit: Duration) -> Result<Outcome> {
    let held = Held::default();
    let outcome = run_tests_to(command, limit, held.clone(), held.clone());
    // It fails if standard output is closed, and then has no reader.
    let _ = std::io::stdout().write_all(&held.lines());
    outcome
}

fn run_tests_to(
    command: &Command,
    limit: Duration,
    to_output: impl Write + Send + 'static,
    to_errors: impl Write + Send + 'static,
) -> Result<Outcome> {
    let line = announced(command);
    let mut child = limited(command, limit)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run `{line}`"))?;
    let failures = Arc::<Mutex<Failures>>::default();
    let (over, ended) = channel::<()>();
    if let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) {
        let (of_output, of_errors) = ((failures.clone(), over.clone()), (failures.clone(), over));
        std::thread::spawn(move || (pass_on(output, to_output, &of_output.0), of_output.1).0);
        std::thread::spawn(move || (pass_on(errors, to_errors, &of_errors.0), of_errors.1).0);
    }
    let status = child.wait()?;
    // A leftover daemon of a test may keep the pipes open.
    let _ = ended.recv_timeout(LEFTOVERS);
    let failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
    if status.code() == Some(TESTS_FAILED)
        && let Some(skipped) = failures.only_skipped()
    {
        return Ok(Outcome::Skipped(format!("some tests\n{skipped}")));
    }
    let validated = validate(status, &line, limit);
    validated
        .with_context(|| format!("failed tests: {}\n{}", failures.names().join(", "), failures.text()))?;
    Ok(Outcome::Passed)
}

/// Output that is printed later.
#[derive(Clone, Default)]
struct Held(Arc<Mutex<Vec<u8>>>);

impl Held {
    fn lines(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Held {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.lines().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub(crate) fn announced(command: &Command) -> String {
    let line = shown(command);
    eprintln!("$ {line}");
    line
}

/// The command, which is terminated after `limit`.
pub(crate) fn limited(command: &Command, limit: Duration) -> Command {
    let mut limited = Command::new("timeout");
    // In the foreground, so that an interrupt from the keyboard reaches the program too.
    limited.args(["--foreground", "--kill-after=10", &limit.as_secs().to_string()]);
    limited.arg(command.get_program()).args(command.get_args());
    inherit(&mut limited, command).stdin(Stdio::null());
    limited
}

fn validate(status: ExitStatus, line: &str, limit: Duration) -> Result<()> {
    match status.code() {
        Some(0) => Ok(()),
        Some(124 | 137) => bail!("`{line}` was terminated after {} s", limit.as_secs()),
        Some(127) => bail!("`{line}`: the program is not installed"),
        _ => bail!("`{line}` ended with {status}"),
    }
}

/// Runs a program and returns its standard output. Returns an error if it fails.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = shown(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run `{line}`"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}` ended with {}: {}", output.status, text.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether the program runs and succeeds; its output is discarded.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// [`Outcome::Skipped`] with the remedy if `probe` fails, because the tool called `name` is not installed.
pub(crate) fn missing(name: &str, probe: &mut Command, remedy: &str) -> Option<Outcome> {
    let reason = || Outcome::Skipped(format!("{name} is not installed; to have it: {remedy}"));
    (!succeeds(probe)).then(reason)
}

/// [`Outcome::Skipped`] with the remedy if Rust's standard library for `target` is not installed.
pub(crate) fn missing_target(target: &str) -> Result<Option<Outcome>> {
    let print = ["--print", "target-libdir", "--target", target];
    let folder = output(Command::new("rustc").args(print).current_dir(root()))?;
    let reason = || format!("no standard library for {target}; to have it: rustup target add {target}");
    Ok((!Path::new(folder.trim()).is_dir()).then(|| Outcome::Skipped(reason())))
}

/// Whether a program with this name is in the search path.
pub(crate) fn exists(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // The search path of users may not include the `sbin` directories.
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(more).any(|folder| folder.join(program).is_file())
}

/// Whether this process runs as root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn inherit<'a>(limited: &'a mut Command, command: &Command) -> &'a mut Command {
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        limited.current_dir(folder);
    }
    limited
}

fn shown(command: &Command) -> String {
    let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let set = set.map(|(name, value)| format!("{}='{}'", name.to_string_lossy(), value.to_string_lossy()));
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    let words = words.map(|word| word.to_string_lossy().into_owned());
    set.chain(words).collect::<Vec<_>>().join(" ")
}
