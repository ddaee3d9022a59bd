//! A switch in stages, as simulated threads: who shares a core is what differs, and everything else is as the engine has it.
//!
//! [`simulate`] runs a [`Layout`] until so many packets have passed and then until nothing is on its way, so that what came in
//! can be compared with what went out. It must not know which layout is thought to be the best.

mod handoff;
mod places;
mod pool;
mod stage;

pub use places::PARTS;
pub use pool::Counted;

use handoff::{Receiver, Sender};
use places::{Needs, Places};
use pool::Cache;
use serde::{Deserialize, Serialize};
use sim::memory::Memory;
use sim::memory::Width::Eight;
use sim::moves::Moved;
use sim::program::Program;
use sim::{Counters, Profile, Simulated, Stuck, TICKS, Time};
use stage::{Input, Output, Stage, World};
use std::cell::RefCell;
use std::rc::Rc;

/// What a stage does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Takes from a port, and hands to workers.
    Rx,
    /// Judges, and hands to Tx stages.
    Work,
    /// Sends to a port.
    Tx,
    /// Judges what it is handed, and sends it to a port of its own.
    WorkTx,
    /// Takes from a port, judges and sends: nothing is handed on.
    Whole,
}

impl Role {
    fn takes_from_port(self) -> bool {
        matches!(self, Role::Rx | Role::Whole)
    }

    fn sends_to_port(self) -> bool {
        matches!(self, Role::Tx | Role::WorkTx | Role::Whole)
    }

    fn judges(self) -> bool {
        matches!(self, Role::Work | Role::WorkTx | Role::Whole)
    }
}

/// A stage on a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// What it does.
    pub role: Role,
    /// Which of its core's caches of pool buffers it uses: stages of one thread share one, threads do not.
    pub thread: usize,
}

/// Which of the next stages packets go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spreading {
    /// Any, by their flow.
    Flows,
    /// The one of the same number.
    Own,
}

/// Cores and what is on each, in the order of a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// One for each core.
    pub cores: Vec<Vec<Seat>>,
    /// Where packets go.
    pub spreading: Spreading,
    /// Whether another core runs a thread that has nothing to do with packets.
    pub bystander: bool,
}

/// Instructions of each packet beside the accesses of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instructions {
    /// To take it from a port.
    pub take: u64,
    /// To decide where it goes.
    pub validate: u64,
    /// To write it to a port.
    pub write: u64,
    /// To give its place in a port's ring back.
    pub give_back: u64,
    /// At each end of a handoff queue.
    pub handoff: u64,
    /// For a round that found nothing.
    pub idle: u64,
}

impl Default for Instructions {
    /// A quarter each of the 373 that callgrind counts of a worker that does all (`lab/studies/src/paths/instructions.rs`), less what
    /// the model issues itself; the end of a handoff queue is an estimate, about half of that.
    fn default() -> Self {
        Self { take: 85, validate: 85, write: 85, give_back: 85, handoff: 40, idle: 90 }
    }
}

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Packets before that.
    pub warm_up: u64,
    /// Packets that count.
    pub packets: u64,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Packets that count: those that were sent between the two moments between which everything was counted.
    pub packets: u64,
    /// Cycles that they took.
    pub cycles: f64,
    /// Millions of them a second at the profile's clock.
    pub mpps: f64,
    /// All packets of the run that came in, warm-up and end included.
    pub taken: u64,
    /// Of those, all that went out.
    pub sent: u64,
    /// Of those, all for which there was no buffer.
    pub lost: u64,
    /// What the caches of threads with such roles did, in the order of the cores.
    pub pool: Vec<(Vec<Role>, Counted)>,
    /// Lines that one core took from another, a packet, by [`PARTS`].
    pub moved: Vec<f64>,
    /// Cycles in which a core on the path could do nothing for lines of another core, a packet.
    pub waited: f64,
}

impl Outcome {
    /// What all caches did.
    pub fn pool_sum(&self) -> Counted {
        self.pool.iter().fold(Counted::default(), |sum, (_, counted)| sum.and(counted))
    }

    /// Lines that one core took from another, a packet.
    pub fn lines_moved(&self) -> f64 {
        self.moved.iter().sum()
    }

