//! `cargo xtask bench operations`: what operating a switch costs its traffic. Each row of the table is an operation of
//! one switch, taken by a script (`operations.sh`); packets are those of `linerate gen` at vhost-user ports.

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::comparison::{Column, Comparison, Goal, Pair};
use super::rounds::Values;
use super::{Options, script, word};
use crate::{command, packages};

const SCRIPT: &str = concat!(include_str!("hosts.sh"), include_str!("operations.sh"));
const HUGE_PAGES: u64 = 512;
const COLUMNS: [Column; 7] = [
    Column::new("sent", "sent", 0),
    Column::new("lost", "lost", 0),
    Column::new("gap_ms", "gap ms", 2),
    Column::new("cost", "cost", 3),
    Column::new("apply_ms", "apply ms", 2).at_most(20.0),
    Column::new("resident_mb", "own MB", 1).at_most(64.0),
    Column::new("shared_mb", "guests' MB", 1),
];
/// Numbers of the columns that are compared.
const GAP: usize = 2;
const COST: usize = 3;

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
    /// 64-byte frames of a port are captured, beside `ovs-tcpdump`: the share of the rate that is lost
    Capture,
    /// A file that changes one port among 64 is applied, under load at another port
    Apply,
    /// Resident memory with 64 connected ports under load: its own, and that of the guests that it has touched
    Memory,
}

/// How linerate is replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Replacement {
    /// It ends, and is started again
    #[default]
    Restart,
    /// `linerate upgrade`
    Upgrade,
}

/// Measures the chosen operations.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let options = &arguments.options;
    options.validate()?;
    let comparison = comparison(arguments);
    if comparison.huge_pages > 0 {
        packages::ensure(packages::PEERS)?;
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
            operation => word(&operation),
        };
        let ours = subjects.len();
        subjects.push(vec!["linerate".to_owned(), how]);
        let (column, goal) = match operation {
            Operation::Restart => (GAP, Goal::AtMost(0.01)),
            Operation::Capture => (COST, Goal::AtMost(1.0 / 3.0)),
            Operation::Apply | Operation::Memory => continue,
        };
        subjects.push(vec!["ovs".to_owned(), word(&operation)]);
        pairs.push(Pair { ours, theirs: ours + 1, column, goal: Some(goal) });
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
        assert_eq!(subjects.len(), 6);
        assert_eq!(pairs, ["linerate upgrade over ovs restart", "linerate capture over ovs"]);
        assert_eq!(names(&[Operation::Memory], Replacement::Restart).1, Vec::<String>::new());
    }

    #[test]
    fn a_reading_has_a_value_or_a_dash_for_each_column() {
        assert_eq!(parse("note\n9 0 1.5 - - - -\n").unwrap()[..4], [Some(9.0), Some(0.0), Some(1.5), None]);
        assert_eq!((parse("9 0\n"), parse("9 0 1.5 x - - -\n"), parse("")), (None, None, None));
    }
}
