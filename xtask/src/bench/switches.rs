//! `cargo xtask bench peers`: one guest at each switch in turn; measures rate and busy cycles of the switch per packet.
//! Our guest is faster than DPDK's, so with it the rate is limited by the switch; with DPDK's guest the cycles are
//! compared. A script (`switches.sh`) takes one reading. The distance of the two CPUs is measured before and after each
//! reading, and readings of each class of distances are reported separately. The share of empty polls of our guest says
//! whether the guest is the limit: then it hardly has any.

use std::fmt;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::distance::{self, Class, Distance};
use super::picture::Bar;
use super::progress::Progress;
use super::report::median;
use super::rounds::{self, Rounds};
use super::{Guest, Output, Peer, PeersArguments, Ring};
use crate::command;
use crate::hugepages::HugePages;

const SCRIPT: &str = concat!(include_str!("dpdk.sh"), include_str!("hosts.sh"), include_str!("switches.sh"));
/// Duration of a reading in seconds, and additional time before its timeout.
const SECONDS: u64 = 3;
const MORE: u64 = 60;

/// A switch with a ring and a frame size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Case {
    ring: &'static str,
    size: &'static str,
    guest: Guest,
    /// The switch; ours sorts first.
    switch: Switch,
    title: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Switch {
    Linerate,
    Testpmd,
    Ovs,
}

impl Switch {
    fn name(self) -> &'static str {
        match self {
            Switch::Linerate => "linerate",
            Switch::Testpmd => "testpmd",
            Switch::Ovs => "ovs",
        }
    }
}

impl rounds::Subject for Case {
    fn title(self) -> &'static str {
        self.title
    }
}

/// A reading.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reading {
    /// Frames received by both devices, in Mpps.
    mpps: f64,
    /// Busy cycles of the switch per packet, if reported.
    cycles: Option<f64>,
    /// Share of our guest's polls that found no packet.
    guest_idle: Option<f64>,
    /// Distance of the two CPUs, before and after.
    distances: [Distance; 2],
}

impl Reading {
    /// Parses the output of the script. Returns `None` if its format differs.
    fn parse(text: &str, distances: [Distance; 2]) -> Option<Self> {
        let (first, report) = text.split_once('\n')?;
        let cycles = first.strip_prefix("cycles ")?.trim().parse().ok().filter(|cycles| *cycles > 0.0);
        let report: Value = serde_json::from_str(report).ok()?;
        let devices = report["devices"].as_array()?;
        let sum = |field: &str| devices.iter().map(|device| device[field].as_f64()).sum::<Option<f64>>();
        let guest_idle = sum("empty_polls").map(|sum| sum / devices.len() as f64);
        Some(Self { mpps: sum("rx_mpps")?, cycles, guest_idle, distances })
    }

    /// The class of the greater distance: the CPUs may have moved during the reading.
    fn class(&self) -> Class {
        self.distances.map(Distance::class).into_iter().fold(Class::Near, Class::max)
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [before, after] = self.distances;
        let cycles = self.cycles.map_or("-".to_owned(), |cycles| format!("{cycles:.0}"));
        write!(f, "{:.2} Mpps, {cycles} cycles, distance {:.0} and {:.0} ns", self.mpps, before.0, after.0)
    }
}

/// Results for the caller to print and draw; empty if there are no combinations.
#[derive(Default)]
pub(super) struct Measured {
    /// Bars of the picture.
    pub(super) bars: Vec<Bar>,
    /// Rows of the JSON output.
    pub(super) rows: Vec<Value>,
}

