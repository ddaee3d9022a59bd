//! A custom program under the simulator: threads over one arena, with counters for each.
//!
//! A thread is a function over [`Memory`](super::memory::Memory), so the same code can run on real memory. Addresses
//! are offsets in the arena, which holds zeroes; a line is 64 bytes. `lab/sim/examples/two_rings.rs` compares two ring
//! buffers this way.

use std::cell::RefCell;
use std::rc::Rc;

use super::memory::{Address, Width};
use crate::Prefetchers;
use crate::{Counters, Deadlock, Machine, Profile, Simulated, TICKS, run};

/// Body of a thread; returns the thread's result.
type Body<T> = Box<dyn FnOnce(&mut Simulated<'_>) -> T>;

/// Threads to run together, each on its own core.
pub struct Program<T = ()> {
    bytes: u64,
    prefetchers: Prefetchers,
    threads: Vec<Body<T>>,
    values: Vec<(Address, u64)>,
    parts: Vec<Address>,
}

/// Result of a program.
#[derive(Clone, Debug)]
pub struct ProgramResult<T = ()> {
    /// Result of each thread, in the order in which they were added
    pub results: Vec<T>,
    /// Counters of each thread's core
    pub counters: Vec<Counters>,
}

impl<T: 'static> Program<T> {
    /// Creates a program without threads over an arena of `bytes` bytes.
    pub fn new(bytes: u64) -> Program<T> {
        let prefetchers = Prefetchers { stream: true, adjacent: true };
        Program { bytes, prefetchers, threads: Vec::new(), values: Vec::new(), parts: Vec::new() }
    }

    /// Adds a thread.
    #[must_use]
    pub fn thread(mut self, body: impl FnOnce(&mut Simulated<'_>) -> T + 'static) -> Program<T> {
        self.threads.push(Box::new(body));
        self
    }

    /// Sets the enabled hardware prefetchers; default: all.
    #[must_use]
    pub fn prefetchers(self, prefetchers: Prefetchers) -> Program<T> {
        Program { prefetchers, ..self }
    }

    /// Stores these 8-byte values in memory, and in no cache, before any thread runs.
    #[must_use]
    pub fn values(mut self, values: &[(Address, u64)]) -> Program<T> {
        self.values.extend_from_slice(values);
        self
    }

    /// Counts line transfers between cores per part of the arena; `ends` are the ascending end addresses of the parts
    /// ([`Simulated::moves`]).
    #[must_use]
    pub fn parts(self, ends: Vec<Address>) -> Program<T> {
        Program { parts: ends, ..self }
    }

    /// Runs all threads to completion on the processor of this profile.
    pub fn simulate(self, profile: &Profile) -> Result<ProgramResult<T>, Deadlock> {
        let many = self.threads.len();
        let mut machine = Machine::new(profile, many, self.bytes, self.prefetchers);
        if !self.parts.is_empty() {
            machine.watch_parts(&self.parts);
        }
        for (at, value) in self.values {
            machine.poke(at, Width::Eight, value);
        }
        let results: Rc<RefCell<Vec<Option<T>>>> = Rc::new(RefCell::new((0..many).map(|_| None).collect()));
        let bodies = self.threads.into_iter().enumerate().map(|(core, body)| {
            let results = Rc::clone(&results);
            let body: crate::run::Body = Box::new(move |memory| {
                let value = body(memory);
                results.borrow_mut()[core] = Some(value);
            });
            body
        });
        let machine = run(machine, bodies.collect())?;
        // Every thread has ended, so each has a result.
        let results = results.take().into_iter().flatten().collect();
        Ok(ProgramResult { results, counters: (0..many).map(|core| machine.counters(core)).collect() })
    }
}

impl<T> ProgramResult<T> {
    /// Cycles until the last thread ended.
    pub fn cycles(&self) -> f64 {
        let longest = self.counters.iter().map(|counters| counters.time).max();
        longest.unwrap_or(0) as f64 / TICKS as f64
    }

    /// Number of lines that cores took from each other.
    pub fn lines_moved(&self) -> u64 {
        self.counters.iter().map(|counters| counters.lost_lines).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    #[test]
    fn results_come_in_thread_order_and_initial_values_are_visible() {
        let program = Program::new(1 << 12)
            .values(&[(64, 7), (128, 9)])
            .thread(|memory| memory.load(64, Width::Eight))
            .thread(|memory| memory.load(128, Width::Eight));
        let ran = program.simulate(&Profile::study()).expect("no core waits");
        assert_eq!(ran.results, [7, 9]);
        assert_eq!((ran.counters.len(), ran.lines_moved()), (2, 0));
        assert!(ran.cycles() > 0.0);
    }

    #[test]
    fn core_that_waits_without_a_pending_store_is_stuck() {
        let program: Program = Program::new(1 << 12).thread(|memory| {
            memory.load_until(0, Width::Eight, |value| value == 1);
        });
        assert_eq!(program.simulate(&Profile::study()).expect_err("no core stores"), Deadlock);
    }
}
