//! One experiment in the simulator: a configuration in, what each thread counted per packet out.

use std::cell::RefCell;
use std::rc::Rc;

use super::model::{Config, Guest, Layout, Rx, Thread, Tx};
use super::simulated::run::Body;
use super::simulated::{Counters, Machine, Profile, Simulated, Stuck, TICKS, run};

/// How long an experiment runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Packets that count
    pub packets: u64,
    /// Packets before, which do not
    pub warm_up: u64,
}

impl Default for Length {
    fn default() -> Self {
        Length { packets: 60_000, warm_up: 6_000 }
    }
}

/// What one thread counted over the packets that count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Packets that count
    pub packets: u64,
    /// What was counted over them
    pub counters: Counters,
}

impl Tally {
    /// Load misses of the first level in a thousand instructions.
    pub fn l1_mpki(&self) -> f64 {
        self.counters.l1_misses as f64 * 1000.0 / self.counters.instructions as f64
    }

    /// Load misses of the second level in a thousand instructions.
    pub fn l2_mpki(&self) -> f64 {
        self.counters.l2_misses as f64 * 1000.0 / self.counters.instructions as f64
    }

    /// A count, per packet.
    pub fn per_packet(&self, count: u64) -> f64 {
        count as f64 / self.packets as f64
    }

    /// A time, in cycles per packet.
    pub fn cycles_per_packet(&self, time: u64) -> f64 {
        self.per_packet(time) / TICKS as f64
    }
}

/// What came out.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Packets that left, in millions a second
    pub mpps: f64,
    /// Rx, Guest and Tx
    pub threads: [Tally; 3],
}

/// Runs one configuration in the simulator.
pub fn simulate(profile: &Profile, config: &Config, length: Length) -> Result<Outcome, Stuck> {
    let layout = Layout::new(config);
    let mut machine = Machine::new(profile, 3, layout.bytes(), config.prefetchers);
    for (at, width, value) in layout.empty_rings() {
        machine.poke(at, width, value);
    }
    let tallies = Tallies::default();
    let bodies = vec![
        body(Rx::new(config), config, length, &tallies, 0),
        body(Guest::new(config), config, length, &tallies, 1),
        body(Tx::new(config), config, length, &tallies, 2),
    ];
    let machine = run(machine, bodies)?;
    let threads = *tallies.borrow();
    let mpps = length.packets as f64 / machine.seconds(threads[2].counters.time) / 1e6;
    Ok(Outcome { mpps, threads })
}

type Tallies = Rc<RefCell<[Tally; 3]>>;

fn body<T: Thread + 'static>(
    mut thread: T,
    config: &Config,
    length: Length,
    tallies: &Tallies,
    place: usize,
) -> Body {
    let (tallies, config) = (Rc::clone(tallies), config.clone());
    Box::new(move |memory| drive(memory, &mut thread, &config, length, &tallies, place))
}

/// Runs a thread through its packets, and counts those after the warm-up.
fn drive<T: Thread>(
    memory: &mut Simulated<'_>,
    thread: &mut T,
    config: &Config,
    length: Length,
    tallies: &Tallies,
    place: usize,
) {
    for _ in 0..length.warm_up.div_ceil(config.batch) {
        thread.batch(memory);
    }
    let before = memory.counters();
    let batches = length.packets.div_ceil(config.batch);
    for _ in 0..batches {
        thread.batch(memory);
    }
    let counters = memory.counters().since(&before);
    tallies.borrow_mut()[place] = Tally { packets: batches * config.batch, counters };
}
