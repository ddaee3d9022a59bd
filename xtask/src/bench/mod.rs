//! `cargo xtask bench`: measures linerate and other software in turn, on the same machine and the same CPUs; only the
//! ratio of readings of one round is meaningful.
//!
//! A bench is a `Comparison` (subjects, columns of a reading, pairs with goals) and a function that takes one reading.
//! `rounds` interleaves the readings and measures the distance of the CPUs, `progress` shows the remaining time,
//! `report` and `picture` show the result. `script` runs a shell script that takes a reading. `scale` only starts a
//! program.

mod comparison;
mod flows;
mod guests;
mod latency;
mod neighbours;
mod net;
mod operations;
mod peers;
mod picture;
mod progress;
mod report;
mod rings;
mod rounds;
mod scale;
mod script;
mod stack;
mod tunnels;

use std::fs;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};

/// Kind of measurement.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Frames of one guest, beside DPDK's testpmd and Open vSwitch with DPDK
    Peers(peers::Arguments),
    /// Flow tables, beside Open vSwitch with DPDK and our bridge
    Flows(flows::Arguments),
    /// A calm pair of guests beside attackers, relative to an honest neighbour
    Neighbours(neighbours::Arguments),
    /// Between network namespaces: a TCP stream or 64-byte frames, beside the kernel's bridge and Open vSwitch
    Net(net::Arguments),
    /// A TCP stream between two Linux guests in QEMU, beside Open vSwitch with DPDK and QEMU's own sockets
    Guests(guests::Arguments),
    /// VXLAN tunnels, beside Open vSwitch with DPDK
    Tunnels(tunnels::Arguments),
    /// Latency through flow tables, beside Open vSwitch with DPDK, and while flows are added
    Latency(latency::Arguments),
    /// Restart, capture and apply under load, beside Open vSwitch with DPDK, and memory
    Operations(operations::Arguments),
    /// Handing items from core to core, and buffers, beside crossbeam, rtrb and DPDK
    Rings(rings::Arguments),
    /// Requests and replies over TCP, beside iip and the kernel
    Stack(stack::Arguments),
    /// As it grows: cost with ports and addresses, memory per port, start-up, idle CPU, waking
    Scale(scale::Arguments),
}

/// Valid durations of a reading.
const DURATIONS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_hours(1);

/// Options of all comparisons.
#[derive(Args, Clone, Debug)]
struct Options {
    /// Number of interleaved rounds; the result is the median
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Duration of a reading, after a warm-up
    #[arg(long, default_value = "3s", value_name = "TIME", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// CPU of the switch
    #[arg(long, default_value_t = 0)]
    switch_cpu: usize,
    /// CPU of the guests or of the load
    #[arg(long, default_value_t = 1)]
    guest_cpu: usize,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Also draw the ratios into this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Aligned text
    #[default]
    Table,
    /// JSON
    Json,
}

/// A ring kind of `linerate guest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Ring {
    /// Split ring, as used by most virtual machines
    Split,
    /// Split ring with in-order use
    SplitInorder,
    /// Packed ring
    Packed,
    /// Packed ring with in-order use; DPDK's guest uses its vectorised driver
    PackedInorder,
}

/// The value's name on the command line.
fn word(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

impl Options {
    /// Fails before anything is installed, built or measured.
    fn validate(&self) -> Result<()> {
        if self.rounds == 0 {
            bail!("invalid value 0 for --rounds: expected 1 or more");
        }
        if !DURATIONS.contains(&self.duration) {
            let given = humantime::format_duration(self.duration);
            bail!("invalid value {given} for --duration: expected 100ms to 1h");
        }
        let Some(file) = &self.out else { return Ok(()) };
        fs::write(file, "").with_context(|| format!("cannot write {}: choose another --out", file.display()))
    }
}

/// Runs a bench.
pub(crate) fn run(bench: &Bench) -> Result<()> {
    match bench {
        Bench::Peers(arguments) => peers::run(arguments),
        Bench::Flows(arguments) => flows::run(arguments),
        Bench::Neighbours(arguments) => neighbours::run(arguments),
        Bench::Net(arguments) => net::run(arguments),
        Bench::Guests(arguments) => guests::run(arguments),
        Bench::Tunnels(arguments) => tunnels::run(arguments),
        Bench::Latency(arguments) => latency::run(arguments),
        Bench::Operations(arguments) => operations::run(arguments),
        Bench::Rings(arguments) => rings::run(arguments),
        Bench::Stack(arguments) => stack::run(arguments),
        Bench::Scale(arguments) => scale::run(arguments),
    }
}

#[cfg(test)]
impl Options {
    /// Options of a test.
    fn of_test(rounds: usize) -> Self {
        // No distance is measured between a CPU and itself.
        Options {
            rounds,
            duration: Duration::from_secs(1),
            switch_cpu: 0,
            guest_cpu: 0,
            output: Output::Table,
            out: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_cannot_be_measured_are_errors() {
        assert!(Options::of_test(1).validate().is_ok());
        assert!(Options::of_test(0).validate().is_err());
        assert!(Options { duration: Duration::ZERO, ..Options::of_test(1) }.validate().is_err());
        let out = Some(PathBuf::from("/nonexistent/ratios.svg"));
        assert!(Options { out, ..Options::of_test(1) }.validate().is_err());
    }
}
