//! The four cases that were measured, simulated with either switch, in the one shape in which they are stored and drawn.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::measured::Measured;
use super::{Change, Outcome, Part, Path, RingKind, Scheme, Taken, simulate};
use crate::experiment::Length;
use crate::results::{ConstantRow, ThreadRow};
use sim::{Profile, Stuck};

/// Rings and sizes of the comparison.
pub const CASES: [(RingKind, u64); 4] =
    [(RingKind::Split, 64), (RingKind::Split, 1514), (RingKind::Packed, 64), (RingKind::Packed, 1514)];

/// linerate's path beside DPDK's. Everything but `measured` is simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathResults {
    /// The profile's processor
    pub processor: String,
    /// Packets that count in each run, and as many before that do not
    pub packets: u64,
    /// What the simulation rests on
    pub constants: Vec<ConstantRow>,
    /// One for each ring and size
    pub paths: Vec<Case>,
    /// What was measured of the same, on whatever processor it says; enters no simulated number
    pub measured: Option<Measured>,
}

/// One ring and one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Which rings; used in order, as DPDK's driver asks for
    pub ring: RingKind,
    /// Bytes of a frame
    pub bytes: u64,
    /// linerate's switch
    pub linerate: Side,
    /// DPDK's
    pub dpdk: Side,
    /// linerate's switch with one thing done otherwise; empty unless asked for
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Changed>,
}

/// One switch and its guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Frames forwarded, in millions a second
    pub mpps: f64,
    /// Lines that one core took from the other, per packet
    pub lines_moved: f64,
    /// Of the switch's looks at rings, the share that found nothing: near 1, the guest is the limit
    pub empty_polls: f64,
    /// The same of the guest's
    pub guest_empty_polls: f64,
    /// `switch` and `guest`, per packet
    pub threads: Vec<ThreadRow>,
    /// What moved, by part of rings and buffers
    pub parts: Vec<Part>,
}

/// What one change does to linerate's side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    /// Which
    pub change: Change,
    /// What comes out
    pub side: Side,
}

impl Case {
    /// linerate's rate over DPDK's, simulated.
    pub fn ratio(&self) -> f64 {
        self.linerate.mpps / self.dpdk.mpps
    }

    /// Each part that moves with either switch: its way and name, then what switch and guest took of it, with linerate and with DPDK.
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

    /// A thread's figures.
    pub fn thread(&self, name: &str) -> Option<&ThreadRow> {
        self.threads.iter().find(|thread| thread.thread == name)
    }
}

/// Runs one case with both switches, and with each change where that is asked for.
pub fn case(
    profile: &Profile,
    (ring, bytes): (RingKind, u64),
    packets: u64,
    changes: bool,
) -> Result<Case, Stuck> {
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
    /// Of a profile, with no case yet.
    pub fn new(profile: &Profile, packets: u64, measured: Option<Measured>) -> PathResults {
        PathResults {
            processor: profile.name.clone(),
            packets,
            constants: ConstantRow::of(profile),
            paths: Vec::new(),
            measured,
        }
    }

    /// Reads what was kept, and judges its numbers; nothing where it is something else.
    pub fn parse(bytes: &[u8]) -> Option<PathResults> {
        let results: PathResults = serde_json::from_slice(bytes).ok()?;
        let good = |side: &Side| {
            let sane = |value: f64| value.is_finite() && value >= 0.0;
            side.mpps > 0.0 && sane(side.mpps) && sane(side.lines_moved)
        };
        let all = results.paths.iter().all(|case| good(&case.linerate) && good(&case.dpdk));
        all.then_some(results)
    }
}