    /// Packets in a thousand cycles.
    pub fn per_kilocycle(&self) -> f64 {
        self.packets as f64 / self.cycles * 1e3
    }
}

/// The flow of packet `n` of a port: a number whose digits, in the bases of the numbers of stages, say by which of them it goes.
/// Flows come in no order (`SplitMix64`'s last step).
fn flow(port: u64, n: u64) -> u64 {
    let n = n | port << 40;
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (n ^ n >> 31) >> 40
}

/// What threads tell each other outside of the simulated memory.
#[derive(Debug, Default)]
struct Shared {
    length: (u64, u64),
    taken: u64,
    sent: u64,
    lost: u64,
    /// When counting began, with what had moved by then; and when it ended.
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
    /// So many packets have gone out.
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

/// What a thread says at its end: what its caches and its core did in all, and while it counted.
#[derive(Clone, Debug, Default)]
struct Said {
    caches: Vec<Counted>,
    core: Counters,
}

/// Runs a layout.
pub fn simulate(
    profile: &Profile,
    layout: &Layout,
    work: Instructions,
    length: Length,
) -> Result<Outcome, Stuck> {
    let plan = Plan::new(layout);
    let places = Places::new(plan.needs);
    let shared = Shared { length: (length.warm_up, length.packets), ..Shared::default() };
    let shared = Rc::new(RefCell::new(shared));
    let world = Rc::new(World { places, work, shared: Rc::clone(&shared) });
    let places = &world.places;
    let mut program = Program::new(places.bytes()).values(&places.depot.values()).parts(places.ends.clone());
    for (core, stages) in plan.stages(&world).into_iter().enumerate() {
        let caches = plan.caches[core].clone();
        let caches = caches.map(|n| Cache::new(places.depot, places.cache(n))).collect();
        let world = Rc::clone(&world);
        program = program.thread(move |memory| thread(memory, &world, stages, caches));
    }
    if layout.bystander {
        let world = Rc::clone(&world);
        program = program.thread(move |memory| beside(memory, &world));
    }
    let said = program.simulate(profile)?.said;
    let shared = shared.borrow();
    Ok(outcome(profile, layout, &shared, &said))
}

/// A thread's rounds, until nothing is on its way.
fn thread(memory: &mut Simulated<'_>, world: &World, mut stages: Vec<Stage>, mut caches: Vec<Cache>) -> Said {
    let (mut before, mut counted) = (None, None);
    let now = |memory: &Simulated<'_>, caches: &[Cache]| Said {
        caches: caches.iter().map(|cache| cache.counted).collect(),
        core: memory.counters(),
    };
    while !world.shared.borrow().is_over() {
        let mut worked = false;
        for stage in &mut stages {
            worked |= stage.round(memory, &mut caches);
        }
        if !worked {
            memory.work(world.work.idle);
        }
        if before.is_none() && world.shared.borrow().begun.is_some() {
            before = Some(now(memory, &caches));
        }
        if counted.is_none() && world.shared.borrow().ended.is_some() {
            counted = Some(now(memory, &caches));
        }
    }
    let (before, counted) = (before.unwrap_or_default(), counted.unwrap_or_else(|| now(memory, &caches)));
    let caches = counted.caches.iter().enumerate();
    let caches = caches.map(|(n, cache)| cache.since(&before.caches.get(n).copied().unwrap_or_default()));
    Said { caches: caches.collect(), core: counted.core.since(&before.core) }
}

/// A thread that works for itself while packets pass.
fn beside(memory: &mut Simulated<'_>, world: &World) -> Said {
    let mut n = 0;
    while !world.shared.borrow().is_over() {
        memory.work(4_000);
        memory.store(world.places.idle(), Eight, n);
        n += 1;
    }
    Said::default()
}

fn outcome(profile: &Profile, layout: &Layout, shared: &Shared, said: &[Said]) -> Outcome {
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
    for (core, said) in layout.cores.iter().zip(said) {
        for (thread, counted) in said.caches.iter().enumerate() {
            let roles = core.iter().filter(|seat| seat.thread == thread).map(|seat| seat.role);
            pool.push((roles.collect(), *counted));
        }
    }
    let waited: u64 = said.iter().map(|said| said.core.stall_core).sum();
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

/// Who is joined to whom.
struct Plan<'a> {
    layout: &'a Layout,
    needs: Needs,
    /// Each core's caches, by their numbers.
    caches: Vec<std::ops::Range<u64>>,
    /// Handoffs by their numbers: from which stage to which, in the order of the layout.
    handoffs: Vec<(usize, usize)>,
}

