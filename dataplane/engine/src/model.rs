//! How the work on packets is divided among threads: execution models, and the knobs of those that have stages.

use crate::config::QueueFull;

/// How the work on packets is divided among the threads of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// Each worker takes packets, judges them and sends them.
    #[default]
    RunToCompletion,
    /// The same, and a worker that has nothing to do takes whole bursts from the fullest queue of another one.
    Stealing,
    /// Run to completion, and ports that ask for it have their packets handed to the worker of each flow
    /// ([`crate::Engine::add_spread`]): receive-side scaling in software, for ports with one queue pair.
    Spreading(HandoffConfig),
    /// Stages joined by handoff queues.
    Pipeline(PipelineConfig),
}

/// Which worker does what. A thread with several roles does them one after the other, in rounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineConfig {
    /// The roles of each thread of [`crate::EngineConfig::workers`], in their order. All three must be somewhere.
    pub roles: Vec<Roles>,
    /// How stages are joined.
    pub handoffs: HandoffConfig,
}

/// What one thread does of the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// Takes packets from ports and hands them to workers.
    pub rx: bool,
    /// Judges packets.
    pub work: bool,
    /// Sends packets to ports.
    pub tx: bool,
}

impl Roles {
    /// One role alone.
    pub const fn only(role: Role) -> Self {
        Self { rx: matches!(role, Role::Rx), work: matches!(role, Role::Work), tx: matches!(role, Role::Tx) }
    }

    /// The roles, in the order in which a packet meets them.
    pub fn each(self) -> impl Iterator<Item = Role> {
        let all = [(self.rx, Role::Rx), (self.work, Role::Work), (self.tx, Role::Tx)];
        all.into_iter().filter_map(|(has, role)| has.then_some(role))
    }
}

/// What a stage does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Everything: a worker that runs to completion.
    All,
    /// Takes packets from ports and hands them to workers.
    Rx,
    /// Judges packets.
    Work,
    /// Sends packets to ports.
    Tx,
}

impl Role {
    /// The name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Role::All => "all",
            Role::Rx => "rx",
            Role::Work => "work",
            Role::Tx => "tx",
        }
    }
}

/// What keeps its order between an Rx stage and the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Packets of a flow: each flow has one worker, by [`crate::EngineConfig::rss`].
    #[default]
    Flow,
    /// Packets of a port: each port has one worker.
    Port,
    /// Nothing: bursts go to the workers in turn.
    None,
}

/// How stages are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandoffConfig {
    /// Packets that one handoff queue holds; the next power of two.
    pub ring: usize,
    /// Packets that a sender shows its receiver at once; 0: all that one burst has for it. What is short of a unit at the end
    /// of a round is shown then.
    pub write_unit: usize,
    /// Packets that a receiver takes out of the ring at once, a burst at most.
    pub read_unit: usize,
    /// What happens when the next stage does not keep pace: its handoff queue fills up and packets are lost as `stage-full`, or the
    /// stages before it take no more than there is room for.
    pub full: QueueFull,
    /// What keeps its order.
    pub order: Order,
    /// Buffers of the pool, at least; as many as the handoff queues can hold are there in any case.
    pub buffers: usize,
}

impl Default for HandoffConfig {
    fn default() -> Self {
        Self {
            ring: 1024,
            write_unit: 0,
            read_unit: port::BURST,
            full: QueueFull::Wait,
            order: Order::Flow,
            buffers: 0,
        }
    }
}

impl HandoffConfig {
    /// Sizes that a handoff queue may have: a ring has room for what two bursts become, and twice that.
    pub const RINGS: std::ops::RangeInclusive<usize> = 256..=65_536;
    /// Units of writing.
    pub const WRITE_UNITS: std::ops::RangeInclusive<usize> = 1..=256;
    /// Units of reading: what is taken out of the ring has its place in one burst.
    pub const READ_UNITS: std::ops::RangeInclusive<usize> = 1..=port::BURST;

    /// Most packets in one handoff queue, in its ring and on their way out of it.
    pub(crate) const MOST: usize = *Self::RINGS.end() + *Self::WRITE_UNITS.end();

    /// As it can be built: each number brought into its range.
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
    /// How stages are joined, where there are any.
    pub(crate) fn handoffs(&self) -> Option<HandoffConfig> {
        match self {
            Model::RunToCompletion | Model::Stealing => None,
            Model::Spreading(handoffs) | Model::Pipeline(PipelineConfig { handoffs, .. }) => {
                Some(handoffs.sound())
            }
        }
    }

    /// The roles of each of `threads` threads.
    pub(crate) fn roles(&self, threads: usize) -> Vec<Vec<Role>> {
        match self {
            Model::RunToCompletion | Model::Stealing => vec![vec![Role::All]; threads],
            Model::Spreading(_) => vec![vec![Role::All, Role::Rx]; threads],
            Model::Pipeline(config) => {
                let none = Roles::default();
                (0..threads).map(|i| config.roles.get(i).unwrap_or(&none).each().collect()).collect()
            }
        }
    }
}
