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
    /// Measure linerate beside others
    #[command(subcommand)]
    Bench(Bench),
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Beside DPDK's testpmd and Open vSwitch with DPDK, with the same guest
    Peers(bench::PeersArguments),
    /// Over memif, beside DPDK's testpmd with its memif driver
    Memif(bench::PeersArguments),
    /// A TCP stream between network namespaces, beside the kernel's bridge and Open vSwitch in user space
    Net(bench::NetArguments),
    /// A TCP stream between two Linux guests in QEMU, beside Open vSwitch with DPDK and QEMU's own sockets
    Guests(bench::GuestsArguments),
    /// As it grows: cost with ports and addresses, memory per port, start-up, idle CPU, waking
    Scale(bench::ScaleArguments),
    /// Handing items from core to core, and buffers, beside crossbeam, rtrb and DPDK
    Rings(bench::RingsArguments),
    /// Measures a calm pair of guests beside attackers, relative to an honest neighbour
    Neighbours(bench::NeighboursArguments),
    /// Measures 64-byte frames over interfaces, beside Open vSwitch
    Sixtyfour(bench::SixtyFourArguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Ci => steps::run(&[checks::all(), suite::all(&suite::TestArguments::default())].concat(), true),
        Task::Test(arguments) => steps::run(&suite::all(&arguments), arguments.strict),
        Task::Callgrind(arguments) => {
            steps::run(&[steps::Step::new("callgrind", move || callgrind::run(arguments))], false)
        }
        Task::Docs => steps::run(&[steps::Step::new("documents", docs::run)], false),
        Task::Bench(Bench::Peers(arguments)) => bench::peers(&arguments),
        Task::Bench(Bench::Memif(arguments)) => bench::memif(&arguments),
        Task::Bench(Bench::Net(arguments)) => bench::net(&arguments),
        Task::Bench(Bench::Guests(arguments)) => bench::guests(&arguments),
        Task::Bench(Bench::Scale(arguments)) => bench::scale(&arguments),
        Task::Bench(Bench::Rings(arguments)) => bench::rings(&arguments),
        Task::Bench(Bench::Neighbours(arguments)) => bench::neighbours(&arguments),
        Task::Bench(Bench::Sixtyfour(arguments)) => bench::sixtyfour(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
