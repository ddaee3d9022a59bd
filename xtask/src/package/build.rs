//! Builds of programs and libraries for packages. They have a target directory of their own, because they are compiled
//! with flags that leave the directories of this machine out of the result.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::command::{self, cargo};
use crate::packages::{self, MUSL};
use crate::steps::Outcome;

const LIMIT: Duration = Duration::from_hours(1);
const DEMO: Duration = Duration::from_mins(2);
/// Profile of `Cargo.toml`.
const PROFILE: &str = "dist";
/// Variable with the commit that programs name. It is set, because cargo does not build them again for another commit
/// with the same sources.
const COMMIT: &str = "LINERATE_COMMIT";
/// A part of the symbol of the function with which `linerate` begins.
const MAIN: &str = "8linerate4main";
/// The directory that stands in the programs for that of the sources.
pub(super) const SOURCES: &str = "/usr/src/linerate";
/// The directory that stands in the programs for cargo's.
const CRATES: &str = "/usr/src/cargo";

/// Cargo's target directory for packages.
pub(super) fn target() -> PathBuf {
    super::folder().join("build")
}

/// Directory with programs and libraries that are linked with the C library of this machine.
pub(super) fn results() -> PathBuf {
    target().join(PROFILE)
}

/// A subcommand of cargo on the build for packages.
pub(super) fn subcommand(words: &[&str]) -> Result<Command> {
    let mut command = cargo(words);
    command.env("CARGO_TARGET_DIR", target()).env("SOURCE_DATE_EPOCH", date()?.to_string());
    Ok(command)
}

/// Crates of the programs and libraries of the packages for distributions.
pub(super) const SHARED: [&str; 4] = ["linerate", "linerate-lab", "linerate-ffi", "linerate-preload"];

/// Makes the programs and libraries of the packages for distributions.
pub(super) fn shared() -> Result<()> {
    build(&SHARED.iter().flat_map(|package| ["--package", package]).collect::<Vec<_>>())?;
    names_functions(&results().join("linerate"))
}

/// Returns an error if the backtrace of a crash would have no names of functions.
fn names_functions(program: &Path) -> Result<()> {
    let bytes = fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    if !bytes.windows(MAIN.len()).any(|window| window == MAIN.as_bytes()) {
        bail!("{} has no table of symbols: see `strip` of the profile {PROFILE}", program.display());
    }
    Ok(())
}

/// Makes the static program and starts it.
pub(super) fn static_program() -> Result<Outcome> {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    if let Some(missing) = command::missing_target(&target)? {
        return Ok(missing);
    }
    if let Err(error) = packages::ensure(MUSL) {
        return Ok(Outcome::Skipped(format!("{error:#}")));
    }
    build(&["--package", "linerate", "--target", &target])?;
    let built = self::target().join(target).join(PROFILE).join("linerate");
    names_functions(&built)?;
    super::remove_old("-linux-static")?;
    let path = static_path();
    fs::copy(&built, &path).with_context(|| format!("cannot copy {}", built.display()))?;
    let mut demo = Command::new(&path);
    command::run(demo.env_clear().args(["demo", "--duration", "1s"]), DEMO)?;
    Ok(Outcome::Passed)
}

/// Path of the static program.
pub(super) fn static_path() -> PathBuf {
    let name = format!("linerate-{}-{}-linux-static", super::VERSION, std::env::consts::ARCH);
    super::folder().join(name)
}

fn build(words: &[&str]) -> Result<()> {
    let mut command = subcommand(&["build", "--locked", "--profile", PROFILE])?;
    command.args(words).env("CARGO_INCREMENTAL", "0").env_remove("RUSTC_WORKSPACE_WRAPPER");
    command.env("CARGO_ENCODED_RUSTFLAGS", flags().join("\u{1f}")).env(COMMIT, commit()?);
    command::run(&command, LIMIT)
}

/// Flags of the compiler that replace directories of this machine.
fn flags() -> [String; 2] {
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).unwrap_or_default();
    [(command::root().as_path(), SOURCES), (&cargo, CRATES)].map(|(from, to)| remapped(from, to))
}

fn remapped(from: &Path, to: &str) -> String {
    format!("--remap-path-prefix={}={to}", from.display())
}

/// Seconds since 1970 that every file in a package has: `SOURCE_DATE_EPOCH`, or the date of the commit.
pub(super) fn date() -> Result<u64> {
    let stated = std::env::var("SOURCE_DATE_EPOCH").ok();
    let text = stated.map_or_else(|| git(&["log", "-1", "--format=%ct"]), Ok)?;
    text.trim().parse().with_context(|| format!("SOURCE_DATE_EPOCH is {text:?}: expected seconds since 1970"))
}

/// The commit that is packaged: `LINERATE_COMMIT`, or that of the repository as in the results of programs.
pub(super) fn commit() -> Result<String> {
    if let Ok(stated) = std::env::var(COMMIT) {
        return Ok(stated);
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = if git(&["status", "--porcelain"])?.is_empty() { "" } else { "-changed" };
    Ok(format!("{}{changed}", commit.trim()))
}

/// Output of git on the sources.
pub(super) fn git(words: &[&str]) -> Result<String> {
    command::output(Command::new("git").args(words).current_dir(command::root()))
}
