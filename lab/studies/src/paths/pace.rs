//! Instructions of a thread that do not access the modelled memory: the count of the real program minus the
//! instructions that the model issues.
//!
//! A packet has a number of steps in a thread (taken, classified, written, given back), and each step adds its share of
//! the real program's instructions per packet. The model's accesses are instructions too and are subtracted, so that
//! the sum equals the count ([`super::instructions`]) for any accesses of the model.

use sim::memory::{Address, Cleaning, Copying, Intent, Memory, Width};

/// Issued and owed instructions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    issued: f64,
    owed: f64,
}

/// Memory that counts accesses.
pub(super) struct Paced<'a, M> {
    memory: &'a mut M,
    pace: &'a mut Pace,
}

impl<'a, M: Memory> Paced<'a, M> {
    pub(super) fn new(memory: &'a mut M, pace: &'a mut Pace) -> Paced<'a, M> {
        Paced { memory, pace }
    }

    /// Adds instructions of the real program for the step just done, and issues the difference to the model's own.
    pub(super) fn owe(&mut self, instructions: f64) {
        self.pace.owed += instructions;
        let work = (self.pace.owed - self.pace.issued).floor();
        if work >= 1.0 {
            self.pace.issued += work;
            self.memory.work(work as u64);
        }
    }

    /// Excludes the instructions so far from any packet: polls of empty rings.
    pub(super) fn forgive(&mut self) {
        self.pace.issued = self.pace.owed;
    }

    fn count(&mut self, instructions: u64) {
        self.pace.issued += instructions as f64;
    }
}

impl<M: Memory> Memory for Paced<'_, M> {
    fn load(&mut self, at: Address, width: Width) -> u64 {
        self.count(1);
        self.memory.load(at, width)
    }

    fn store(&mut self, at: Address, width: Width, value: u64) {
        self.count(1);
        self.memory.store(at, width, value);
    }

    fn load_next(&mut self, at: Address, width: Width) -> u64 {
        self.count(1);
        self.memory.load_next(at, width)
    }

    fn read(&mut self, at: Address, length: u64) {
        self.count(length.div_ceil(32));
        self.memory.read(at, length);
    }

    fn write(&mut self, at: Address, length: u64) {
        self.count(length.div_ceil(32));
        self.memory.write(at, length);
    }

    fn copy(&mut self, from: Address, to: Address, length: u64, how: Copying) {
        self.count(2 * length.div_ceil(how.step()));
        self.memory.copy(from, to, length, how);
    }

    fn prefetch(&mut self, at: Address, intent: Intent) {
        self.count(1);
        self.memory.prefetch(at, intent);
    }

    fn clean(&mut self, at: Address, how: Cleaning) {
        self.count(1);
        self.memory.clean(at, how);
    }

    fn follows(&mut self) {
        self.memory.follows();
    }

    fn work(&mut self, instructions: u64) {
        self.count(instructions);
        self.memory.work(instructions);
    }

    fn pause(&mut self, at: Address) {
        self.memory.pause(at);
    }

    fn fence(&mut self) {
        self.count(1);
        self.memory.fence();
    }
}
