//! The micro-benchmarks of [`sim::micro`], each with its warm-up, timed by a clock that the caller passes: one value
//! per benchmark, so that the same list runs on real memory and under a profile in the simulator.

use sim::memory::{Address, LINE, Memory, Width};
use sim::micro::{
    Left, Scatter, Side, chain, increments, independent_misses, leave, pages, ping_pong, pointer_chase,
    stores, stream, stream_past,
};

/// Untimed steps at the start of a hand-over chase: more than a core has in flight, so that as many are in flight at
/// the start as at the end.
const IN_FLIGHT: u64 = 256;

/// One micro-benchmark; the doc of each variant ends with the unit of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Chase over `bytes` bytes; per step
    Chase {
        /// Chain size from the arena's start
        bytes: u64,
        /// Seed of the chain's order
        seed: u64,
        /// Untimed warm-up steps
        warm: u64,
        /// Timed steps
        steps: u64,
    },
    /// Concurrent independent misses; per group
    Misses {
        /// Addresses, which hold zeroes
        scatter: Scatter,
        /// Misses per group
        at_once: u64,
        /// Index of the first address
        first: u64,
        /// Timed groups, after a quarter as many untimed ones
        groups: u64,
        /// Warms the address translation caches first
        translated: bool,
    },
    /// Stores to scattered lines; per store
    Stores {
        /// Addresses
        scatter: Scatter,
        /// Timed stores
        count: u64,
    },
    /// Sequential reads; per line
    Stream {
        /// Start address
        base: Address,
        /// Number of lines
        lines: u64,
    },
    /// Sequential non-temporal writes; per line
    Past {
        /// Start address
        base: Address,
        /// Number of lines
        lines: u64,
    },
    /// A line passed back and forth; per hand-over
    PingPong {
        /// Address of the line; must hold zero
        line: Address,
        /// Number of round trips
        turns: u64,
    },
    /// Two counters, one per core; per addition
    Increments {
        /// Address of the first counter
        line: Address,
        /// Distance to the second counter in bytes
        apart: u64,
        /// Number of additions
        count: u64,
    },
    /// Chase over lines that another core held; per line
    HandedOver {
        /// Synchronization line of the two cores; must hold zero
        flag: Address,
        /// Address of the chain's first byte
        base: Address,
        /// Lines of the chain, more than 256
        lines: u64,
        /// Seed of the chain's order
        seed: u64,
        /// State in which the other core leaves the lines
        left: Left,
    },
}

impl Task {
    /// Whether the task needs two cores.
    pub fn is_pair(&self) -> bool {
        matches!(self, Task::PingPong { .. } | Task::Increments { .. } | Task::HandedOver { .. })
    }

    /// Returns the values that must be in memory, and in no cache, before the task.
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

    /// Runs one side of the task (the first, if there is only one); returns nanoseconds per unit.
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

    /// The first core walks the chain and sets the flag; then the second core walks it and is timed.
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

    /// Combines the times of the two sides into the task's result.
    pub fn pick(&self, [first, second]: [f64; 2]) -> f64 {
        match self {
            Task::Increments { .. } => f64::midpoint(first, second),
            Task::HandedOver { .. } => second,
            _ => first,
        }
    }
}

/// Returns nanoseconds per unit for `count` units. Fences complete all earlier and all timed accesses; on real memory
/// the count is so high that their cost does not matter.
fn timed<M: Memory>(memory: &mut M, clock: impl Fn(&M) -> f64, count: u64, act: impl FnOnce(&mut M)) -> f64 {
    memory.fence();
    let from = clock(memory);
    act(memory);
    memory.fence();
    (clock(memory) - from) / count.max(1) as f64
}
