//! `cargo xtask bench peers`: one guest at each switch in turn; measures rate and busy cycles of the switch per packet.
//! Our guest is faster than DPDK's, so with it the rate is limited by the switch; with DPDK's guest the cycles are
//! compared. A script (`peers.sh`) takes one reading. The share of empty polls of our guest says whether the guest is
//! the limit: then it has hardly any.

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::comparison::{Column, Comparison, Goal, Pair};
use super::rounds::Values;
use super::{Options, Ring, script, word};
use crate::{command, packages};

const SCRIPT: &str = concat!(include_str!("hosts.sh"), include_str!("cycles.sh"), include_str!("peers.sh"));
pub(super) const HUGE_PAGES: u64 = 1024;
pub(super) const COLUMNS: [Column; 3] = [
    Column::new("mpps", "Mpps", 2),
    Column::new("cycles_per_packet", "cycles", 0),
    Column::new("guest_empty_polls", "guest's empty polls", 2),
];
pub(super) const OURS: &str = "linerate";

/// Measurement parameters.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Rings of the guest [default: split and packed-inorder]
    #[arg(long = "ring", value_enum)]
    rings: Vec<Ring>,
    /// Guest that is connected to every switch
    #[arg(long, value_enum, default_value_t)]
    guest: Guest,
    /// Frame sizes in bytes, without checksum [default: 64 and 1514]; with our guest also `mix`
    #[arg(long = "size", value_name = "BYTES", value_parser = size)]
    sizes: Vec<String>,
    /// Switches to compare with [default: all]
    #[arg(long = "peer", value_enum)]
    peers: Vec<Peer>,
}

/// The other switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Peer {
    /// DPDK's vhost library, forwarding port to port without look-up
    Testpmd,
    /// Open vSwitch with DPDK, as a learning switch
    Ovs,
}

/// The guest that is connected to every switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Guest {
    /// DPDK's testpmd over virtio-user, which saturates at about 16 Mpps
    #[default]
    Dpdk,
    /// `linerate guest`
    Own,
}

/// Parses a frame size as `linerate guest` does.
fn size(text: &str) -> Result<String, String> {
    let is_size = text == "mix" || text.parse::<u16>().is_ok_and(|bytes| (60..=2048).contains(&bytes));
    if is_size { Ok(text.to_owned()) } else { Err("expected 60 to 2048 bytes, or `mix`".to_owned()) }
}

/// Measures all combinations of rings, sizes and switches.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let options = &arguments.options;
    options.validate()?;
    if arguments.guest == Guest::Dpdk && arguments.sizes.iter().any(|size| size == "mix") {
        bail!("invalid value mix for --size: DPDK's guest sends frames of one size; add --guest own");
    }
    packages::ensure(packages::PEERS)?;
    command::build_linerate()?;
    let comparison = comparison(arguments);
    comparison.run(options, |subject| read(options, &comparison.subjects[subject]))
}

fn comparison(arguments: &Arguments) -> Comparison {
    let or = |given: &[String], default: [&str; 2]| {
        if given.is_empty() { default.map(str::to_owned).to_vec() } else { given.to_vec() }
    };
    let rings = or(&arguments.rings.iter().map(word).collect::<Vec<_>>(), ["split", "packed-inorder"]);
    let peers = or(&arguments.peers.iter().map(word).collect::<Vec<_>>(), ["testpmd", "ovs"]);
    let (mut subjects, mut pairs) = (Vec::new(), Vec::new());
    for ring in &rings {
        for size in &or(&arguments.sizes, ["64", "1514"]) {
            let subject =
                |switch: &str| vec![word(&arguments.guest), ring.clone(), size.clone(), switch.to_owned()];
            let ours = subjects.len();
            subjects.push(subject(OURS));
            for peer in &peers {
                let goal = |column| goal(arguments.guest, ring, size, peer, column);
                let pair = |column| Pair { ours, theirs: subjects.len(), column, goal: goal(column) };
                pairs.extend([0, 1].map(pair));
                subjects.push(subject(peer));
            }
        }
    }
    Comparison {
        title: "linerate beside its peers: ratios of packet rates and of cycles per packet",
        labels: &["guest", "ring", "size", "switch"],
        columns: &COLUMNS,
        subjects,
        pairs,
        huge_pages: HUGE_PAGES,
    }
}

