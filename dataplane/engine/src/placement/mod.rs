//! Placement of threads on CPUs, and affinity of receive queues to workers, as printable values.
//!
//! [`plan`] is a pure function of a [`Machine`] and of requirements. It combines two independent parts: the pattern
//! determines which roles share a thread or a core (`group`), and the order of CPUs determines where the next thread
//! goes (`order`). [`QueueAffinity`] has the rules that assign receive queues to workers. Nothing here starts, pins
//! or moves anything.

mod affinity;
mod group;
mod order;
mod plan;
#[cfg(test)]
mod tests;

pub use affinity::{AffinityError, QueueAffinity, QueueName};
pub use plan::plan;

use crate::machine::Machine;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Stage of packet processing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Receives, classifies and sends bursts.
    RunToCompletion,
    /// Receives bursts and hands them to workers.
    Rx,
    /// Classifies packets.
    Worker,
    /// Sends packets.
    Tx,
}

/// One role of a thread: instance `index` of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Role {
    /// The stage.
    pub stage: Stage,
    /// Index of the instance, from 0.
    pub index: usize,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::RunToCompletion => "worker",
            Stage::Rx => "rx",
            Stage::Worker => "classify",
            Stage::Tx => "tx",
        };
        write!(f, "{stage} {}", self.index)
    }
}

/// Number of instances of each stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stages {
    /// Workers that run to completion.
    pub run_to_completion: usize,
    /// Receiving stages of a pipeline.
    pub rx: usize,
    /// Classifying stages of a pipeline.
    pub worker: usize,
    /// Sending stages of a pipeline.
    pub tx: usize,
}

impl Stages {
    /// Whether there are pipeline stages, which could share threads.
    pub fn is_pipeline(&self) -> bool {
        self.rx + self.worker + self.tx > 0
    }
}

/// Which stages share a thread or a core. Stages with the same index are combined (rx 0 with tx 0); a stage without a
/// partner has its own thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Each stage has its own thread and CPU.
    #[default]
    Separate,
    /// Rx and Tx share a thread, so buffers are freed where they were allocated.
    Io,
    /// Rx, Worker and Tx share a thread and keep the rings between them: quasi run-to-completion.
    All,
    /// Rx and Worker share a thread.
    RxWorker,
    /// Worker and Tx share a thread.
    TxWorker,
    /// Rx and Tx are separate threads on one core: on its two siblings if it has two, otherwise alternating on one
    /// CPU.
    QuasiIo,
    /// `Io` if there are enough CPUs, otherwise `All`.
    Auto,
}

impl Pattern {
    /// All patterns with their names.
    pub const NAMES: [(&'static str, Pattern); 7] = [
        ("separate", Pattern::Separate),
        ("io", Pattern::Io),
        ("all", Pattern::All),
        ("rx-worker", Pattern::RxWorker),
        ("tx-worker", Pattern::TxWorker),
        ("quasi-io", Pattern::QuasiIo),
        ("auto", Pattern::Auto),
    ];

    /// Name, as spelled in the configuration file.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, pattern)| *pattern == self).map_or("", |(name, _)| name)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Requirements of a placement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// The stages to place.
    pub stages: Stages,
    /// How they share threads.
    pub pattern: Pattern,
    /// CPUs to use, in this order; if empty, all CPUs that this process may use, in the default order.
    pub cpus: Vec<usize>,
    /// CPUs that already have a thread.
    pub taken: Vec<usize>,
    /// NUMA node that packets come from, if known.
    pub near: Option<usize>,
}

/// One thread with its roles and CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Roles, in the order of execution in a round.
    pub roles: Vec<Role>,
    /// CPU to pin it to.
    pub cpu: usize,
}

/// A placement, with notes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The pattern in effect; never [`Pattern::Auto`].
    pub pattern: Pattern,
    /// Every thread.
    pub threads: Vec<Thread>,
    /// Notes for the user: threads that share a CPU or a core, and threads on a remote node.
    pub notes: Vec<String>,
}

impl Plan {
    /// CPU of the thread with this role.
    pub fn cpu_of(&self, role: Role) -> Option<usize> {
        self.threads.iter().find(|thread| thread.roles.contains(&role)).map(|thread| thread.cpu)
    }
}

/// Why a placement failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A configured CPU is not online.
    #[error("CPU {0} is not online, so no thread can be placed there")]
    NoSuchCpu(usize),
    /// A configured CPU is outside the affinity mask.
    #[error("CPU {0} is outside this process's affinity mask, so no thread can be placed there")]
    Forbidden(usize),
    /// No CPU is left for a thread.
    #[error("all usable CPUs are assigned, and {0} more threads are to be placed")]
    NoneLeft(usize),
}
