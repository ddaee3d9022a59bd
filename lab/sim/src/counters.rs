//! Counters of a core: events with the published study's meanings, and a breakdown of its cycles.

use serde::Serialize;

use super::Time;

/// Source of the bytes of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The core's first-level cache
    L1,
    /// The core's second-level cache
    L2,
    /// The shared cache
    Llc,
    /// Another core's cache
    Core,
    /// Memory
    Dram,
}

/// Counters of one core. Times are in ticks; [`Counters::since`] computes differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// The core's clock
    pub time: Time,
    /// Instructions, including those of polling
    pub instructions: u64,
    /// Loads executed
    pub loads: u64,
    /// Loads that missed the first level
    pub l1_misses: u64,
    /// Loads that missed the second level
    pub l2_misses: u64,
    /// Loads that came from memory
    pub llc_misses: u64,
    /// Loads that came from another core's modified line
    pub hits_modified: u64,
    /// Stores that became visible
    pub stores: u64,
    /// Requests for ownership by a store at the head of the store buffer
    pub rfo_demand: u64,
    /// Requests for ownership made before the store reached the head
    pub rfo_ahead: u64,
    /// Time in which the oldest store waited for ownership, requested at the head or ahead of it
    pub rfo_time: Time,
    /// Time with any request for ownership outstanding, including those ahead
    pub rfo_any_time: Time,
    /// Time with all fill buffers in use
    pub fill_full_time: Time,
    /// Lines inserted into the first level
    pub l1_replacements: u64,
    /// Clean lines evicted from the second level
    pub l2_silent: u64,
    /// Dirty lines evicted from the second level
    pub l2_non_silent: u64,
    /// Lines evicted from the second level that were prefetched and unused
    pub l2_useless: u64,
    /// Lines taken away by another core
    pub lost_lines: u64,
    /// Time in which nothing could issue because of a line from the second level
    pub stall_l2: Time,
    /// Same for the shared cache
    pub stall_llc: Time,
    /// Same for another core
    pub stall_core: Time,
    /// Same for memory
    pub stall_dram: Time,
    /// Time in which nothing could issue because no fill buffer was free
    pub stall_fills: Time,
    /// Same for a full store buffer
    pub stall_stores: Time,
    /// Time spent polling for a value that has not arrived
    pub spin: Time,
}

impl Counters {
    /// Adds time in which the core waited for bytes.
    pub(super) fn stall(&mut self, source: Source, time: Time) {
        match source {
            Source::L1 => {}
            Source::L2 => self.stall_l2 += time,
            Source::Llc => self.stall_llc += time,
            Source::Core => self.stall_core += time,
            Source::Dram => self.stall_dram += time,
        }
    }

    /// Returns the counts between an earlier reading and this one.
    #[must_use]
    pub fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            time: self.time - earlier.time,
            instructions: self.instructions - earlier.instructions,
            loads: self.loads - earlier.loads,
            l1_misses: self.l1_misses - earlier.l1_misses,
            l2_misses: self.l2_misses - earlier.l2_misses,
            llc_misses: self.llc_misses - earlier.llc_misses,
            hits_modified: self.hits_modified - earlier.hits_modified,
            stores: self.stores - earlier.stores,
            rfo_demand: self.rfo_demand - earlier.rfo_demand,
            rfo_ahead: self.rfo_ahead - earlier.rfo_ahead,
            rfo_time: self.rfo_time - earlier.rfo_time,
            rfo_any_time: self.rfo_any_time - earlier.rfo_any_time,
            fill_full_time: self.fill_full_time - earlier.fill_full_time,
            l1_replacements: self.l1_replacements - earlier.l1_replacements,
            l2_silent: self.l2_silent - earlier.l2_silent,
            l2_non_silent: self.l2_non_silent - earlier.l2_non_silent,
            l2_useless: self.l2_useless - earlier.l2_useless,
            lost_lines: self.lost_lines - earlier.lost_lines,
            stall_l2: self.stall_l2 - earlier.stall_l2,
            stall_llc: self.stall_llc - earlier.stall_llc,
            stall_core: self.stall_core - earlier.stall_core,
            stall_dram: self.stall_dram - earlier.stall_dram,
            stall_fills: self.stall_fills - earlier.stall_fills,
            stall_stores: self.stall_stores - earlier.stall_stores,
            spin: self.spin - earlier.spin,
        }
    }
}
