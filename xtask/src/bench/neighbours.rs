//! `cargo xtask bench neighbours`: a calm pair with an honest greedy neighbour and with each attacker, as ratios, for
//! each switch, ring kind and execution model. A script (`neighbours.sh`) takes one reading; `linerate guest --hostile`
//! runs attacker and calm pair.

use std::process::Command;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::comparison::{Column, Comparison, Goal, Pair};
use super::rounds::Values;
use super::{Options, Ring, script, word};
use crate::{command, packages};

const SCRIPT: &str = concat!(include_str!("hosts.sh"), include_str!("neighbours.sh"));
const HUGE_PAGES: u64 = 512;
/// Baseline of the attacks.
const HONEST: &str = "greedy";
const COLUMNS: [Column; 9] = [
    Column::new("mpps", "Mpps", 3),
    Column::new("p50_us", "p50 us", 1),
    Column::new("p99_us", "p99 us", 1),
    // The median of a round and a half without theft.
    Column::new("stolen", "stolen", 0).at_most(0.5),
    Column::new("silence_ms", "silence ms", 1).at_most(5.0),
    Column::new("own_stall_ms", "own stall ms", 1),
    Column::new("attacks", "attacks", 0),
    Column::new("refused", "refused", 0),
    Column::new("attacker_share", "share", 2),
];
/// Goals relative to the honest neighbour, by column: rate and p99.
const GOALS: [(usize, Goal); 2] = [(0, Goal::AtLeast(0.5)), (2, Goal::AtMost(2.0))];

/// Measurement parameters.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Attacks: see `linerate guest --help` [default: all]
    #[arg(long = "attack", value_name = "NAME", num_args = 1..)]
    attacks: Vec<String>,
    /// Ring kinds of all guests [default: all]
    #[arg(long = "ring", value_enum, num_args = 1..)]
    rings: Vec<Ring>,
    /// Execution models of linerate
    #[arg(long = "model", value_enum, num_args = 1.., default_values = ["inline"])]
    models: Vec<Model>,
    /// Switches
    #[arg(long = "peer", value_enum, num_args = 1.., default_values = ["linerate", "ovs", "testpmd"])]
    peers: Vec<Peer>,
}

/// An execution model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Model {
    /// One worker that receives, forwards and sends
    Inline,
    /// Three stages on one CPU
    Pipeline,
    /// One worker with stealable queues
    Stealing,
}

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Peer {
    /// linerate, built from this tree
    Linerate,
    /// Open vSwitch with DPDK, as a learning switch
    Ovs,
    /// DPDK's vhost library, forwarding port to port without look-up
    Testpmd,
}

/// Measures all combinations.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let options = &arguments.options;
    options.validate()?;
    if arguments.peers.iter().any(|peer| *peer != Peer::Linerate) {
        packages::ensure(packages::PEERS)?;
    }
    command::build_linerate()?;
    let comparison = comparison(arguments, &known()?)?;
    comparison.run(options, |subject| read(options, &comparison.subjects[subject]))
}

/// All combinations; the honest neighbour comes first in each group.
fn comparison(arguments: &Arguments, known: &[String]) -> Result<Comparison> {
    let chosen = if arguments.attacks.is_empty() { known } else { &arguments.attacks };
    if let Some(unknown) = chosen.iter().find(|name| !known.contains(name)) {
        bail!("invalid value `{unknown}` for --attack: expected {}", known.join(", "));
    }
    let rings = if arguments.rings.is_empty() { Ring::value_variants() } else { &arguments.rings };
    let (mut subjects, mut pairs) = (Vec::new(), Vec::new());
    for &peer in &arguments.peers {
        let models = if peer == Peer::Linerate { &arguments.models[..] } else { &[Model::Inline] };
        for (model, ring) in models.iter().flat_map(|model| rings.iter().map(move |ring| (model, ring))) {
            let model = if peer == Peer::Linerate { word(model) } else { "-".to_owned() };
            let theirs = subjects.len();
            let can = |name: &&str| *name != HONEST && (peer == Peer::Linerate || !is_own(name));
            for attack in [HONEST].into_iter().chain(chosen.iter().map(String::as_str).filter(can)) {
                let pair = |(column, goal)| Pair { ours: subjects.len(), theirs, column, goal: Some(goal) };
                pairs.extend(GOALS.map(pair).into_iter().filter(|pair| pair.ours != theirs));
                subjects.push(vec![word(&peer), model.clone(), word(ring), attack.to_owned()]);
            }
        }
    }
    Ok(Comparison {
        title: "a calm pair beside an attacker: ratios to an honest neighbour",
        labels: &["switch", "model", "ring", "attack"],
        columns: &COLUMNS,
        subjects,
        pairs,
        huge_pages: if arguments.peers == [Peer::Linerate] { 0 } else { HUGE_PAGES },
    })
}

