//! Coverage of the tests, as a page per file. On demand: no goal is set, because a number of lines says little about
//! interleavings and hostile input.

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::command::{self, cargo};
use crate::steps::Outcome;

const LIMIT: Duration = Duration::from_hours(1);

/// Tests to measure.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct CoverageArguments {
    /// Packages whose tests run [default: all]
    #[arg(long, short, value_name = "PACKAGE")]
    package: Vec<String>,
}

/// Runs the tests with cargo-llvm-cov and writes the pages below `target/coverage`.
pub(crate) fn run(arguments: &CoverageArguments) -> Result<Outcome> {
    let remedy = "cargo install cargo-llvm-cov --locked && rustup component add llvm-tools";
    let probe = &mut cargo(&["llvm-cov", "--version"]);
    if let Some(missing) = command::missing("cargo-llvm-cov", probe, remedy) {
        return Ok(missing);
    }
    let mut command = cargo(&["llvm-cov", "--html", "--output-dir"]);
    command.arg(command::target().join("coverage"));
    if arguments.package.is_empty() {
        command.arg("--workspace");
    }
    command.args(arguments.package.iter().flat_map(|package| ["--package", package]));
    command::run(&command, LIMIT).map(|()| Outcome::Passed)
}
