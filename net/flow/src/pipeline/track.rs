//! Connection tracking of a packet in execution.
//!
//! A packet that has passed through connection tracking continues at once with its connection state in its key, and
//! with the changed head: a recirculation by the engine would cost a pass for each packet.

use super::execute::{Executor, Stopped};
use super::lookup::work_of;
use super::program::Form;
use super::recirculation::{Carried, Cause, Recirculation};
use crate::Field;
use crate::cache::{Continuation, MegaflowId};
use crate::modify::PortNo;
use crate::translate::{CtOperation, Resume, request, set_state};
use conntrack::{Effort, Exhausted, Outcome, State, Tracker};
use port::{BURST, DropReason, MAX_PASSES};
use std::sync::Arc;

/// Recirculations after connection tracking of all packets of a burst together, so that copies of copies end.
pub(super) const MAX_RESUMED: usize = 8 * BURST;

/// Work units of a search for a connection.
const SEARCH: u64 = 50;
/// Work units of the addition of a connection.
const ADDITION: u64 = 300;

/// Connection state of a packet in execution.
pub(super) struct Tracking<'a> {
    tracker: &'a Tracker,
    /// Recirculations after connection tracking that are left for the burst.
    left: &'a mut usize,
    /// Those of the packet so far.
    depth: usize,
    pub(super) states: States,
    /// Result of the first passage, if it has taken place.
    known: Option<Outcome>,
    /// How the packet has continued after its last passage.
    pub(super) continuation: Option<Continuation>,
}

/// Connection states of a packet, and of each copy.
#[derive(Clone, Copy, Default, PartialEq)]
pub(super) struct States {
    /// As flows match on it.
    pub(super) visible: State,
    /// After the last passage. Without a table to continue in, a passage is not visible.
    last: State,
    /// Whether the packet continues because of the last passage.
    continues: bool,
}

impl<'a> Tracking<'a> {
    pub(super) fn new(
        tracker: &'a Tracker,
        left: &'a mut usize,
        states: States,
        known: Option<Outcome>,
    ) -> Self {
        Self { tracker, left, depth: 0, states, known, continuation: None }
    }
}

impl Executor<'_> {
    /// Passes the packet through connection tracking.
    pub(super) fn track(&mut self, operation: &CtOperation) -> Result<(), Stopped> {
        let outcome = match self.tracking.known.take() {
            Some(outcome) => outcome,
            None => match self.pass_through(operation) {
                Ok(outcome) => outcome,
                Err(Exhausted { tried }) => {
                    self.verdicts.charge(cost(Effort { added: 0, tried }));
                    return self.refuse();
                }
            },
        };
        self.verdicts.charge(cost(outcome.effort));
        let Tracking { states, continuation, .. } = &mut self.tracking;
        let place = outcome.place.filter(|_| outcome.rewrite.is_none());
        *continuation = place.map(|place| Continuation { next: MegaflowId::default(), place });
        states.last = outcome.state;
        if operation.resumes {
            (states.visible, states.continues) = (outcome.state, true);
        }
        let Some(rewrite) = outcome.rewrite else { return Ok(()) };
        self.edit = None;
        self.rewriter.translate(&rewrite).or_else(|_| self.refuse())
    }

    fn pass_through(&mut self, operation: &CtOperation) -> Result<Outcome, Exhausted> {
        let is_ip = [0x0800, 0x86dd].contains(&self.rewriter.key().get(Field::EthType));
        let network = usize::from(self.rewriter.layout().network);
        let packet = self.rewriter.head().get(network..).filter(|_| is_ip && network != 0);
        self.lookup.searched = Some(operation.zone);
        let (request, now) = (request(operation, self.context.from.0), self.context.now.0);
        self.tracking.tracker.track(packet.unwrap_or_default(), &self.tracking.states.last, &request, now)
    }

    /// Continues with the rest of a translation.
    pub(super) fn resume(&mut self, rest: &Arc<Resume>) -> Result<(), Stopped> {
        let Tracking { left, depth, states, .. } = &mut self.tracking;
        if !std::mem::take(&mut states.continues) {
            let carried = Carried { states: Some(*states), ..self.carried.clone() };
            let recirculation =
                Recirculation { member: self.member, carried, cause: Cause::Resume(rest.clone()) };
            let stage = self.recirculations.push(recirculation);
            return self.recirculate(stage);
        }
        if **left == 0 || *depth == MAX_PASSES {
            self.drop(DropReason::RecirculationLimit);
            return Err(Stopped);
        }
        **left -= 1;
        *depth += 1;
        let is_decided = std::mem::take(&mut self.is_decided);
        self.continue_with(rest);
        if !self.is_decided {
            self.drop(DropReason::FlowDrop);
        }
        self.is_decided |= is_decided;
        self.tracking.depth -= 1;
        Ok(())
    }

    fn continue_with(&mut self, rest: &Arc<Resume>) {
        let mut key = *self.rewriter.key();
        set_state(&mut key, &self.tracking.states.visible);
        key.set(Field::RecircId, self.lookup.resume_id(rest).into());
        let (port, now) = (PortNo(key.get(Field::InPort) as u32), self.context.now);
        let (found, is_translated) = self.lookup.find_key((&key, port), Some(rest), (&self.scope, now));
        self.verdicts.charge(work_of(is_translated));
        if self.tracking.depth == 1 {
            self.tracking.continuation.iter_mut().for_each(|continuation| continuation.next = found);
        }
        let Some(megaflow) = self.lookup.current(found) else { return self.drop(DropReason::NoFlow) };
        megaflow.count(1, self.rewriter.frame_len() as u64, now);
        match megaflow.value.form.clone() {
            Form::NoFlow => self.drop(DropReason::NoFlow),
            Form::Drop => self.drop(DropReason::FlowDrop),
            Form::Forward(port) => {
                if let Ok(edit) = self.edit() {
                    self.emit(port, edit);
                }
            }
            Form::Operations(operations) => {
                // A refusal ends this list only.
                let _ = self.list(&key, &operations);
            }
        }
    }

    /// Forgets the connection state.
    pub(super) fn untrack(&mut self) {
        self.tracking.states = States::default();
    }
}

/// Work units of a packet.
pub(super) fn cost(effort: Effort) -> u64 {
    SEARCH + u64::from(effort.added) * ADDITION + u64::from(effort.tried) * SEARCH
}
