//! The tasks of this repository, as `cargo xtask TASK`. Nothing of the product depends on this crate.

mod bench;
mod callgrind;
mod checks;
mod command;
mod dependencies;
mod docs;
mod failures;
mod hugepages;
mod kernel;
mod packages;
mod steps;
mod suite;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The tasks of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Format, lints, documentation, then everything that `test` runs
    Ci,
    /// Install what the tests need from Debian's packages, then run all of them
    Test(suite::TestArguments),
    /// Count the instructions per packet of the fast path and compare them with the recorded ones
    Callgrind(callgrind::CallgrindArguments),
    /// Check the links of all documents, and build the book if mdBook is installed
    Docs,
    /// Measure linerate beside other software
    #[command(subcommand)]
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Ci => steps::run(&[checks::all(), suite::all(&suite::TestArguments::default())].concat(), true),
        Task::Test(arguments) => steps::run(&suite::all(&arguments), arguments.strict),
        Task::Callgrind(arguments) => {
            steps::run(&[steps::Step::new("callgrind", move || callgrind::run(arguments))], false)
        }
        Task::Docs => steps::run(&[steps::Step::new("documents", docs::run)], false),
        Task::Bench(bench) => bench::run(&bench),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
