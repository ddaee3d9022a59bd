//! Everything that `cargo xtask test` runs: installation, the ordinary tests, the end-to-end tests with real clients,
//! loom, Miri, another architecture, and the count of instructions.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::command::{self, cargo, cargo_of};
use crate::hugepages::HugePages;
use crate::steps::{Outcome, Step};
use crate::{callgrind, checks, dependencies, docs, faucet, fuzz, kernel, package, packages, programs, soak};

/// Time after which a program counts as hung. The end-to-end tests of `--all` take 20 minutes on a quiet machine, and
/// twice that beside the builds of the other steps on a slow one.
const LIMIT: Duration = Duration::from_hours(1);

/// Crates whose concurrency loom explores.
const LOOM: [&str; 5] =
    ["linerate-mem", "linerate-ring", "linerate-engine", "linerate-bridge", "linerate-stack-service"];
/// Packages without a library, with whose features dependencies are those of the other builds.
const PROGRAMS: [&str; 2] = ["linerate", "linerate-lab"];
/// Crates whose raw memory Miri watches.
const MIRI: [&str; 2] = ["linerate-mem", "linerate-ring"];
/// Environment variable that makes tests run over all their cases.
const ALL_CASES: (&str, &str) = ("LINERATE_TESTS", "all");
/// Features whose tests take long to build: code for every copy kernel, and the generated header of the C library.
const ALL_FEATURES: &str = "linerate-mem/every-kernel,linerate-ffi/header";
/// Arguments of the ordinary tests with `--all`: also the slow ones, but not those of the step `huge pages`.
const ALL_TESTS: [&str; 3] = ["--include-ignored", "--skip", "huge_page_region"];
/// Name of the program with the end-to-end tests.
const END_TO_END: &str = "e2e";
/// More than CPUs, because an end-to-end test waits most of its time.
const END_TO_END_AT_ONCE: &str = "--test-threads=3";
/// Environment variable with which property tests run an eighth of their cases, other ones in each run.
const FEW_CASES: (&str, &str) = ("PROPTEST_CASES", "32");
const OTHER: &str = "aarch64-unknown-linux-gnu";

/// Selection of steps and tests.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TestArguments {
    /// Only the end-to-end tests with real clients, and of those only the ones whose name contains this
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    end_to_end: Option<String>,
    /// Everything: also end-to-end tests over every ring and execution model, Miri, another architecture and fuzzing
    #[arg(long)]
    all: bool,
    /// Fail if a test or step is skipped because this machine lacks something
    #[arg(long)]
    pub(crate) strict: bool,
    /// Compile the tests with clippy, and fail if it or the compiler warns
    #[arg(long)]
    pub(crate) lint: bool,
    /// Duration of the soak in minutes, the last step of `--all`
    #[arg(long, value_name = "N", default_value_t = 60, requires = "all")]
    #[arg(value_parser = clap::value_parser!(u64).range(soak::MINUTES))]
    soak_minutes: u64,
}

/// The steps, in order.
pub(crate) fn all(arguments: &TestArguments) -> Vec<Step> {
    let install = Step::new("packages", || optional(packages::ensure(packages::TESTS)));
    let kernel = Step::new("guest kernel", || optional(kernel::ensure()));
    let TestArguments { all, lint, soak_minutes, .. } = *arguments;
    if all {
        command::save_space();
    }
    let program = Arc::<OnceLock<PathBuf>>::default();
    let (found, packaged, soaked) = (program.clone(), program.clone(), program.clone());
    let build = Step::new("build", move || {
        build(all, lint)?;
        // Not looked up later, when another step builds and cargo would wait for it.
        let path = end_to_end_program(lint, all)?;
        found.get_or_init(|| path);
        Ok(Outcome::Passed)
    });
    let name = arguments.end_to_end.clone();
    let end_to_end = Step::new("end-to-end", move || {
        let mut tests = end_to_end(built(&program)?, name.as_deref().unwrap_or_default(), all);
        if name.is_none() {
            // Steps of their own: nothing disturbs the soak, and packages are made later.
            tests.args(["--skip", soak::TEST, "--skip", package::TEST]);
        }
        passed(&tests)
    });
    // Installation waits for the network and for single processes.
    let mut meanwhile = vec![install, kernel];
    if all {
        meanwhile.push(Step::new("Faucet", || optional(faucet::ensure())));
    }
    let mut steps = vec![build.needed().meanwhile(meanwhile)];
    if arguments.end_to_end.is_some() {
        steps.push(end_to_end);
        return steps;
    }
    // The end-to-end tests wait most of their time, so everything else is built and counted meanwhile.
    steps.push(end_to_end.beside(computing(all, lint)));
    steps.push(Step::new("tests", move || run_tests(all, lint)));
    steps.push(Step::new("examples in comments", move || passed(tests(all, lint).arg("--doc"))));
    if all {
        steps.push(checks::documentation());
        steps.push(Step::new("book", docs::run));
        steps.push(Step::new("huge pages", move || huge_pages(lint)));
        steps.push(Step::new("image", package::test_image));
        steps.push(Step::new("distributions", move || package::test_distributions(built(&packaged)?)));
        steps.push(Step::new("miri", miri));
        steps.push(Step::new("fuzzing", fuzz::run));
        steps.push(Step::new("soak", move || soak::step(built(&soaked)?, soak_minutes)));
    }
    steps
}