/// Goals: of rates (column 0) with our guest, of cycles (column 1) with DPDK's.
fn goal(guest: Guest, ring: &str, size: &str, peer: &str, column: usize) -> Option<Goal> {
    match (guest, column) {
        (Guest::Own, 0) => match (peer, ring, size) {
            ("testpmd", "split", "64") => Some(3.0),
            ("testpmd", "packed-inorder", "64") => Some(2.0),
            ("ovs", "split", "64") => Some(5.5),
            ("ovs", "packed-inorder", "64") => Some(4.0),
            ("testpmd", _, "1514" | "mix") => Some(2.2),
            ("ovs", _, "1514" | "mix") => Some(3.5),
            _ => None,
        }
        .map(Goal::AtLeast),
        (Guest::Dpdk, 1) => match (peer, ring, size) {
            ("testpmd", "split", "64" | "1514") | ("ovs", "split", "1514") => Some(0.35),
            ("ovs", "split", "64") => Some(0.18),
            _ => None,
        }
        .map(Goal::AtMost),
        _ => None,
    }
}

fn read(options: &Options, subject: &[String]) -> Result<Values> {
    let variables = script::labelled(["GUEST", "RING", "SIZE", "SUBJECT"], subject);
    script::read(options, SCRIPT, &variables, parse)
}

/// Parses the output of a script: cycles per packet, if the switch reports them, and a report in JSON.
pub(super) fn cycles_and_report(text: &str) -> Option<(Option<f64>, Value)> {
    let (first, report) = text.split_once('\n')?;
    let cycles = first.strip_prefix("cycles ")?.trim().parse().ok().filter(|cycles| *cycles > 0.0);
    Some((cycles, serde_json::from_str(report).ok()?))
}

/// Parses the output of a script with the report of our guest. Returns `None` if its format differs.
pub(super) fn parse(text: &str) -> Option<Values> {
    let (cycles, report) = cycles_and_report(text)?;
    let devices = report["devices"].as_array()?;
    let sum = |field: &str| devices.iter().map(|device| device[field].as_f64()).sum::<Option<f64>>();
    let empty = sum("empty_polls").map(|sum| sum / devices.len() as f64);
    Some(vec![Some(sum("rx_mpps")?), cycles, empty])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_the_script_is_parsed_as_a_reading() {
        let device = |mpps, empty| format!("{{\"rx_mpps\": {mpps}, \"empty_polls\": {empty}}}");
        let text = format!("cycles 83.5\n{{\"devices\": [{}, {}]}}\n", device(10.5, 0.1), device(10.0, 0.3));
        assert_eq!(parse(&text).unwrap(), [Some(20.5), Some(83.5), Some(0.2)]);
        assert_eq!(parse("cycles 0\n{\"devices\": [{\"rx_mpps\": 7.5}]}").unwrap(), [Some(7.5), None, None]);
        assert_eq!(parse("no switch\n"), None);
    }

    #[test]
    fn each_peer_is_compared_with_our_switch_at_the_same_ring_and_size() {
        let options = Options::of_test(1);
        let rings = vec![Ring::Split];
        let arguments = Arguments { options, rings, guest: Guest::Own, sizes: Vec::new(), peers: Vec::new() };
        let comparison = comparison(&arguments);
        let names: Vec<_> = comparison.pairs.iter().map(|pair| comparison.pair_name(pair)).collect();
        assert_eq!((names.len(), names[6].as_str()), (8, "own split 1514 linerate over ovs"));
        assert_eq!(comparison.pairs[0].goal, Some(Goal::AtLeast(3.0)));
        assert_eq!(goal(Guest::Dpdk, "split", "64", "ovs", 1), Some(Goal::AtMost(0.18)));
    }
}
