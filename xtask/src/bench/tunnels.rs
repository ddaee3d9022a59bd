//! `cargo xtask bench tunnels`: frames of our generator into and out of a VXLAN tunnel of each switch in turn; measures
//! rate and busy cycles of the switch per packet. A script (`tunnels.sh`) takes one reading. The generator sends as
//! fast as it can, and where it is the limit, only the cycles compare the switches.

use anyhow::{Result, bail};
use clap::Args;

use super::comparison::{Column, Comparison, Goal, Pair};
use super::peers::{HUGE_PAGES, OURS, cycles_and_report};
use super::rounds::Values;
use super::{Options, script};
use crate::{command, packages};

const SCRIPT: &str = concat!(include_str!("hosts.sh"), include_str!("cycles.sh"), include_str!("tunnels.sh"));
const COLUMNS: [Column; 3] = [
    Column::new("mpps", "Mpps", 2),
    Column::new("cycles_per_packet", "cycles", 0),
    Column::new("sent_mpps", "sent Mpps", 2),
];
const OVS: &str = "ovs";

/// Measurement parameters.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,
}

/// Measures both directions with short and long frames.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let options = &arguments.options;
    options.validate()?;
    if options.duration.as_secs() < 2 {
        bail!("the script needs a second of each reading for itself: choose a --duration of at least 2s");
    }
    if !command::is_root() {
        bail!("network namespaces and huge pages need root: run this as root");
    }
    packages::ensure(packages::PEERS)?;
    command::build_linerate()?;
    let comparison = comparison();
    comparison.run(options, |subject| read(options, &comparison.subjects[subject]))
}

fn comparison() -> Comparison {
    let (mut subjects, mut pairs) = (Vec::new(), Vec::new());
    for work in ["encap", "decap"] {
        for size in ["64", "1514"] {
            let (ours, theirs) = (subjects.len(), subjects.len() + 1);
            subjects.extend([OURS, OVS].map(|switch| [work, size, switch].map(str::to_owned).to_vec()));
            pairs.push(Pair { ours, theirs, column: 0, goal: Some(Goal::AtLeast(3.0)) });
            pairs.push(Pair { ours, theirs, column: 1, goal: None });
        }
    }
    Comparison {
        title: "VXLAN: ratios of packet rates and of cycles per packet",
        labels: &["work", "size", "switch"],
        columns: &COLUMNS,
        subjects,
        pairs,
        huge_pages: HUGE_PAGES,
    }
}

fn read(options: &Options, subject: &[String]) -> Result<Values> {
    let variables = script::labelled(["WORK", "SIZE", "SUBJECT"], subject);
    script::read(options, SCRIPT, &variables, parse)
}

/// Parses the output of the script. Returns `None` if its format differs or no frame arrived.
pub(super) fn parse(text: &str) -> Option<Values> {
    let (cycles, report) = cycles_and_report(text)?;
    let mpps = |key: &str| report[key].as_f64().map(|rate| rate / 1e6);
    let received = mpps("received_pps").filter(|rate| *rate > 0.0)?;
    Some(vec![Some(received), cycles, mpps("sent_pps")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_the_script_is_parsed_as_a_reading() {
        let text = "cycles 250.5\n{\"received_pps\": 2500000.0, \"sent_pps\": 3000000.0}\n";
        assert_eq!(parse(text).unwrap(), [Some(2.5), Some(250.5), Some(3.0)]);
        assert_eq!(parse("cycles 9\n{\"received_pps\": 0.0, \"sent_pps\": 3.0}"), None);
    }

    #[test]
    fn both_directions_are_compared_with_open_vswitch() {
        let comparison = comparison();
        let names: Vec<_> = comparison.pairs.iter().map(|pair| comparison.pair_name(pair)).collect();
        assert_eq!((names.len(), names[6].as_str()), (8, "decap 1514 linerate over ovs"));
    }
}
