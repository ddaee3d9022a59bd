//! `cargo xtask bench flows`: one guest at the flow tables of each switch in turn; measures rate and busy cycles of the
//! switch per packet. A script (`flows.sh`) takes one reading; it loads the flows by `ovs-ofctl`.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use super::comparison::{Comparison, Goal, Pair};
use super::peers::{COLUMNS, HUGE_PAGES, OURS, parse};
use super::rounds::Values;
use super::{Options, script, tunnels, word};
use crate::command::cargo;
use crate::{command, packages};

const SCRIPT: &str = concat!(include_str!("hosts.sh"), include_str!("cycles.sh"), include_str!("flows.sh"));
const OVS: &str = "ovs";
const BRIDGE: &str = "bridge";
const RATE: usize = 0;
const CYCLES: usize = 1;
/// Builds the program that writes rule sets.
const CLASSBENCH: [&str; 6] = ["build", "--release", "--package", "linerate-flow", "--example", "classbench"];
const BUILD: Duration = Duration::from_mins(30);
/// Flows of the rows with several masks.
const MASKED: u32 = 10_000;
/// Flows of each device of row new: more than it sends in a reading of [`LONGEST`].
const OPENED: u32 = 8_000_000;
const LONGEST: Duration = Duration::from_secs(3);

/// Measurement parameters.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Rows to measure [default: all]
    #[arg(long = "row", value_enum, value_delimiter = ',')]
    rows: Vec<Row>,
    /// Length of frames in bytes, except those of row rules, whose packets are headers only
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(64..=1518))]
    size: u16,
}

/// A group of subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Row {
    /// One flow for each port, beside our learning bridge and Open vSwitch
    One,
    /// 100, 10,000 and 1,000,000 flows with one mask, beside Open vSwitch
    Count,
    /// 10,000 flows over 1, 8, 32 and 128 masks, with equal shares, beside Open vSwitch
    Masks,
    /// The same, with the shares of Zipf's law with exponent 1.1
    Zipf,
    /// 100,000 flows of a firewall in the style of `ClassBench`, and as many different headers, beside Open vSwitch
    Rules,
    /// Packets of 100,000 tracked connections, beside Open vSwitch
    Tracked,
    /// Packets of which most open a tracked connection, beside Open vSwitch
    New,
}

/// Flows of each port, their masks and their shares.
#[derive(Clone, Copy, Debug)]
struct Load {
    flows: u32,
    masks: u32,
    shares: &'static str,
    /// Of the rate over Open vSwitch's.
    goal: f64,
}

impl Row {
    fn loads(self) -> Vec<Load> {
        let count = |(flows, goal)| Load { flows, masks: 1, shares: "uniform", goal };
        let masks = |shares| [1, 8, 32, 128].map(|masks| Load { flows: MASKED, masks, shares, goal: 4.0 });
        match self {
            Row::One => vec![count((1, 4.0))],
            Row::Count => [(100, 4.0), (10_000, 5.0), (1_000_000, 8.0)].map(count).into(),
            Row::Masks => masks("uniform").into(),
            Row::Zipf => masks("1.1").into(),
            Row::Rules => vec![Load { shares: "fw", ..count((100_000, 5.0)) }],
            Row::Tracked => vec![count((100_000, 3.0))],
            Row::New => vec![count((OPENED, 3.0))],
        }
    }

    fn subject(self, load: &Load, switch: &str) -> Vec<String> {
        let Load { flows, masks, shares, .. } = load;
        vec![word(&self), flows.to_string(), masks.to_string(), (*shares).to_owned(), switch.to_owned()]
    }
}

/// Measures all subjects of the rows.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let options = &arguments.options;
    options.validate()?;
    if (arguments.rows.is_empty() || arguments.rows.contains(&Row::New)) && options.duration > LONGEST {
        bail!("row new has flows for {LONGEST:?}: choose a shorter --duration, or other rows with --row");
    }
    packages::ensure(packages::PEERS)?;
    command::build_linerate()?;
    command::run(&cargo(&CLASSBENCH), BUILD)?;
    let comparison = comparison(&arguments.rows);
    comparison.run(options, |subject| read(arguments, &comparison.subjects[subject]))
}

fn comparison(rows: &[Row]) -> Comparison {
    let rows = if rows.is_empty() { Row::value_variants() } else { rows };
    let (mut subjects, mut pairs) = (Vec::new(), Vec::new());
    for row in rows {
        let first = subjects.len();
        for load in row.loads() {
            let ours = subjects.len();
            subjects.extend([OURS, OVS].map(|switch| row.subject(&load, switch)));
            let theirs = ours + 1;
            pairs.push(Pair { ours, theirs, column: RATE, goal: Some(Goal::AtLeast(load.goal)) });
            pairs.push(Pair { ours, theirs, column: CYCLES, goal: None });
            if load.masks > 1 {
                // No cliff: the rate of one mask is the measure.
                pairs.push(Pair { ours, theirs: first, column: RATE, goal: Some(Goal::AtLeast(0.5)) });
            }
            if *row == Row::One {
                subjects.push(row.subject(&load, BRIDGE));
                let theirs = subjects.len() - 1;
                pairs.push(Pair { ours, theirs, column: CYCLES, goal: Some(Goal::AtMost(1.3)) });
            }
        }
    }
    Comparison {
        title: "flow tables: ratios of packet rates and of cycles per packet",
        labels: &["row", "flows", "masks", "shares", "switch"],
        columns: &COLUMNS,
        subjects,
        pairs,
        huge_pages: HUGE_PAGES,
    }
}

fn read(arguments: &Arguments, subject: &[String]) -> Result<Values> {
    let mut variables = script::labelled(["ROW", "FLOWS", "MASKS", "SHARES", "SUBJECT"], subject);
    let classbench = command::target().join("release/examples/classbench").display().to_string();
    variables.push(("CLASSBENCH", &classbench));
    let size = arguments.size.to_string();
    variables.push(("SIZE", &size));
    let is_generated = subject.first() == Some(&word(&Row::Rules));
    script::read(&arguments.options, SCRIPT, &variables, if is_generated { parse_generated } else { parse })
}

/// The report of the generator, which counts no polls.
fn parse_generated(text: &str) -> Option<Values> {
    let values = tunnels::parse(text)?;
    Some(vec![values[RATE], values[CYCLES], None])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_compared_with_open_vswitch_the_bridge_and_one_mask() {
        let comparison = comparison(&[]);
        let names: Vec<_> = comparison.pairs.iter().map(|pair| comparison.pair_name(pair)).collect();
        let has = |name: &str| names.iter().filter(|other| *other == name).count();
        assert_eq!(has("one 1 1 uniform linerate over bridge"), 1, "{names:?}");
        assert_eq!(has("count 1000000 1 uniform linerate over ovs"), 2);
        assert_eq!(has("zipf 10000 128 1.1 linerate over 1"), 1);
        assert_eq!(has("new 8000000 1 uniform linerate over ovs"), 2);
        assert_eq!(comparison.pairs.len(), 3 + 6 + 2 * (4 * 2 + 3) + 3 * 2);
    }
}
