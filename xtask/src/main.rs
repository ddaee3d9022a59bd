//! Tasks of this repository: `cargo xtask TASK`. No other crate depends on this one.

#![forbid(unsafe_code)]

mod bench;
mod callgrind;
mod checks;
mod command;
mod coverage;
mod dependencies;
mod docs;
mod failures;
mod faucet;
mod fingerprint;
mod fuzz;
mod hugepages;
mod kernel;
mod package;
mod packages;
mod programs;
mod soak;
mod steps;
mod suite;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Check format, lints and documentation, then run all of `test`
    Ci,
    /// Install missing Debian packages, then run all tests
    Test(suite::TestArguments),
    /// Run a switch under traffic and random changes, and check that packets are accounted for and that nothing grows
    Soak(soak::SoakArguments),
    /// Count instructions per packet of the fast path and compare them with the limits
    Callgrind(callgrind::CallgrindArguments),
    /// Measure the coverage of the tests with cargo-llvm-cov
    Coverage(coverage::CoverageArguments),
    /// Check the links of all documents and build the book if mdBook is installed
    Docs,
    /// Make packages, the static program, an OCI image and the SBOM in `target/package`
    Package(package::PackageArguments),
    /// Benchmark linerate against other software
    #[command(subcommand)]
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Ci => steps::run(&[checks::all(), suite::all(&suite::TestArguments::default())].concat(), true),
        Task::Test(arguments) => steps::run(&suite::all(&arguments), arguments.strict),
        Task::Soak(arguments) => soak::run(&arguments),
        Task::Callgrind(arguments) => {
            steps::run(&[steps::Step::new("callgrind", move || callgrind::run(arguments))], false)
        }
        Task::Coverage(arguments) => {
            steps::run(&[steps::Step::new("coverage", move || coverage::run(&arguments))], false)
        }
        Task::Docs => steps::run(&[steps::Step::new("documents", docs::run)], false),
        Task::Package(arguments) => package::run(&arguments),
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
