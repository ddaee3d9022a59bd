//! One to sixteen simulated workers.
//!
//! With queues, each worker receives from its own queue, classifies, and sends through its own queue. With one queue,
//! its worker hands packets by flow to the other workers, which classify and send; a single worker does everything.

use super::Distribution;
use crate::usage::budget::BudgetError;
use crate::usage::chain::{self, Fanout, Instructions, Layout, Length, Outcome, PlacedStage, Role};
use serde::{Deserialize, Serialize};
use sim::{Deadlock, Profile};

/// Numbers of workers, including the one that serves the only queue.
pub const WORKERS: [usize; 9] = [1, 2, 3, 4, 6, 8, 10, 12, 16];
/// Warm-up packets per worker: each of its buffers has been written once.
const WARM_UP: u64 = 1_100;
/// Counted packets per worker.
pub const PACKETS: u64 = 700;

/// Result of one number of workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Distribution of packets to workers.
    pub way: Distribution,
    /// Number of workers.
    pub workers: usize,
    /// Result of the run.
    pub outcome: Outcome,
}

/// Simulates all numbers of workers with both distributions.
pub fn simulate(
    profile: &Profile,
    told: &mut dyn FnMut(&str) -> Result<(), BudgetError>,
) -> Result<Vec<Row>, BudgetError> {
    let mut rows = Vec::new();
    for way in [Distribution::Queues, Distribution::Software] {
        for workers in WORKERS {
            told(&format!("simulated, {workers} workers, {}", way.title()))?;
            let each = workers as u64;
            let length = Length { warm_up: WARM_UP * each, packets: PACKETS * each };
            rows.push(row(profile, way, workers, length)?);
        }
    }
    Ok(rows)
}

fn row(profile: &Profile, way: Distribution, workers: usize, length: Length) -> Result<Row, Deadlock> {
    let outcome = chain::simulate(profile, &layout(way, workers), Instructions::default(), length)?;
    Ok(Row { way, workers, outcome })
}

fn layout(way: Distribution, workers: usize) -> Layout {
    let core = |role| vec![PlacedStage { role, thread: 0 }];
    let cores = match way {
        Distribution::Software if workers > 1 => {
            let others = (1..workers).map(|_| core(Role::WorkTx));
            std::iter::once(core(Role::Rx)).chain(others).collect()
        }
        _ => (0..workers).map(|_| core(Role::Whole)).collect(),
    };
    Layout { cores, fanout: Fanout::Flows, bystander: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Length = Length { warm_up: 500, packets: 1_500 };

    #[test]
    fn as_many_packets_leave_as_enter_for_any_number_of_workers() {
        for way in [Distribution::Queues, Distribution::Software] {
            for workers in [1, 2, 5] {
                let outcome = row(&Profile::study(), way, workers, SHORT).unwrap().outcome;
                assert_eq!((outcome.taken, outcome.lost), (outcome.sent, 0), "{way:?}, {workers}");
                assert!(outcome.packets >= SHORT.packets);
                let buffers = outcome.pool_sum();
                assert_eq!(buffers.frees > 0, way == Distribution::Software && workers > 1, "{buffers:?}");
            }
        }
    }

    #[test]
    fn layouts_of_one_worker_are_equal_and_software_rss_has_one_receiver() {
        assert_eq!(layout(Distribution::Queues, 1), layout(Distribution::Software, 1));
        let roles: Vec<_> = layout(Distribution::Software, 4).cores.iter().map(|core| core[0].role).collect();
        assert_eq!(roles, [Role::Rx, Role::WorkTx, Role::WorkTx, Role::WorkTx]);
    }
}
