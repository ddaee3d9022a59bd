//! `cargo xtask bench rings`: cost of passing items between cores and of allocating buffers, compared with `crossbeam`,
//! `rtrb` and DPDK's `rte_ring` and `rte_mempool`. Our program and a small C program alternate.

use std::fmt::{self, Write as _};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use super::Output;
use super::progress::Progress;
use super::rounds::{self, Rounds};
use crate::command::{self, cargo};
use crate::packages;

const SOURCE: &str = "xtask/src/bench/rings.c";
const BUILD: Duration = Duration::from_mins(30);
/// Timeout of a reading in seconds.
const LIMIT: &str = "120";

/// Measurement parameters.
#[derive(Args, Clone, Debug)]
pub(crate) struct RingsArguments {
    /// Number of rounds; the result is the median
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Items per reading
    #[arg(long, default_value_t = 20_000_000)]
    items: u64,
    /// CPU of the sender
    #[arg(long, default_value_t = 0)]
    from: usize,
    /// CPU of the receiver
    #[arg(long, default_value_t = 1)]
    to: usize,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// A program that takes readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Ours,
    Dpdk,
}

impl rounds::Subject for Subject {
    fn title(self) -> &'static str {
        match self {
            Subject::Ours => "linerate, crossbeam and rtrb",
            Subject::Dpdk => "DPDK",
        }
    }
}

/// A cost in nanoseconds per item.
#[derive(Clone, Debug)]
struct Cost {
    what: String,
    burst: usize,
    nanoseconds: f64,
}

/// The costs printed by one run of a program.
#[derive(Clone, Debug)]
struct Reading(Vec<Cost>);

impl Reading {
    fn of(&self, what: &str, burst: usize) -> Option<f64> {
        self.0.iter().find(|cost| cost.what == what && cost.burst == burst).map(|cost| cost.nanoseconds)
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let costs =
            self.0.iter().map(|cost| format!("{} by {}: {:.1} ns", cost.what, cost.burst, cost.nanoseconds));
        f.write_str(&costs.collect::<Vec<_>>().join(", "))
    }
}

type Readings = Rounds<Subject, Reading>;

/// Comparisons: ours, theirs, the program that measures theirs, and items per call. The target of every ratio is at
/// least 1.
const PAIRS: [(&str, &str, Subject, usize); 7] = [
    ("ring", "crossbeam", Subject::Ours, 1),
    ("ring", "rtrb", Subject::Ours, 1),
    ("ring", "rte_ring", Subject::Dpdk, 1),
    ("ring", "rtrb", Subject::Ours, 32),
    ("ring", "rte_ring", Subject::Dpdk, 32),
    ("pool", "rte_mempool", Subject::Dpdk, 1),
    ("pool", "rte_mempool", Subject::Dpdk, 32),
];

/// Measures, prints each reading and finally the table.
pub(crate) fn rings(arguments: &RingsArguments) -> Result<()> {
    packages::ensure(packages::RINGS)?;
    command::run(
        &cargo(&["build", "--release", "--package", "linerate-benches", "--bin", "handover"]),
        BUILD,
    )?;
    compile()?;
    let progress = Progress::new(2 * arguments.rounds)?;
    let subjects = [Subject::Ours, Subject::Dpdk];
    let readings = Rounds::take(arguments.rounds, &subjects, &progress, |subject| read(arguments, subject))?;
    match arguments.output {
        Output::Table => print!("{}", table(&readings)),
        Output::Json => println!("{:#}", json(&readings)),
    }
    readings.validate(&progress)
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

fn read(arguments: &RingsArguments, subject: Subject) -> Result<Reading> {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", LIMIT]);
    let (from, to, items) = (arguments.from, arguments.to, arguments.items.to_string());
    match subject {
        Subject::Ours => {
            command.arg(command::target().join("release/handover"));
            command.args(["--from", &from.to_string(), "--to", &to.to_string(), "--items", &items]);
        }
        Subject::Dpdk => {
            // The main thread of EAL is the receiver.
            let (cores, main) = (format!("(0)@{to},(1)@{from}"), "0");
            command.arg(program()).args(["--lcores", &cores, "--main-lcore", main, "--no-huge", "-m", "64"]);
            command.args(["--no-pci", "--no-telemetry", "--log-level=error", "--", &items]);
        }
    }
    let said = command::output(&mut command)?;
    // EAL prints messages before the program does.
    let line = said.lines().find(|line| line.starts_with("[{")).unwrap_or_default();
    parse(line).with_context(|| format!("it said {said:?}"))
}

fn parse(line: &str) -> Option<Reading> {
    let costs: serde_json::Value = serde_json::from_str(line).ok()?;
    let cost = |cost: &serde_json::Value| {
        Some(Cost {
            what: cost["what"].as_str()?.to_owned(),
            burst: cost["burst"].as_u64()? as usize,
            nanoseconds: cost["nanoseconds"].as_f64()?,
        })
    };
    costs.as_array()?.iter().map(cost).collect::<Option<_>>().map(Reading)
}

/// The median of a cost.
fn cost(readings: &Readings, subject: Subject, what: &'static str, burst: usize) -> f64 {
    readings.median_of(subject, |reading| reading.of(what, burst)).unwrap_or(f64::NAN)
}

/// Cost of theirs relative to ours.
fn ratio(
    readings: &Readings,
    (ours, theirs, subject, burst): (&'static str, &'static str, Subject, usize),
) -> f64 {
    cost(readings, subject, theirs, burst) / cost(readings, Subject::Ours, ours, burst)
}

fn table(readings: &Readings) -> String {
    let mut text = format!(
        "{:<10}{:<14}{:>8}{:>12}{:>12}{:>10}\n",
        "OURS", "THEIRS", "BURST", "OURS NS", "THEIRS NS", "RATIO"
    );
    for pair in PAIRS {
        let (ours, theirs, subject, burst) = pair;
        let (one, other) =
            (cost(readings, Subject::Ours, ours, burst), cost(readings, subject, theirs, burst));
        let word = if ratio(readings, pair) >= 1.0 { "met" } else { "missed" };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{ours:<10}{theirs:<14}{burst:>8}{one:>12.2}{other:>12.2}{:>10.2} {word}",
            ratio(readings, pair)
        );
    }
    text
}

fn json(readings: &Readings) -> serde_json::Value {
    let pairs = PAIRS.map(|pair| {
        let (ours, theirs, subject, burst) = pair;
        json!({
            "ours": ours, "theirs": theirs, "burst": burst, "ratio": ratio(readings, pair),
            "ours_ns": cost(readings, Subject::Ours, ours, burst), "theirs_ns": cost(readings, subject, theirs, burst),
        })
    });
    json!({ "pairs": pairs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn theirs_over_ours_is_of_medians_and_above_one_where_ours_is_cheaper() {
        let cost = |what: &str, nanoseconds| Cost { what: what.into(), burst: 32, nanoseconds };
        let ours = [2.0, 9.0, 1.0].map(|ns| Some(Reading(vec![cost("ring", ns), cost("rtrb", 2.0 * ns)])));
        let theirs = [3.0, 3.0, 8.0].map(|ns| Some(Reading(vec![cost("rte_ring", ns)])));
        let readings = Rounds::of([(Subject::Ours, ours.to_vec()), (Subject::Dpdk, theirs.to_vec())]);
        assert!((ratio(&readings, PAIRS[3]) - 2.0).abs() < 1e-9);
        assert!((ratio(&readings, PAIRS[4]) - 1.5).abs() < 1e-9);
        assert!(table(&readings).contains("1.50 met"), "{}", table(&readings));
    }
}