/// Measures all combinations in turn, round by round, and prints a table of medians by class of distances.
pub(super) fn run(arguments: &PeersArguments, pages: u64) -> Result<Measured> {
    let cases = cases(arguments);
    if cases.is_empty() {
        return Ok(Measured::default());
    }
    let pages = HugePages::reserve(pages)?;
    let progress = Progress::new(cases.len() * arguments.rounds)?;
    let readings = Rounds::take(arguments.rounds, &cases, &progress, |case| {
        let reading = read(arguments, case);
        pages.sweep();
        reading
    })?;
    let rows: Vec<_> = Class::ALL.into_iter().flat_map(|class| rows(&cases, &readings, class)).collect();
    if arguments.output == Output::Table {
        print!("{}", table(&rows));
    }
    let measured = Measured {
        bars: rows.iter().filter_map(Row::bar).collect(),
        rows: rows.iter().map(Row::json).collect(),
    };
    if let Err(error) = readings.validate(&progress) {
        super::print_json(arguments, measured.rows);
        return Err(error);
    }
    Ok(measured)
}

fn cases(arguments: &PeersArguments) -> Vec<Case> {
    let peer = |peer: &Peer| match peer {
        Peer::Testpmd => Some(Switch::Testpmd),
        Peer::Ovs => Some(Switch::Ovs),
        Peer::TestpmdLoop => None,
    };
    let peers: Vec<_> = arguments.against.iter().filter_map(peer).collect();
    if peers.is_empty() {
        return Vec::new();
    }
    let switches: Vec<_> = std::iter::once(Switch::Linerate).chain(peers).collect();
    let mut cases = Vec::new();
    for ring in arguments.rings.iter().filter(|ring| !ring.is_memif()) {
        for size in &arguments.sizes {
            // Leaks a few strings, which live as long as the program.
            let size: &'static str = size.clone().leak();
            let ring = ours(*ring);
            let case = |switch: &Switch| {
                let title = format!("{} {ring} {size} B", switch.name()).leak();
                Case { ring, size, guest: arguments.guest, switch: *switch, title }
            };
            cases.extend(switches.iter().map(case));
        }
    }
    cases
}

/// Name of the ring as an argument of `linerate guest`.
pub(super) fn ours(ring: Ring) -> &'static str {
    if ring == Ring::PackedVec { "packed-inorder" } else { ring.name() }
}

fn read(arguments: &PeersArguments, case: Case) -> Result<Reading> {
    let (host, guest) = (arguments.host_cpu, arguments.guest_cpu);
    let before = distance::wait_while_far(host, guest)?;
    let folder = TempDir::with_prefix("linerate-bench-").context("no temporary folder")?;
    let script = folder.path().join("switches.sh");
    fs::write(&script, SCRIPT).with_context(|| format!("cannot write {}", script.display()))?;
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", &(SECONDS + MORE).to_string(), "bash"]).arg(script);
    command.env("SUBJECT", case.switch.name()).env("RING", case.ring).env("SIZE", case.size);
    command.env("GUEST", case.guest.name());
    command.env("SECONDS_EACH", SECONDS.to_string()).env("LINERATE", command::linerate());
    command.env("SWITCH_CPU", host.to_string()).env("GUEST_CPU", guest.to_string());
    command.env("FOLDER", folder.path());
    let said = command::output(&mut command)?;
    let after = distance::between(host, guest)?;
    Reading::parse(&said, [before, after]).with_context(|| format!("the script printed {said:?}"))
}

/// Goals on near CPUs: minimum ratio of rates with our guest, maximum ratio of cycles with DPDK's.
fn goal(case: &Case) -> Option<f64> {
    if case.guest == Guest::Dpdk {
        return match (case.switch, case.ring, case.size) {
            (Switch::Testpmd, "split", "64" | "1514") | (Switch::Ovs, "split", "1514") => Some(0.35),
            (Switch::Ovs, "split", "64") => Some(0.18),
            _ => None,
        };
    }
    match (case.switch, case.ring, case.size) {
        (Switch::Testpmd, "split", "64") => Some(3.0),
        (Switch::Testpmd, "packed-inorder", "64") => Some(2.0),
        (Switch::Ovs, "split", "64") => Some(5.5),
        (Switch::Ovs, "packed-inorder", "64") => Some(4.0),
        (Switch::Testpmd, _, "1514" | "mix") => Some(2.2),
        (Switch::Ovs, _, "1514" | "mix") => Some(3.5),
        _ => None,
    }
}

