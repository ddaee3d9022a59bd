//! Connection states of traced packets: those that were given, then those of the connections that there are.

use crate::ct_state::TRACKED;
use crate::translate::{CtOperation, request};
use conntrack::{Examined, Outcome, State, Tracker};
use port::Now;
use std::collections::VecDeque;

/// Where packets of a trace get their connection states.
#[derive(Debug)]
pub struct Connections<'a> {
    tracker: &'a Tracker,
    now: Now,
    given: VecDeque<u32>,
}

impl<'a> Connections<'a> {
    /// The connections of `tracker` at this time. Packets after `ct` get the `given` states (bits of
    /// [`crate::ct_state`]) first, in their order.
    pub fn new(tracker: &'a Tracker, now: Now, given: &[u32]) -> Self {
        Self { tracker, now, given: given.iter().copied().collect() }
    }

    /// The outcome of an operation.
    pub(super) fn outcome(
        &mut self,
        packet: Examined<'_>,
        before: &State,
        operation: &CtOperation,
    ) -> Outcome {
        let mut outcome = self.tracker.peek(packet, before, &request(operation, 0), self.now.0);
        if let Some(bits) = self.given.pop_front() {
            outcome.state.bits = bits | TRACKED;
        }
        outcome
    }
}
