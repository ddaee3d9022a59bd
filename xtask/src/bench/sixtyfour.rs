//! `cargo xtask bench sixtyfour`: frames of 64 bytes between two veth pairs, through our ports over `AF_XDP` and over
//! packet sockets, and through Open vSwitch's. All four in turn, round by round, on the same CPUs: the switch on one,
//! the load on the other. A script (`sixtyfour.sh`) makes one reading.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use tempfile::TempDir;

use super::Output;
use crate::command::{self, cargo};
use crate::packages;

const SCRIPT: &str = include_str!("sixtyfour.sh");
const BUILD: Duration = Duration::from_mins(30);
/// Longer than any reading takes.
const LIMIT: &str = "90";

/// What to measure.
#[derive(Args, Clone, Debug)]
pub(crate) struct SixtyFourArguments {
    /// How often each switch is measured; the median counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long a reading takes
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// The CPU of the switches
    #[arg(long, default_value_t = 0)]
    switch_cpu: usize,
    /// The CPU of the load
    #[arg(long, default_value_t = 1)]
    load_cpu: usize,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// A switch with its kind of port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Xdp,
    AfXdp,
    Packet,
    System,
}

impl Subject {
    const ALL: [Self; 4] = [Self::Xdp, Self::AfXdp, Self::Packet, Self::System];

    /// As the script calls it.
    fn name(self) -> &'static str {
        match self {
            Subject::Xdp => "xdp",
            Subject::AfXdp => "afxdp",
            Subject::Packet => "packet",
            Subject::System => "system",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Subject::Xdp => "linerate, kind = \"xdp\"",
            Subject::AfXdp => "Open vSwitch, type=afxdp",
            Subject::Packet => "linerate, kind = \"packet\"",
            Subject::System => "Open vSwitch, type=system",
        }
    }
}

/// Ours over theirs, and what we promise.
const PAIRS: [(Subject, Subject, f64); 3] = [
    (Subject::Xdp, Subject::AfXdp, 2.0),
    (Subject::Packet, Subject::System, 2.0),
    (Subject::Xdp, Subject::System, 2.0),
];

/// One reading, in packets a second.
#[derive(Clone, Copy, Debug)]
struct Reading {
    arrived: u64,
    sent: u64,
}

type Readings = BTreeMap<Subject, Vec<Reading>>;

/// Measures, prints each reading as it comes and the table at the end.
pub(crate) fn sixtyfour(arguments: &SixtyFourArguments) -> Result<()> {
    if arguments.rounds == 0 {
        bail!("no round, no reading: --rounds starts at 1");
    }
    if !command::is_root() {
        bail!("network namespaces and AF_XDP need root: run it as root");
    }
    packages::ensure(packages::INTERFACES)?;
    command::build_linerate()?;
    command::run(&cargo(&["build", "--release", "--package", "linerate-benches", "--bin", "flood"]), BUILD)?;
    let mut readings = Readings::new();
    for round in 1..=arguments.rounds {
        for subject in Subject::ALL {
            let reading =
                read(arguments, subject).with_context(|| format!("no reading of {}", subject.title()))?;
            eprintln!(
                "round {round}, {}: {} of {} packets/s",
                subject.title(),
                reading.arrived,
                reading.sent
            );
            readings.entry(subject).or_default().push(reading);
        }
    }
    match arguments.output {
        Output::Table => print!("{}", table(&readings)),
        Output::Json => println!("{:#}", json(&readings)),
    }
    Ok(())
}

fn read(arguments: &SixtyFourArguments, subject: Subject) -> Result<Reading> {
    let folder = TempDir::with_prefix("linerate-bench-").context("no temporary folder")?;
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", LIMIT, "bash", "-c", SCRIPT]);
    command.env("SUBJECT", subject.name()).env("LINERATE", command::linerate());
    command.env("FLOOD", command::target().join("release/flood"));
    command
        .env("SWITCH_CPU", arguments.switch_cpu.to_string())
        .env("LOAD_CPU", arguments.load_cpu.to_string());
    command.env("SECONDS_EACH", arguments.seconds.to_string()).env("FOLDER", folder.path());
    let said = command::output(&mut command)?;
    parse(&said).with_context(|| format!("the script said {said:?}"))
}

