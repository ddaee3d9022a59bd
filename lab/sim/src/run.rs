//! Runs threads on the machine: each on its own stack, in order of virtual time.
//!
//! Everything runs on one operating-system thread. Before an access acts, all earlier events happen: stores become
//! visible in place, and another core's instruction runs by switching to its stack. Code over [`Memory`] therefore
//! needs no change to be simulated, and a run does not depend on the host.

use std::cell::RefCell;
use std::rc::Rc;

use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::counters::Counters;
use super::machine::{Machine, Next};
use super::moves::Moved;
use crate::memory::{Address, Cleaning, Copying, Intent, LINE, Memory, Width};

/// Deadlock: every thread that has not ended waits for a line that no thread will change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the simulated threads are deadlocked: each waits for a line that no other will change")]
pub struct Deadlock;

/// Body of a thread of the simulated program.
pub type Body = Box<dyn FnOnce(&mut Simulated<'_>)>;

/// One thread's view of the simulated machine.
pub struct Simulated<'a> {
    machine: Rc<RefCell<Machine>>,
    core: usize,
    yielder: &'a Yielder<(), ()>,
}

/// Runs one thread on each core to completion; returns the machine with its counters.
pub fn run(machine: Machine, bodies: Vec<Body>) -> Result<Machine, Deadlock> {
    let shared = Rc::new(RefCell::new(machine));
    // A core without a thread is done from the start.
    let cores = shared.borrow().cores.len();
    (bodies.len()..cores).for_each(|core| shared.borrow_mut().finish(core));
    let mut threads: Vec<_> =
        bodies.into_iter().enumerate().map(|(core, body)| thread(&shared, core, body)).collect();
    loop {
        let next = shared.borrow().next();
        match next {
            Next::Commit(core) => shared.borrow_mut().commit(core),
            Next::Ahead(core) => shared.borrow_mut().ask_ahead(core),
            Next::Run(core) => {
                if let CoroutineResult::Return(()) = threads[core].resume(()) {
                    shared.borrow_mut().finish(core);
                }
            }
            Next::Finished => break,
            Next::Deadlock => return Err(Deadlock),
        }
    }
    drop(threads);
    Ok(Rc::try_unwrap(shared).map_or_else(|shared| shared.borrow().clone(), RefCell::into_inner))
}

fn thread(shared: &Rc<RefCell<Machine>>, core: usize, body: Body) -> Coroutine<(), (), ()> {
    let machine = Rc::clone(shared);
    Coroutine::new(move |yielder, ()| body(&mut Simulated { machine, core, yielder }))
}

