//! The same models with as many cores as they need, under the cache simulator.
//!
//! Guests have their own cores: one writes frames, another receives them. Instructions per packet were counted on our
//! own path (`cargo xtask callgrind`, 64 bytes; see `INSTRUCTIONS`); the cost of lines moving between cores is the
//! simulator's. A ring has its two positions on separate lines and four descriptors or two entries per line; a side
//! reads the other's position only when its cached value is used up. A test compares full bursts through a ring with
//! `ring::spsc`. Buffers of a pipeline's pool return from the last stage to the first through a separate ring, instead
//! of a depot of magazines.

use super::{Crossing, Measure, WORK_CYCLES, crossing};
use engine::{HandoffConfig, handoff_sizes};
use mem::line::Padded;
use mem::pool::stride;
use serde::{Deserialize, Serialize};
use sim::memory::Width::Eight;
use sim::memory::{Address, Copying, Intent, Memory};
use sim::program::Program;
use sim::{Deadlock, Profile};

/// A model with the cores that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cores {
    /// One run-to-completion worker.
    RunToCompletion,
    /// Three run-to-completion workers, each between its own guests.
    ThreeRunToCompletion,
    /// Rx, Worker and Tx on one core each.
    Pipeline,
    /// The sending guest also forwards.
    Inline,
}

impl Cores {
    /// All of them, in table order.
    pub const ALL: [Cores; 4] =
        [Cores::RunToCompletion, Cores::ThreeRunToCompletion, Cores::Pipeline, Cores::Inline];

    /// Name with the number of cores.
    pub fn name(self) -> &'static str {
        match self {
            Cores::RunToCompletion => "run-to-completion, 1 core",
            Cores::ThreeRunToCompletion => "run-to-completion, 3 cores",
            Cores::Pipeline => "pipeline, 3 cores",
            Cores::Inline => "inline, the guest's core",
        }
    }

    /// Number of the switch's cores; the inline model shares the core of its guest.
    pub fn cores(self) -> usize {
        if matches!(self, Cores::RunToCompletion | Cores::Inline) { 1 } else { 3 }
    }

    /// Number of guest pairs.
    fn lanes(self) -> u64 {
        if self == Cores::ThreeRunToCompletion { 3 } else { 1 }
    }
}

/// Result of one model under one amount of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Simulated {
    /// Model and number of cores.
    pub cores: Cores,
    /// Work per packet, in cycles of the simulated processor.
    pub work_cycles: u32,
    /// Work per packet, in nanoseconds.
    pub work_ns: f64,
    /// Packets per second.
    pub pps: f64,
    /// Packets per second per core of the switch.
    pub pps_per_core: f64,
    /// Lines that cores took from each other, per packet.
    pub lines_moved: f64,
}

/// Instructions per packet of a guest.
const GUEST: u64 = 60;
/// Instructions per packet of a run-to-completion switch.
const INSTRUCTIONS: u64 = 387;
/// Instructions per packet of Rx, Worker and Tx, about a third each of their sum.
const STAGES: [u64; 3] = [360; 3];
/// Packets of a short and of a long run: the difference of the two counts, which excludes the start.
const PACKETS: [u64; 2] = [3_000, 9_000];
const BURST: u64 = port::BURST as u64;
const SLOTS: u64 = HandoffConfig::DEFAULT_RING as u64;
const DESCRIPTOR: u64 = ring::DESC as u64;
const ENTRY: u64 = handoff_sizes::ENTRY as u64;
/// Distance between the positions of a ring.
const PAIR: u64 = align_of::<Padded<u8>>() as u64;
/// Distance between buffers, which spreads them over cache sets.
const BUFFER: u64 = stride(handoff_sizes::BUFFER) as u64;
const FRAME: u64 = 64;
/// Sizes in the arena: of a ring, and of a lane with five rings and at most three sets of buffers.
const RING: u64 = 4096 + SLOTS * ENTRY;
const LANE: u64 = 5 * RING + 3 * SLOTS * BUFFER;

/// A ring from one core to another.
#[derive(Clone, Copy)]
struct Handoff {
    at: Address,
    slot: u64,
}

/// One end of a ring: the next slot, and the cached position of the other side.
struct End {
    handoff: Handoff,
    next: u64,
    seen: u64,
}

impl Handoff {
    fn new(lane: u64, which: u64, slot: u64) -> Handoff {
        Handoff { at: lane * LANE + which * RING, slot }
    }

    fn slot(self, n: u64) -> Address {
        self.at + 4096 + n % SLOTS * self.slot
    }

    fn end(self) -> End {
        End { handoff: self, next: 0, seen: 0 }
    }
}

impl End {
    /// Waits until there is an entry, and returns the number of entries for a burst.
    fn ready<M: Memory>(&mut self, memory: &mut M) -> u64 {
        if self.seen == self.next {
            let next = self.next;
            self.seen = memory.load_until(self.handoff.at, Eight, |value| value != next);
        }
        (self.seen - self.next).min(BURST)
    }

