//! Probes of the path MTU: data that is due anyway, in a segment longer than the path MTU (RFC 4821 sections 7 and 8).
//!
//! The path decides sizes and times, and loss recovery keeps the loss of a probe apart from congestion. A probe must
//! not be sent while anything is lost or in doubt, and a connection has at most one in flight.

use super::super::connection::{Connection, Flags};
use super::super::shared::{Io, Shared};
use super::super::{Seq, segment_size};
use super::Turn;
use crate::{Link, Payload};
use core::ops::Range;

/// Full segments of data behind a probe, whose acknowledgements report its loss (RFC 4821 section 7.4).
const SEGMENTS_BEHIND: u32 = 3;

/// A probe in flight.
#[derive(Clone, Debug)]
pub(crate) struct MtuProbe {
    numbers: Range<Seq>,
    /// Length of the packet in bytes.
    size: u16,
}

impl<P: Payload, L: Link<Payload = P>> Turn<'_, '_, P, L> {
    /// Sends a probe of `size` bytes, if the connection and the path allow one now.
    #[cold]
    pub(super) fn probe_mtu(&mut self, size: u16) {
        let segment = u32::from(segment_size(self.connection, size)).saturating_sub(self.sack_len());
        if !self.can_probe(segment) || !self.io.ip.take_probe(self.connection.path, self.io.now) {
            return;
        }
        let nxt = self.connection.tx.nxt;
        let numbers = nxt..nxt + segment;
        // The link must not cut it.
        let usual = core::mem::replace(&mut self.segment, segment);
        self.emit_data(numbers.clone(), false);
        self.segment = usual;
        self.connection.recovery.mark_mtu_probe(&mut self.shared.sent);
        self.connection.flags.set(Flags::MTU_PROBE);
        self.shared.mtu_probes.insert(self.connection.generation, MtuProbe { numbers, size });
    }

    /// Whether a probe with this payload may be sent (RFC 4821 section 7.4).
    fn can_probe(&self, segment: u32) -> bool {
        let c = &*self.connection;
        let is_possible = c.state.is_synchronised()
            && !c.flags.has(Flags::URGENT)
            && !c.flags.has(Flags::MTU_PROBE)
            && c.recovery.is_undisturbed()
            && c.recovery.paced_until() <= self.io.now;
        let usable = (c.tx.una + c.tx.window).since(c.tx.nxt).min(c.recovery.allowance(c.flight()));
        let data = c.tx.queue.end().since(c.tx.nxt);
        is_possible
            && segment > self.segment
            && usable >= segment
            && data >= segment + SEGMENTS_BEHIND * self.segment
    }
}

impl<P: Payload> Shared<P> {
    /// Ends the probe of a connection, and returns it.
    #[inline]
    pub(crate) fn end_mtu_probe(&mut self, c: &mut Connection<P>) -> Option<MtuProbe> {
        if c.flags.take(Flags::MTU_PROBE) { self.mtu_probes.remove(&c.generation) } else { None }
    }

    #[inline]
    fn mtu_probe(&self, c: &Connection<P>) -> Option<&MtuProbe> {
        if c.flags.has(Flags::MTU_PROBE) { self.mtu_probes.get(&c.generation) } else { None }
    }

    /// Raises the path MTU if the probe was acknowledged without a retransmission.
    pub(in crate::tcp) fn confirm_mtu_probe(&mut self, c: &mut Connection<P>, io: &mut Io<'_, P>) {
        if self.mtu_probe(c).is_some_and(|probe| probe.numbers.end.is_at_most(c.tx.una))
            && let Some(probe) = self.end_mtu_probe(c)
        {
            let is_raised = io.ip.note_probe(c.path, probe.size, true, io.now);
            io.counters.tcp_mtu_raised += u64::from(is_raised);
        }
    }

    /// Ends the probe if it is the retransmitted range.
    pub(super) fn fail_mtu_probe(&mut self, c: &mut Connection<P>, range: &Range<Seq>, io: &mut Io<'_, P>) {
        let overlaps = |probe: &MtuProbe| {
            probe.numbers.start.is_before(range.end) && range.start.is_before(probe.numbers.end)
        };
        if self.mtu_probe(c).is_some_and(overlaps)
            && let Some(probe) = self.end_mtu_probe(c)
        {
            io.ip.note_probe(c.path, probe.size, false, io.now);
        }
    }

    /// A router reports that it dropped the segment at `seq` because of its length. If it is the probe, it is sent
    /// again in segments of the usual length.
    pub(in crate::tcp) fn drop_mtu_probe(&mut self, c: &mut Connection<P>, seq: Seq) {
        if self.mtu_probe(c).is_some_and(|probe| probe.numbers.start == seq)
            && self.end_mtu_probe(c).is_some()
        {
            c.recovery.lose_mtu_probe(&mut self.sent);
        }
    }
}
