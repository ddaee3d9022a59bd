//! `cargo xtask bench operations`: what operating a switch costs its traffic. Each row of the table is an operation of
//! one switch, taken by a script (`operations.sh`); packets are those of `linerate gen` at vhost-user ports.

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::comparison::{Column, Comparison, Goal, Pair};
use super::rounds::Values;
use super::{Options, script, word};
use crate::{command, packages};

const SCRIPT: &str =
    concat!(include_str!("hosts.sh"), include_str!("cycles.sh"), include_str!("operations.sh"));
const HUGE_PAGES: u64 = 512;
const COLUMNS: [Column; 13] = [
    Column::new("sent", "sent", 0),
    Column::new("lost", "lost", 0),
    Column::new("gap_ms", "gap ms", 2),
    Column::new("stop_ms", "stop ms", 2),
    Column::new("packet_ns", "ns", 1),
    Column::new("capture_ns", "capture ns", 1),
    Column::new("cycles_per_packet", "cycles", 0),
    Column::new("capture_cycles", "capture cycles", 0),
    Column::new("captured", "captured", 3),
    Column::new("ns_per_captured", "ns/captured", 0),
    Column::new("apply_ms", "apply ms", 2).at_most(20.0),
    Column::new("resident_mb", "own MB", 1).at_most(64.0),
    Column::new("shared_mb", "guests' MB", 1),
];
/// Numbers of the columns that are compared.
const GAP: usize = 2;
const CAPTURE_NS: usize = 5;
const CAPTURE_CYCLES: usize = 7;
const NS_PER_CAPTURED: usize = 9;

/// Measurement parameters.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Operations [default: all]
    #[arg(long = "operation", value_enum, num_args = 1..)]
    operations: Vec<Operation>,
    /// How linerate is replaced by a new process
    #[arg(long, value_enum, default_value_t)]
    ours: Replacement,
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Operation {
    /// The switch is replaced by a new process under load, beside a restart of Open vSwitch with DPDK
    Restart,
    /// As `restart`, with 64 connected ports; linerate only
    #[value(name = "restart-64")]
    Restart64,
    /// 64-byte frames of a port are captured, beside `ovs-tcpdump` and `dpdk-dumpcap`: time per packet
    Capture,
    /// As `capture`, at 1 Mpps: cycles per packet
    #[value(name = "capture-1mpps")]
    SteadyCapture,
    /// A file that changes one port among 64 is applied, under load at another port
    Apply,
    /// Resident memory with 64 connected ports under load: its own, and that of the guests that it has touched
    Memory,
}

/// How linerate is replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Replacement {
    /// `linerate upgrade`
    #[default]
    Upgrade,
    /// It ends, and is started again
    Restart,
}

/// Measures the chosen operations.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let options = &arguments.options;
    options.validate()?;
    let comparison = comparison(arguments);
    if comparison.huge_pages > 0 {
        packages::ensure(packages::PEERS)?;
        packages::ensure(packages::CAPTURE)?;
    }
    command::build_linerate()?;
    comparison.run(options, |subject| read(options, &comparison.subjects[subject]))
}

fn comparison(arguments: &Arguments) -> Comparison {
    let all = Operation::value_variants();
    let operations = if arguments.operations.is_empty() { all } else { &arguments.operations };
    let (mut subjects, mut pairs) = (Vec::new(), Vec::new());
    for &operation in operations {
        let how = match operation {
            Operation::Restart => word(&arguments.ours),
            Operation::Restart64 => word(&arguments.ours) + "-64",
            operation => word(&operation),
        };
        let ours = subjects.len();
        subjects.push(vec!["linerate".to_owned(), how]);
        for peer in peers(operation) {
            let pair = |&(column, goal)| Pair { ours, theirs: subjects.len(), column, goal: Some(goal) };
            pairs.extend(goals(operation).iter().map(pair));
            subjects.push(vec![(*peer).to_owned(), word(&operation)]);
        }
    }
    Comparison {
        title: "operations of switches: ratios of gaps and costs",
        labels: &["switch", "operation"],
        columns: &COLUMNS,
        huge_pages: if pairs.is_empty() { 0 } else { HUGE_PAGES },
        subjects,
        pairs,
    }
}

/// The other switches with this operation.
fn peers(operation: Operation) -> &'static [&'static str] {
    match operation {
        Operation::Restart => &["ovs"],
        Operation::Capture | Operation::SteadyCapture => &["ovs", "testpmd"],
        Operation::Restart64 | Operation::Apply | Operation::Memory => &[],
    }
}

/// Columns that are compared, with the goals of their ratios.
fn goals(operation: Operation) -> &'static [(usize, Goal)] {
    const THIRD: Goal = Goal::AtMost(1.0 / 3.0);
    match operation {
        Operation::Restart => &[(GAP, Goal::AtMost(0.01))],
        Operation::Capture => &[(CAPTURE_NS, THIRD), (NS_PER_CAPTURED, THIRD)],
        Operation::SteadyCapture => &[(CAPTURE_CYCLES, THIRD)],
        Operation::Restart64 | Operation::Apply | Operation::Memory => &[],
    }
}

fn read(options: &Options, subject: &[String]) -> Result<Values> {
    script::read(options, SCRIPT, &script::labelled(["SUBJECT", "OPERATION"], subject), parse)
}

/// Parses the last line: a number or `-` for each column.
fn parse(text: &str) -> Option<Values> {
    let words = text.lines().last()?.split_whitespace();
    let value = |word: &str| if word == "-" { Some(None) } else { word.parse().ok().map(Some) };
    let values: Values = words.map(value).collect::<Option<_>>()?;
    (values.len() == COLUMNS.len()).then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(operations: &[Operation], ours: Replacement) -> (Vec<String>, Vec<String>) {
        let options = Options::of_test(1);
        let comparison = comparison(&Arguments { options, operations: operations.to_vec(), ours });
        let subjects = (0..comparison.subjects.len()).map(|subject| comparison.name(subject)).collect();
        (subjects, comparison.pairs.iter().map(|pair| comparison.pair_name(pair)).collect())
    }

    #[test]
    fn operations_with_a_peer_are_compared_with_it() {
        let (subjects, pairs) = names(&[], Replacement::Upgrade);
        assert_eq!(subjects.len(), 11);
        let [ovs, testpmd] = ["linerate capture over ovs", "linerate capture over testpmd"];
        let steady = ["linerate capture-1mpps over ovs", "linerate capture-1mpps over testpmd"];
        let expected =
            ["linerate upgrade over ovs restart", ovs, ovs, testpmd, testpmd, steady[0], steady[1]];
        assert_eq!(pairs, expected);
        assert_eq!(names(&[Operation::Memory], Replacement::Restart).1, Vec::<String>::new());
        assert_eq!(names(&[Operation::Restart64], Replacement::default()).0, ["linerate upgrade-64"]);
    }

    #[test]
    fn a_reading_has_a_value_or_a_dash_for_each_column() {
        assert_eq!(
            parse("note\n9 0 1.5 - - - - - - - - - -\n").unwrap()[..4],
            [Some(9.0), Some(0.0), Some(1.5), None]
        );
        assert_eq!((parse("9 0\n"), parse("9 0 1.5 x - - - - - - - - -\n"), parse("")), (None, None, None));
    }
}
