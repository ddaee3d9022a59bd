//! `cargo xtask bench guests`: one TCP stream between two Linux guests in QEMU, over our switch and others in turn,
//! round by round, with the same network card in the guests. Each reading uses fresh guests and a fresh switch, in a
//! separate process (`tests/src/bin/guest_stream.rs`) that ends everything it has started.

use std::fmt;
use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::Output;
use super::progress::Progress;
use super::rounds::{self, Rounds};
use crate::command::{self, cargo};
use crate::hugepages::HugePages;
use crate::{kernel, packages};

const PROGRAM: &str = "guest_stream";
const BUILD: Duration = Duration::from_mins(30);
/// Timeout of a reading in seconds, boot of the guests included.
const LIMIT: &str = "180";
/// Number of huge pages for Open vSwitch; our switch needs none.
const HUGE_PAGES: u64 = 512;

/// Measurement parameters.
#[derive(Args, Clone, Debug)]
pub(crate) struct GuestsArguments {
    /// Number of rounds; the result is the median
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Duration of a reading in seconds, after a warm-up
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// Switches to measure [default: all]
    #[arg(long = "subject", value_enum)]
    subjects: Vec<Subject>,
    /// CPU of the sending guest, for all of its threads
    #[arg(long, default_value_t = 0)]
    sender_cpu: usize,
    /// CPU of the receiving guest, for all of its threads
    #[arg(long, default_value_t = 1)]
    receiver_cpu: usize,
    /// CPU of the switch
    #[arg(long, default_value_t = 0)]
    switch_cpu: usize,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// The connection between the guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Subject {
    /// Our switch over vhost-user with offloads
    Ours,
    /// Our switch over stream sockets
    OursStream,
    /// Open vSwitch with DPDK and default settings
    Ovs,
    /// Open vSwitch with DPDK and userspace-tso-enable
    OvsTso,
    /// No switch: QEMU's -netdev socket
    Socket,
}

impl Subject {
    const ALL: [Self; 5] = [Self::Ours, Self::Ovs, Self::OvsTso, Self::Socket, Self::OursStream];

    /// Name as an argument of the program.
    fn name(self) -> &'static str {
        match self {
            Subject::Ours => "ours",
            Subject::OursStream => "ours-stream",
            Subject::Ovs => "ovs",
            Subject::OvsTso => "ovs-tso",
            Subject::Socket => "socket",
        }
    }
}

impl rounds::Subject for Subject {
    fn title(self) -> &'static str {
        match self {
            Subject::Ours => "linerate, vhost-user",
            Subject::OursStream => "linerate, stream",
            Subject::Ovs => "Open vSwitch with DPDK",
            Subject::OvsTso => "Open vSwitch, TSO enabled",
            Subject::Socket => "QEMU -netdev socket",
        }
    }
}

/// Ratios to report: ours, theirs.
const PAIRS: [(Subject, Subject); 4] = [
    (Subject::Ours, Subject::Ovs),
    (Subject::Ours, Subject::OvsTso),
    (Subject::Ours, Subject::Socket),
    (Subject::OursStream, Subject::Socket),
];

/// A reading: received bits per second, and retransmitted segments.
#[derive(Clone, Copy, Debug)]
struct Reading {
    bits: f64,
    again: f64,
}

impl Reading {
    fn megabits(&self) -> f64 {
        self.bits / 1e6
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} Mbit/s, {} segments sent again", self.megabits(), self.again)
    }
}

/// Measures all subjects and prints each reading. At the end, or after an interruption, prints the table of the
/// readings so far.
pub(crate) fn guests(arguments: &GuestsArguments) -> Result<()> {
    if !command::is_root() {
        bail!("huge pages and the namespace of Open vSwitch are root's: run it as root");
    }
    let subjects =
        if arguments.subjects.is_empty() { Subject::ALL.to_vec() } else { arguments.subjects.clone() };
    packages::ensure(packages::GUESTS)?;
    kernel::ensure()?;
    command::build_linerate()?;
    let program = ["build", "--release", "--package", "linerate-tests", "--bin", PROGRAM];
    command::run(&cargo(&program), BUILD)?;
    let pages = HugePages::reserve(HUGE_PAGES)?;
    let progress = Progress::new(subjects.len() * arguments.rounds)?;
    eprintln!("{}", placed(arguments));
    let rounds = Rounds::take(arguments.rounds, &subjects, &progress, |subject| {
        let reading = read(arguments, subject);
        pages.sweep();
        reading
    })?;
    match arguments.output {
        Output::Table => print!("{}{}", table(&subjects, &rounds), placed(arguments) + "\n"),
        Output::Json => println!("{:#}", json(arguments, &subjects, &rounds)),
    }
    rounds.validate(&progress)
}