impl<'a> Plan<'a> {
    fn new(layout: &'a Layout) -> Plan<'a> {
        let roles: Vec<Role> = layout.cores.iter().flatten().map(|seat| seat.role).collect();
        let (mut caches, mut next) = (Vec::new(), 0);
        for core in &layout.cores {
            let threads = core.iter().map(|seat| seat.thread + 1).max().unwrap_or(0) as u64;
            caches.push(next..next + threads);
            next += threads;
        }
        let handoffs = joints(&roles, layout.spreading);
        let ports = roles.iter().filter(|role| role.takes_from_port()).count();
        let ports = ports.max(roles.iter().filter(|role| role.sends_to_port()).count());
        let needs = Needs {
            handoffs: handoffs.len() as u64,
            threads: next,
            stages: roles.len() as u64,
            caches: next,
            ports: ports as u64,
        };
        Plan { layout, needs, caches, handoffs }
    }

    /// The stages of each core.
    fn stages(&self, world: &Rc<World>) -> Vec<Vec<Stage>> {
        let (mut stage, mut sources, mut sinks) = (0, 0, 0);
        let mut cores = Vec::new();
        for core in &self.layout.cores {
            let mut stages = Vec::new();
            for seat in core {
                let (input, output) = self.ends(world, stage, seat.role, (sources, sinks));
                sources += u64::from(seat.role.takes_from_port());
                sinks += u64::from(seat.role.sends_to_port());
                let heads = world.places.heads(stage as u64);
                let (world, cache) = (Rc::clone(world), seat.thread);
                stages.push(Stage { world, input, output, judges: seat.role.judges(), heads, cache });
                stage += 1;
            }
            cores.push(stages);
        }
        cores
    }

    fn ends(&self, world: &World, stage: usize, role: Role, (source, sink): (u64, u64)) -> (Input, Output) {
        let numbered = || (0..).zip(&self.handoffs);
        let input = if role.takes_from_port() {
            Input::Port { number: source, ring: world.places.source(source), taken: 0 }
        } else {
            let mine = numbered().filter(|(_, (_, to))| *to == stage);
            Input::Handoffs(mine.map(|(n, _)| Receiver::new(world.places.handoff(n))).collect())
        };
        let output = if role.sends_to_port() {
            Output::Port { ring: world.places.sink(sink), sent: 0 }
        } else {
            let mine = numbered().filter(|(_, (from, _))| *from == stage);
            Output::Handoffs(mine.map(|(n, _)| Sender::new(world.places.handoff(n))).collect())
        };
        (input, output)
    }
}

/// What is joined to what, by numbers of stages.
fn joints(roles: &[Role], spreading: Spreading) -> Vec<(usize, usize)> {
    let of = |wanted: &[Role]| -> Vec<usize> {
        (0..roles.len()).filter(|stage| wanted.contains(&roles[*stage])).collect()
    };
    let (rx, work, tx) = (of(&[Role::Rx]), of(&[Role::Work, Role::WorkTx]), of(&[Role::Tx]));
    let judges: Vec<usize> = work.iter().copied().filter(|stage| roles[*stage] == Role::Work).collect();
    let mut joints = join(&rx, &work, spreading);
    joints.extend(join(&judges, &tx, spreading));
    joints
}

/// Each to each; or each to the one of its number, and where there are more of the one kind, round again.
fn join(from: &[usize], to: &[usize], spreading: Spreading) -> Vec<(usize, usize)> {
    if from.is_empty() || to.is_empty() {
        return Vec::new();
    }
    match spreading {
        Spreading::Flows => from.iter().flat_map(|one| to.iter().map(|other| (*one, *other))).collect(),
        Spreading::Own => {
            let pairs = from.len().max(to.len());
            (0..pairs).map(|n| (from[n % from.len()], to[n % to.len()])).collect()
        }
    }
}

#[cfg(test)]
mod tests;
