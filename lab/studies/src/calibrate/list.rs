//! Micro-benchmarks of a calibration: their sizes, and the constant that each determines.

use super::Caches;
use super::task::Task;
use sim::memory::{Address, LINE};
use sim::micro::{Left, Scatter};

/// Maximum number of concurrent misses.
const AT_ONCE: u64 = 40;
/// Number of lines that one core passes to the other.
const HANDED: u64 = 1024;

/// Arena offsets in bytes: chains first, then zeroes, then lines shared by two cores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) zeroes: Address,
    pub(super) shared: Address,
    pub(super) bytes: u64,
}

impl Places {
    /// Reserves `times` the size of the shared cache for the chains, and as much for the zeroes.
    pub(super) fn of(caches: &Caches, times: u64) -> Places {
        let large = (caches.llc.bytes * times).next_power_of_two();
        let shared = 2 * large;
        Places { zeroes: large, shared, bytes: shared + (64 << 20) }
    }
}

/// Amount of work per benchmark: enough for a clock, or as much as a simulator can afford.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    warm: u64,
    steps: u64,
    groups: u64,
    stores: u64,
    lines: u64,
    turns: u64,
    additions: u64,
    /// Chases over every size, not only those that determine a constant
    curve: bool,
    translated: bool,
}

impl Effort {
    pub(super) const REAL: Effort = Effort {
        warm: 200_000,
        steps: 50_000,
        groups: 2000,
        stores: 100_000,
        lines: 500_000,
        turns: 10_000,
        additions: 200_000,
        curve: true,
        translated: true,
    };
    pub(super) const SIMULATED: Effort = Effort {
        warm: 100_000,
        steps: 4000,
        groups: 100,
        stores: 20_000,
        lines: 20_000,
        turns: 500,
        additions: 2000,
        curve: false,
        translated: false,
    };
}

/// Meaning of a measured time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A constant, in nanoseconds
    Constant(&'static str),
    /// A point of the chase curve, by bytes
    Chase(u64),
    /// A point of the miss curve, by concurrent misses
    Misses(usize),
}

/// One benchmark of the list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) task: Task,
    pub(super) meaning: Meaning,
}

/// Returns all benchmarks of a round.
pub(super) fn list(caches: &Caches, places: Places, effort: Effort, seed: u64) -> Vec<Step> {
    let mut steps = chases(caches, places, effort, seed);
    steps.extend((1..=AT_ONCE).map(|at_once| misses(places, effort, seed, at_once)));
    steps.extend(all_stores(caches, places, effort));
    let (base, lines) = (places.zeroes, effort.lines.min(places.zeroes / LINE - 1));
    let constant = |name, task| Step { task, meaning: Meaning::Constant(name) };
    steps.push(constant("stream", Task::Stream { base, lines }));
    steps.push(constant("past", Task::Past { base, lines }));
    steps.extend(shared_lines(places, effort, seed));
    steps
}

fn chases(caches: &Caches, places: Places, effort: Effort, seed: u64) -> Vec<Step> {
    let levels = [
        ("l1.latency", caches.l1.bytes / 2),
        // A cache has misses near its size, and neighbours use part of the shared one.
        ("l2.latency", caches.l2.bytes / 4),
        ("llc.latency", (caches.l2.bytes * 4).min(caches.llc.bytes / 4)),
        ("dram", places.zeroes),
    ];
    let mut sizes: Vec<u64> = (12..48).map(|bits| 1 << bits).filter(|size| *size <= places.zeroes).collect();
    sizes.retain(|size| effort.curve && levels.iter().all(|(_, level)| level != size));
    // One lap brings in everything that fits; if nothing fits, a part is enough.
    let task = |bytes: u64| {
        let warm = (bytes / LINE).min(effort.warm);
        Task::Chase { bytes, seed, warm, steps: effort.steps }
    };
    let levels =
        levels.into_iter().map(|(name, size)| Step { task: task(size), meaning: Meaning::Constant(name) });
    levels
        .chain(sizes.into_iter().map(|size| Step { task: task(size), meaning: Meaning::Chase(size) }))
        .collect()
}

fn misses(places: Places, effort: Effort, seed: u64, at_once: u64) -> Step {
    let scatter = Scatter { base: places.zeroes, lines: places.zeroes / LINE };
    let first = seed.wrapping_mul(1 << 20) + at_once * 65_536;
    let task = Task::Misses { scatter, at_once, first, groups: effort.groups, translated: effort.translated };
    Step { task, meaning: Meaning::Misses(at_once as usize) }
}

fn all_stores(caches: &Caches, places: Places, effort: Effort) -> Vec<Step> {
    let levels = [
        ("store.l1", caches.l1.bytes / 2),
        ("store.l2", caches.l2.bytes / 2),
        ("store.llc", caches.llc.bytes / 4),
        ("store.dram", places.zeroes),
    ];
    let step = |(name, size): (&'static str, u64)| {
        let lines = ((size / LINE + 1).next_power_of_two() / 2).max(2);
        let scatter = Scatter { base: places.zeroes, lines };
        Step { task: Task::Stores { scatter, count: effort.stores }, meaning: Meaning::Constant(name) }
    };
    levels.into_iter().map(step).collect()
}

fn shared_lines(places: Places, effort: Effort, seed: u64) -> Vec<Step> {
    let line = places.shared;
    let constant = |name, task| Step { task, meaning: Meaning::Constant(name) };
    let counters = |apart| Task::Increments { line, apart, count: effort.additions };
    // Lines without recent accesses, in pairs of a page that a round does not share with the previous one.
    let handed = |left: Left| {
        let part = (seed % 256) * (HANDED * LINE) * 2 + if left == Left::Clean { HANDED * LINE } else { 0 };
        let base = line + (1 << 20) + part % (32 << 20);
        Task::HandedOver { flag: line, base, lines: HANDED, seed, left }
    };
    vec![
        constant("hand_over", Task::PingPong { line, turns: effort.turns }),
        constant("increment.same_line", counters(8)),
        constant("increment.split_line", counters(2 * LINE)),
        constant("core_modified", handed(Left::Modified)),
        constant("core_clean", handed(Left::Clean)),
    ]
}