/// Medians of one case at one class of distances.
struct Row {
    case: Case,
    class: Class,
    rounds: usize,
    mpps: f64,
    cycles: Option<f64>,
    guest_idle: Option<f64>,
    /// Ratio of our rate to this one's, and of our cycles to this one's, in the same rounds.
    rate: Option<f64>,
    cycles_ratio: Option<f64>,
}

fn rows(cases: &[Case], readings: &Rounds<Case, Reading>, class: Class) -> Vec<Row> {
    cases.iter().filter_map(|case| row(*case, readings, class)).collect()
}

fn row(case: Case, readings: &Rounds<Case, Reading>, class: Class) -> Option<Row> {
    let ours = |other: &&Case| {
        (other.ring, other.size) == (case.ring, case.size) && other.switch == Switch::Linerate
    };
    let ours = readings.subjects().find(ours).copied()?;
    let own: Vec<_> = readings.of_subject(case).filter(|reading| reading.class() == class).collect();
    let both: Vec<_> =
        readings.both(ours, case).filter(|(a, b)| a.class() == class && b.class() == class).collect();
    let is_peer = case.switch != Switch::Linerate;
    let ratio = |of: &dyn Fn(&Reading) -> Option<f64>| {
        median(both.iter().filter_map(|(a, b)| Some(of(a)? / of(b)?)).collect()).filter(|_| is_peer)
    };
    Some(Row {
        case,
        class,
        rounds: own.len(),
        mpps: median(own.iter().map(|reading| reading.mpps).collect())?,
        cycles: median(own.iter().filter_map(|reading| reading.cycles).collect()),
        guest_idle: median(own.iter().filter_map(|reading| reading.guest_idle).collect()),
        rate: ratio(&|reading| Some(reading.mpps)),
        cycles_ratio: ratio(&|reading| reading.cycles),
    })
}

impl Row {
    fn goal(&self) -> Option<f64> {
        goal(&self.case).filter(|_| self.class == Class::Near)
    }

    /// Whether the goal is met; `None` without goal or ratio.
    fn is_met(&self) -> Option<bool> {
        let goal = self.goal()?;
        match self.case.guest {
            Guest::Own => self.rate.map(|rate| rate >= goal),
            Guest::Dpdk => self.cycles_ratio.map(|ratio| ratio <= goal),
        }
    }

    /// The ratio of rates, with its goal if the goal is for rates.
    fn bar(&self) -> Option<Bar> {
        let Case { ring, size, switch, guest, .. } = self.case;
        let name = format!("{ring}, {size} B, {}, {}", switch.name(), self.class.name());
        let target = self.goal().filter(|_| guest == Guest::Own);
        Some(Bar { name, ratio: Some(self.rate?), target })
    }