/// The program with the end-to-end tests.
fn built(program: &OnceLock<PathBuf>) -> Result<&Path> {
    Ok(program.get().context("the tests were not built")?)
}

/// Steps that compute without waiting.
fn computing(all: bool, lint: bool) -> Vec<Step> {
    let mut steps = vec![
        // First, because its build ends with a link that keeps one CPU for half a minute.
        Step::new("callgrind", move || callgrind::check(all)),
        // Not last, because then the examples in comments would wait for cargo's lock.
        Step::new("loom", loom),
        Step::new("build of tests", move || passed(tests(all, lint).arg("--no-run"))),
        Step::new("dependencies", dependencies::run),
    ];
    if all {
        steps.push(Step::new("fuzz targets", fuzz::check));
        steps.push(Step::new("other architecture", other_architecture));
    }
    steps
}

/// Tests that lack what could not be installed are skipped; everything else runs.
fn optional(installed: Result<Outcome>) -> Result<Outcome> {
    installed.or_else(|error| Ok(Outcome::Skipped(format!("{error:#}"))))
}

fn passed(command: &Command) -> Result<Outcome> {
    command::run_tests(command, LIMIT)
}

/// Runs the ordinary tests, with `all` at their complete counts.
fn run_tests(all: bool, lint: bool) -> Result<Outcome> {
    let mut build = tests(all, lint);
    let messages = command::output(build.args(["--no-run", "--message-format=json"]))?;
    let mut programs = programs::named(&messages);
    programs.retain(|program| program.target != END_TO_END);
    let (words, variable) = if all { (&ALL_TESTS[..], ALL_CASES) } else { (&[][..], FEW_CASES) };
    programs::run(programs, words, variable, LIMIT)
}

/// Builds `linerate` with system calls by the C library, and the library that makes them fail. In a directory of its
/// own, because its features are not those of the other builds.
fn build_faults() -> Result<()> {
    let what = ["--package", "linerate", "--package", "linerate-faults", "--features", "rustix/use-libc"];
    command::build(&what, vec![("CARGO_TARGET_DIR", faults().into())])
}

/// Target directory of [`build_faults`].
fn faults() -> PathBuf {
    command::target().join("faults")
}

/// The ordinary tests, with `all` with [`ALL_FEATURES`].
fn tests(all: bool, lint: bool) -> Command {
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast"]);
    if all {
        command.args(["--features", ALL_FEATURES]);
    }
    command.envs(linted(lint, all));
    command
}

/// Builds the end-to-end tests and what they run: with `all` the release build, otherwise the development build, which
/// the other tests need as well, and which checks overflows and assertions.
pub(crate) fn build(all: bool, lint: bool) -> Result<()> {
    let test = ["--workspace", "--test", END_TO_END];
    if all {
        command::build_linerate()?;
        build_faults()?;
        return command::build(&test, linted(lint, all));
    }
    let what = ["--lib", "--bin", "linerate", "--bin", "linerate-lab", "--examples"];
    command::build(&[&test[..], &what].concat(), linted(lint, all))
}

/// Path of the program with the end-to-end tests, which is built if it is missing.
pub(crate) fn end_to_end_program(lint: bool, all: bool) -> Result<PathBuf> {
    // The whole workspace, so that features are those of the other steps and nothing is built twice.
    let mut command =
        cargo(&["test", "--workspace", "--test", END_TO_END, "--no-run", "--message-format=json"]);
    let programs = programs::named(&command::output(command.envs(linted(lint, all)))?);
    let program = programs.into_iter().find(|program| program.target == END_TO_END);
    program.map(|program| program.path).context("cargo does not name the program with the end-to-end tests")
}

