//! What there is of the results while experiments run, and whoever watches them come.
//!
//! An experiment asks before each reading whether it is still wanted, puts what it read into the results, and has them
//! kept; so what ends it costs the reading that runs just then and nothing else. The journal must not know where results
//! are kept, or how progress looks.

use super::budget::BudgetError;
use super::{Results, Study};
use std::ops::ControlFlow;

/// Shows how far it is, keeps what there is, and may end it.
pub trait Watch: Send {
    /// So many of so many readings are done, and this one is next. After a break it is not taken.
    fn step(&mut self, done: usize, of: usize, next: &str) -> ControlFlow<()>;

    /// All results so far, after each change. After a break nothing more is read.
    fn keep(&mut self, results: &Results) -> ControlFlow<()>;
}

/// Results in the making.
pub struct Journal<'a> {
    /// What there is.
    pub results: &'a mut Results,
    watch: &'a mut dyn Watch,
    done: usize,
    of: usize,
}

impl<'a> Journal<'a> {
    pub(super) fn new(results: &'a mut Results, watch: &'a mut dyn Watch, of: usize) -> Self {
        Self { results, watch, done: 0, of }
    }

    /// Readings that are done, were there, or have begun.
    pub(super) fn done(&self) -> usize {
        self.done
    }

    /// This reading is next; an error where it is not wanted.
    pub fn next(&mut self, name: &str) -> Result<(), BudgetError> {
        let wanted = self.watch.step(self.done, self.of, name);
        self.done += 1;
        go_on(wanted)
    }

    /// The same for experiments that are kept as a whole, and so do not end before their last reading.
    pub fn tell(&mut self, name: &str) {
        let _ = self.next(name);
    }

    /// A reading was there already.
    pub fn skip(&mut self) {
        self.done += 1;
    }

    /// Has the results kept as they are.
    pub fn keep(&mut self) -> Result<(), BudgetError> {
        go_on(self.watch.keep(self.results))
    }

    /// Every reading of this experiment is there; so many are, of all.
    pub(super) fn finish(&mut self, study: Study, done: usize) -> Result<(), BudgetError> {
        self.results.finished.push(study);
        self.done = done;
        self.keep()
    }
}

fn go_on(flow: ControlFlow<()>) -> Result<(), BudgetError> {
    if flow.is_break() { Err(BudgetError::Ended) } else { Ok(()) }
}
