//! Checks that every packet of the simulated switch is sent or counted as lost, and that buffers are balanced.

use super::plan::joints;
use super::*;
use crate::usage::placement::PATTERNS;
use crate::usage::placement::simulated::{Width, layout};

const SHORT: Length = Length { warm_up: 500, packets: 1_500 };

fn ran(layout: &Layout) -> Outcome {
    simulate(&Profile::study(), layout, Instructions::default(), SHORT).expect("no thread is stuck")
}

fn validate(outcome: &Outcome, what: &str) {
    assert_eq!(outcome.taken, outcome.sent + outcome.lost, "{what}: {outcome:?}");
    assert_eq!(outcome.lost, 0, "{what}: a pool of that size is never empty");
    assert!(outcome.packets >= SHORT.packets && outcome.cycles > 0.0, "{what}: {outcome:?}");
}

#[test]
fn as_many_packets_leave_as_enter_in_every_pattern_and_width() {
    for pattern in PATTERNS {
        for width in Width::ALL {
            let (layout, _) = layout(pattern, width).unwrap();
            let outcome = ran(&layout);
            validate(&outcome, &format!("{pattern}, {}", width.title()));
            let pool = outcome.pool_sum();
            // Packets in rings at the start and the end of counting may differ by the rings' capacity.
            let in_rings = (layout.cores.iter().flatten().count() as u64).pow(2) * 1024;
            assert!((pool.hits + pool.refills).abs_diff(outcome.packets) <= in_rings, "{pattern}: {pool:?}");
            assert!(pool.frees.abs_diff(outcome.packets) <= 64 * 7, "{pattern}: {pool:?}");
            assert_eq!(pool.empty, 0);
        }
    }
}

#[test]
fn a_run_is_the_same_each_time() {
    let (layout, _) = layout(engine::placement::Pattern::Separate, Width::One).unwrap();
    assert_eq!(ran(&layout), ran(&layout));
}

#[test]
fn a_run_to_completion_thread_allocates_no_buffer() {
    let whole = vec![PlacedStage { role: Role::Whole, thread: 0 }];
    let cores = vec![whole.clone(), whole];
    let outcome = ran(&Layout { cores, fanout: Fanout::Own, bystander: false });
    validate(&outcome, "two threads");
    assert_eq!(outcome.pool_sum(), Counted::default());
}

#[test]
fn stages_of_the_same_number_are_connected_and_none_is_left_out() {
    let roles = [Role::Rx, Role::Work, Role::Work, Role::Work, Role::Tx, Role::Tx];
    assert_eq!(joints(&roles, Fanout::Own), [(0, 1), (0, 2), (0, 3), (1, 4), (2, 5), (3, 4)]);
    assert_eq!(joints(&roles, Fanout::Flows).len(), 3 + 6);
}
