//! Engine configuration and errors.

use port::{PortFault, Remedy, Rss};
use std::borrow::Cow;
use std::time::Duration;

/// Workers and limits.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// One entry per worker thread; at least one.
    pub workers: Vec<WorkerConfig>,
    /// Maximum number of ports at one time. Counters for all of them are allocated at start.
    pub max_ports: usize,
    /// How packets are distributed over the queue pairs of a multi-queue port.
    pub rss: Rss,
}

/// One worker thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerConfig {
    /// The CPU to pin it to; `None` leaves placement to the kernel.
    pub cpu: Option<usize>,
    /// Polling mode.
    pub polling: Polling,
    /// Handling of packets whose destination queue is full.
    pub queue_full: QueueFull,
}

/// How a worker behaves without packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Polling {
    /// Polls while packets arrive and sleeps on kicks otherwise.
    #[default]
    Adaptive,
    /// Polls continuously and uses its CPU fully.
    Busy,
}

/// How a worker handles a packet if the destination has no buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueFull {
    /// Drops it as `queue-full`, so that a slow guest does not affect other ports.
    #[default]
    Drop,
    /// Retries in later turns of the source queue, at most one millisecond for a burst, then drops it. The source
    /// queue receives nothing meanwhile; other queues of the worker are served.
    Wait,
}

/// An engine or port did not start or stop properly. A failed start leaves nothing running.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The configuration has no workers.
    #[error("no worker is configured, so nothing would forward packets")]
    NoWorkers,
    /// A thread could not be pinned.
    #[error("worker {worker} cannot run on CPU {cpu}: {reason}")]
    Pin {
        /// The worker's index.
        worker: usize,
        /// The CPU.
        cpu: usize,
        /// The error returned by the kernel.
        reason: rustix::io::Errno,
    },
    /// The kernel refused a thread or a descriptor.
    #[error("cannot start the engine: {0}")]
    Start(#[from] std::io::Error),
    /// All port numbers are taken.
    #[error("all {0} ports are in use")]
    TooManyPorts(usize),
    /// The name is in use.
    #[error("a port named \"{0}\" exists already")]
    NameTaken(String),
    /// No such port.
    #[error("there is no port with number {0}")]
    NoSuchPort(u16),
    /// No such worker.
    #[error("there is no worker {0}")]
    NoSuchWorker(usize),
    /// The engine needs the worker.
    #[error("worker {0} is the last one with the role `{1}`, so no packet would pass without it")]
    LastWorker(usize, &'static str),
    /// A worker did not respond in time.
    #[error("worker {worker} has not responded for {} s, so ports and memory that it may still use are not freed", limit.as_secs_f64())]
    WorkerHung {
        /// The worker's index.
        worker: usize,
        /// The limit for a response: see [`Engine::set_response_limit`](crate::Engine::set_response_limit).
        limit: Duration,
    },
    /// The buffer pool for handoff queues could not be allocated.
    #[error("cannot allocate the packet pool of the handoff queues: {0}")]
    NoPool(String),
    /// A role without a thread, a thread without a role, or too many ports or stages.
    #[error("{0}")]
    Roles(String),
    /// A receive queue was not moved.
    #[error("the queue was not moved: {0}")]
    NotMoved(String),
    /// A port was not handed over to another process, or not taken over.
    #[error("port \"{0}\" was not handed over: {1}")]
    NotHandedOver(String, PortFault),
    /// The engine is stopping.
    #[error("the engine is stopping")]
    Stopping,
}

impl Remedy for EngineError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::NoWorkers => "configure at least one".into(),
            Self::Pin { .. } => "choose a CPU that this process may use".into(),
            Self::TooManyPorts(..) => "remove one first".into(),
            Self::NameTaken(..) => "choose another name".into(),
            Self::NoSuchWorker(..) => "see `linerate workers show`".into(),
            Self::LastWorker(..) => "add another one first".into(),
            Self::WorkerHung { .. } => "if it does not recover, end the process".into(),
            Self::Start(..)
            | Self::NoSuchPort(..)
            | Self::NoPool(..)
            | Self::Roles(..)
            | Self::NotMoved(..)
            | Self::NotHandedOver(..)
            | Self::Stopping => return None,
        })
    }
}
