//! Tasks of this repository: `cargo xtask TASK`. No other crate depends on this one.

mod bench;
mod callgrind;
mod checks;
mod command;
mod docs;
mod failures;
mod hugepages;
mod kernel;
mod packages;
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
    /// Count instructions per packet of the fast path and compare them with the limits
    Callgrind(callgrind::CallgrindArguments),
    /// Check the links of all documents and build the book if mdBook is installed
    Docs,
    /// Benchmark linerate against other switches
    #[command(subcommand)]
    Bench(Bench),
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Compare with DPDK testpmd and OVS-DPDK, with the same guest
    Peers(bench::PeersArguments),
    /// Compare over memif with DPDK testpmd and its memif driver
    Memif(bench::PeersArguments),
    /// Compare TCP between network namespaces with the kernel bridge and user-space OVS
    Net(bench::NetArguments),
    /// Compare TCP between two QEMU guests with OVS-DPDK and QEMU's own sockets
    Guests(bench::GuestsArguments),
    /// Measure scaling: cost by ports and addresses, memory per port, start-up, idle CPU, wake-up
    Scale(bench::ScaleArguments),
    /// Compare rings and buffer pools with crossbeam, rtrb and DPDK
    Rings(bench::RingsArguments),
    /// Measure a pair of guests next to attackers, relative to a well-behaved neighbor
    Neighbours(bench::NeighboursArguments),
    /// Compare 64-byte frames over interfaces with Open vSwitch
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
