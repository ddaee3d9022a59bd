//! Follows the operations of a pass: what becomes of the packet, and with what each recirculation continues.
//!
//! A frame is changed as a worker changes it. Of a synthetic packet, the record has the fields at each recirculation.

use super::connections::Connections;
use super::packet::{examined, translate};
use super::{DropCause, TracedPacket, Verdict};
use crate::field::Field;
use crate::key::Key;
use crate::packet::{ActionError, Rewriter, parse};
use crate::translate::{CtOperation, Operation, Record, Resume, set_state};
use conntrack::{Examined, Rewrite, State};
use port::Offload;
use std::sync::Arc;

/// The rest of a list is not executed.
struct Stopped;

/// A packet while operations are followed.
pub(super) struct Follower<'a, 'b> {
    record: &'a Record,
    connections: &'a mut Connections<'b>,
    /// The packet as the pass began.
    packet: Key,
    /// The packet as it is now, if it is a frame.
    frame: Option<Rewriter>,
    /// Time to live, of a synthetic packet.
    ttl: u128,
    /// Connection state of the packet, and whether this pass has changed it.
    state: State,
    has_changed: bool,
    /// Connection tracking whose outcome the next recirculation has.
    tracking: Option<&'a CtOperation>,
    pub(super) verdict: Option<Verdict>,
    pub(super) rests: Vec<(Option<Arc<Resume>>, TracedPacket)>,
}

impl<'a, 'b> Follower<'a, 'b> {
    pub(super) fn new(
        packet: &TracedPacket,
        record: &'a Record,
        connections: &'a mut Connections<'b>,
    ) -> Self {
        let frame = packet.frame.as_ref().map(|(head, len)| {
            let (mut key, mut rewriter) = (packet.key, Rewriter::new());
            let layout = parse(head, *len, &mut key);
            rewriter.begin(head, *len, Offload::NONE, &key, &layout);
            rewriter
        });
        let ttl = packet.key.get(Field::IpTtl);
        Self {
            record,
            connections,
            packet: packet.key,
            frame,
            ttl,
            state: packet.state,
            has_changed: false,
            tracking: None,
            verdict: None,
            rests: Vec::new(),
        }
    }

    pub(super) fn run(&mut self, operations: &'a [Operation]) {
        let _ = self.list(operations);
    }

    fn list(&mut self, operations: &'a [Operation]) -> Result<(), Stopped> {
        operations.iter().try_for_each(|operation| self.one(operation))
    }

    fn one(&mut self, operation: &'a Operation) -> Result<(), Stopped> {
        match operation {
            Operation::Select(selection) => self.copy(selection.operations(&self.packet)),
            Operation::Clone(operations) => self.copy(operations),
            Operation::Recirculate(rest) => self.recirculate(rest),
            // Without a table to continue in, nothing of the packet in this list depends on its connection.
            Operation::Ct(tracking) => self.tracking = Some(&**tracking).filter(|tracking| tracking.resumes),
            Operation::CtClear => (self.state, self.has_changed) = (State::default(), true),
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
    fn copy(&mut self, operations: &'a [Operation]) {
        let (frame, ttl, state) = (self.frame.clone(), self.ttl, (self.state, self.has_changed));
        // The copy alone ends where an operation does not fit it.
        let _ = self.list(operations);
        (self.frame, self.ttl, (self.state, self.has_changed)) = (frame, ttl, state);
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
        let packet = if let Some(frame) = &self.frame {
            self.continue_frame(frame.clone())
        } else {
            let recorded = self.record.rests.iter().find(|(recorded, _)| Arc::ptr_eq(recorded, rest));
            recorded.map(|(_, key)| self.continue_synthetic(*key))
        };
        self.rests.extend(packet.map(|packet| (Some(rest.clone()), packet)));
    }

    /// The frame as it continues; `None` if a worker drops it.
    fn continue_frame(&mut self, mut frame: Rewriter) -> Option<TracedPacket> {
        let network = usize::from(frame.layout().network);
        let is_ip = [0x0800, 0x86dd].contains(&frame.key().get(Field::EthType)) && network != 0;
        let head = frame.head().get(network..).filter(|_| is_ip).unwrap_or_default();
        let rewrite = self.track(|_| Examined::Head(head));
        if let Some(Err(error)) = rewrite.map(|rewrite| frame.translate(&rewrite)) {
            self.verdict = Some(Verdict::Dropped(DropCause::Action(error)));
            return None;
        }
        let key = self.with_state(*frame.key());
        Some(TracedPacket { frame: Some((frame.head().to_vec(), frame.frame_len())), ..key })
    }

    fn continue_synthetic(&mut self, mut key: Key) -> TracedPacket {
        let rewrite = self.track(|zone| examined(&key, zone));
        // Of a synthetic error, nothing is quoted.
        if let Some(Rewrite::Packet(tuple) | Rewrite::Segment { tuple, .. }) = rewrite {
            translate(&mut key, &tuple);
        }
        self.with_state(key)
    }

    /// Passes a packet through connection tracking, if that precedes the recirculation. Returns its translation.
    fn track<'p>(&mut self, packet: impl FnOnce(u16) -> Examined<'p>) -> Option<Rewrite> {
        let operation = self.tracking.take()?;
        let outcome = self.connections.outcome(packet(operation.zone), &self.state, operation);
        (self.state, self.has_changed) = (outcome.state, true);
        outcome.rewrite
    }

    fn with_state(&self, mut key: Key) -> TracedPacket {
        // Of a synthetic packet, the key alone may have a state.
        if self.has_changed {
            set_state(&mut key, &self.state);
        }
        TracedPacket { key, frame: None, state: self.state }
    }
}
