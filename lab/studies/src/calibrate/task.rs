//! The micro-benchmarks of [`sim::micro`], each with its warm-up, under whatever clock its memory has: one value
//! for each, so that the same list is timed on real memory and under a profile in the simulator.

use sim::memory::{Address, LINE, Memory, Width};
use sim::micro::{
    Left, Scatter, Side, chain, increments, independent_misses, leave, pages, ping_pong, pointer_chase,
    stores, stream, stream_past,
};

/// Steps before those that are timed where lines are handed over: more than a core has in flight, so that as many are
/// in flight at either end.
const IN_FLIGHT: u64 = 256;

/// One micro-benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// A chase over so many bytes: a step
    Chase {
        /// From the arena's beginning
        bytes: u64,
        /// Of the chain's order
        seed: u64,
        /// Steps before
        warm: u64,
        /// Steps that are timed
        steps: u64,
    },
    /// So many independent misses at once: a group
    Misses {
        /// Where; zeroes
        scatter: Scatter,
        /// In a group
        at_once: u64,
        /// The first place
        first: u64,
        /// Groups that are timed; a quarter as many come before
        groups: u64,
        /// What translates addresses is brought near before, where there is such a thing
        translated: bool,
    },
    /// Stores to scattered lines: a store
    Stores {
        /// Where
        scatter: Scatter,
        /// Stores that are timed
        count: u64,
    },
    /// Reads in order: a line
    Stream {
        /// From here on
        base: Address,
        /// Lines
        lines: u64,
    },
    /// Writes in order past the caches: a line
    Past {
        /// From here on
        base: Address,
        /// Lines
        lines: u64,
    },
    /// A line handed to and fro: a hand-over
    PingPong {
        /// The line; zero before
        line: Address,
        /// To and fro
        turns: u64,
    },
    /// Two counters so many bytes apart, one for each core: an addition
    Increments {
        /// The first counter
        line: Address,
        /// Bytes to the second
        apart: u64,
        /// Additions
        count: u64,
    },
    /// A chase over what another core had: a line
    HandedOver {
        /// A line through which the two agree; zero before
        flag: Address,
        /// The chain's first byte
        base: Address,
        /// Lines of the chain, more than 256
        lines: u64,
        /// Of the chain's order
        seed: u64,
        /// What the other core did
        left: Left,
    },
}

impl Task {
    /// Whether it needs two cores.
    pub fn is_pair(&self) -> bool {
        matches!(self, Task::PingPong { .. } | Task::Increments { .. } | Task::HandedOver { .. })
    }

    /// What must lie in memory before, and in no cache.
    pub fn values(&self) -> Vec<(Address, u64)> {
        match *self {
            Task::Chase { bytes, seed, .. } => chain(0, bytes / LINE, seed),
            Task::PingPong { line, .. } => vec![(line, 0)],
            Task::HandedOver { flag, base, lines, seed, .. } => {
                let mut values = chain(base, lines, seed);
                values.push((flag, 0));
                values
            }
            _ => Vec::new(),
        }
    }

    /// Runs one side of it (the first, where there is one only): nanoseconds for each unit.
    pub fn run<M: Memory>(&self, memory: &mut M, clock: impl Fn(&M) -> f64, side: Side) -> f64 {
        match *self {
            Task::Chase { warm, steps, .. } => {
                let start = pointer_chase(memory, 0, warm);
                timed(memory, clock, steps, |memory| _ = pointer_chase(memory, start, steps))
            }
            Task::Misses { scatter, at_once, first, groups, translated } => {
                if translated {
                    pages(memory, scatter.base, scatter.lines * LINE);
                }
                let place = |n| scatter.place(n);
                let before = groups / 4;
                independent_misses(memory, place, first, at_once, before);
                let first = first + before * at_once;
                timed(memory, clock, groups, |memory| {
                    independent_misses(memory, place, first, at_once, groups);
                })
            }
            Task::Stores { scatter, count } => {
                stores(memory, |n| scatter.stride(n), scatter.lines);
                timed(memory, clock, count, |memory| stores(memory, |n| scatter.stride(n), count))
            }
            Task::Stream { base, lines } => timed(memory, clock, lines, |memory| stream(memory, base, lines)),
            Task::Past { base, lines } => {
                timed(memory, clock, lines, |memory| stream_past(memory, base, lines))
            }
            Task::PingPong { line, turns } => {
                timed(memory, clock, 2 * turns, |memory| ping_pong(memory, line, turns, side))
            }
            Task::Increments { line, apart, count } => {
                let counter = if side == Side::First { line } else { line + apart };
                timed(memory, clock, count, |memory| increments(memory, counter, count))
            }
            Task::HandedOver { flag, left, .. } => self.handed_over(memory, clock, side, flag, left),
        }
    }

    /// The first core goes over the chain and says so by the flag; the second one follows it afterwards, and is timed.
    fn handed_over<M: Memory>(
        &self,
        memory: &mut M,
        clock: impl Fn(&M) -> f64,
        side: Side,
        flag: Address,
        left: Left,
    ) -> f64 {
        let mut links = self.values();
        links.pop();
        let (start, lines) = (links.first().map_or(0, |(at, _)| *at), links.len() as u64);
        if side == Side::First {
            let took = timed(memory, clock, lines, |memory| leave(memory, &links, left));
            memory.store(flag, Width::Eight, 1);
            memory.load_until(flag, Width::Eight, |value| value == 2);
            return took;
        }
        memory.load_until(flag, Width::Eight, |value| value == 1);
        let start = pointer_chase(memory, start, IN_FLIGHT);
        let steps = lines.saturating_sub(IN_FLIGHT).max(1);
        let took = timed(memory, clock, steps, |memory| _ = pointer_chase(memory, start, steps));
        memory.store(flag, Width::Eight, 2);
        took
    }

    /// Which of the two sides' times counts, or what of both.
    pub fn pick(&self, [first, second]: [f64; 2]) -> f64 {
        match self {
            Task::Increments { .. } => f64::midpoint(first, second),
            Task::HandedOver { .. } => second,
            _ => first,
        }
    }
}

/// Nanoseconds for each of so many. In the simulator all before is over when it begins, and all of it when it ends; real
/// memory has no such wait, and takes so many that it does not matter.
fn timed<M: Memory>(memory: &mut M, clock: impl Fn(&M) -> f64, count: u64, act: impl FnOnce(&mut M)) -> f64 {
    memory.fence();
    let from = clock(memory);
    act(memory);
    memory.fence();
    (clock(memory) - from) / count.max(1) as f64
}
