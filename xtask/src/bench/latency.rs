//! `cargo xtask bench latency`: frames of our generator at a fixed rate through a flow table; measures latency and
//! loss. At half of the highest rate that Open vSwitch forwards without loss, or another share of it, both switches are
//! compared. At a moderate rate, our switch is compared with itself while 100,000 and 1,000,000 flows are added, and
//! while a controller gets a copy of each packet. A script (`latency.sh`) takes one reading.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use super::comparison::{Column, Comparison, Goal, Pair};
use super::peers::{HUGE_PAGES, OURS};
use super::rounds::Values;
use super::{Options, script};
use crate::command::cargo;
use crate::hugepages::HugePages;
use crate::{command, packages};

const SCRIPT: &str = concat!(include_str!("hosts.sh"), include_str!("latency.sh"));
const OVS: &str = "ovs";
/// Builds the program that adds flows.
const ADD_FLOWS: [&str; 6] =
    ["build", "--release", "--package", "linerate-openflow", "--example", "add_flows"];
const BUILD: Duration = Duration::from_mins(30);
/// Least duration of a reading, in which most of 100,000 flows are added.
const CHANGING: Duration = Duration::from_secs(3);
const COLUMNS: [Column; 4] = [
    Column::new("p99_us", "p99 in us", 1),
    Column::new("p50_us", "p50 in us", 1),
    Column::new("lost", "lost", 0).at_most(0.0),
    // Flows that were added, or packets that the controller got.
    Column::new("changes_per_second", "changes/s", 0),
];

/// Measurement parameters.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Packets per second of both switches [default: the share of the rate that Open vSwitch forwards without loss]
    #[arg(long, value_name = "PPS")]
    rate: Option<u64>,
    /// Share of the rate that Open vSwitch forwards without loss
    #[arg(long, default_value_t = 0.5, conflicts_with = "rate")]
    share: f64,
    /// Length of frames in bytes
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(64..=1518))]
    size: u16,
    /// Only the comparison with Open vSwitch
    #[arg(long)]
    calm: bool,
    /// Packets per second while flows are added, and beside it
    #[arg(long, value_name = "PPS", default_value_t = 100_000)]
    changing_rate: u64,
}

/// Measures both comparisons.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let options = &arguments.options;
    options.validate()?;
    if options.duration < CHANGING {
        bail!("the flows are added within {CHANGING:?}: choose a --duration of at least that");
    }
    if !command::is_root() {
        bail!("huge pages need root: run this as root");
    }
    packages::ensure(packages::PEERS)?;
    command::build_linerate()?;
    command::run(&cargo(&ADD_FLOWS), BUILD)?;
    if !(0.01..=1.5).contains(&arguments.share) {
        bail!("invalid value {} for --share: expected 0.01 to 1.5", arguments.share);
    }
    let rate = arguments.rate.map_or_else(|| search(arguments), Ok)?;
    let changing_rate = if arguments.calm { None } else { Some(arguments.changing_rate) };
    let comparison = comparison(rate, changing_rate);
    comparison.run(options, |subject| read(arguments, &comparison.subjects[subject]))
}

/// The share of the highest rate that Open vSwitch forwards without loss.
fn search(arguments: &Arguments) -> Result<u64> {
    let _reserved = HugePages::reserve(HUGE_PAGES)?;
    let size = arguments.size.to_string();
    let variables = [("WORK", "ndr"), ("SUBJECT", OVS), ("SIZE", size.as_str())];
    let said = script::run(&arguments.options, SCRIPT, &variables)?;
    let found: u64 = said.trim().parse().with_context(|| format!("the script printed {said:?}"))?;
    eprintln!("Open vSwitch forwards {found} packets per second without loss");
    Ok((found as f64 * arguments.share) as u64)
}

fn comparison(rate: u64, changing_rate: Option<u64>) -> Comparison {
    let subject =
        |work: &str, rate: u64, switch: &str| vec![work.to_owned(), rate.to_string(), switch.to_owned()];
    let mut subjects = vec![subject("calm", rate, OURS), subject("calm", rate, OVS)];
    let pair = |ours, theirs, goal| Pair { ours, theirs, column: 0, goal: Some(Goal::AtMost(goal)) };
    let mut pairs = vec![pair(0, 1, 0.5)];
    if let Some(rate) = changing_rate {
        subjects.extend(["calm", "changes", "load", "punts"].map(|work| subject(work, rate, OURS)));
        pairs.extend([3, 4, 5].map(|ours| pair(ours, 2, 2.0)));
    }
    Comparison {
        title: "flow tables: ratios of the 99th percentile of latency",
        labels: &["work", "pps", "switch"],
        columns: &COLUMNS,
        subjects,
        pairs,
        huge_pages: HUGE_PAGES,
    }
}

fn read(arguments: &Arguments, subject: &[String]) -> Result<Values> {
    let mut variables = script::labelled(["WORK", "RATE", "SUBJECT"], subject);
    let add_flows = command::target().join("release/examples/add_flows").display().to_string();
    variables.push(("ADD_FLOWS", &add_flows));
    let size = arguments.size.to_string();
    variables.push(("SIZE", &size));
    script::read(&arguments.options, SCRIPT, &variables, parse)
}

/// Parses the output of the script. Returns `None` if its format differs.
fn parse(text: &str) -> Option<Values> {
    let (changes, report) = text.split_once('\n')?;
    let changes = changes.parse().ok().filter(|changes| *changes > 0.0);
    let report: Value = serde_json::from_str(report).ok()?;
    let latency = |key: &str| report["streams"][0]["latency_ns"][key].as_f64().map(|ns| ns / 1e3);
    Some(vec![Some(latency("p99")?), latency("p50"), Some(report["lost"].as_f64()?), changes])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_the_script_is_parsed_as_a_reading() {
        let report = r#"{"lost": 2, "streams": [{"latency_ns": {"p50": 8000, "p99": 12500}}]}"#;
        assert_eq!(
            parse(&format!("70000\n{report}")).unwrap(),
            [Some(12.5), Some(8.0), Some(2.0), Some(70000.0)]
        );
        assert_eq!(parse(&format!("0\n{report}")).unwrap()[3], None);
        assert_eq!(parse("0\n{}"), None);
    }

    #[test]
    fn both_switches_and_our_own_while_flows_change_are_compared() {
        let comparison = comparison(2_000_000, Some(100_000));
        let names: Vec<_> = comparison.pairs.iter().map(|pair| comparison.pair_name(pair)).collect();
        assert_eq!(
            names,
            [
                "calm 2000000 linerate over ovs",
                "changes 100000 linerate over calm",
                "load 100000 linerate over calm",
                "punts 100000 linerate over calm"
            ]
        );
    }
}
