//! Misses against throughput: for each thread and cache level, whether a set's misses explain its throughput.

use serde::Serialize;

use super::rank::spearman;
use super::regression::Exponential;
use crate::results::{Results, Row, ThreadRow};

/// Events that count instructions.
const INSTRUCTIONS: [&str; 2] = ["INST_RETIRED.ANY", "instructions"];

/// Cache level that was missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// First-level cache
    L1,
    /// Second-level cache
    L2,
    /// Shared cache: loads from memory
    Llc,
}

impl Level {
    /// All levels, nearest first.
    pub const ALL: [Level; 3] = [Level::L1, Level::L2, Level::Llc];

    /// Display name.
    pub fn name(self) -> &'static str {
        match self {
            Level::L1 => "L1",
            Level::L2 => "L2",
            Level::Llc => "LLC",
        }
    }

    /// Equivalent hardware events: Skylake-X's, then the kernel's generic one if it exists.
    fn events(self) -> &'static [&'static str] {
        match self {
            Level::L1 => &["MEM_LOAD_RETIRED.L1_MISS", "L1-dcache-load-misses"],
            Level::L2 => &["MEM_LOAD_RETIRED.L2_MISS"],
            Level::Llc => &["MEM_LOAD_RETIRED.L3_MISS", "LLC-load-misses"],
        }
    }

    /// Misses per packet.
    pub fn misses(self, thread: &ThreadRow) -> f64 {
        match self {
            Level::L1 => thread.l1_misses,
            Level::L2 => thread.l2_misses,
            Level::Llc => thread.llc_misses,
        }
    }
}

/// Unit of misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// Misses per packet
    Packet,
    /// Misses per thousand instructions
    KiloInstruction,
}

impl Axis {
    /// Both units.
    pub const ALL: [Axis; 2] = [Axis::Packet, Axis::KiloInstruction];

    fn of(self, misses: f64, instructions: f64) -> f64 {
        match self {
            Axis::Packet => misses,
            Axis::KiloInstruction => misses * 1000.0 / instructions,
        }
    }
}

/// Fit of one thread and level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// `rx`, `guest` or `tx`
    pub thread: String,
    /// Cache level
    pub level: Level,
    /// Unit of misses
    pub axis: Axis,
    /// Number of configurations
    pub points: usize,
    /// Throughput as an exponential of misses; `None` without enough points
    pub law: Option<Exponential>,
    /// Spearman's rank correlation; `None` if undefined
    pub spearman: Option<f64>,
}

/// Threads of the model, in packet order.
pub(super) const THREADS: [&str; 3] = ["rx", "guest", "tx"];

/// Returns the fits of all threads, levels and axes.
pub fn fits(results: &Results) -> Vec<Fit> {
    let mut fits = Vec::new();
    for axis in Axis::ALL {
        for thread in THREADS {
            fits.extend(Level::ALL.map(|level| fit(results, thread, level, axis)));
        }
    }
    fits
}

fn fit(results: &Results, thread: &str, level: Level, axis: Axis) -> Fit {
    let points: Vec<(f64, f64)> =
        points(results, thread, level, axis).into_iter().map(|(_, x, y)| (x, y)).collect();
    Fit {
        thread: thread.to_owned(),
        level,
        axis,
        points: points.len(),
        law: Exponential::fit(&points),
        spearman: spearman(&points),
    }
}

/// Returns misses and instructions per packet from hardware counters; `None` without a miss count. Instructions are NaN
/// if not counted, so no rate per instruction exists.
fn counted(row: &Row, thread: &str, level: Level) -> Option<(f64, f64)> {
    let of = |names: &[&str]| {
        let found =
            row.events.iter().find(|event| event.thread == thread && names.contains(&event.event.as_str()));
        found.map(|event| event.per_packet)
    };
    Some((of(level.events())?, of(&INSTRUCTIONS).unwrap_or(f64::NAN)))
}

/// Returns each configuration's name, misses and throughput. Configurations without an instruction count are omitted
/// from the per-instruction axis.
pub fn points<'a>(results: &'a Results, thread: &str, level: Level, axis: Axis) -> Vec<(&'a str, f64, f64)> {
    let mut points = Vec::new();
    for row in &results.rows {
        let found = row.threads.iter().find(|other| other.thread == thread);
        let found = found.map(|thread| (level.misses(thread), thread.instructions));
        let found = found.or_else(|| counted(row, thread, level));
        let x = found.map(|(misses, instructions)| axis.of(misses, instructions)).filter(|x| x.is_finite());
        points.extend(x.map(|x| (row.name.as_str(), x, row.mpps)));
    }
    points
}