    fn json(&self) -> Value {
        json!({
            "guest": self.case.guest.name(),
            "ring": self.case.ring,
            "size": self.case.size,
            "switch": self.case.switch.name(),
            "distance": self.class.name(),
            "rounds": self.rounds,
            "mpps": self.mpps,
            "cycles_per_packet": self.cycles,
            "guest_empty_polls": self.guest_idle,
            "rate_ratio": self.rate,
            "cycles_ratio": self.cycles_ratio,
            "goal": self.goal(),
            "met": self.is_met(),
        })
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<15} {:>5}  {:<9} {:<7} {:>6} {:>8} {:>8} {:>10} {:>11} {:>13} {:>5}  result\n",
        "ring",
        "bytes",
        "switch",
        "CPUs",
        "rounds",
        "Mpps",
        "cycles",
        "guest idle",
        "rate ratio",
        "cycles ratio",
        "goal"
    );
    for row in rows {
        let number = |value: Option<f64>, digits| value.map_or("-".to_owned(), |v| format!("{v:.digits$}"));
        let result = row.is_met().map_or("-", |is_met| if is_met { "met" } else { "missed" });
        let Case { ring, size, switch, .. } = row.case;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{ring:<15} {size:>5}  {:<9} {:<7} {:>6} {:>8.2} {:>8} {:>10} {:>11} {:>13} {:>5}  {result}",
            switch.name(),
            row.class.name(),
            row.rounds,
            row.mpps,
            number(row.cycles, 0),
            row.guest_idle.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0)),
            number(row.rate, 2),
            number(row.cycles_ratio, 2),
            number(row.goal(), 2),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: [Distance; 2] = [Distance(90.0), Distance(110.0)];

    fn case(switch: Switch) -> Case {
        Case { ring: "split", size: "64", guest: Guest::Own, switch, title: switch.name() }
    }

    #[test]
    fn a_reading_is_what_the_script_prints() {
        let device = |mpps, empty| format!("{{\"rx_mpps\": {mpps}, \"empty_polls\": {empty}}}");
        let text = format!("cycles 83.5\n{{\"devices\": [{}, {}]}}\n", device(10.5, 0.1), device(10.0, 0.3));
        let reading = Reading::parse(&text, NEAR).unwrap();
        assert_eq!((reading.mpps, reading.cycles, reading.guest_idle), (20.5, Some(83.5), Some(0.2)));
        assert_eq!(reading.class(), Class::Near);
        let dpdk =
            Reading::parse("cycles 0\n{\"devices\": [{\"rx_mpps\": 7.5}]}", [NEAR[0], Distance(210.0)])
                .unwrap();
        assert_eq!(
            (dpdk.mpps, dpdk.cycles, dpdk.guest_idle, dpdk.class()),
            (7.5, None, None, Class::Between)
        );
        assert_eq!(Reading::parse("no switch\n", NEAR), None);
    }

    #[test]
    fn readings_of_one_class_are_compared_round_by_round() {
        let reading = |mpps, distance| {
            Some(Reading { mpps, cycles: Some(100.0), guest_idle: None, distances: [Distance(distance); 2] })
        };
        let readings = Rounds::of([
            (case(Switch::Linerate), vec![reading(30.0, 100.0), reading(6.0, 900.0), reading(40.0, 100.0)]),
            (case(Switch::Testpmd), vec![reading(10.0, 100.0), reading(3.0, 900.0), reading(2.0, 900.0)]),
        ]);
        let cases = [case(Switch::Linerate), case(Switch::Testpmd)];
        let near = rows(&cases, &readings, Class::Near);
        assert_eq!((near[1].rounds, near[1].rate, near[1].goal()), (1, Some(3.0), Some(3.0)));
        let far = rows(&cases, &readings, Class::Far);
        assert_eq!((far[1].rounds, far[1].rate, far[1].goal()), (2, Some(2.0), None));
        assert!(table(&near).contains("met") && near[0].rate.is_none());
    }

    #[test]
    fn with_dpdks_guest_the_goal_is_one_of_cycles() {
        let case = |switch| Case { guest: Guest::Dpdk, ..case(switch) };
        let reading =
            |cycles| Some(Reading { mpps: 16.0, cycles: Some(cycles), guest_idle: None, distances: NEAR });
        let readings = Rounds::of([
            (case(Switch::Linerate), vec![reading(50.0)]),
            (case(Switch::Testpmd), vec![reading(150.0)]),
            (case(Switch::Ovs), vec![reading(250.0)]),
        ]);
        let cases = [Switch::Linerate, Switch::Testpmd, Switch::Ovs].map(case);
        let rows = rows(&cases, &readings, Class::Near);
        assert_eq!(rows.iter().map(Row::is_met).collect::<Vec<_>>(), [None, Some(true), Some(false)]);
    }

    #[test]
    fn the_distance_of_a_cpu_is_measured() {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let mut cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        let (Some(one), Some(other)) = (cpus.next(), cpus.next()) else { return };
        assert!(distance::between(one, other).unwrap().0 > 0.0);
        assert!(distance::between(one, usize::from(u16::MAX)).is_err());
        assert!(distance::between(usize::from(u16::MAX), one).is_err());
    }
}