impl Simulated<'_> {
    /// Processes all events that precede this core's next instruction.
    fn turn(&self) {
        loop {
            let next = self.machine.borrow().next();
            match next {
                Next::Commit(core) => self.machine.borrow_mut().commit(core),
                Next::Ahead(core) => self.machine.borrow_mut().ask_ahead(core),
                Next::Run(core) if core == self.core => return,
                // Another core runs next, or none: the loop in `run` handles it.
                _ => self.yielder.suspend(()),
            }
        }
    }

    fn act<T>(&self, action: impl FnOnce(&mut Machine) -> T) -> T {
        self.turn();
        let mut machine = self.machine.borrow_mut();
        machine.present = machine.cores[self.core].clock;
        action(&mut machine)
    }

    /// Waits for room in the store buffer.
    fn room(&self) {
        while !self.act(|machine| machine.has_room(self.core)) {}
    }

    /// Stores at most one line.
    fn store_some(&self, at: Address, bytes: u64, value: Option<u64>, past: bool) {
        for (part, length) in parts(at, bytes) {
            self.room();
            let value = value.map(|value| value >> (8 * (part - at)));
            self.act(|machine| machine.store(self.core, part, length, value, past));
        }
    }

    /// Loads bytes whose value is not used, at most one line.
    fn touch(&self, at: Address, bytes: u64) {
        for (part, _) in parts(at, bytes) {
            self.act(|machine| machine.touch(self.core, part));
        }
    }

    fn load_some(&self, at: Address, bytes: u64, follows: bool) -> u64 {
        parts(at, bytes).fold(0, |value, (part, length)| {
            let more = self.act(|machine| machine.load(self.core, part, length, follows));
            value | more << (8 * (part - at))
        })
    }

    /// Stores `value` if `expected` is there, atomically and before any later access (a locked compare-exchange).
    /// Returns the previous value; the store happened if it equals `expected`. The value must lie within one line.
    pub fn exchange(&mut self, at: Address, width: Width, expected: u64, value: u64) -> u64 {
        debug_assert!(at % LINE + width.bytes() <= LINE, "an exchange within one line");
        self.fence();
        self.act(|machine| machine.exchange(self.core, at, width.bytes(), expected, value));
        self.fence();
        self.act(|machine| machine.found(self.core))
    }

    /// Accesses the machine between two memory accesses.
    #[cfg(test)]
    pub(super) fn look<T>(&self, look: impl FnOnce(&mut Machine) -> T) -> T {
        look(&mut self.machine.borrow_mut())
    }

    /// Counters of this thread's core so far.
    pub fn counters(&self) -> Counters {
        self.machine.borrow().counters(self.core)
    }

    /// Resets the counts of line transfers between cores.
    pub fn forget_moves(&self) {
        self.machine.borrow_mut().forget_moves();
    }

    /// Line transfers to each core so far, per watched part.
    pub fn moves(&self) -> Vec<Vec<Moved>> {
        let machine = self.machine.borrow();
        (0..machine.cores.len()).map(|core| machine.moves(core).to_vec()).collect()
    }

    /// Loads of this core from other cores' modified lines so far, per watched line.
    pub fn line_hits(&self) -> Vec<u64> {
        self.machine.borrow().line_hits(self.core).to_vec()
    }
}

impl Memory for Simulated<'_> {
    fn load(&mut self, at: Address, width: Width) -> u64 {
        self.load_some(at, width.bytes(), false)
    }

    fn load_next(&mut self, at: Address, width: Width) -> u64 {
        self.act(|machine| machine.follows(self.core));
        self.load_some(at, width.bytes(), true)
    }

    fn store(&mut self, at: Address, width: Width, value: u64) {
        self.store_some(at, width.bytes(), Some(value), false);
    }

    fn read(&mut self, at: Address, length: u64) {
        for part in (at..at + length).step_by(32) {
            self.touch(part, 32.min(at + length - part));
        }
    }

    fn write(&mut self, at: Address, length: u64) {
        for part in (at..at + length).step_by(32) {
            self.store_some(part, 32.min(at + length - part), None, false);
        }
    }

    fn copy(&mut self, from: Address, to: Address, length: u64, how: Copying) {
        if how == Copying::None {
            return;
        }
        let step = how.step().min(LINE);
        for part in (0..length).step_by(step as usize) {
            let bytes = step.min(length - part);
            self.touch(from + part, bytes);
            self.store_some(to + part, bytes, None, how == Copying::NonTemporal);
        }
    }

    fn prefetch(&mut self, at: Address, intent: Intent) {
        self.act(|machine| machine.prefetch(self.core, at, intent == Intent::Write));
    }

    fn clean(&mut self, at: Address, how: Cleaning) {
        self.room();
        self.act(|machine| machine.clean(self.core, at, how));
    }

    fn follows(&mut self) {
        self.act(|machine| machine.follows(self.core));
    }

    fn work(&mut self, instructions: u64) {
        self.act(|machine| machine.work(self.core, instructions));
    }

    fn pause(&mut self, at: Address) {
        self.act(|machine| machine.pause(self.core, at));
    }

    fn fence(&mut self) {
        while !self.act(|machine| machine.drained(self.core)) {}
    }

    fn device_write(&mut self, at: Address, length: u64) {
        self.act(|machine| machine.device_write(at, length));
    }
}

/// Splits an access that crosses a line boundary into one access per line.
fn parts(at: Address, bytes: u64) -> impl Iterator<Item = (Address, u64)> {
    let first = bytes.min(LINE - at % LINE);
    let parts = [(at, first), (at + first, bytes - first)];
    parts.into_iter().filter(|(_, length)| *length > 0)
}
