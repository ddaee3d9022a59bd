//! Which thread with which roles runs on which CPU, and which worker serves which queue: values that can be printed
//! before anything runs.
//!
//! [`plan`] is a pure function of a [`Machine`] and of what is wanted. Two questions are apart in it: the *pattern* says
//! which roles share a thread or a core (`group`), and the *order* of CPUs says where the next thread goes (`order`).
//! [`QueueAffinity`] are the rules by which receive queues go to workers. Nothing here starts, pins or moves anything.

mod affinity;
mod group;
mod order;
mod plan;
#[cfg(test)]
mod tests;

pub use affinity::{QueueAffinity, QueueName, SeatError};
pub use plan::plan;

use crate::machine::Machine;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a thread does in one stage of the way of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// All of it: takes bursts, judges and sends them.
    RunToCompletion,
    /// Takes bursts and hands them on.
    Rx,
    /// Judges what it is handed.
    Worker,
    /// Sends what it is handed.
    Tx,
}

/// One of the threads' tasks: the `index`th instance of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Role {
    /// The stage.
    pub stage: Stage,
    /// Which of its instances, from 0.
    pub index: usize,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::RunToCompletion => "worker",
            Stage::Rx => "rx",
            Stage::Worker => "judge",
            Stage::Tx => "tx",
        };
        write!(f, "{stage} {}", self.index)
    }
}

/// How many instances of each stage there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stages {
    /// Workers that run to completion.
    pub run_to_completion: usize,
    /// Receiving stages of a pipeline.
    pub rx: usize,
    /// Judging stages of a pipeline.
    pub worker: usize,
    /// Sending stages of a pipeline.
    pub tx: usize,
}

impl Stages {
    /// Whether there are stages that could share threads.
    pub fn is_pipeline(&self) -> bool {
        self.rx + self.worker + self.tx > 0
    }
}

/// Which stages share a thread or a core. Stages of the same number go together (rx 0 with tx 0); what has no partner
/// has a thread of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Each stage has a thread and a CPU of its own.
    #[default]
    Separate,
    /// Rx and Tx are one thread: buffers are given back where they were taken.
    Io,
    /// Rx, Worker and Tx are one thread, with their rings between them still: quasi run-to-completion.
    All,
    /// Rx and Worker are one thread.
    RxWorker,
    /// Worker and Tx are one thread.
    TxWorker,
    /// Rx and Tx are threads of their own on one core: its two siblings where it has two, else one CPU in turns.
    QuasiIo,
    /// `Io` where the CPUs suffice for it, else `All`.
    Auto,
}

impl Pattern {
    /// All of them with their names.
    pub const NAMES: [(&'static str, Pattern); 7] = [
        ("separate", Pattern::Separate),
        ("io", Pattern::Io),
        ("all", Pattern::All),
        ("rx-worker", Pattern::RxWorker),
        ("tx-worker", Pattern::TxWorker),
        ("quasi-io", Pattern::QuasiIo),
        ("auto", Pattern::Auto),
    ];

    /// Its name, as the configuration file spells it.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, pattern)| *pattern == self).map_or("", |(name, _)| name)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is to be placed, and what the placement has to keep to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// The stages to place.
    pub stages: Stages,
    /// How they share threads.
    pub pattern: Pattern,
    /// The CPUs to use, in this order; empty: all that this process may use, in an order of this room's choice.
    pub cpus: Vec<usize>,
    /// CPUs that have their thread already.
    pub taken: Vec<usize>,
    /// The NUMA node that packets come from, where it is known.
    pub near: Option<usize>,
}

/// One thread: what it does, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// What it does; in a round it does them in this order.
    pub roles: Vec<Role>,
    /// The CPU that it is pinned to.
    pub cpu: usize,
}

/// A placement, and what there is to say about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The pattern; never [`Pattern::Auto`], but what was chosen.
    pub pattern: Pattern,
    /// Every thread.
    pub threads: Vec<Thread>,
    /// Notes for the user: which threads share a CPU or a core, which are far from their packets.
    pub notes: Vec<String>,
}

impl Plan {
    /// The CPU of the thread that has this role.
    pub fn cpu_of(&self, role: Role) -> Option<usize> {
        self.threads.iter().find(|thread| thread.roles.contains(&role)).map(|thread| thread.cpu)
    }
}

/// Why there is no placement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A CPU of the list is not switched on.
    #[error("CPU {0} does not exist on this machine, so no thread can be placed there")]
    NoSuchCpu(usize),
    /// A CPU of the list is forbidden.
    #[error("CPU {0} is outside this process's affinity mask, so no thread can be placed there")]
    Forbidden(usize),
    /// Nothing is left to place a thread on.
    #[error("all CPUs that may be used have their thread already, and {0} more are to be placed")]
    NoneLeft(usize),
}
