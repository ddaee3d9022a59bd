//! Follows the operations of a pass: what becomes of the packet, and with what each recirculation continues.
//!
//! A frame is changed as a worker changes it. Of a synthetic packet, the record has the fields at each recirculation.

use super::{DropCause, TracedPacket, Verdict};
use crate::field::{Field, ct_state};
use crate::key::Key;
use crate::packet::{ActionError, Rewriter, parse};
use crate::translate::{CtOperation, Operation, Record, Resume};
use port::Offload;
use std::sync::Arc;

/// The rest of a list is not executed.
struct Stopped;

/// A packet while operations are followed.
pub(super) struct Follower<'a> {
    record: &'a Record,
    /// The packet as the pass began.
    packet: Key,
    /// The packet as it is now, if it is a frame.
    frame: Option<Rewriter>,
    /// Time to live, of a synthetic packet.
    ttl: u128,
    /// Zone of the last connection tracking.
    zone: Option<u16>,
    pub(super) verdict: Option<Verdict>,
    pub(super) rests: Vec<(Option<Arc<Resume>>, TracedPacket)>,
}

impl<'a> Follower<'a> {
    pub(super) fn new(packet: &TracedPacket, record: &'a Record) -> Self {
        let frame = packet.frame.as_ref().map(|(head, len)| {
            let (mut key, mut rewriter) = (packet.key, Rewriter::new());
            let layout = parse(head, *len, &mut key);
            rewriter.begin(head, *len, Offload::NONE, &key, &layout);
            rewriter
        });
        let ttl = packet.key.get(Field::IpTtl);
        Self { record, packet: packet.key, frame, ttl, zone: None, verdict: None, rests: Vec::new() }
    }

    pub(super) fn run(&mut self, operations: &[Operation]) {
        let _ = self.list(operations);
    }

    fn list(&mut self, operations: &[Operation]) -> Result<(), Stopped> {
        operations.iter().try_for_each(|operation| self.one(operation))
    }

    fn one(&mut self, operation: &Operation) -> Result<(), Stopped> {
        match operation {
            Operation::Select(selection) => self.copy(selection.operations(&self.packet)),
            Operation::Clone(operations) => self.copy(operations),
            Operation::Recirculate(rest) => self.recirculate(rest),
            Operation::Ct(tracking) => self.track(tracking),
            Operation::CtClear => self.zone = None,
            Operation::Unreachable(why) if self.verdict.is_none() => {
                self.verdict = Some(Verdict::Dropped(DropCause::Tunnel(*why)));
            }
            Operation::Unreachable(_) | Operation::Meter(_) | Operation::Queue(_) => {}
            change if change.change().is_some() => return self.change(change),
            _ => self.verdict = Some(Verdict::Sent),
        }
        Ok(())
    }

    /// Follows a list on a copy of the packet.
    fn copy(&mut self, operations: &[Operation]) {
        let (frame, ttl, zone) = (self.frame.clone(), self.ttl, self.zone);
        // The copy alone ends where an operation does not fit it.
        let _ = self.list(operations);
        (self.frame, self.ttl, self.zone) = (frame, ttl, zone);
    }

    fn track(&mut self, tracking: &CtOperation) {
        self.zone = Some(tracking.zone);
    }

    fn change(&mut self, operation: &Operation) -> Result<(), Stopped> {
        let action = operation.change();
        let changed = match (&mut self.frame, &action) {
            (Some(frame), Some(action)) => frame.apply(action).map(drop),
            _ => self.change_ttl(operation),
        };
        let verdict = match changed {
            Ok(()) => return Ok(()),
            Err(ActionError::Expired) => Verdict::Expired,
            Err(error) => Verdict::Dropped(DropCause::Action(error)),
        };
        // Earlier outputs stay.
        if self.verdict.is_none() || verdict == Verdict::Expired {
            self.verdict = Some(verdict);
        }
        Err(Stopped)
    }

    fn change_ttl(&mut self, operation: &Operation) -> Result<(), ActionError> {
        match operation {
            Operation::Set { field: Field::IpTtl, value, .. } => self.ttl = *value,
            Operation::DecNwTtl(_) if self.ttl <= 1 => return Err(ActionError::Expired),
            Operation::DecNwTtl(_) => self.ttl -= 1,
            _ => {}
        }
        Ok(())
    }

    fn recirculate(&mut self, rest: &Arc<Resume>) {
        self.verdict = Some(Verdict::Sent);
        let recorded = self.record.rests.iter().find(|(recorded, _)| Arc::ptr_eq(recorded, rest));
        let (mut key, frame) = match (&mut self.frame, recorded) {
            (Some(frame), _) => (*frame.key(), Some((frame.head().to_vec(), frame.frame_len()))),
            (None, Some((_, key))) => (*key, None),
            (None, None) => return,
        };
        if let Some(zone) = self.zone {
            key.set(Field::CtState, (ct_state::TRACKED | ct_state::NEW).into());
            key.set(Field::CtZone, zone.into());
        }
        self.rests.push((Some(rest.clone()), TracedPacket { key, frame }));
    }
}
