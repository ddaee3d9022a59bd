//! Packets whose first result is connection tracking alone, as long as nothing changes them.
//!
//! Such a packet passes through connection tracking, and continues with the megaflow of its state: the one that its
//! head has cached, or one that is searched for. If that one only sends the packet, or only adds its connection before,
//! the packet is done. Otherwise the executor executes the whole result, with the outcome of the passage that has taken
//! place: a packet must never pass through the same connection tracking twice.

use super::directory::Place;
use super::lookup::{Run, work_of};
use super::pass::{Pass, decide};
use super::program::tracking;
use super::track::cost;
use crate::cache::{Continuation, Shape};
use crate::translate::{CtOperation, Operation, Resume, request, set_state};
use crate::{Field, Key};
use conntrack::{Effort, Exhausted, Outcome, State};
use port::{DropReason, EditId, Verdicts};
use std::ops::Range;
use std::sync::Arc;

impl Pass<'_> {
    /// Passes the packets of a run through connection tracking, and executes their cached megaflow after it. Returns
    /// `false` if there is none.
    pub(super) fn continued(&mut self, run: &Run) -> bool {
        let Some(continuation) = self.lookup.continuation(run).filter(|_| self.carried.states.is_none())
        else {
            return false;
        };
        let Some(megaflow) = self.lookup.current(run.id) else { return false };
        let (Some(operation), Some(shape)) = (megaflow.value.tracking(), run.shape) else { return false };
        let request = request(operation, self.context.from.0);
        megaflow.count(run.packets.len() as u32, run.bytes, self.context.now);
        // Of the first packet that needs them on: its search may remove the megaflow that has them.
        let mut operations = None;
        for i in run.packets.clone() {
            let packet = self.burst.head(i).get(shape.network()..).unwrap_or_default();
            let outcome = self.tracker.track_at(continuation.place, packet, &request, self.context.now.0);
            if outcome.as_ref().is_some_and(|outcome| self.finish(i, &continuation, outcome)) {
                continue;
            }
            operations = operations.or_else(|| self.lookup.operations(run.id));
            match &operations {
                Some(operations) => self.run_known(i, operations, outcome),
                None => self.verdicts.drop(i, DropReason::NoFlow),
            }
        }
        true
    }

    /// Executes the cached megaflow after connection tracking. Returns `false` if the connection or its state differs.
    fn finish(&mut self, i: usize, Continuation { next, place }: &Continuation, outcome: &Outcome) -> bool {
        if outcome.place != Some(*place) || outcome.rewrite.is_some() {
            return false;
        }
        let Some(megaflow) = self.lookup.current(*next) else { return false };
        if !megaflow.value.accepts(&outcome.state) || !decide(&megaflow.value.form, i..i + 1, self.verdicts) {
            return false;
        }
        megaflow.count(1, self.burst.frame_len(i) as u64, self.context.now);
        self.verdicts.charge(cost(outcome.effort));
        self.verdicts.charge(work_of(false));
        true
    }

    /// Executes operations that are connection tracking alone ([`tracking`]) on packets. `key`: that of the first one,
    /// if it is known.
    pub(super) fn track(&mut self, packets: Range<usize>, operations: &[Operation], mut key: Option<&Key>) {
        let way = tracking(operations).filter(|_| self.carried.states.is_none());
        for i in packets {
            let passed = way.map_or(Err(None), |way| self.track_one(i, way, key.take()));
            if let Err(outcome) = passed {
                self.run_known(i, operations, outcome);
            }
        }
    }

    /// Passes a packet through connection tracking, and executes the megaflow of its state. If that takes an executor,
    /// returns the outcome of the passage, if it has taken place.
    fn track_one(
        &mut self,
        i: usize,
        (operation, rest): (&CtOperation, &Arc<Resume>),
        key: Option<&Key>,
    ) -> Result<(), Option<Outcome>> {
        let mut key = key.map_or_else(|| self.key(i, 0).0, |key| *key);
        let Self { scope, lookup, burst, context, member, verdicts, tracker, continuation, .. } = self;
        let (head, bytes, now) = (burst.head(i), burst.frame_len(i), context.now);
        let shape = Shape::of(head, bytes).ok_or(None)?;
        let packet = head.get(shape.network()..).unwrap_or_default();
        let packet = tracker.parse(packet, operation.zone, now.0).ok_or(None)?;
        lookup.searched = Some(operation.zone);
        let pass = |operation: &CtOperation, before: &State| {
            tracker.track_parsed(&packet, before, &request(operation, context.from.0), now.0)
        };
        let outcome = pass(operation, &State::default()).map_err(|_| None)?;
        if outcome.rewrite.is_some() {
            return Err(Some(outcome));
        }
        set_state(&mut key, &outcome.state);
        key.set(Field::RecircId, lookup.resume_id(rest).into());
        let (next, is_translated) = lookup.find_key((&key, member.number), Some(rest), (scope, now));
        verdicts.charge(work_of(is_translated));
        let megaflow = lookup.current(next).ok_or(Some(outcome))?;
        if decide(&megaflow.value.form, i..i + 1, verdicts) {
            *continuation = outcome.place.map(|place| Continuation { next, place });
        } else {
            let added = megaflow.value.addition().filter(|(addition, _)| addition.zone == operation.zone);
            let (addition, port) = added.ok_or(Some(outcome))?;
            let added = pass(addition, &outcome.state);
            let effort = send(i, added, scope.view.output(port), verdicts);
            verdicts.charge(cost(effort));
        }
        megaflow.count(1, bytes as u64, now);
        verdicts.charge(cost(outcome.effort));
        Ok(())
    }
}

/// Sends a packet to a port after the addition of its connection, whose effort is returned. Without its connection, it
/// is dropped.
fn send(
    i: usize,
    added: Result<Outcome, Exhausted>,
    to: Result<&Place, DropReason>,
    verdicts: &mut Verdicts,
) -> Effort {
    match (added, to) {
        (Ok(added), Ok(place)) => {
            verdicts.emit(i, place.port, EditId::NONE);
            added.effort
        }
        (Ok(added), Err(reason)) => {
            verdicts.drop(i, reason);
            added.effort
        }
        (Err(Exhausted { tried }), _) => {
            verdicts.drop(i, DropReason::ActionFailed);
            Effort { added: 0, tried }
        }
    }
}
