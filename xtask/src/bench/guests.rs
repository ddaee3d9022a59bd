//! `cargo xtask bench guests`: one TCP stream between two Linux guests in QEMU, over our switch and others in turn,
//! with the same network card in the guests. Each reading uses fresh guests and a fresh switch, in a separate process
//! (`tests/src/bin/guest_stream.rs`) that ends everything it has started.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use super::comparison::{Column, Comparison, Pair};
use super::rounds::Values;
use super::{Options, word};
use crate::command::{self, cargo};
use crate::{kernel, packages};

const PROGRAM: &str = "guest_stream";
const BUILD: Duration = Duration::from_mins(30);
/// Time of a reading in seconds beside the stream itself, boot of the guests included.
const MORE: u32 = 175;
/// Number of huge pages for Open vSwitch; our switch needs none.
const HUGE_PAGES: u64 = 512;
const COLUMNS: [Column; 2] =
    [Column::new("mbit_per_second", "Mbit/s", 0), Column::new("retransmissions", "retransmissions", 0)];

/// Measurement parameters. The receiving guest is on `--guest-cpu`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Switches to measure [default: all]
    #[arg(long = "subject", value_enum)]
    subjects: Vec<Subject>,
    /// CPU of the sending guest, for all of its threads; the receiving guest is on `--guest-cpu`
    #[arg(long, default_value_t = 0)]
    sender_cpu: usize,
}

/// The connection between the guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// Our switch over vhost-user with offloads
    Ours,
    /// Open vSwitch with DPDK and default settings
    Ovs,
    /// Open vSwitch with DPDK and userspace-tso-enable
    OvsTso,
    /// No switch: QEMU's -netdev socket
    Socket,
    /// Our switch over stream sockets
    OursStream,
}

/// Ratios to report: ours, theirs.
const PAIRS: [(Subject, Subject); 4] = [
    (Subject::Ours, Subject::Ovs),
    (Subject::Ours, Subject::OvsTso),
    (Subject::Ours, Subject::Socket),
    (Subject::OursStream, Subject::Socket),
];

/// Measures all subjects.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let options = &arguments.options;
    options.validate()?;
    if !command::is_root() {
        bail!("huge pages and the namespace of Open vSwitch need root: run this as root");
    }
    packages::ensure(packages::GUESTS)?;
    kernel::ensure()?;
    command::build_linerate()?;
    let program = ["build", "--release", "--package", "linerate-tests", "--bin", PROGRAM];
    command::run(&cargo(&program), BUILD)?;
    let comparison = comparison(&arguments.subjects);
    comparison.run(options, |subject| read(arguments, &comparison.subjects[subject][0]))
}

fn comparison(chosen: &[Subject]) -> Comparison {
    let subjects = if chosen.is_empty() { Subject::value_variants() } else { chosen };
    let at = |subject| subjects.iter().position(|other| *other == subject);
    let pair = |(ours, theirs)| Some(Pair { ours: at(ours)?, theirs: at(theirs)?, column: 0, goal: None });
    Comparison {
        title: "linerate between guests in QEMU: ratios of TCP rates",
        labels: &["switch"],
        columns: &COLUMNS,
        subjects: subjects.iter().map(|subject| vec![word(subject)]).collect(),
        pairs: PAIRS.into_iter().filter_map(pair).collect(),
        huge_pages: HUGE_PAGES,
    }
}

fn read(arguments: &Arguments, subject: &str) -> Result<Values> {
    let Options { duration, switch_cpu, guest_cpu, .. } = arguments.options;
    let seconds = duration.as_secs_f64().ceil() as u32;
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", &(seconds + MORE).to_string()]);
    command.arg(command::target().join("release").join(PROGRAM)).args([subject, &seconds.to_string()]);
    command.args([arguments.sender_cpu, guest_cpu, switch_cpu].map(|cpu| cpu.to_string()));
    command.env("LINERATE_BIN", command::linerate()).env("LINERATE_KERNEL", kernel::folder());
    let said = command::output(&mut command)?;
    parse(&said).with_context(|| format!("{PROGRAM} printed {said:?}"))
}

/// Parses received bits per second and retransmitted segments.
fn parse(said: &str) -> Option<Values> {
    let mut numbers = said.split_whitespace().map(|word| word.parse::<f64>().ok());
    Some(vec![Some(numbers.next()?? / 1e6), Some(numbers.next()??)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_those_of_the_chosen_subjects() {
        let comparison = comparison(&[Subject::Ours, Subject::Socket]);
        let names: Vec<_> = comparison.pairs.iter().map(|pair| comparison.pair_name(pair)).collect();
        assert_eq!(names, ["ours over socket"]);
        assert_eq!(super::comparison(&[]).pairs.len(), PAIRS.len());
    }

    #[test]
    fn two_numbers_are_parsed_and_invalid_text_gives_none() {
        assert_eq!(parse("12.5e6 3\n"), Some(vec![Some(12.5), Some(3.0)]));
        assert!(parse("").is_none() && parse("12").is_none() && parse("a b").is_none());
    }
}
