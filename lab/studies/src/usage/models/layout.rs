//! Layouts of a switch and its load on two CPUs under each execution model.

use engine::{HandoffConfig, Model, PipelineConfig, Polling, QueueFull, Roles, WorkerConfig};
use serde::{Deserialize, Serialize};

/// A model with the CPUs of its threads. Source and sink are always one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// One worker that does everything on the first CPU, source and sink on the second.
    RunToCompletion,
    /// Rx, Worker and Tx in turn on the first CPU, source and sink on the second.
    PipelineTogether,
    /// Worker on the first CPU; Rx and Tx on the second, shared with source and sink.
    PipelineIo,
    /// Worker and Tx on the first CPU; Rx on the second, shared with source and sink.
    PipelineRx,
    /// Source, switch and sink are one thread on the first CPU.
    Inline,
}

const RX: Roles = Roles { rx: true, work: false, tx: false };
const WORK: Roles = Roles { rx: false, work: true, tx: false };
const WORK_TX: Roles = Roles { rx: false, work: true, tx: true };
const IO: Roles = Roles { rx: true, work: false, tx: true };
const ALL: Roles = Roles { rx: true, work: true, tx: true };

impl Layout {
    /// All layouts, in the order of their turns.
    pub const ALL: [Layout; 5] = [
        Layout::RunToCompletion,
        Layout::PipelineTogether,
        Layout::PipelineIo,
        Layout::PipelineRx,
        Layout::Inline,
    ];

    /// Display name: model and placement.
    pub fn name(self) -> &'static str {
        match self {
            Layout::RunToCompletion => "run-to-completion",
            Layout::PipelineTogether => "pipeline, stages together",
            Layout::PipelineIo => "pipeline, Rx+Tx by the source",
            Layout::PipelineRx => "pipeline, Rx by the source",
            Layout::Inline => "inline",
        }
    }

    /// Contents of the first and of the second CPU.
    pub fn places(self) -> [&'static str; 2] {
        match self {
            Layout::RunToCompletion => ["worker", "source, sink"],
            Layout::PipelineTogether => ["Rx, Worker, Tx", "source, sink"],
            Layout::PipelineIo => ["Worker", "Rx, Tx, source, sink"],
            Layout::PipelineRx => ["Worker, Tx", "Rx, source, sink"],
            Layout::Inline => ["source, switch, sink", ""],
        }
    }

    /// CPU of source and sink.
    pub(super) fn load_on(self, [one, other]: [usize; 2]) -> usize {
        if self == Layout::Inline { one } else { other }
    }

    /// Whether source and sink share their CPU with a thread of the switch, and yield to it when idle.
    pub(super) fn shares(self) -> bool {
        matches!(self, Layout::PipelineIo | Layout::PipelineRx)
    }

    /// Returns the switch's threads and model; the inline model has no forwarding threads.
    pub(super) fn threads(self, cpus: [usize; 2]) -> (Vec<WorkerConfig>, Model) {
        let [one, other] = cpus.map(Some);
        let config = |cpu, polling| WorkerConfig { cpu, polling, queue_full: QueueFull::Drop };
        let alone = vec![config(one, Polling::Busy)];
        let pipeline = |roles: &[Roles]| {
            Model::Pipeline(PipelineConfig { roles: roles.to_vec(), handoffs: HandoffConfig::default() })
        };
        // A thread that shares a CPU sleeps when idle, so that the others can run.
        let both = || vec![config(one, Polling::Busy), config(other, Polling::Adaptive)];
        match self {
            Layout::RunToCompletion => (alone, Model::RunToCompletion),
            Layout::PipelineTogether => (alone, pipeline(&[ALL])),
            Layout::PipelineIo => (both(), pipeline(&[WORK, IO])),
            Layout::PipelineRx => (both(), pipeline(&[WORK_TX, RX])),
            Layout::Inline => (vec![config(None, Polling::Adaptive)], Model::RunToCompletion),
        }
    }
}
