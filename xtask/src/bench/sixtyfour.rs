//! `cargo xtask bench sixtyfour`: frames of 64 bytes between two veth pairs, over our `AF_XDP` and packet socket ports,
//! and over those of Open vSwitch. All four alternate, round by round, on the same CPUs: the switch on one, the load on
//! the other. A script (`sixtyfour.sh`) takes one reading.

use std::fmt;
use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use tempfile::TempDir;

use super::Output;
use super::progress::Progress;
use super::rounds::{self, Rounds};
use crate::command::{self, cargo};
use crate::packages;

const SCRIPT: &str = include_str!("sixtyfour.sh");
const BUILD: Duration = Duration::from_mins(30);
/// Timeout of a reading in seconds.
const LIMIT: &str = "90";

/// Measurement parameters.
#[derive(Args, Clone, Debug)]
pub(crate) struct SixtyFourArguments {
    /// Number of rounds; the result is the median
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Duration of a reading in seconds
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// CPU of the switches
    #[arg(long, default_value_t = 0)]
    switch_cpu: usize,
    /// CPU of the load
    #[arg(long, default_value_t = 1)]
    load_cpu: usize,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// A switch and its port kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Xdp,
    AfXdp,
    Packet,
    System,
}

impl Subject {
    const ALL: [Self; 4] = [Self::Xdp, Self::AfXdp, Self::Packet, Self::System];

    /// Name as an argument of the script.
    fn name(self) -> &'static str {
        match self {
            Subject::Xdp => "xdp",
            Subject::AfXdp => "afxdp",
            Subject::Packet => "packet",
            Subject::System => "system",
        }
    }
}

impl rounds::Subject for Subject {
    fn title(self) -> &'static str {
        match self {
            Subject::Xdp => "linerate, kind = \"af_xdp\"",
            Subject::AfXdp => "Open vSwitch, type=afxdp",
            Subject::Packet => "linerate, kind = \"af_packet\"",
            Subject::System => "Open vSwitch, type=system",
        }
    }
}

/// Ratios to report: ours, theirs, target.
const PAIRS: [(Subject, Subject, f64); 3] = [
    (Subject::Xdp, Subject::AfXdp, 2.0),
    (Subject::Packet, Subject::System, 2.0),
    (Subject::Xdp, Subject::System, 2.0),
];

/// A reading in packets per second.
#[derive(Clone, Copy, Debug)]
struct Reading {
    arrived: u64,
    sent: u64,
}

type Readings = Rounds<Subject, Reading>;

impl Reading {
    /// Received rate in kpps.
    fn forwarded(&self) -> f64 {
        self.arrived as f64 / 1e3
    }

    /// Sent rate in kpps.
    fn offered(&self) -> f64 {
        self.sent as f64 / 1e3
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} packets/s", self.arrived, self.sent)
    }
}

/// Measures, prints each reading and finally the table.
pub(crate) fn sixtyfour(arguments: &SixtyFourArguments) -> Result<()> {
    if !command::is_root() {
        bail!("network namespaces and AF_XDP need root: run it as root");
    }
    packages::ensure(packages::INTERFACES)?;
    command::build_linerate()?;
    command::run(&cargo(&["build", "--release", "--package", "linerate-benches", "--bin", "flood"]), BUILD)?;
    let progress = Progress::new(Subject::ALL.len() * arguments.rounds)?;
    let readings =
        Rounds::take(arguments.rounds, &Subject::ALL, &progress, |subject| read(arguments, subject))?;
    match arguments.output {
        Output::Table => print!("{}", table(&readings)),
        Output::Json => println!("{:#}", json(&readings)),
    }
    readings.validate(&progress)
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

/// A median, in kpps.
fn rate(readings: &Readings, subject: Subject, field: fn(&Reading) -> f64) -> f64 {
    readings.median(subject, field).unwrap_or(f64::NAN)
}

/// The median of the per-round ratios.
fn ratio(readings: &Readings, ours: Subject, theirs: Subject) -> f64 {
    readings.ratio(ours, theirs, Reading::forwarded).unwrap_or(f64::NAN)
}

fn table(readings: &Readings) -> String {
    let mut text = format!("{:<28}{:>14}{:>14}\n", "64-byte frames, kpps", "forwarded", "offered");
    for subject in Subject::ALL {
        let (arrived, sent) =
            (rate(readings, subject, Reading::forwarded), rate(readings, subject, Reading::offered));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:<28}{arrived:>14.0}{sent:>14.0}", rounds::Subject::title(subject));
    }
    for (ours, theirs, target) in PAIRS {
        let found = ratio(readings, ours, theirs);
        let word = if found >= target { "met" } else { "missed" };
        let _ = writeln!(text, "{} over {}: {found:.2}, target {target} {word}", ours.name(), theirs.name());
    }
    text
}

fn json(readings: &Readings) -> serde_json::Value {
    let rates: std::collections::BTreeMap<_, _> = Subject::ALL
        .iter()
        .map(|&s| (s.name(), [rate(readings, s, Reading::forwarded), rate(readings, s, Reading::offered)]))
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
        let read = |arrived: &[u64]| {
            arrived.iter().map(|&arrived| Some(Reading { arrived, sent: 2_000_000 })).collect()
        };
        Rounds::of([
            (Subject::Xdp, read(&[900_000, 800_000, 1_000_000])),
            (Subject::AfXdp, read(&[300_000, 500_000, 400_000])),
            (Subject::Packet, read(&[500_000; 3])),
            (Subject::System, read(&[250_000, 125_000, 250_000])),
        ])
    }

    #[test]
    fn the_median_of_what_was_read_in_the_same_round_counts() {
        assert!((ratio(&readings(), Subject::Xdp, Subject::AfXdp) - 2.5).abs() < 1e-9);
        assert!((rate(&readings(), Subject::Xdp, Reading::forwarded) - 900.0).abs() < 1e-9);
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
