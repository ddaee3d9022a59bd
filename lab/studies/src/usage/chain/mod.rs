//! A switch in stages, as simulated threads: layouts differ only in the assignment of stages to cores; everything else
//! is as in the engine.
//!
//! [`simulate`] runs a [`Layout`] until a number of packets has passed and no packet is in transit, so that input and
//! output can be compared. It must not contain assumptions about the best layout.

#[cfg(test)]
mod conformance;
mod handoff;
mod places;
mod plan;
mod pool;
mod stage;

pub use places::PARTS;
pub use pool::Counted;

use places::Places;
use plan::Plan;
use pool::Cache;
use serde::{Deserialize, Serialize};
use sim::memory::Memory;
use sim::memory::Width::Eight;
use sim::moves::Moved;
use sim::program::Program;
use sim::{Counters, Deadlock, Profile, Simulated, TICKS, Time};
use stage::{ChainContext, Stage};
use std::cell::RefCell;
use std::rc::Rc;

/// Role of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Receives from a port, and hands packets to workers.
    Rx,
    /// Classifies, and hands packets to Tx stages.
    Work,
    /// Sends to a port.
    Tx,
    /// Classifies packets handed to it, and sends them to its own port.
    WorkTx,
    /// Receives from a port, classifies and sends, without handoff.
    Whole,
}

impl Role {
    fn takes_from_port(self) -> bool {
        matches!(self, Role::Rx | Role::Whole)
    }

    fn sends_to_port(self) -> bool {
        matches!(self, Role::Tx | Role::WorkTx | Role::Whole)
    }

    fn classifies(self) -> bool {
        matches!(self, Role::Work | Role::WorkTx | Role::Whole)
    }
}

/// A stage on a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedStage {
    /// Role of the stage.
    pub role: Role,
    /// Index of the core's pool cache that the stage uses: stages of one thread share one, threads do not.
    pub thread: usize,
}

/// Selection of the next stage for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fanout {
    /// Any next stage, by flow.
    Flows,
    /// The next stage of the same number.
    Own,
}

/// Cores with their stages, in the order of a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Stages of each core.
    pub cores: Vec<Vec<PlacedStage>>,
    /// Selection of the next stage.
    pub fanout: Fanout,
    /// Whether another core runs a thread that handles no packets.
    pub bystander: bool,
}

/// Instructions per packet besides the model's accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instructions {
    /// Receiving from a port.
    pub take: u64,
    /// Classifying.
    pub validate: u64,
    /// Writing to a port.
    pub write: u64,
    /// Giving an entry of a port's ring back.
    pub give_back: u64,
    /// At each end of a handoff queue.
    pub handoff: u64,
    /// For a round without packets.
    pub idle: u64,
}

impl Default for Instructions {
    /// A quarter each of the 373 that callgrind counts for a worker that does everything
    /// (`lab/studies/src/paths/instructions.rs`), less the instructions that the model issues; the handoff value is an
    /// estimate, about half of that.
    fn default() -> Self {
        Self { take: 85, validate: 85, write: 85, give_back: 85, handoff: 40, idle: 90 }
    }
}

/// Length of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Warm-up packets.
    pub warm_up: u64,
    /// Counted packets.
    pub packets: u64,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Counted packets: those sent between the start and the end of counting.
    pub packets: u64,
    /// Cycles for these packets.
    pub cycles: f64,
    /// Millions of packets per second at the profile's clock.
    pub mpps: f64,
    /// All packets received in the run, including warm-up and end.
    pub taken: u64,
    /// All packets sent.
    pub sent: u64,
    /// All packets dropped for lack of a buffer.
    pub lost: u64,
    /// Pool cache counts of threads with these roles, in core order.
    pub pool: Vec<(Vec<Role>, Counted)>,
    /// Lines that cores took from each other per packet, by [`PARTS`].
    pub moved: Vec<f64>,
    /// Cycles per packet in which a core on the path was stalled by lines of another core.
    pub waited: f64,
}

impl Outcome {
    /// Sum of all cache counts.
    pub fn pool_sum(&self) -> Counted {
        self.pool.iter().fold(Counted::default(), |sum, (_, counted)| sum.and(counted))
    }

    /// Lines that cores took from each other, per packet.
    pub fn lines_moved(&self) -> f64 {
        self.moved.iter().sum()
    }

    /// Packets per thousand cycles.
    pub fn per_kilocycle(&self) -> f64 {
        self.packets as f64 / self.cycles * 1e3
    }
}

/// Returns the flow of packet `n` of a port: a number whose digits, in the bases of the stage counts, select the
/// stages. Flows are in pseudo-random order (`SplitMix64`'s last step).
fn flow(port: u64, n: u64) -> u64 {
    let n = n | port << 40;
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (n ^ n >> 31) >> 40
}

/// State shared by the threads outside the simulated memory.
#[derive(Debug, Default)]
struct Shared {
    length: (u64, u64),
    taken: u64,
    sent: u64,
    lost: u64,
    /// Start and end of counting, with the line transfers until then.
    begun: Option<Moment>,
    ended: Option<Moment>,
    stopped: bool,
}

#[derive(Clone, Debug)]
struct Moment {
    time: Time,
    sent: u64,
    moves: Vec<Vec<Moved>>,
}

