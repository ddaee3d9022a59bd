//! Simulates the four measured cases with either switch; results have one format for storage and drawing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::measured::Measured;
use super::{Change, Outcome, Part, Path, RingKind, Scheme, Taken, simulate};
use crate::experiment::Length;
use crate::results::{ConstantRow, ThreadRow};
use measure::store::{StoreError, Stored};
use sim::{Deadlock, Profile};

/// Rings and frame sizes of the comparison.
pub const CASES: [(RingKind, u64); 4] =
    [(RingKind::Split, 64), (RingKind::Split, 1514), (RingKind::Packed, 64), (RingKind::Packed, 1514)];

/// Results of linerate's path and DPDK's. All values but `measured` are simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathResults {
    /// Processor of the profile
    pub processor: String,
    /// Packets counted per run, after as many warm-up packets
    pub packets: u64,
    /// Constants of the simulation
    pub constants: Vec<ConstantRow>,
    /// One case per ring and size
    pub paths: Vec<Case>,
    /// Measured results of the same cases, with their own processor; they enter no simulated value
    pub measured: Option<Measured>,
}

/// Results of one ring and one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Ring kind; used in order, as DPDK's driver requests
    pub ring: RingKind,
    /// Frame size in bytes
    pub bytes: u64,
    /// linerate's switch
    pub linerate: Side,
    /// DPDK's switch
    pub dpdk: Side,
    /// linerate's switch with one change each; empty unless requested
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Changed>,
}

/// Results of one switch and its guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Forwarded frames in millions per second
    pub mpps: f64,
    /// Lines that the cores took from each other, per packet
    pub lines_moved: f64,
    /// Share of the switch's polls that were empty; near 1, the guest is the bottleneck
    pub empty_polls: f64,
    /// Share of the guest's polls that were empty
    pub guest_empty_polls: f64,
    /// Counts of `switch` and `guest`, per packet
    pub threads: Vec<ThreadRow>,
    /// Line transfers, by part of rings and buffers
    pub parts: Vec<Part>,
}

/// Effect of one change on linerate's side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    /// The change
    pub change: Change,
    /// Results with it
    pub side: Side,
}

impl Case {
    /// Simulated rate of linerate divided by DPDK's.
    pub fn ratio(&self) -> f64 {
        self.linerate.mpps / self.dpdk.mpps
    }

    /// Returns each part that moves with either switch: purpose and name, then the lines taken by switch and guest,
    /// with linerate and with DPDK.
    pub fn parts(&self) -> Vec<(String, String, [Taken; 2], [Taken; 2])> {
        let mut parts: BTreeMap<(&str, &str), [[Taken; 2]; 2]> = BTreeMap::new();
        for (n, side) in [&self.linerate, &self.dpdk].into_iter().enumerate() {
            for part in &side.parts {
                parts.entry((&part.way, &part.part)).or_default()[n] = [part.switch, part.guest];
            }
        }
        let row = |((way, part), [ours, theirs]): ((&str, &str), [[Taken; 2]; 2])| {
            (way.to_owned(), part.to_owned(), ours, theirs)
        };
        parts.into_iter().map(row).collect()
    }
}

impl Side {
    fn new(outcome: &Outcome) -> Side {
        Side {
            mpps: outcome.mpps,
            lines_moved: outcome.lines_moved(),
            empty_polls: outcome.switch_polls.empty_share(),
            guest_empty_polls: outcome.guest_polls.empty_share(),
            threads: vec![ThreadRow::new("switch", &outcome.switch), ThreadRow::new("guest", &outcome.guest)],
            parts: outcome.parts.clone(),
        }
    }

    /// Returns a thread's counts.
    pub fn thread(&self, name: &str) -> Option<&ThreadRow> {
        self.threads.iter().find(|thread| thread.thread == name)
    }
}

/// Runs one case with both switches, and with each change if `changes`.
pub fn case(
    profile: &Profile,
    (ring, bytes): (RingKind, u64),
    packets: u64,
    changes: bool,
) -> Result<Case, Deadlock> {
    let length = Length { packets, warm_up: packets };
    let side = |scheme, change| {
        let path = Path { change, ..Path::new(scheme, ring, bytes) };
        simulate(profile, &path, length).map(|outcome| Side::new(&outcome))
    };
    let asked: &[Change] = if changes { &Change::ALL } else { &[] };
    let changed =
        |change: &Change| side(Scheme::Linerate, Some(*change)).map(|side| Changed { change: *change, side });
    Ok(Case {
        ring,
        bytes,
        linerate: side(Scheme::Linerate, None)?,
        dpdk: side(Scheme::Dpdk, None)?,
        changes: asked.iter().map(changed).collect::<Result<_, _>>()?,
    })
}

impl PathResults {
    /// Creates an empty result set for a profile.
    pub fn new(profile: &Profile, packets: u64, measured: Option<Measured>) -> PathResults {
        PathResults {
            processor: profile.name.clone(),
            packets,
            constants: ConstantRow::of(profile),
            paths: Vec::new(),
            measured,
        }
    }
}

impl Stored for PathResults {
    const NAME: &'static str = "linerate-lab-paths";
    type Provenance = PathResults;
    type Record = Case;

    fn parts(&self) -> (PathResults, Vec<Case>) {
        (PathResults { paths: Vec::new(), ..self.clone() }, self.paths.clone())
    }

    fn combine(provenance: PathResults, paths: Vec<Case>) -> Result<Self, StoreError> {
        let sane = |value: f64| value.is_finite() && value >= 0.0;
        let good = |side: &Side| side.mpps > 0.0 && sane(side.mpps) && sane(side.lines_moved);
        match paths.iter().position(|case| !(good(&case.linerate) && good(&case.dpdk))) {
            Some(n) => Err(StoreError::record(n, "it has an impossible rate or number of lines")),
            None => Ok(PathResults { paths, ..provenance }),
        }
    }

    /// Results are stored once, so files are not resumed.
    fn differences(&self, _here: &Self) -> Vec<String> {
        vec!["the cases of a path study are stored as a whole".to_owned()]
    }
}