/// Variable of cargo that names the compiler of the workspace's crates, and the one that holds clippy's arguments.
const COMPILER: &str = "RUSTC_WORKSPACE_WRAPPER";
const LINTS: (&str, &str) = ("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");

/// Variables that make clippy the compiler of the workspace, so that nothing is compiled for its lints alone. The code
/// is less optimised than rustc's, so release builds do without. Without `all`, tests are not optimised: they have few
/// cases.
fn linted(lint: bool, all: bool) -> Vec<(&'static str, OsString)> {
    let clippy = || if all { "clippy-driver".into() } else { compiler("lint.sh") };
    if lint { vec![(COMPILER, clippy()), (LINTS.0, LINTS.1.into())] } else { vec![] }
}

/// Path of a program that runs the compiler.
fn compiler(name: &str) -> OsString {
    command::root().join("xtask/rustc").join(name).into()
}

/// The end-to-end tests. With `all` they run over all their cases, otherwise over a sample and without the modules
/// named `every`.
pub(crate) fn end_to_end(program: &Path, name: &str, all: bool) -> Command {
    let mut command = Command::new(program);
    command.current_dir(command::root().join("tests"));
    command.args(["--ignored", END_TO_END_AT_ONCE, name]);
    command.envs(all.then_some(ALL_CASES));
    let profile = if all { "release" } else { "debug" };
    if !all {
        command.args(["--skip", "::every::"]);
        command.env("LINERATE_EXAMPLES", command::target().join(profile).join("examples"));
    }
    command.env("LINERATE_BIN", command::built(profile));
    command.env("LINERATE_LIB", command::target().join(profile));
    command.env("LINERATE_KERNEL", kernel::folder());
    if all {
        command.env("LINERATE_FAULTS_DIR", faults().join("debug"));
    }
    command.env("LINERATE_FAUCET", faucet::programs());
    command
}

/// The models of loom, which replaces the atomics at compile time, so the workspace's crates need a build of their own.
/// Without optimisation they still run in seconds, and the build takes a third of the time.
fn loom() -> Result<Outcome> {
    let mut command = cargo(&["test", "--lib"]);
    command.args(LOOM.iter().chain(&PROGRAMS).flat_map(|package| ["--package", package]));
    command.args(["loom", "--", "--test-threads=1"]);
    command.env(COMPILER, compiler("loom.sh")).env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
    passed(&command)
}

/// The tests that need a huge page, which is reserved meanwhile.
fn huge_pages(lint: bool) -> Result<Outcome> {
    let _reserved = match HugePages::reserve_another() {
        Ok(reserved) => reserved,
        Err(error) => return Ok(Outcome::Skipped(format!("{error:#}"))),
    };
    passed(tests(true, lint).args(["--lib", "huge_page", "--", "--ignored"]))
}

fn miri() -> Result<Outcome> {
    let remedy = "rustup toolchain install nightly --component miri --component rust-src";
    let probe = &mut cargo_of("nightly", &["miri", "--version"]);
    if let Some(missing) = command::missing("Miri", probe, remedy) {
        return Ok(missing);
    }
    let mut command = cargo_of("nightly", &["miri", "test", "--tests", "--target-dir"]);
    command.arg(command::target().join("miri"));
    command.args(MIRI.iter().flat_map(|package| ["--package", package]));
    // Property tests keep their seeds in files, and Miri isolates a test from the file system.
    // A pool that is dropped before all its buffers have returned keeps its memory.
    let flags = "-Zmiri-disable-isolation -Zmiri-permissive-provenance -Zmiri-ignore-leaks";
    command.env("MIRIFLAGS", flags);
    command.env("PROPTEST_CASES", "8");
    passed(&command)
}

fn other_architecture() -> Result<Outcome> {
    if let Some(missing) = command::missing_target(OTHER)? {
        return Ok(missing);
    }
    if cfg!(target_arch = "aarch64") {
        bail!("{OTHER} is this machine's own architecture: choose another one to check");
    }
    if let missing @ Outcome::Skipped(_) = optional(packages::ensure(packages::CROSS))? {
        return Ok(missing);
    }
    passed(&cargo(&["check", "--workspace", "--target", OTHER]))
}