/// Description of the CPU placement.
fn placed(arguments: &GuestsArguments) -> String {
    let GuestsArguments { sender_cpu, receiver_cpu, switch_cpu, .. } = arguments;
    format!("placed: sender's QEMU on CPU {sender_cpu}, receiver's on {receiver_cpu}, switch on {switch_cpu}")
}

fn read(arguments: &GuestsArguments, subject: Subject) -> Result<Reading> {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", LIMIT]).arg(command::target().join("release").join(PROGRAM));
    command.arg(subject.name()).arg(arguments.seconds.to_string());
    for cpu in [arguments.sender_cpu, arguments.receiver_cpu, arguments.switch_cpu] {
        command.arg(cpu.to_string());
    }
    command.env("LINERATE_BIN", command::linerate()).env("LINERATE_KERNEL", kernel::folder());
    let said = command::output(&mut command)?;
    parse(&said).with_context(|| format!("{PROGRAM} said {said:?}"))
}

fn parse(said: &str) -> Option<Reading> {
    let mut numbers = said.split_whitespace().map(str::parse);
    Some(Reading { bits: numbers.next()?.ok()?, again: numbers.next()?.ok()? })
}

fn table(subjects: &[Subject], rounds: &Rounds<Subject, Reading>) -> String {
    let shown = |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |v| format!("{v:.digits$}"));
    let mut text =
        format!("{:<28}{:>8}{:>10}{:>12}\n", "TCP between guests", "rounds", "Mbit/s", "sent again");
    for &subject in subjects {
        let (title, number) = (rounds::Subject::title(subject), rounds.all(subject, Reading::megabits).len());
        let rate = shown(rounds.median(subject, Reading::megabits), 0);
        let again = shown(rounds.median(subject, |reading| reading.again), 0);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{title:<28}{number:>8}{rate:>10}{again:>12}");
    }
    for (ours, theirs) in pairs(subjects) {
        let ratio = shown(rounds.ratio(ours, theirs, Reading::megabits), 2);
        let mut each = rounds.ratios(ours, theirs, Reading::megabits);
        each.sort_by(f64::total_cmp);
        let each: Vec<_> = each.into_iter().map(|ratio| format!("{ratio:.2}")).collect();
        let _ = writeln!(text, "{} over {}: {ratio} ({})", ours.name(), theirs.name(), each.join(" "));
    }
    text
}

fn pairs(subjects: &[Subject]) -> impl Iterator<Item = (Subject, Subject)> + '_ {
    PAIRS.into_iter().filter(|(ours, theirs)| subjects.contains(ours) && subjects.contains(theirs))
}

fn json(arguments: &GuestsArguments, subjects: &[Subject], rounds: &Rounds<Subject, Reading>) -> Value {
    let rate = |&subject: &Subject| {
        let (all, median) =
            (rounds.all(subject, |reading| reading.bits), rounds.median(subject, |reading| reading.bits));
        json!({ "subject": subject.name(), "bits_per_second": median, "readings": all })
    };
    let ratio = |(ours, theirs): (Subject, Subject)| {
        json!({
            "ours": ours.name(),
            "theirs": theirs.name(),
            "ratio": rounds.ratio(ours, theirs, |reading| reading.bits),
            "ratios": rounds.ratios(ours, theirs, |reading| reading.bits),
        })
    };
    json!({
        "sender_cpu": arguments.sender_cpu,
        "receiver_cpu": arguments.receiver_cpu,
        "switch_cpu": arguments.switch_cpu,
        "rates": subjects.iter().map(rate).collect::<Vec<_>>(),
        "ratios": pairs(subjects).map(ratio).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds() -> Rounds<Subject, Reading> {
        let read = |bits: f64| Some(Reading { bits, again: 7.0 });
        let ours = vec![read(4e8), read(6e8), read(9e8)];
        Rounds::of([(Subject::Ours, ours), (Subject::Socket, vec![read(2e8), None, read(3e8)])])
    }

    #[test]
    fn the_table_has_a_line_for_each_subject_and_for_each_pair_that_was_measured() {
        let text = table(&[Subject::Ours, Subject::Socket], &rounds());
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.contains("linerate, vhost-user") && text.contains("600           7\n"), "{text}");
        assert!(text.ends_with("ours over socket: 2.50 (2.00 3.00)\n"), "{text}");
    }

    #[test]
    fn two_numbers_are_a_reading_and_anything_else_is_none() {
        assert_eq!(parse("12.5 3\n").map(|r| (r.bits, r.again)), Some((12.5, 3.0)));
        assert!(parse("").is_none() && parse("12").is_none() && parse("a b").is_none());
    }

    #[test]
    fn a_subject_without_a_reading_is_shown_without_a_rate() {
        let text = table(&[Subject::Ours, Subject::Ovs], &rounds());
        assert!(text.contains("ours over ovs: - ()"), "{text}");
    }
}
