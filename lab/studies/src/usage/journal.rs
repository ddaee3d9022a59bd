//! State of the results while experiments run, and their observer.
//!
//! An experiment asks the observer before each reading whether to continue, adds the reading to the results, and has
//! them stored; an interruption therefore loses only the current reading. The journal does not define where results are
//! stored or how progress is displayed.

use super::budget::BudgetError;
use super::{Results, Study};
use std::ops::ControlFlow;

/// Displays progress, stores results, and may stop the run.
pub trait Watch: Send {
    /// Called before each reading: `done` of `of` readings are done, and `next` follows. After a break it is not taken.
    fn step(&mut self, done: usize, of: usize, next: &str) -> ControlFlow<()>;

    /// Called with all results after each change. After a break no further reading is taken.
    fn keep(&mut self, results: &Results) -> ControlFlow<()>;
}

/// Results in progress.
pub struct Journal<'a> {
    /// Results so far.
    pub results: &'a mut Results,
    watch: &'a mut dyn Watch,
    done: usize,
    of: usize,
}

impl<'a> Journal<'a> {
    pub(super) fn new(results: &'a mut Results, watch: &'a mut dyn Watch, of: usize) -> Self {
        Self { results, watch, done: 0, of }
    }

    /// Number of readings that are done, skipped or started.
    pub(super) fn done(&self) -> usize {
        self.done
    }

    /// Announces a reading; returns an error if the run is stopped.
    pub fn next(&mut self, name: &str) -> Result<(), BudgetError> {
        let wanted = self.watch.step(self.done, self.of, name);
        self.done += 1;
        go_on(wanted)
    }

    /// Same for experiments that are stored as a whole and therefore do not stop before their last reading.
    pub fn tell(&mut self, name: &str) {
        let _ = self.next(name);
    }

    /// Skips a reading that exists.
    pub fn skip(&mut self) {
        self.done += 1;
    }

    /// Has the current results stored.
    pub fn keep(&mut self) -> Result<(), BudgetError> {
        go_on(self.watch.keep(self.results))
    }

    /// Marks an experiment as finished, with `done` readings of all.
    pub(super) fn finish(&mut self, study: Study, done: usize) -> Result<(), BudgetError> {
        self.results.finished.push(study);
        self.done = done;
        self.keep()
    }
}

fn go_on(flow: ControlFlow<()>) -> Result<(), BudgetError> {
    if flow.is_break() { Err(BudgetError::Ended) } else { Ok(()) }
}
