//! Studies of the TCP/IP stack: each measures one mechanism of a published system with and without it, on this machine.
//!
//! A [`Cell`] is a variant of a study at one size, number of connections or number of workers. Every round takes one
//! reading of each cell, so that only values of the same round are compared. Readings are taken by `benches::stack`.
//! This module prints nothing and knows no file.

mod description;
mod published;
mod results;
mod study;
mod take;
#[cfg(test)]
mod tests;

pub use published::{PUBLISHED, Published};
pub use results::{Reading, Results};
pub use study::{Cell, Study};
pub use take::ReadingError;

use measure::distance;
use rfc2544::Environment;
use std::ops::ControlFlow;

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Selected studies.
    pub studies: Vec<Study>,
    /// CPU of the server, and CPU of the client.
    pub cpus: [usize; 2],
    /// Number of rounds.
    pub rounds: u32,
    /// Requests of a reading.
    pub requests: u64,
    /// Largest number of connections.
    pub connections: u64,
}

impl Plan {
    /// A result set with these settings and without readings.
    pub fn empty(&self, environment: Environment) -> Results {
        Results {
            processor: environment.processor.clone(),
            environment,
            requests: self.requests,
            readings: Vec::new(),
        }
    }

    /// All readings: round, and cell.
    pub fn all(&self) -> Vec<(u32, Cell)> {
        let cells: Vec<_> = self.studies.iter().flat_map(|study| study.cells(self.connections)).collect();
        (1..=self.rounds).flat_map(|round| cells.iter().map(move |cell| (round, *cell))).collect()
    }

    /// The readings that the results lack.
    pub fn missing(&self, results: &Results) -> Vec<(u32, Cell)> {
        self.all().into_iter().filter(|(round, cell)| !results.has(*round, cell)).collect()
    }
}

/// Observes a run.
pub trait Watch {
    /// Called before each reading. After a break it is not taken.
    fn step(&mut self, done: usize, of: usize, next: &Cell) -> ControlFlow<()>;

    /// Called with each reading. After a break no further one is taken.
    fn keep(&mut self, reading: &Reading) -> ControlFlow<()>;

    /// Called if a reading failed. The run continues.
    fn failed(&mut self, cell: &Cell, error: &ReadingError);
}

/// Takes the missing readings and adds them to the results.
pub fn measure(plan: &Plan, results: &mut Results, watch: &mut dyn Watch) {
    let missing = plan.missing(results);
    for (done, (round, cell)) in missing.iter().enumerate() {
        if watch.step(done, missing.len(), cell).is_break() {
            return;
        }
        match one(plan, *round, cell) {
            Err(error) => watch.failed(cell, &error),
            Ok(reading) => {
                let flow = watch.keep(&reading);
                results.readings.push(reading);
                if flow.is_break() {
                    return;
                }
            }
        }
    }
}

/// Takes one reading. Studies on two CPUs store the distance of these.
fn one(plan: &Plan, round: u32, cell: &Cell) -> Result<Reading, ReadingError> {
    let before = cell.study.is_parallel().then(|| distance::wait_while_far(plan.cpus)).flatten();
    let (value, more) = take::take(plan, cell)?;
    let after = before.and_then(|_| distance::between(plan.cpus));
    let distance_ns = before.zip(after).map(|(before, after)| before.max(after));
    Ok(Reading {
        study: cell.study,
        variant: cell.variant.to_owned(),
        at: cell.at,
        round,
        value,
        more,
        distance_ns,
    })
}
