//! `cargo xtask bench neighbours`: a calm pair with an honest greedy neighbour and with each attacker, as ratios, for
//! each switch, ring kind and execution model. All combinations alternate in every round. A script (`neighbours.sh`)
//! takes one reading; `linerate guest --hostile` runs attacker and calm pair.

mod reading;
mod report;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use tempfile::TempDir;

use self::reading::Reading;
use super::Output;
use super::progress::Progress;
use super::rounds::{self, Rounds};
use crate::command;
use crate::hugepages::HugePages;
use crate::packages;

const SCRIPT: &str = concat!(include_str!("../hosts.sh"), include_str!("../neighbours.sh"));
const HUGE_PAGES: u64 = 512;
/// Additional time of a reading before its timeout, in seconds.
const MORE: f64 = 60.0;
/// Baseline of the attacks.
const HONEST: &str = "greedy";

/// Measurement parameters.
#[derive(Args, Clone, Debug)]
pub(crate) struct NeighboursArguments {
    /// Number of rounds; the result is the median
    #[arg(long, default_value_t = 3)]
    rounds: usize,
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
    /// Duration of each reading in seconds, once at full rate and once at 100 kpps
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// CPU of the switches
    #[arg(long, default_value_t = 0)]
    switch_cpu: usize,
    /// CPU of calm pair and attacker
    #[arg(long, default_value_t = 1)]
    guest_cpu: usize,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Also draw the ratios of rates into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// A ring kind of `linerate guest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Ring {
    Split,
    SplitInorder,
    Packed,
    PackedInorder,
}

/// An execution model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Model {
    /// One worker that receives, forwards and sends
    Inline,
    /// Three stages on one CPU
    Pipeline,
    /// One worker with stealable queues
    Stealing,
}

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Peer {
    /// linerate, built from this tree
    Linerate,
    /// Open vSwitch with DPDK, as a learning switch
    Ovs,
    /// DPDK's vhost library, forwarding port to port without look-up
    Testpmd,
}

/// A combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Case {
    peer: Peer,
    model: Model,
    ring: Ring,
    attack: &'static str,
    title: &'static str,
}

type Readings = Rounds<Case, Reading>;

impl rounds::Subject for Case {
    fn title(self) -> &'static str {
        self.title
    }
}

/// The value's name on the command line.
fn word(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

impl Case {
    fn new(peer: Peer, model: Model, ring: Ring, attack: &str) -> Self {
        let switch = if peer == Peer::Linerate { word(&model) } else { "-".to_owned() };
        let title = format!("{} {switch} {} {attack}", word(&peer), word(&ring));
        // Leaks a few hundred strings, which live as long as the program.
        Self { peer, model, ring, attack: attack.to_owned().leak(), title: title.leak() }
    }

    /// The same combination with the honest neighbour.
    fn honest(self, cases: &[Case]) -> Option<Case> {
        let same = |case: &&Case| (case.peer, case.model, case.ring) == (self.peer, self.model, self.ring);
        cases.iter().filter(same).find(|case| case.attack == HONEST).copied()
    }
}

/// Measures all combinations and prints each reading. At the end, or after an interruption, prints the table of the
/// readings so far.
pub(crate) fn neighbours(arguments: &NeighboursArguments) -> Result<()> {
    let others = arguments.peers.iter().any(|peer| *peer != Peer::Linerate);
    if others {
        packages::ensure(packages::PEERS)?;
    }
    command::build_linerate()?;
    let cases = cases(arguments)?;
    if let Some(file) = &arguments.svg {
        fs::write(file, "")
            .with_context(|| format!("cannot write {}: choose another --svg", file.display()))?;
    }
    let pages = others.then(|| HugePages::reserve(HUGE_PAGES)).transpose()?;
    let progress = Progress::new(cases.len() * arguments.rounds)?;
    let readings = Rounds::take(arguments.rounds, &cases, &progress, |case| {
        let reading = read(arguments, case);
        pages.iter().for_each(HugePages::sweep);
        reading
    })?;
    match arguments.output {
        Output::Table => print!("{}", report::table(&cases, &readings)),
        Output::Json => println!("{:#}", report::json(&cases, &readings)),
    }
    if let Some(file) = &arguments.svg {
        fs::write(file, report::svg(&cases, &readings))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    readings.validate(&progress)
}

/// All combinations; the honest neighbour comes first in each group.
fn cases(arguments: &NeighboursArguments) -> Result<Vec<Case>> {
    let known = known()?;
    let chosen = if arguments.attacks.is_empty() { &known } else { &arguments.attacks };
    if let Some(unknown) = chosen.iter().find(|name| !known.contains(name)) {
        bail!("no attack `{unknown}`: choose among {}", known.join(", "));
    }
    let rings = if arguments.rings.is_empty() { Ring::value_variants() } else { &arguments.rings };
    let mut cases = Vec::new();
    for &peer in &arguments.peers {
        let models = if peer == Peer::Linerate { &arguments.models[..] } else { &[Model::Inline] };
        for (&model, &ring) in models.iter().flat_map(|model| rings.iter().map(move |ring| (model, ring))) {
            let can = |name: &&str| *name != HONEST && (peer == Peer::Linerate || !is_own(name));
            let attacks = chosen.iter().map(String::as_str).filter(can);
            cases.extend([HONEST].into_iter().chain(attacks).map(|name| Case::new(peer, model, ring, name)));
        }
    }
    Ok(cases)
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

fn read(arguments: &NeighboursArguments, case: Case) -> Result<Reading> {
    let folder = TempDir::with_prefix("linerate-bench-").context("no temporary folder")?;
    let limit = (3.0 * arguments.seconds + MORE).ceil().to_string();
    let mut command = Command::new("timeout");
    let script = folder.path().join("neighbours.sh");
    fs::write(&script, SCRIPT).with_context(|| format!("cannot write {}", script.display()))?;
    command.args(["--kill-after=10", &limit, "bash"]).arg(script);
    command.env("SUBJECT", word(&case.peer)).env("ATTACK", case.attack);
    command.env("RING", word(&case.ring)).env("MODEL", word(&case.model));
    command.env("SECONDS_EACH", arguments.seconds.to_string());
    command.env("SWITCH_CPU", arguments.switch_cpu.to_string());
    command.env("GUEST_CPU", arguments.guest_cpu.to_string());
    command.env("LINERATE", command::linerate()).env("FOLDER", folder.path());
    let said = command::output(&mut command)?;
    Reading::parse(&said).with_context(|| format!("the guest said {said:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attacks_are_those_of_the_help() {
        let help = "      --ring <RING>\n          - split: x\n      --hostile <NAME>\n          Attack\n\n          \
                    Possible values:\n          - greedy:      64 B\n          - chains:      c: d\n      --anyway\n";
        assert_eq!(names(help).collect::<Vec<_>>(), ["greedy", "chains"]);
    }

    #[test]
    fn the_honest_neighbour_is_that_of_the_same_switch_ring_and_model() {
        let of = |ring, attack| Case::new(Peer::Ovs, Model::Inline, ring, attack);
        let cases = [of(Ring::Split, HONEST), of(Ring::Packed, HONEST), of(Ring::Packed, "chains")];
        assert_eq!(cases[2].honest(&cases), Some(cases[1]));
        assert_eq!(cases[2].title, "ovs - packed chains");
    }
}