    /// Waits until there is room for `many` entries.
    fn room<M: Memory>(&mut self, memory: &mut M, many: u64) {
        let end = self.next + many;
        if end - self.seen > SLOTS {
            self.seen = memory.load_until(self.handoff.at + PAIR, Eight, |value| end - value <= SLOTS);
        }
    }

    fn read<M: Memory>(&mut self, memory: &mut M) -> u64 {
        memory.read(self.handoff.slot(self.next), self.handoff.slot);
        self.next += 1;
        self.next - 1
    }

    fn write<M: Memory>(&mut self, memory: &mut M) -> u64 {
        memory.write(self.handoff.slot(self.next), self.handoff.slot);
        self.next += 1;
        self.next - 1
    }

    /// Receiver: releases the entries read.
    fn give_back<M: Memory>(&self, memory: &mut M) {
        memory.store(self.handoff.at + PAIR, Eight, self.next);
    }

    /// Sender: publishes the entries written.
    fn publish<M: Memory>(&self, memory: &mut M) {
        memory.store(self.handoff.at, Eight, self.next);
    }
}

/// Address of buffer `n` in a set of buffers of a lane.
fn buffer(lane: u64, set: u64, n: u64) -> Address {
    lane * LANE + 5 * RING + set * SLOTS * BUFFER + n % SLOTS * BUFFER
}

/// Guest that writes frames.
fn source<M: Memory>(memory: &mut M, lane: u64, packets: u64) {
    let mut out = Handoff::new(lane, 0, DESCRIPTOR).end();
    while out.next < packets {
        out.room(memory, BURST);
        for _ in 0..BURST.min(packets - out.next) {
            write_frame(memory, lane, &mut out);
        }
        out.publish(memory);
    }
}

fn write_frame<M: Memory>(memory: &mut M, lane: u64, out: &mut End) {
    memory.work(GUEST);
    memory.write(buffer(lane, 0, out.next), FRAME);
    out.write(memory);
}

/// Guest that receives frames.
fn sink<M: Memory>(memory: &mut M, lane: u64, packets: u64) {
    let mut from = Handoff::new(lane, 1, DESCRIPTOR).end();
    while from.next < packets {
        for _ in 0..from.ready(memory) {
            let n = from.read(memory);
            memory.read(buffer(lane, 1, n), FRAME);
            memory.work(GUEST);
        }
        from.give_back(memory);
    }
}

/// Copies frames from one guest into the other's buffers; with `guest`, the sending guest does it.
fn forward<M: Memory>(memory: &mut M, lane: u64, packets: u64, work: u64, guest: bool) {
    let (mut from, mut to) =
        (Handoff::new(lane, 0, DESCRIPTOR).end(), Handoff::new(lane, 1, DESCRIPTOR).end());
    let mut own = Handoff::new(lane, 0, DESCRIPTOR).end();
    while to.next < packets {
        if guest {
            own.room(memory, BURST);
            for _ in 0..BURST.min(packets - own.next) {
                write_frame(memory, lane, &mut own);
            }
            own.publish(memory);
        }
        let many = from.ready(memory);
        to.room(memory, many);
        for k in 0..many {
            memory.prefetch(buffer(lane, 0, from.next + k), Intent::Read);
            memory.prefetch(buffer(lane, 1, to.next + k), Intent::Write);
        }
        for _ in 0..many {
            let n = from.read(memory);
            memory.work(INSTRUCTIONS + work);
            memory.copy(buffer(lane, 0, n), buffer(lane, 1, to.next), FRAME, Copying::Avx2);
            to.write(memory);
        }
        to.publish(memory);
        from.give_back(memory);
    }
}

/// Rx: copies frames into buffers of the pool, which come back from Tx.
fn stage_rx<M: Memory>(memory: &mut M, packets: u64) {
    let mut from = Handoff::new(0, 0, DESCRIPTOR).end();
    let (mut to, mut pool) = (Handoff::new(0, 2, ENTRY).end(), Handoff::new(0, 4, 8).end());
    while to.next < packets {
        let many = from.ready(memory);
        to.room(memory, many);
        for k in 0..many {
            memory.prefetch(buffer(0, 0, from.next + k), Intent::Read);
        }
        for _ in 0..many {
            let n = from.read(memory);
            memory.work(STAGES[0]);
            // The first buffers have not been used yet.
            if n >= SLOTS {
                pool.ready(memory);
                pool.read(memory);
            }
            memory.copy(buffer(0, 0, n), buffer(0, 2, n), FRAME, Copying::Avx2);
            to.write(memory);
        }
        to.publish(memory);
        from.give_back(memory);
        pool.give_back(memory);
    }
}

