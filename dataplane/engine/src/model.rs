//! Execution models: how packet processing is divided among threads, and parameters of handoff queues.

use crate::config::QueueFull;

/// How packet processing is divided among the threads of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// Each worker receives, classifies and sends packets.
    #[default]
    RunToCompletion,
    /// Run to completion with work stealing: an idle worker takes whole bursts from the fullest queue of another
    /// worker.
    Stealing,
    /// Run to completion with software RSS for ports that request it ([`crate::Engine::add_rss_port`]): their packets
    /// are handed to the worker of their flow. For ports with one queue pair.
    SoftwareRss(HandoffConfig),
    /// Stages joined by handoff queues.
    Pipeline(PipelineConfig),
}

/// Roles of each thread. A thread with several roles executes them in turn, in rounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineConfig {
    /// The roles of each thread of [`crate::EngineConfig::workers`], in the same order. Each role must be assigned.
    pub roles: Vec<Roles>,
    /// Parameters of the handoff queues between stages.
    pub handoffs: HandoffConfig,
}

/// Roles of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// Receives packets from ports and hands them to workers.
    pub rx: bool,
    /// Classifies packets.
    pub work: bool,
    /// Sends packets to ports.
    pub tx: bool,
}

impl Roles {
    /// A single role.
    pub const fn only(role: Role) -> Self {
        Self { rx: matches!(role, Role::Rx), work: matches!(role, Role::Work), tx: matches!(role, Role::Tx) }
    }

    /// The assigned roles, in pipeline order.
    pub fn each(self) -> impl Iterator<Item = Role> {
        let all = [(self.rx, Role::Rx), (self.work, Role::Work), (self.tx, Role::Tx)];
        all.into_iter().filter_map(|(has, role)| has.then_some(role))
    }
}

/// Role of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// All of it: a worker that runs to completion.
    All,
    /// Receives packets from ports and hands them to workers.
    Rx,
    /// Classifies packets.
    Work,
    /// Sends packets to ports.
    Tx,
}

impl Role {
    /// Name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Role::All => "all",
            Role::Rx => "rx",
            Role::Work => "work",
            Role::Tx => "tx",
        }
    }
}

/// Packet order preserved between an Rx stage and the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Per flow: each flow has one worker, chosen by [`crate::EngineConfig::rss`].
    #[default]
    Flow,
    /// Per port: each port has one worker.
    Port,
    /// None: bursts are distributed round-robin.
    None,
}

/// Parameters of handoff queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandoffConfig {
    /// Capacity of one handoff queue in packets, rounded up to a power of two.
    pub ring: usize,
    /// Packets that a sender publishes at once; 0 publishes all packets of a burst. A partial unit is published at
    /// the end of a round.
    pub write_unit: usize,
    /// Packets that a receiver dequeues at once, at most a burst.
    pub read_unit: usize,
    /// Effect of a slower next stage: packets are dropped as `handoff-full` when the handoff queue is
    /// full, or the previous stages receive only as many packets as fit.
    pub full: QueueFull,
    /// Packet order to preserve.
    pub order: Order,
    /// Minimum number of buffers in the pool; it always has at least as many as the handoff queues can hold.
    pub buffers: usize,
}

impl Default for HandoffConfig {
    fn default() -> Self {
        Self {
            ring: Self::DEFAULT_RING,
            write_unit: 0,
            read_unit: port::BURST,
            full: QueueFull::Wait,
            order: Order::Flow,
            buffers: 0,
        }
    }
}

impl HandoffConfig {
    /// Default capacity of a handoff queue.
    pub const DEFAULT_RING: usize = 1024;
    /// Valid ring sizes. The smallest is twice the room that a stage requires, two bursts.
    pub const RINGS: std::ops::RangeInclusive<usize> = 256..=65_536;
    /// Valid write units.
    pub const WRITE_UNITS: std::ops::RangeInclusive<usize> = 1..=256;
    /// Valid read units: dequeued packets must fit in one burst.
    pub const READ_UNITS: std::ops::RangeInclusive<usize> = 1..=port::BURST;

    /// Maximum number of packets in one handoff queue, in its ring and being dequeued.
    pub(crate) const CAPACITY: usize = *Self::RINGS.end() + *Self::WRITE_UNITS.end();

    /// A copy with each number clamped to its valid range.
    pub(crate) fn sound(self) -> Self {
        let (rings, units) = (Self::RINGS, Self::READ_UNITS);
        Self {
            ring: self.ring.clamp(*rings.start(), *rings.end()),
            write_unit: self.write_unit.min(*Self::WRITE_UNITS.end()),
            read_unit: self.read_unit.clamp(*units.start(), *units.end()),
            ..self
        }
    }
}

impl Model {
    /// Parameters of the handoff queues; `None` if the model has none.
    pub(crate) fn handoffs(&self) -> Option<HandoffConfig> {
        match self {
            Model::RunToCompletion | Model::Stealing => None,
            Model::SoftwareRss(handoffs) | Model::Pipeline(PipelineConfig { handoffs, .. }) => {
                Some(handoffs.sound())
            }
        }
    }

    /// The roles of each of `threads` threads.
    pub(crate) fn roles(&self, threads: usize) -> Vec<Vec<Role>> {
        match self {
            Model::RunToCompletion | Model::Stealing => vec![vec![Role::All]; threads],
            Model::SoftwareRss(_) => vec![vec![Role::All, Role::Rx]; threads],
            Model::Pipeline(config) => {
                let none = Roles::default();
                (0..threads).map(|i| config.roles.get(i).unwrap_or(&none).each().collect()).collect()
            }
        }
    }
}
