//! Warms the shared cache to its state after a whole lap of the pools, so that a short run starts in the steady state
//! of a long one.
//!
//! The threads run once through their pools without time; only the touched lines are recorded. The private caches start
//! empty; they fill during a run's own warm-up. Warming must not count anything or change a value of the machine.

use std::collections::HashMap;

use super::model::{Config, Guest, Layout, Rx, Thread, Tx};
use sim::Machine;
use sim::memory::{Address, Cleaning, Copying, Intent, LINE, Memory, Width};

/// Runs through the pools once.
pub(super) fn warm(machine: &mut Machine, config: &Config, layout: &Layout) {
    let values = layout.empty_rings().map(|(at, _, value)| (at, value)).collect();
    let mut memory = Touched { machine, values, rings: layout.rings_end() };
    let (mut rx, mut guest, mut tx) = (Rx::new(config), Guest::new(config), Tx::new(config));
    for _ in 0..config.pool.div_ceil(config.batch) {
        rx.batch(&mut memory);
        guest.batch(&mut memory);
        tx.batch(&mut memory);
    }
}

/// Memory with values that reports accessed lines after the rings to the machine.
struct Touched<'a> {
    machine: &'a mut Machine,
    values: HashMap<Address, u64>,
    rings: Address,
}

impl Memory for Touched<'_> {
    fn load(&mut self, at: Address, _: Width) -> u64 {
        self.values.get(&at).copied().unwrap_or(0)
    }

    fn store(&mut self, at: Address, _: Width, value: u64) {
        self.values.insert(at, value);
    }

    fn read(&mut self, at: Address, length: u64) {
        if at >= self.rings {
            (at / LINE..(at + length).div_ceil(LINE)).for_each(|line| self.machine.warm(line));
        }
    }

    fn write(&mut self, at: Address, length: u64) {
        self.read(at, length);
    }

    fn copy(&mut self, from: Address, to: Address, length: u64, how: Copying) {
        self.read(from, length);
        // Non-temporal writes leave no line in a cache.
        if !matches!(how, Copying::NonTemporal | Copying::None) {
            self.read(to, length);
        }
    }

    fn prefetch(&mut self, _: Address, _: Intent) {}
    fn clean(&mut self, _: Address, _: Cleaning) {}
    fn follows(&mut self) {}
    fn work(&mut self, _: u64) {}

    /// The threads alternate, so that none has to wait.
    fn pause(&mut self, at: Address) {
        unreachable!("a thread waits for {at} although it is its turn")
    }
}