/// Whether an attack needs a port kind that is measured with linerate only.
fn is_own(attack: &str) -> bool {
    ["memif-", "stream-", "backend-"].iter().any(|kind| attack.starts_with(kind))
}

/// The attacks that `linerate guest` supports.
fn known() -> Result<Vec<String>> {
    let mut guest = Command::new(command::linerate());
    let help = command::output(guest.args(["guest", "--help"]))?;
    let names: Vec<_> = names(&help).collect();
    if names.is_empty() {
        bail!("{} knows no attack", command::linerate().display());
    }
    Ok(names)
}

/// The possible values of `--hostile` in the help text.
fn names(help: &str) -> impl Iterator<Item = String> + '_ {
    let lines = help.lines().skip_while(|line| !line.trim_start().starts_with("--hostile "));
    let options = lines.skip(1).take_while(|line| !line.trim_start().starts_with("--"));
    options.filter_map(|line| Some(line.trim_start().strip_prefix("- ")?.split_once(':')?.0.to_owned()))
}

fn read(options: &Options, subject: &[String]) -> Result<Values> {
    let variables = script::labelled(["SUBJECT", "MODEL", "RING", "ATTACK"], subject);
    script::read(options, SCRIPT, &variables, parse)
}

/// Parses the JSON report of `linerate guest --hostile`. Returns `None` if its format differs. Silence that stalls of
/// the guests' own thread explain is left out.
fn parse(text: &str) -> Option<Values> {
    let report: Value = serde_json::from_str(text).ok()?;
    let (fast, paced) = (&report["calm"]["fast"], &report["calm"]["paced"]);
    let number = |phase: &Value, key: &str| phase[key].as_f64();
    let most = |key: &str| Some(number(fast, key)?.max(number(paced, key)?));
    let (silence, stall) = (most("longest_silence_ns")? / 1e6, most("longest_stall_ns")? / 1e6);
    let devices = report["devices"].as_array()?;
    let values = [
        number(fast, "received_mpps")?,
        number(paced, "p50_ns")? / 1e3,
        number(paced, "p99_ns")? / 1e3,
        number(paced, "stolen")?,
        (silence - stall).max(0.0),
        stall,
        number(fast, "attacker_sent")? + number(paced, "attacker_sent")?,
        devices.iter().filter_map(|device| device["refused"].as_f64()).sum(),
        most("attacker_share")?,
    ];
    Some(values.map(Some).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn attack_names_are_parsed_from_the_help_text() {
        let help = "      --ring <RING>\n          - split: x\n      --hostile <NAME>\n          Attack\n\n          \
                    Possible values:\n          - greedy:      64 B\n          - chains:      c: d\n      --anyway\n";
        assert_eq!(names(help).collect::<Vec<_>>(), ["greedy", "chains"]);
    }

    #[test]
    fn an_attack_is_compared_with_the_honest_neighbour_of_the_same_switch_ring_and_model() {
        let arguments = Arguments {
            options: Options::of_test(1),
            attacks: Vec::new(),
            rings: vec![Ring::Split, Ring::Packed],
            models: vec![Model::Stealing],
            peers: vec![Peer::Linerate, Peer::Ovs],
        };
        let known = ["greedy", "chains", "memif-long"].map(str::to_owned);
        let comparison = comparison(&arguments, &known).unwrap();
        let names: Vec<_> = comparison.pairs.iter().map(|pair| comparison.pair_name(pair)).collect();
        assert_eq!((names.len(), comparison.subjects.len()), (12, 10));
        assert_eq!(names[4], "linerate stealing packed chains over greedy");
        assert_eq!(names[10], "ovs - packed chains over greedy");
        let unknown = Arguments { attacks: vec!["none".to_owned()], ..arguments };
        assert!(super::comparison(&unknown, &known).is_err());
    }

    #[test]
    fn report_is_parsed_and_invalid_text_gives_none() {
        let phase = |silence: u64| {
            json!({ "received_mpps": 2.0, "p50_ns": 1000, "p99_ns": 3000, "stolen": 1, "longest_silence_ns": silence,
                "longest_stall_ns": 1_000_000, "attacker_sent": 5, "attacker_share": 0.25 })
        };
        let report = json!({
            "calm": { "fast": phase(7_000_000), "paced": phase(2_000_000) },
            "devices": [{ "refused": 2 }, { "refused": 1 }],
        });
        let values: Vec<_> = parse(&report.to_string()).unwrap().into_iter().flatten().collect();
        assert_eq!(values, [2.0, 1.0, 3.0, 1.0, 6.0, 1.0, 10.0, 3.0, 0.25]);
        assert_eq!((parse("{}"), parse("")), (None, None));
    }
}
