//! A program of one's own under the simulator: some threads over one arena, and what each of them counted.
//!
//! A thread is a function over [`Memory`](super::memory::Memory), so the same text can run on real memory. Addresses are offsets in the
//! arena, which holds zeroes; a line is 64 bytes. `lab/sim/examples/two_rings.rs` compares two ring buffers in this way.

use std::cell::RefCell;
use std::rc::Rc;

use super::memory::{Address, Width};
use crate::Prefetchers;
use crate::{Counters, Machine, Profile, Simulated, Stuck, TICKS, run};

/// What a thread does, and what it says at its end.
type Body<T> = Box<dyn FnOnce(&mut Simulated<'_>) -> T>;

/// Threads that are to be run together, each on a core of its own.
pub struct Program<T = ()> {
    bytes: u64,
    prefetchers: Prefetchers,
    threads: Vec<Body<T>>,
    values: Vec<(Address, u64)>,
    parts: Vec<Address>,
}

/// What came of a program.
#[derive(Clone, Debug)]
pub struct Ran<T = ()> {
    /// What each thread said at its end, in the order in which they were given
    pub said: Vec<T>,
    /// What each thread's core counted
    pub counters: Vec<Counters>,
}

impl<T: 'static> Program<T> {
    /// Without threads so far, over an arena of so many bytes.
    pub fn new(bytes: u64) -> Program<T> {
        let prefetchers = Prefetchers { stream: true, adjacent: true };
        Program { bytes, prefetchers, threads: Vec::new(), values: Vec::new(), parts: Vec::new() }
    }

    /// Another thread.
    #[must_use]
    pub fn thread(mut self, body: impl FnOnce(&mut Simulated<'_>) -> T + 'static) -> Program<T> {
        self.threads.push(Box::new(body));
        self
    }

    /// With these of the processor's prefetchers instead of all.
    #[must_use]
    pub fn prefetchers(self, prefetchers: Prefetchers) -> Program<T> {
        Program { prefetchers, ..self }
    }

    /// With these numbers of 8 bytes in memory, and in no cache, before any thread runs.
    #[must_use]
    pub fn values(mut self, values: &[(Address, u64)]) -> Program<T> {
        self.values.extend_from_slice(values);
        self
    }

    /// Lines that cores take from each other are counted for each part of the arena, of which these are the ends in their
    /// order ([`Simulated::moves`]).
    #[must_use]
    pub fn parts(self, ends: Vec<Address>) -> Program<T> {
        Program { parts: ends, ..self }
    }

    /// Runs all threads to their ends, on this processor.
    pub fn simulate(self, profile: &Profile) -> Result<Ran<T>, Stuck> {
        let many = self.threads.len();
        let mut machine = Machine::new(profile, many, self.bytes, self.prefetchers);
        if !self.parts.is_empty() {
            machine.watch_parts(&self.parts);
        }
        for (at, value) in self.values {
            machine.poke(at, Width::Eight, value);
        }
        let said: Rc<RefCell<Vec<Option<T>>>> = Rc::new(RefCell::new((0..many).map(|_| None).collect()));
        let bodies = self.threads.into_iter().enumerate().map(|(core, body)| {
            let said = Rc::clone(&said);
            let body: crate::run::Body = Box::new(move |memory| {
                let value = body(memory);
                said.borrow_mut()[core] = Some(value);
            });
            body
        });
        let machine = run(machine, bodies.collect())?;
        // Every thread has come to its end, so each has said something.
        let said = said.take().into_iter().flatten().collect();
        Ok(Ran { said, counters: (0..many).map(|core| machine.counters(core)).collect() })
    }
}

impl<T> Ran<T> {
    /// Cycles until the last thread had ended.
    pub fn cycles(&self) -> f64 {
        let longest = self.counters.iter().map(|counters| counters.time).max();
        longest.unwrap_or(0) as f64 / TICKS as f64
    }

    /// Lines that one core took from another.
    pub fn lines_moved(&self) -> u64 {
        self.counters.iter().map(|counters| counters.lost_lines).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    #[test]
    fn what_threads_say_comes_back_in_their_order_and_values_are_there_before() {
        let program = Program::new(1 << 12)
            .values(&[(64, 7), (128, 9)])
            .thread(|memory| memory.load(64, Width::Eight))
            .thread(|memory| memory.load(128, Width::Eight));
        let ran = program.simulate(&Profile::study()).expect("nobody waits");
        assert_eq!(ran.said, [7, 9]);
        assert_eq!((ran.counters.len(), ran.lines_moved()), (2, 0));
        assert!(ran.cycles() > 0.0);
    }

    #[test]
    fn who_waits_for_nobody_is_stuck() {
        let program: Program = Program::new(1 << 12).thread(|memory| {
            memory.load_until(0, Width::Eight, |value| value == 1);
        });
        assert_eq!(program.simulate(&Profile::study()).expect_err("nobody stores"), Stuck);
    }
}
