//! What an experiment's results look like to whoever stores, compares or draws them: the one shape for all memories.
//!
//! Each set of results says which memory it comes from and on what processor; simulated and measured figures
//! never stand in one set. Counts are per packet and times in cycles per packet, over the packets that count.

use measure::{Estimate, Kind};
use serde::{Deserialize, Serialize};

use super::experiment::{Outcome, Tally};
use super::model::STEP;
use super::trial::record::Record;
use measure::provenance::Provenance;
use sim::Profile;

/// A constant that simulated results rest on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConstantRow {
    /// Its name in the profile
    pub name: String,
    /// Its value
    pub value: f64,
    /// Where it was taken from
    pub source: String,
    /// Fitted
    pub free: bool,
}

/// A set of results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Which memory
    pub memory: Kind,
    /// Of which processor: a profile's name, or the one it ran on
    pub processor: String,
    /// By which build, with which profile or on which machine
    #[serde(default)]
    pub provenance: Provenance,
    /// Packets that count in each run
    pub packets: u64,
    /// What made the order of real runs, and the order of the pools' buffers in simulated ones
    pub seed: u64,
    /// What simulated results rest on
    pub constants: Vec<ConstantRow>,
    /// One for each configuration
    pub rows: Vec<Row>,
    /// What a reader must know: what was not resolved, what was discarded
    pub notes: Vec<String>,
    /// The rounds that rows of real memory come from
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Record>,
}

/// One configuration's results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// As `linerate lab list` shows it
    pub name: String,
    /// Millions of packets a second
    pub mpps: f64,
    /// Over the base of the same round, where there were rounds
    pub ratio: Option<Estimate>,
    /// Rx, Guest and Tx; empty where nothing was counted
    pub threads: Vec<ThreadRow>,
    /// Lines of the rings that one thread had to fetch from another's cache; empty where nobody counted
    #[serde(default)]
    pub lines: Vec<LineRow>,
    /// Events that hardware counted; empty on other memories
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventRow>,
}

/// Who had to fetch a line from another core that had changed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LineRow {
    /// Where it begins in the arena, in bytes
    pub address: u64,
    /// What lies in it, such as `rx.last_avail rx.desc[0..3]`
    pub name: String,
    /// Loads from another core's modified line, per packet, by Rx, Guest and Tx
    pub hits_modified: [f64; 3],
}

impl Results {
    /// A configuration's row.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }
}

/// An event that hardware counted in one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventRow {
    /// `rx`, `guest` or `tx`; `rx+tx` where both took turns on one CPU
    pub thread: String,
    /// As the processor's manual calls it
    pub event: String,
    /// A packet, the median over rounds
    pub per_packet: f64,
}

/// Where a thread's cycles went, per packet; what is left over is work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stalls {
    /// Waiting for the second level
    pub l2: f64,
    /// Waiting for the shared cache
    pub llc: f64,
    /// Waiting for another core
    pub core: f64,
    /// Waiting for memory
    pub dram: f64,
    /// Waiting for a fill buffer, before the line itself could be asked for
    #[serde(default)]
    pub fills: f64,
    /// Waiting for room among the stores
    pub stores: f64,
    /// Asking for what is not there yet
    pub spin: f64,
}

/// What one thread counted, per packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadRow {
    /// `rx`, `guest` or `tx`
    pub thread: String,
    /// Cycles
    pub cycles: f64,
    /// Instructions, those of waiting included
    pub instructions: f64,
    /// Load misses of the first level
    pub l1_misses: f64,
    /// Load misses of the second level
    pub l2_misses: f64,
    /// Loads from memory
    pub llc_misses: f64,
    /// Loads from another core's modified line
    pub hits_modified: f64,
    /// Cycles with a demand request for ownership outstanding
    pub rfo_cycles: f64,
    /// Demand requests for ownership
    pub rfo_demand: f64,
    /// Requests for ownership ahead
    pub rfo_ahead: f64,
    /// Cycles with all fill buffers in use
    pub fill_full: f64,
    /// Where cycles went
    pub stalls: Stalls,
}

impl ThreadRow {
    /// Load misses of the first level in a thousand instructions.
    pub fn l1_mpki(&self) -> f64 {
        self.l1_misses * 1000.0 / self.instructions
    }

    /// Load misses of the second level in a thousand instructions.
    pub fn l2_mpki(&self) -> f64 {
        self.l2_misses * 1000.0 / self.instructions
    }

    pub(super) fn new(thread: &str, tally: &Tally) -> ThreadRow {
        let counters = &tally.counters;
        let (count, time) = (|n| tally.per_packet(n), |t| tally.cycles_per_packet(t));
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
            stalls: Stalls {
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
    /// A simulated run's results.
    pub fn simulated(name: &str, outcome: &Outcome) -> Row {
        let threads = ["rx", "guest", "tx"].iter().zip(&outcome.threads);
        Row {
            name: name.to_owned(),
            mpps: outcome.mpps,
            ratio: None,
            threads: threads.map(|(name, tally)| ThreadRow::new(name, tally)).collect(),
            lines: outcome.lines.clone(),
            events: Vec::new(),
        }
    }
}

impl ConstantRow {
    /// A profile's constants.
    pub fn of(profile: &Profile) -> Vec<ConstantRow> {
        let row = |(name, constant): (&str, &sim::profile::Constant)| ConstantRow {
            name: name.to_owned(),
            value: constant.value,
            source: constant.source.clone(),
            free: constant.free,
        };
        profile.constants().into_iter().map(row).collect()
    }

    /// The model's own free constant, beside a profile's.
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