impl Shared {
    /// Records sent packets, and starts or ends counting.
    fn send(&mut self, memory: &Simulated<'_>, packets: u64) {
        self.sent += packets;
        let (warm_up, counted) = self.length;
        let moment = |sent| Some(Moment { time: memory.counters().time, sent, moves: memory.moves() });
        if self.begun.is_none() && self.sent >= warm_up {
            self.begun = moment(self.sent);
        }
        if self.ended.is_none() && self.begun.as_ref().is_some_and(|begun| self.sent >= begun.sent + counted)
        {
            self.ended = moment(self.sent);
            self.stopped = true;
        }
    }

    fn is_over(&self) -> bool {
        self.stopped && self.sent + self.lost == self.taken
    }
}

/// Result of a thread: counts of its caches and its core during counting.
#[derive(Clone, Debug, Default)]
struct ThreadResult {
    caches: Vec<Counted>,
    core: Counters,
}

/// Runs a layout.
pub fn simulate(
    profile: &Profile,
    layout: &Layout,
    work: Instructions,
    length: Length,
) -> Result<Outcome, Deadlock> {
    let plan = Plan::new(layout);
    let places = Places::new(plan.needs);
    let shared = Shared { length: (length.warm_up, length.packets), ..Shared::default() };
    let shared = Rc::new(RefCell::new(shared));
    let context = Rc::new(ChainContext { places, work, shared: Rc::clone(&shared) });
    let places = &context.places;
    let mut program = Program::new(places.bytes()).values(&places.depot.values()).parts(places.ends.clone());
    for (core, stages) in plan.stages(&context).into_iter().enumerate() {
        let caches = plan.caches[core].clone();
        let caches = caches.map(|n| Cache::new(places.depot, places.cache(n))).collect();
        let context = Rc::clone(&context);
        program = program.thread(move |memory| thread(memory, &context, stages, caches));
    }
    if layout.bystander {
        let context = Rc::clone(&context);
        program = program.thread(move |memory| beside(memory, &context));
    }
    let results = program.simulate(profile)?.results;
    let shared = shared.borrow();
    Ok(outcome(profile, layout, &shared, &results))
}

/// Runs a thread's rounds until no packet is in transit.
fn thread(
    memory: &mut Simulated<'_>,
    context: &ChainContext,
    mut stages: Vec<Stage>,
    mut caches: Vec<Cache>,
) -> ThreadResult {
    let (mut before, mut counted) = (None, None);
    let now = |memory: &Simulated<'_>, caches: &[Cache]| ThreadResult {
        caches: caches.iter().map(|cache| cache.counted).collect(),
        core: memory.counters(),
    };
    while !context.shared.borrow().is_over() {
        let mut worked = false;
        for stage in &mut stages {
            worked |= stage.round(memory, &mut caches);
        }
        if !worked {
            memory.work(context.work.idle);
        }
        if before.is_none() && context.shared.borrow().begun.is_some() {
            before = Some(now(memory, &caches));
        }
        if counted.is_none() && context.shared.borrow().ended.is_some() {
            counted = Some(now(memory, &caches));
        }
    }
    let (before, counted) = (before.unwrap_or_default(), counted.unwrap_or_else(|| now(memory, &caches)));
    let caches = counted.caches.iter().enumerate();
    let caches = caches.map(|(n, cache)| cache.since(&before.caches.get(n).copied().unwrap_or_default()));
    ThreadResult { caches: caches.collect(), core: counted.core.since(&before.core) }
}

/// A thread that works independently while packets pass.
fn beside(memory: &mut Simulated<'_>, context: &ChainContext) -> ThreadResult {
    let mut n = 0;
    while !context.shared.borrow().is_over() {
        memory.work(4_000);
        memory.store(context.places.idle(), Eight, n);
        n += 1;
    }
    ThreadResult::default()
}

fn outcome(profile: &Profile, layout: &Layout, shared: &Shared, results: &[ThreadResult]) -> Outcome {
    let none = || Moment { time: 0, sent: 0, moves: Vec::new() };
    let begun = shared.begun.clone().unwrap_or_else(none);
    let ended = shared.ended.clone().unwrap_or_else(none);
    let packets = ended.sent - begun.sent;
    let cycles = (ended.time - begun.time) as f64 / TICKS as f64;
    let each = |n: f64| n / packets.max(1) as f64;
    let count = |moment: &Moment, part: usize| -> f64 {
        let sum = |moved: &Moved| f64::from(moved.read) + f64::from(moved.owned) + f64::from(moved.raised);
        moment.moves.iter().filter_map(|parts| parts.get(part)).map(sum).sum()
    };
    let moved = (0..PARTS.len()).map(|part| each(count(&ended, part) - count(&begun, part)));
    let mut pool = Vec::new();
    for (core, results) in layout.cores.iter().zip(results) {
        for (thread, counted) in results.caches.iter().enumerate() {
            let roles = core.iter().filter(|placed| placed.thread == thread).map(|placed| placed.role);
            pool.push((roles.collect(), *counted));
        }
    }
    let waited: u64 = results.iter().map(|results| results.core.stall_core).sum();
    Outcome {
        packets,
        cycles,
        mpps: packets as f64 / cycles * profile.frequency.value * 1e3,
        taken: shared.taken,
        sent: shared.sent,
        lost: shared.lost,
        pool,
        moved: moved.collect(),
        waited: each(waited as f64 / TICKS as f64),
    }
}

#[cfg(test)]
mod tests;
