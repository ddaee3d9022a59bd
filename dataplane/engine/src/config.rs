//! What an engine is told at its start.

use port::Rss;

/// Workers and limits.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// One entry per worker thread; at least one.
    pub workers: Vec<WorkerConfig>,
    /// Most ports at one time. Counters for all of them are allocated at the start.
    pub max_ports: usize,
    /// How packets are spread over the queue pairs of a port that has several.
    pub rss: Rss,
}

/// One worker thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerConfig {
    /// The CPU it is pinned to; `None` leaves it to the kernel.
    pub cpu: Option<usize>,
    /// What it does when there is nothing to do.
    pub polling: Polling,
    /// What it does with a packet whose destination is full.
    pub queue_full: QueueFull,
}

/// What a worker does when there is nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Polling {
    /// Polls while packets come and sleeps on the kicks when none do.
    #[default]
    Adaptive,
    /// Polls always, and uses its CPU wholly.
    Busy,
}

/// What a worker does with a packet whose destination has no buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueFull {
    /// Drops it as `queue-full`, so that one slow guest costs no other port.
    #[default]
    Drop,
    /// Tries again in later turns of the source's queue, for a millisecond in all for a burst, then drops it. The source takes
    /// nothing new meanwhile; other queues of the worker go on.
    Wait,
}

/// Why an engine or a port did not start or end as it should. A start that failed left nothing running.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A configuration without workers.
    #[error("no worker is configured, so nothing would forward packets; configure at least one")]
    NoWorkers,
    /// A thread could not be pinned.
    #[error("worker {worker} cannot run on CPU {cpu}: {reason}; choose a CPU that this process may use")]
    Pin {
        /// The worker's index.
        worker: usize,
        /// The CPU.
        cpu: usize,
        /// What the kernel said.
        reason: rustix::io::Errno,
    },
    /// The kernel refused a thread or a descriptor.
    #[error("the engine could not start: {0}")]
    Start(#[from] std::io::Error),
    /// All port numbers are taken.
    #[error("all {0} ports are in use; remove one first")]
    TooManyPorts(usize),
    /// A name is taken.
    #[error("a port named \"{0}\" exists already; choose another name")]
    NameTaken(String),
    /// No such port.
    #[error("there is no port with number {0}")]
    NoSuchPort(u16),
    /// A worker did not answer in time.
    #[error(
        "worker {0} has not answered for {limit} s, so it may still use what it was given; nothing of that is freed \
         before it answers, and if it never does, end the process",
        limit = crate::link::LIMIT.as_secs()
    )]
    WorkerHung(usize),
    /// There is no memory for what stages hand to each other.
    #[error("the pool for packets between stages cannot be made: {0}")]
    NoPool(String),
    /// A role without a thread, or a thread without a role.
    #[error("{0}")]
    Roles(String),
    /// A receive queue stays where it is.
    #[error("the queue was not moved: {0}")]
    NotMoved(String),
    /// The engine is ending.
    #[error("the engine is stopping")]
    Stopping,
}
