//! Fuzzing of the classification of packets: arbitrary frames at any worker.
//!
//! Invariants: the owner is one of the workers, a packet with ports has one owner, and all workers agree about frames
//! that do not belong to the worker of their arrival.

use super::{FlowSteering, Owner, owner_of};
use wire::Layers;

/// Classifies a frame, which the first byte of the script places.
///
/// # Panics
/// If an invariant is violated.
pub fn fuzz_distributor(script: &[u8]) {
    let Some((choice, frame)) = script.split_first() else { return };
    let workers = usize::from(choice % 8) + 1;
    let has_ports = Layers::of(frame).is_some_and(|layers| layers.ports(frame).is_some());
    for rule in [FlowSteering::Arrival, FlowSteering::Hash] {
        let first = owner_of(frame, (0, workers), rule);
        for me in 0..workers {
            let owner = owner_of(frame, (me, workers), rule);
            match owner {
                Some(Owner::Flow(at) | Owner::Worker(at)) => {
                    assert!(at < workers, "worker {at} of {workers}");
                }
                Some(Owner::All) | None => assert!(!has_ports || owner.is_none(), "a flow of all workers"),
            }
            let is_own = matches!(owner, Some(Owner::Flow(at) | Owner::Worker(at)) if at == me);
            assert!(owner == first || is_own, "{owner:?} at worker {me}, {first:?} at worker 0");
        }
    }
}