/// Worker: reads heads, works, and hands buffers on.
fn stage_work<M: Memory>(memory: &mut M, packets: u64, work: u64) {
    let (mut from, mut to) = (Handoff::new(0, 2, ENTRY).end(), Handoff::new(0, 3, ENTRY).end());
    while to.next < packets {
        let many = from.ready(memory);
        to.room(memory, many);
        for k in 0..many {
            memory.prefetch(buffer(0, 2, from.next + k), Intent::Read);
        }
        for _ in 0..many {
            let n = from.read(memory);
            memory.read(buffer(0, 2, n), FRAME);
            memory.work(STAGES[1] + work);
            to.write(memory);
        }
        to.publish(memory);
        from.give_back(memory);
    }
}

/// Tx: copies frames into the other guest's buffers, and returns the pool's buffers.
fn stage_tx<M: Memory>(memory: &mut M, packets: u64) {
    let (mut from, mut to) = (Handoff::new(0, 3, ENTRY).end(), Handoff::new(0, 1, DESCRIPTOR).end());
    let mut pool = Handoff::new(0, 4, 8).end();
    while to.next < packets {
        let many = from.ready(memory);
        to.room(memory, many);
        pool.room(memory, many);
        for k in 0..many {
            memory.prefetch(buffer(0, 2, from.next + k), Intent::Read);
            memory.prefetch(buffer(0, 1, to.next + k), Intent::Write);
        }
        for _ in 0..many {
            let n = from.read(memory);
            memory.work(STAGES[2]);
            memory.copy(buffer(0, 2, n), buffer(0, 1, to.next), FRAME, Copying::Avx2);
            to.write(memory);
            pool.write(memory);
        }
        to.publish(memory);
        pool.publish(memory);
        from.give_back(memory);
    }
}

/// Creates the threads of one model, for `packets` packets per guest pair.
fn program(cores: Cores, packets: u64, work: u64) -> Program {
    let mut program: Program = Program::new(cores.lanes() * LANE);
    for lane in 0..cores.lanes() {
        program = program.thread(move |memory| sink(memory, lane, packets));
        if cores == Cores::Inline {
            program = program.thread(move |memory| forward(memory, lane, packets, work, true));
            continue;
        }
        program = program.thread(move |memory| source(memory, lane, packets));
        program = if cores == Cores::Pipeline {
            program
                .thread(move |memory| stage_rx(memory, packets))
                .thread(move |memory| stage_work(memory, packets, work))
                .thread(move |memory| stage_tx(memory, packets))
        } else {
            program.thread(move |memory| forward(memory, lane, packets, work, false))
        };
    }
    program
}

/// Simulates one model under one amount of work.
fn one(profile: &Profile, cores: Cores, work_cycles: u32, packets: [u64; 2]) -> Result<Simulated, Deadlock> {
    let work = (f64::from(work_cycles) * profile.core.width.value) as u64;
    let run = |packets| program(cores, packets, work).simulate(profile);
    let (short, long) = (run(packets[0])?, run(packets[1])?);
    let many = (cores.lanes() * (packets[1] - packets[0])) as f64;
    let gigahertz = profile.frequency.value;
    let pps = many / ((long.cycles() - short.cycles()) / (gigahertz * 1e9));
    Ok(Simulated {
        cores,
        work_cycles,
        work_ns: f64::from(work_cycles) / gigahertz,
        pps,
        pps_per_core: pps / cores.cores() as f64,
        lines_moved: (long.lines_moved() - short.lines_moved()) as f64 / many,
    })
}

/// Returns all simulated cases.
pub fn cases() -> impl Iterator<Item = (Cores, u32)> {
    Cores::ALL.into_iter().flat_map(|cores| WORK_CYCLES.map(|work| (cores, work)))
}

/// Simulates one case on the study's processor.
pub fn simulate(cores: Cores, work_cycles: u32) -> Result<Simulated, Deadlock> {
    one(&Profile::study(), cores, work_cycles, PACKETS)
}

/// Returns every pair of models with the crossings of their curves in cycles of work: by rate, and by rate per core.
pub fn crossings(rows: &[Simulated]) -> Vec<([Cores; 2], [Crossing; 2])> {
    let pairs = Cores::ALL
        .iter()
        .enumerate()
        .flat_map(|(n, &one)| Cores::ALL[n + 1..].iter().map(move |&other| [one, other]));
    let found = |[one, other]: [Cores; 2]| {
        let of = |each| crossing(&curve(rows, one, each), &curve(rows, other, each));
        ([one, other], [of(Measure::Rate), of(Measure::RatePerCpu)])
    };
    pairs.map(found).collect()
}

/// Returns the curve of one model, by cycles of work.
pub fn curve(rows: &[Simulated], cores: Cores, measure: Measure) -> Vec<(f64, f64)> {
    let point = |row: &Simulated| {
        let y = if measure == Measure::Rate { row.pps } else { row.pps_per_core };
        (f64::from(row.work_cycles), y)
    };
    rows.iter().filter(|row| row.cores == cores).map(point).collect()
}

#[cfg(test)]
mod tests;
