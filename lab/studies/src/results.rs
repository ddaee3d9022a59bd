//! Experiment results for storage, comparison and drawing: one format for all memories.
//!
//! Each result set names its memory and its processor; simulated and measured values are never mixed in one set. Counts
//! are per packet and times in cycles per packet, over the counted packets.

use measure::{Estimate, Kind};
use serde::{Deserialize, Serialize};

use super::experiment::{Outcome, ThreadCounts};
use super::model::STEP;
use super::trial::record::Record;
use measure::provenance::Provenance;
use sim::Profile;

/// A constant of simulated results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConstantRow {
    /// Name in the profile
    pub name: String,
    /// Value
    pub value: f64,
    /// Source of the value
    pub source: String,
    /// Fitted
    pub free: bool,
}

/// A set of results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Memory kind
    pub memory: Kind,
    /// Processor: a profile's name, or that of the host
    pub processor: String,
    /// Build, and profile or host
    #[serde(default)]
    pub provenance: Provenance,
    /// Packets counted per run
    pub packets: u64,
    /// Seed of the order of real runs, and of the order of the pools' buffers in simulated ones
    pub seed: u64,
    /// Constants of simulated results
    pub constants: Vec<ConstantRow>,
    /// One row per configuration
    pub rows: Vec<Row>,
    /// Notes for the reader: unresolved effects, discarded slices
    pub notes: Vec<String>,
    /// Rounds behind the rows of real memory
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Record>,
}

/// One configuration's results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name in `linerate lab list`
    pub name: String,
    /// Millions of packets per second
    pub mpps: f64,
    /// Ratio to the base of the same round, if there were rounds
    pub ratio: Option<Estimate>,
    /// Counts of Rx, Guest and Tx; empty if not counted
    pub threads: Vec<ThreadRow>,
    /// Ring lines that a thread fetched from another's cache; empty if not counted
    #[serde(default)]
    pub lines: Vec<LineRow>,
    /// Hardware event counts; empty on other memories
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventRow>,
}

/// Fetches of one line from another core that had changed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LineRow {
    /// Offset of the line in the arena, in bytes
    pub address: u64,
    /// Contents, such as `rx.last_avail rx.desc[0..3]`
    pub name: String,
    /// Loads from another core's modified line, per packet, by Rx, Guest and Tx
    pub hits_modified: [f64; 3],
}

impl Results {
    /// Returns a configuration's row.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }
}

/// Count of a hardware event in one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventRow {
    /// `rx`, `guest` or `tx`; `rx+tx` if both shared a CPU
    pub thread: String,
    /// Name in the processor's manual
    pub event: String,
    /// Count per packet, median over rounds
    pub per_packet: f64,
}

/// Stall cycles of a thread, per packet; the remaining cycles are work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StallCycles {
    /// Waiting for a line from the second level
    pub l2: f64,
    /// Waiting for a line from the shared cache
    pub llc: f64,
    /// Waiting for a line from another core
    pub core: f64,
    /// Waiting for a line from memory
    pub dram: f64,
    /// Waiting for a fill buffer, before the line could be requested
    #[serde(default)]
    pub fills: f64,
    /// Waiting for room in the store buffer
    pub stores: f64,
    /// Polling for a value that has not arrived
    pub spin: f64,
}

/// Counts of one thread, per packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadRow {
    /// `rx`, `guest` or `tx`
    pub thread: String,
    /// Cycles
    pub cycles: f64,
    /// Instructions, including those of polling
    pub instructions: f64,
    /// First-level load misses
    pub l1_misses: f64,
    /// Second-level load misses
    pub l2_misses: f64,
    /// Loads from memory
    pub llc_misses: f64,
    /// Loads from another core's modified line
    pub hits_modified: f64,
    /// Cycles with a demand request for ownership outstanding
    pub rfo_cycles: f64,
    /// Demand requests for ownership
    pub rfo_demand: f64,
    /// Requests for ownership made ahead
    pub rfo_ahead: f64,
    /// Cycles with all fill buffers in use
    pub fill_full: f64,
    /// Stall cycles
    pub stalls: StallCycles,
}

impl ThreadRow {
    /// First-level load misses per thousand instructions.
    pub fn l1_mpki(&self) -> f64 {
        self.l1_misses * 1000.0 / self.instructions
    }

    /// Second-level load misses per thousand instructions.
    pub fn l2_mpki(&self) -> f64 {
        self.l2_misses * 1000.0 / self.instructions
    }

    pub(super) fn new(thread: &str, counts: &ThreadCounts) -> ThreadRow {
        let counters = &counts.counters;
        let (count, time) = (|n| counts.per_packet(n), |t| counts.cycles_per_packet(t));
        ThreadRow {
            thread: thread.to_owned(),
            cycles: time(counters.time),
            instructions: count(counters.instructions),
            l1_misses: count(counters.l1_misses),
            l2_misses: count(counters.l2_misses),
            llc_misses: count(counters.llc_misses),
            hits_modified: count(counters.hits_modified),
            rfo_cycles: time(counters.rfo_time),
            rfo_demand: count(counters.rfo_demand),
            rfo_ahead: count(counters.rfo_ahead),
            fill_full: time(counters.fill_full_time),
            stalls: StallCycles {
                l2: time(counters.stall_l2),
                llc: time(counters.stall_llc),
                core: time(counters.stall_core),
                dram: time(counters.stall_dram),
                fills: time(counters.stall_fills),
                stores: time(counters.stall_stores),
                spin: time(counters.spin),
            },
        }
    }
}

impl Row {
    /// Returns the row of a simulated run.
    pub fn simulated(name: &str, outcome: &Outcome) -> Row {
        let threads = ["rx", "guest", "tx"].iter().zip(&outcome.threads);
        Row {
            name: name.to_owned(),
            mpps: outcome.mpps,
            ratio: None,
            threads: threads.map(|(name, counts)| ThreadRow::new(name, counts)).collect(),
            lines: outcome.lines.clone(),
            events: Vec::new(),
        }
    }
}

impl ConstantRow {
    /// Returns a profile's constants.
    pub fn of(profile: &Profile) -> Vec<ConstantRow> {
        let row = |(name, constant): (&str, &sim::profile::Constant)| ConstantRow {
            name: name.to_owned(),
            value: constant.value,
            source: constant.source.clone(),
            free: constant.free,
        };
        profile.constants().into_iter().map(row).collect()
    }

    /// Returns the model's own free constant, which a profile does not contain.
    pub fn step() -> ConstantRow {
        ConstantRow {
            name: "model.step".to_owned(),
            value: STEP as f64,
            source: "fitted on the study's ratios of (a) and (a)+(d): instructions of a step, of which Rx and Tx take one with a \
                     packet and Guest three"
                .to_owned(),
            free: true,
        }
    }
}