fn parse(said: &str) -> Option<Reading> {
    let mut numbers = said.split_whitespace().map(str::parse);
    Some(Reading { arrived: numbers.next()?.ok()?, sent: numbers.next()?.ok()? })
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => numbers[middle],
        _ => f64::midpoint(numbers[middle - 1], numbers[middle]),
    }
}

/// Thousands of packets a second.
fn rate(readings: &Readings, subject: Subject, field: fn(&Reading) -> u64) -> f64 {
    median(readings.get(&subject).into_iter().flatten().map(|r| field(r) as f64 / 1e3).collect())
}

/// The median of the rounds' ratios: what was read in the same round is compared.
fn ratio(readings: &Readings, ours: Subject, theirs: Subject) -> f64 {
    let (Some(ours), Some(theirs)) = (readings.get(&ours), readings.get(&theirs)) else { return f64::NAN };
    median(ours.iter().zip(theirs).map(|(a, b)| a.arrived as f64 / b.arrived as f64).collect())
}

fn table(readings: &Readings) -> String {
    let mut text = format!("{:<28}{:>14}{:>14}\n", "64-byte frames, kpps", "forwarded", "offered");
    for subject in Subject::ALL {
        let (arrived, sent) = (rate(readings, subject, |r| r.arrived), rate(readings, subject, |r| r.sent));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:<28}{arrived:>14.0}{sent:>14.0}", subject.title());
    }
    for (ours, theirs, target) in PAIRS {
        let found = ratio(readings, ours, theirs);
        let word = if found >= target { "met" } else { "missed" };
        let _ = writeln!(text, "{} over {}: {found:.2}, target {target} {word}", ours.name(), theirs.name());
    }
    text
}

fn json(readings: &Readings) -> serde_json::Value {
    let rates: BTreeMap<_, _> = Subject::ALL
        .iter()
        .map(|&s| (s.name(), [rate(readings, s, |r| r.arrived), rate(readings, s, |r| r.sent)]))
        .collect();
    let ratios: Vec<_> = PAIRS
        .iter()
        .map(|&(a, b, target)| json!({"ours": a.name(), "theirs": b.name(), "ratio": ratio(readings, a, b), "target": target}))
        .collect();
    json!({"kpps": rates, "ratios": ratios})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings() -> Readings {
        let read =
            |arrived: &[u64]| arrived.iter().map(|&arrived| Reading { arrived, sent: 2_000_000 }).collect();
        [
            (Subject::Xdp, read(&[900_000, 800_000, 1_000_000])),
            (Subject::AfXdp, read(&[300_000, 500_000, 400_000])),
            (Subject::Packet, read(&[500_000; 3])),
            (Subject::System, read(&[250_000, 125_000, 250_000])),
        ]
        .into()
    }

    #[test]
    fn the_median_of_what_was_read_in_the_same_round_counts() {
        assert!((ratio(&readings(), Subject::Xdp, Subject::AfXdp) - 2.5).abs() < 1e-9);
        assert!((rate(&readings(), Subject::Xdp, |r| r.arrived) - 900.0).abs() < 1e-9);
    }

    #[test]
    fn the_table_says_which_targets_are_met() {
        let text = table(&readings());
        assert!(text.contains("xdp over afxdp: 2.50, target 2 met"), "{text}");
        assert!(text.contains("packet over system: 2.00, target 2 met"), "{text}");
    }

    #[test]
    fn two_numbers_are_a_reading_and_anything_else_is_none() {
        assert_eq!(parse("12 34\n").map(|r| (r.arrived, r.sent)), Some((12, 34)));
        assert!(parse("").is_none() && parse("12").is_none() && parse("a b").is_none());
    }
}
