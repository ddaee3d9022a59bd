//! One simulated experiment: takes a configuration, returns counts per packet of each thread.

use std::cell::RefCell;
use std::rc::Rc;

use super::model::{Config, Guest, Layout, Rx, Thread, Tx};
use super::results::LineRow;
use super::warming::warm;
use sim::memory::LINE;
use sim::run::Body;
use sim::{Counters, Deadlock, Machine, Profile, Simulated, TICKS, run};

/// Length of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Counted packets
    pub packets: u64,
    /// Warm-up packets, which are not counted
    pub warm_up: u64,
}

impl Default for Length {
    fn default() -> Self {
        Length { packets: 60_000, warm_up: 6_000 }
    }
}

/// Counts of one thread over the counted packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadCounts {
    /// Counted packets
    pub packets: u64,
    /// Counters over these packets
    pub counters: Counters,
}

impl ThreadCounts {
    /// First-level load misses per thousand instructions.
    pub fn l1_mpki(&self) -> f64 {
        self.counters.l1_misses as f64 * 1000.0 / self.counters.instructions as f64
    }

    /// Second-level load misses per thousand instructions.
    pub fn l2_mpki(&self) -> f64 {
        self.counters.l2_misses as f64 * 1000.0 / self.counters.instructions as f64
    }

    /// Converts a count to a count per packet.
    pub fn per_packet(&self, count: u64) -> f64 {
        count as f64 / self.packets as f64
    }

    /// Converts a time in ticks to cycles per packet.
    pub fn cycles_per_packet(&self, time: u64) -> f64 {
        self.per_packet(time) / TICKS as f64
    }
}

/// Result of an experiment.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Transmitted packets in millions per second
    pub mpps: f64,
    /// Counts of Rx, Guest and Tx
    pub threads: [ThreadCounts; 3],
    /// Ring lines that moved from one core's cache to another's
    pub lines: Vec<LineRow>,
}

/// Runs one configuration in the simulator.
pub fn simulate(profile: &Profile, config: &Config, length: Length) -> Result<Outcome, Deadlock> {
    let layout = Layout::new(config);
    let mut machine = Machine::new(profile, 3, layout.bytes(), config.prefetchers).seeded(config.seed);
    for (at, width, value) in layout.empty_rings() {
        machine.poke(at, width, value);
    }
    machine.watch(layout.rings_end());
    warm(&mut machine, config, &layout);
    let counts = Counts::default();
    let bodies = vec![
        body(Rx::new(config), config, length, &counts, 0),
        body(Guest::new(config), config, length, &counts, 1),
        body(Tx::new(config), config, length, &counts, 2),
    ];
    let machine = run(machine, bodies)?;
    let counts = counts.take();
    let lines = lines(&layout, &counts);
    let threads = counts.map(|(count, _)| count);
    // Runs use whole batches, so slightly more packets than requested may count.
    let mpps = threads[2].packets as f64 / machine.seconds(threads[2].counters.time) / 1e6;
    Ok(Outcome { mpps, threads, lines })
}

/// Counts of each thread, and its loads from other cores' modified lines, by line.
type Counts = Rc<RefCell<[(ThreadCounts, Vec<u64>); 3]>>;

/// Returns the ring lines that a thread fetched from another core.
fn lines(layout: &Layout, counts: &[(ThreadCounts, Vec<u64>); 3]) -> Vec<LineRow> {
    let row = |(line, name): (usize, String)| LineRow {
        address: line as u64 * LINE,
        name,
        hits_modified: [0, 1, 2].map(|thread: usize| {
            let (count, hits) = &counts[thread];
            count.per_packet(hits.get(line).copied().unwrap_or(0))
        }),
    };
    let rows = layout.line_names().into_iter().enumerate().map(row);
    rows.filter(|row| row.hits_modified.iter().any(|hits| *hits > 0.0)).collect()
}

fn body<T: Thread + 'static>(
    mut thread: T,
    config: &Config,
    length: Length,
    counts: &Counts,
    place: usize,
) -> Body {
    let (counts, config) = (Rc::clone(counts), config.clone());
    Box::new(move |memory| drive(memory, &mut thread, &config, length, &counts, place))
}

/// Runs a thread through its packets, and counts those after the warm-up.
fn drive<T: Thread>(
    memory: &mut Simulated<'_>,
    thread: &mut T,
    config: &Config,
    length: Length,
    counts: &Counts,
    place: usize,
) {
    for _ in 0..length.warm_up.div_ceil(config.batch) {
        thread.batch(memory);
    }
    let (before, lines_before) = (memory.counters(), memory.line_hits());
    let batches = length.packets.div_ceil(config.batch);
    for _ in 0..batches {
        thread.batch(memory);
    }
    let counters = memory.counters().since(&before);
    let lines = memory.line_hits().iter().zip(&lines_before).map(|(after, before)| after - before).collect();
    counts.borrow_mut()[place] = (ThreadCounts { packets: batches * config.batch, counters }, lines);
}
