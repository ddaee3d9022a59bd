//! `cargo xtask bench rings`: cost of passing items between cores and of allocating buffers, compared with `crossbeam`,
//! `rtrb` and DPDK's `rte_ring` and `rte_mempool`. Our program (`benches/src/bin/handover.rs`) and a small C program
//! (`rings.c`) take one reading each time they run.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use super::Options;
use super::comparison::{Column, Comparison, Goal, Pair};
use super::rounds::Values;
use crate::command::{self, cargo};
use crate::packages;

const SOURCE: &str = "xtask/src/bench/rings.c";
const BUILD: Duration = Duration::from_mins(30);
/// Timeout of a reading in seconds.
const LIMIT: &str = "120";
const COLUMNS: [Column; 1] = [Column::new("nanoseconds", "ns an item", 2)];

/// Measurement parameters. The sender is on `--switch-cpu`, the receiver on `--guest-cpu`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Items per reading, which replace `--duration`
    #[arg(long, default_value_t = 20_000_000)]
    items: u64,
}

/// Measured operation, and items per call.
const SUBJECTS: [(&str, usize); 12] = [
    ("ring", 1),
    ("crossbeam", 1),
    ("rtrb", 1),
    ("rte_ring", 1),
    ("ring", 32),
    ("ring-slices", 32),
    ("rtrb", 32),
    ("rte_ring", 32),
    ("pool", 1),
    ("rte_mempool", 1),
    ("pool", 32),
    ("rte_mempool", 32),
];
/// Ratios to report: ours, theirs. No cost of ours should be more.
const PAIRS: [(usize, usize); 9] = [(0, 1), (0, 2), (0, 3), (4, 6), (4, 7), (5, 6), (5, 7), (8, 9), (10, 11)];

/// Builds both programs and measures.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let options = &arguments.options;
    options.validate()?;
    packages::ensure(packages::RINGS)?;
    let program = ["build", "--release", "--package", "linerate-benches", "--bin", "handover"];
    command::run(&cargo(&program), BUILD)?;
    compile()?;
    comparison().run(options, |subject| read(arguments, SUBJECTS[subject]))
}

fn comparison() -> Comparison {
    let pair = |(ours, theirs)| Pair { ours, theirs, column: 0, goal: Some(Goal::AtMost(1.0)) };
    Comparison {
        title: "linerate's rings and pool beside others: ratios of costs",
        labels: &["items a call", "kind"],
        columns: &COLUMNS,
        subjects: SUBJECTS.map(|(what, burst)| vec![burst.to_string(), what.to_owned()]).to_vec(),
        pairs: PAIRS.map(pair).to_vec(),
        huge_pages: 0,
    }
}

fn program() -> std::path::PathBuf {
    command::target().join("release/dpdk-rings")
}

fn compile() -> Result<()> {
    let flags = command::output(Command::new("pkg-config").args(["--cflags", "--libs", "libdpdk"]))?;
    let mut compiler = Command::new("cc");
    compiler.args(["-O3", "-march=native", "-o"]).arg(program()).arg(command::root().join(SOURCE));
    compiler.args(flags.split_whitespace());
    command::run(&compiler, BUILD)
}

fn read(arguments: &Arguments, (what, burst): (&str, usize)) -> Result<Values> {
    let (from, to) = (arguments.options.switch_cpu, arguments.options.guest_cpu);
    let (items, burst) = (arguments.items.to_string(), burst.to_string());
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", LIMIT]);
    if what.starts_with("rte_") {
        // The main thread of EAL is the receiver.
        let cores = format!("(0)@{to},(1)@{from}");
        command.arg(program()).args(["--lcores", &cores, "--main-lcore", "0", "--no-huge", "-m", "64"]);
        command.args(["--no-pci", "--no-telemetry", "--log-level=error", "--", what, &burst, &items]);
    } else {
        command.arg(command::target().join("release/handover")).args([what, &burst, "--items", &items]);
        command.args(["--from", &from.to_string(), "--to", &to.to_string()]);
    }
    let said = command::output(&mut command)?;
    // EAL prints messages before the program does.
    let cost = said.lines().last().and_then(|line| line.parse().ok());
    Ok(vec![Some(cost.with_context(|| format!("the program printed {said:?}"))?)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_have_the_same_number_of_items_in_a_call() {
        let comparison = comparison();
        let names: Vec<_> = comparison.pairs.iter().map(|pair| comparison.pair_name(pair)).collect();
        assert_eq!(names[0], "1 ring over crossbeam");
        assert!(PAIRS.iter().all(|(ours, theirs)| SUBJECTS[*ours].1 == SUBJECTS[*theirs].1));
    }
}
