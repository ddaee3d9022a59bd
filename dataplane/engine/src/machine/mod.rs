//! Machine topology: CPUs, cores, packages, NUMA nodes, shared caches, and the CPUs that this process may use.
//!
//! Everything is read from a given directory (`/sys`, or a recorded one) into plain values. For any content of these
//! files, the result is a machine with at least one CPU; an ignored value is reported as an [`Inconsistency`], with its
//! replacement. Pinning and placement are in [`crate::placement`].
//!
//! The module is part of the engine because the engine owns the threads. It is called machine because a topology in
//! this project is the structure of a switch.

mod list;
mod read;
#[cfg(test)]
pub(crate) mod recorded;
#[cfg(test)]
mod tests;

pub use list::parse as parse_list;

use serde::{Deserialize, Serialize};
use std::path::Path;

/// CPUs and their topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Online CPUs by number; at least one.
    pub cpus: Vec<Cpu>,
    /// Offline CPUs.
    pub offline: Vec<usize>,
    /// NUMA nodes, by number.
    pub nodes: Vec<Node>,
    /// Caches reported by the kernel, nearest level first.
    pub caches: Vec<Cache>,
    /// Values that were ignored.
    pub inconsistencies: Vec<Inconsistency>,
}

/// One logical CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// Number.
    pub number: usize,
    /// Core, identified by its lowest CPU number. CPUs with the same core are siblings, which share its pipeline and
    /// nearest caches.
    pub core: usize,
    /// The package (socket).
    pub package: usize,
    /// The NUMA node.
    pub node: usize,
    /// Whether it is isolated from the kernel's scheduler (`isolcpus`), so that only threads pinned to it run there.
    pub isolated: bool,
    /// Whether this process may run on it.
    pub allowed: bool,
}

/// A NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Number.
    pub number: usize,
    /// CPUs.
    pub cpus: Vec<usize>,
    /// Distances to nodes in the firmware's unit (10 is local), by node number. Empty if unknown.
    pub distances: Vec<(usize, u32)>,
}

/// Kind of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Data and instructions.
    #[default]
    Unified,
}

/// One cache and the CPUs that share it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cache {
    /// Level; 1 is the nearest.
    pub level: u8,
    /// Kind.
    pub kind: CacheKind,
    /// Size in bytes.
    pub bytes: u64,
    /// The CPUs that share it.
    pub cpus: Vec<usize>,
}

/// An ignored value in a system file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inconsistency {
    /// File, relative to the directory.
    pub file: String,
    /// Why it was ignored.
    pub reason: String,
    /// Replacement.
    pub instead: String,
}

impl std::fmt::Display for Inconsistency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}; {}", self.file, self.reason, self.instead)
    }
}

impl Machine {
    /// This machine, as this process may use it.
    pub fn here() -> Self {
        Self::read(Path::new("/sys"), &affinity())
    }

    /// The machine described by the files below `root`, for a process that may use the CPUs `allowed`.
    pub fn read(root: &Path, allowed: &[usize]) -> Self {
        read::machine(root, allowed)
    }

    /// The CPU with this number, if it is online.
    pub fn cpu(&self, number: usize) -> Option<&Cpu> {
        self.cpus.iter().find(|cpu| cpu.number == number)
    }

    /// CPUs that this process may use.
    pub fn allowed(&self) -> impl Iterator<Item = &Cpu> {
        self.cpus.iter().filter(|cpu| cpu.allowed)
    }

    /// Number of online cores.
    pub fn cores(&self) -> usize {
        self.cpus.iter().filter(|cpu| self.is_first_of_core(cpu)).count()
    }

    fn is_first_of_core(&self, cpu: &Cpu) -> bool {
        self.cpus.iter().find(|other| other.core == cpu.core).is_some_and(|first| first.number == cpu.number)
    }

    /// Distance from node `from` to node `to`. Unknown distances are all equal.
    pub fn distance(&self, from: usize, to: usize) -> u32 {
        let node = self.nodes.iter().find(|node| node.number == from);
        let entry = node.and_then(|node| node.distances.iter().find(|(other, _)| *other == to));
        entry.map_or(if from == to { 10 } else { 20 }, |(_, distance)| *distance)
    }
}

/// NUMA node of the device of a network interface in this network namespace; `None` if it has no device or the node
/// is unknown.
pub fn node_of_interface(root: &Path, interface: &str) -> Option<usize> {
    // A valid name is a single path component.
    if interface.is_empty() || interface.contains('/') || interface.starts_with('.') {
        return None;
    }
    read::number(&root.join("class/net").join(interface).join("device/numa_node")).ok().flatten()
}

/// CPUs that this process may run on.
pub fn affinity() -> Vec<usize> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}
