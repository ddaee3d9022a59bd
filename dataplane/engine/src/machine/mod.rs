//! What this machine computes with: CPUs, the cores and packages that they are in, NUMA nodes, shared caches, and which of
//! the CPUs this process may use.
//!
//! Everything is read from a directory that is told (`/sys`, or a recorded one) and becomes a plain value. Whatever those
//! files say or lack, the answer is a machine with at least one CPU; what was not believed is a [`Flaw`] with what was
//! taken instead. Nothing here pins a thread or decides where one goes: that is [`crate::placement`].
//!
//! The room belongs to the engine because the threads do, and it is called a machine because a topology, here, is what a
//! switch is made of.

mod list;
mod read;
#[cfg(test)]
pub(crate) mod recorded;
#[cfg(test)]
mod tests;

pub use list::parse as parse_list;

use serde::{Deserialize, Serialize};
use std::path::Path;

/// CPUs and what is between them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The CPUs that are switched on, by number. There is at least one.
    pub cpus: Vec<Cpu>,
    /// CPUs that exist and are switched off.
    pub offline: Vec<usize>,
    /// NUMA nodes, by number.
    pub nodes: Vec<Node>,
    /// Caches that the kernel tells of, nearest level first.
    pub caches: Vec<Cache>,
    /// What was found and not believed.
    pub flaws: Vec<Flaw>,
}

/// One CPU: what the kernel schedules a thread on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// Its number.
    pub number: usize,
    /// Its core, called by the lowest CPU number in it: CPUs with one core are siblings, which share its pipeline and its
    /// nearest caches.
    pub core: usize,
    /// The package (socket).
    pub package: usize,
    /// The NUMA node.
    pub node: usize,
    /// Whether the kernel keeps its scheduler away from it (`isolcpus`): only threads that are pinned to it run there.
    pub isolated: bool,
    /// Whether this process may run on it.
    pub allowed: bool,
}

/// A NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its number.
    pub number: usize,
    /// Its CPUs.
    pub cpus: Vec<usize>,
    /// How far other nodes are, in the firmware's unit (10: here), by node number. Empty: unknown.
    pub distances: Vec<(usize, u32)>,
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    #[default]
    Unified,
}

/// One cache and the CPUs that share it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cache {
    /// 1 is the nearest.
    pub level: u8,
    /// What it holds.
    pub kind: CacheKind,
    /// Its size in bytes.
    pub bytes: u64,
    /// The CPUs that share it.
    pub cpus: Vec<usize>,
}

/// Something in the system's files that was not believed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flaw {
    /// The file, below the directory that was read.
    pub file: String,
    /// What is wrong with it.
    pub reason: String,
    /// What was taken instead.
    pub instead: String,
}

impl std::fmt::Display for Flaw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}; {}", self.file, self.reason, self.instead)
    }
}

impl Machine {
    /// This machine, as this process may use it.
    pub fn here() -> Self {
        Self::read(Path::new("/sys"), &affinity())
    }

    /// The machine that the files below `root` describe, of which a process may use the CPUs `allowed`.
    pub fn read(root: &Path, allowed: &[usize]) -> Self {
        read::machine(root, allowed)
    }

    /// The CPU of that number, if it is switched on.
    pub fn cpu(&self, number: usize) -> Option<&Cpu> {
        self.cpus.iter().find(|cpu| cpu.number == number)
    }

    /// The CPUs that this process may use.
    pub fn allowed(&self) -> impl Iterator<Item = &Cpu> {
        self.cpus.iter().filter(|cpu| cpu.allowed)
    }

    /// How many cores are switched on.
    pub fn cores(&self) -> usize {
        self.cpus.iter().filter(|cpu| self.is_first_of_core(cpu)).count()
    }

    fn is_first_of_core(&self, cpu: &Cpu) -> bool {
        self.cpus.iter().find(|other| other.core == cpu.core).is_some_and(|first| first.number == cpu.number)
    }

    /// How far node `to` is from node `from`; nodes of which nothing is known are all equally far.
    pub fn distance(&self, from: usize, to: usize) -> u32 {
        let node = self.nodes.iter().find(|node| node.number == from);
        let told = node.and_then(|node| node.distances.iter().find(|(other, _)| *other == to));
        told.map_or(if from == to { 10 } else { 20 }, |(_, distance)| *distance)
    }
}

/// The NUMA node that the device behind an interface of this network namespace hangs on; `None`: it has no device, or
/// nobody knows.
pub fn node_of_interface(root: &Path, interface: &str) -> Option<usize> {
    // A name is one component of a path and leads nowhere else.
    if interface.is_empty() || interface.contains('/') || interface.starts_with('.') {
        return None;
    }
    read::number(&root.join("class/net").join(interface).join("device/numa_node")).ok().flatten()
}

/// The CPUs that this process may run on.
pub fn affinity() -> Vec<usize> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}
