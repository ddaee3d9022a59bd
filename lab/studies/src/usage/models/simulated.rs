//! The same models with as many cores as they want, under the simulator of caches: what two CPUs cannot show.
//!
//! Guests are cores of their own: one writes frames, another takes them. What a packet costs in instructions was counted on our
//! own path (`cargo xtask callgrind`, 64 bytes), as `INSTRUCTIONS` says; what a line costs that moves from core to core
//! is the simulator's. A ring has its two positions on lines of their own, four descriptors or two entries on a line, and
//! both sides look at a position again only when what they saw last is used up, as ours do. Buffers of a pipeline's pool go back from its last
//! stage to its first by a ring of their own, in place of a depot of magazines.

use super::{Crossing, Measure, WORK_CYCLES, crossing};
use serde::{Deserialize, Serialize};
use sim::memory::Width::Eight;
use sim::memory::{Address, Copying, Intent, Memory};
use sim::program::Program;
use sim::{Profile, Stuck};

/// A model with the cores that it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cores {
    /// One worker that runs to completion.
    RunToCompletion,
    /// Three of them, each between guests of its own.
    ThreeRunToCompletion,
    /// Rx, Worker and Tx on a core each.
    Pipeline,
    /// The guest that sends forwards, too.
    Inline,
}

impl Cores {
    /// All of them, in the order of tables.
    pub const ALL: [Cores; 4] =
        [Cores::RunToCompletion, Cores::ThreeRunToCompletion, Cores::Pipeline, Cores::Inline];

    /// Its name, with its cores.
    pub fn name(self) -> &'static str {
        match self {
            Cores::RunToCompletion => "run-to-completion, 1 core",
            Cores::ThreeRunToCompletion => "run-to-completion, 3 cores",
            Cores::Pipeline => "pipeline, 3 cores",
            Cores::Inline => "inline, the guest's core",
        }
    }

    /// Cores of the switch; a merged one has the core that its guest has, too.
    pub fn cores(self) -> usize {
        if matches!(self, Cores::RunToCompletion | Cores::Inline) { 1 } else { 3 }
    }

    /// Pairs of guests.
    fn lanes(self) -> u64 {
        if self == Cores::ThreeRunToCompletion { 3 } else { 1 }
    }
}

/// One model under one work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Simulated {
    /// Which, and on how many cores.
    pub cores: Cores,
    /// Work on each packet, in cycles of the simulated processor and in nanoseconds.
    pub work_cycles: u32,
    /// See `work_cycles`.
    pub work_ns: f64,
    /// Packets a second.
    pub pps: f64,
    /// Packets a second for each core of the switch.
    pub pps_per_core: f64,
    /// Lines that one core took from another, per packet.
    pub lines_moved: f64,
}

/// Instructions for a packet: a guest's, and the switch's where it runs to completion and in each stage.
const GUEST: u64 = 60;
/// See [`GUEST`].
const INSTRUCTIONS: u64 = 387;
/// See [`GUEST`]: Rx, Worker and Tx, about a third each of what they take together.
const STAGES: [u64; 3] = [360; 3];
/// Packets of a run that counts, and of the one that is taken off for the beginning.
const PACKETS: [u64; 2] = [3_000, 9_000];
const BURST: u64 = 64;
const SLOTS: u64 = 1024;
const DESCRIPTOR: u64 = 16;
const ENTRY: u64 = 32;
/// From one buffer to the next: ours, which does not have all of them in the same few sets.
const BUFFER: u64 = 17 * 128;
const FRAME: u64 = 64;
/// Of a lane in the arena: five rings and three stocks of buffers at most.
const RING: u64 = 4096 + SLOTS * ENTRY;
const LANE: u64 = 5 * RING + 3 * SLOTS * BUFFER;

/// A ring from one core to another.
#[derive(Clone, Copy)]
struct Handoff {
    at: Address,
    slot: u64,
}

/// One end of it: the next slot, and the other side's position as it was last seen.
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
    /// Waits until there is something, and says how much of it a burst takes.
    fn ready<M: Memory>(&mut self, memory: &mut M) -> u64 {
        if self.seen == self.next {
            let next = self.next;
            self.seen = memory.load_until(self.handoff.at, Eight, |value| value != next);
        }
        (self.seen - self.next).min(BURST)
    }

    /// Waits until there is room for so many.
    fn room<M: Memory>(&mut self, memory: &mut M, many: u64) {
        let end = self.next + many;
        if end - self.seen > SLOTS {
            self.seen = memory.load_until(self.handoff.at + 128, Eight, |value| end - value <= SLOTS);
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

    /// The receiver's: what was taken is room again.
    fn give_back<M: Memory>(&self, memory: &mut M) {
        memory.store(self.handoff.at + 128, Eight, self.next);
    }

    /// The sender's: what was written is there.
    fn publish<M: Memory>(&self, memory: &mut M) {
        memory.store(self.handoff.at, Eight, self.next);
    }
}

/// Buffer `n` of a stock of a lane.
fn buffer(lane: u64, stock: u64, n: u64) -> Address {
    lane * LANE + 5 * RING + stock * SLOTS * BUFFER + n % SLOTS * BUFFER
}

/// A guest writes frames.
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

/// A guest takes them.
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

/// Takes frames from one guest and writes them into the other's buffers; `guest`: it is the first guest that does it.
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
            // The first of them were never anywhere else.
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

/// Tx: writes frames into the other guest's buffers, and gives those of the pool back.
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

/// The threads of one model, for so many packets of each pair of guests.
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

/// Simulates one model under one work.
fn one(profile: &Profile, cores: Cores, work_cycles: u32, packets: [u64; 2]) -> Result<Simulated, Stuck> {
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

/// What is simulated.
pub fn cases() -> impl Iterator<Item = (Cores, u32)> {
    Cores::ALL.into_iter().flat_map(|cores| WORK_CYCLES.map(|work| (cores, work)))
}

/// Simulates one of them, on the laboratory's usual processor.
pub fn simulate(cores: Cores, work_cycles: u32) -> Result<Simulated, Stuck> {
    one(&Profile::study(), cores, work_cycles, PACKETS)
}

/// Every two models with where their curves cross, in cycles of work: by rate, and by rate for each core.
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

/// The points of one model, by cycles of work.
pub fn curve(rows: &[Simulated], cores: Cores, measure: Measure) -> Vec<(f64, f64)> {
    let point = |row: &Simulated| {
        let y = if measure == Measure::Rate { row.pps } else { row.pps_per_core };
        (f64::from(row.work_cycles), y)
    };
    rows.iter().filter(|row| row.cores == cores).map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pps(cores: Cores, work: u32) -> f64 {
        one(&Profile::study(), cores, work, [1_024, 2_048]).expect("every thread comes to its end").pps
    }

    #[test]
    fn three_workers_do_three_times_as_much_as_one() {
        let ratio = pps(Cores::ThreeRunToCompletion, 500) / pps(Cores::RunToCompletion, 500);
        assert!((2.8..3.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn under_heavy_work_a_model_does_what_its_working_core_can() {
        let most = Profile::study().frequency.value * 1e9 / 2_000.0;
        for cores in [Cores::RunToCompletion, Cores::Pipeline, Cores::Inline] {
            let pps = pps(cores, 2_000);
            assert!(pps < most && pps > most * 0.8, "{}: {pps} of {most}", cores.name());
        }
        assert!(pps(Cores::Pipeline, 2_000) > pps(Cores::Inline, 2_000), "it has Rx and Tx elsewhere");
    }
}
