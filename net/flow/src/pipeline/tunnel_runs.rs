//! Runs of packets that only enter or leave a tunnel, and need neither their keys nor a copy of their heads.
//!
//! These paths have the same result as [`super::tunnel`] for the same packet, byte by byte. A packet that is not simple
//! enough takes that path: with offloads, tags, congestion or a checksum to verify, or if it is dropped.

use super::directory::Member;
use super::pass::Pass;
use super::recirculation::{Carried, Received, TunnelInfo};
use super::tunnel::CE;
use crate::translate::{Encapsulation, Operation, simple_flow};
use port::{Context, EditId, Offload, PortId};
use std::ops::Range;
use std::sync::Arc;
use tunnel::{Inner, Kind, Opened, Payload};
use wire::HEADER_LEN;

#[cfg(test)]
thread_local! {
    /// Packets of this thread that took one of these paths.
    pub(super) static SIMPLE: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// State that the last packet of a run that left a tunnel shares with the next one.
struct Left {
    info: TunnelInfo,
    strip: usize,
    /// The packet and its options of Geneve.
    options: (usize, Range<usize>),
    edit: EditId,
    tunnel: PortId,
    stage: u32,
}

impl Pass<'_> {
    /// Packets whose only operation adds outer headers.
    pub(super) fn encapsulate(
        &mut self,
        packets: Range<usize>,
        way: &Encapsulation,
        operations: &[Operation],
    ) {
        let place = |bridge, port| self.scope.directory.view(bridge)?.output(port).ok();
        let tunnel = self.scope.view.output(way.port).ok().map(|place| place.port);
        let to = way.plain().and_then(|port| place(way.bridge, port)).map(|place| place.port);
        let (Some(tunnel), Some(to)) = (tunnel, to) else {
            return packets.for_each(|i| self.run(i, operations));
        };
        let (mut n, mut bytes) = (0, 0);
        for i in packets {
            if self.encapsulate_simply(i, way, to).is_some() {
                (n, bytes) = (n + 1, bytes + self.burst.frame_len(i) as u64);
            } else {
                self.run(i, operations);
            }
        }
        let counts = self.recirculations.counts(tunnel);
        (counts.tx_packets, counts.tx_bytes) = (counts.tx_packets + n, counts.tx_bytes + bytes);
    }

    /// Returns `None` if the packet is not simple enough; then nothing was done.
    #[inline]
    fn encapsulate_simply(&mut self, i: usize, way: &Encapsulation, to: PortId) -> Option<()> {
        let len = self.burst.frame_len(i);
        if self.burst.offload(i) != Offload::NONE || way.template.packet_len(len) > usize::from(way.mtu) {
            return None;
        }
        let (hash, own) = simple_flow(self.burst.head(i), len)?;
        let tos = way.tos.map_or(own, |tos| tos & !CE | own & CE);
        let identification = self.recirculations.identification;
        let header = way.template.header(&Inner { len, hash, tos, identification, ..Inner::default() });
        let edit = self.verdicts.edit_with(|edit| edit.set_splice(0, 0, header.bytes())).ok()?;
        self.recirculations.identification = identification.wrapping_add(1);
        self.verdicts.emit(i, to, edit);
        count_simple();
        Some(())
    }

    /// Packets whose only operation removes outer headers.
    pub(super) fn decapsulate(
        &mut self,
        packets: Range<usize>,
        (kind, port): (Kind, u16),
        operations: &[Operation],
    ) {
        let mut last = None;
        for i in packets {
            if self.decapsulate_simply(i, (kind, port), &mut last).is_none() {
                // It may add a pass of its own.
                last = None;
                self.run(i, operations);
            }
        }
    }

    /// Returns `None` if the packet is not simple enough; then nothing was done.
    #[inline]
    fn decapsulate_simply(
        &mut self,
        i: usize,
        (kind, port): (Kind, u16),
        last: &mut Option<Left>,
    ) -> Option<()> {
        let (head, len) = (self.burst.head(i), self.burst.frame_len(i));
        let is_v4 = match head.get(12..HEADER_LEN)? {
            [0x08, 0x00] => true,
            [0x86, 0xdd] => false,
            _ => return None,
        };
        if self.burst.offload(i) != Offload::NONE {
            return None;
        }
        let opened = tunnel::open(kind, head.get(HEADER_LEN..)?, len - HEADER_LEN).ok()?;
        let (strip, inner) = (HEADER_LEN + opened.inner, len.checked_sub(HEADER_LEN + opened.inner)?);
        let is_simple =
            opened.check.is_none() && opened.payload == Payload::Ethernet && opened.tos & CE != CE;
        if !is_simple || opened.source.is_ipv4() != is_v4 || strip > head.len() || inner < HEADER_LEN {
            return None;
        }
        let info = TunnelInfo::new(&opened);
        let options = (i, HEADER_LEN + opened.options.start..HEADER_LEN + opened.options.end);
        let left = match last {
            // The search for the tunnel looks at nothing beyond these fields.
            Some(left) if left.info == info && left.strip == strip && self.agree(&left.options, &options) => {
                left
            }
            _ => last.insert(self.leave((kind, port), (&opened, info), (strip, options))?),
        };
        let counts = self.recirculations.counts(left.tunnel);
        (counts.rx_packets, counts.rx_bytes) = (counts.rx_packets + 1, counts.rx_bytes + inner as u64);
        let context = Context { stage: left.stage, from: left.tunnel, ..*self.context };
        self.verdicts.recirculate(i, context, left.edit);
        count_simple();
        Some(())
    }

    /// Whether two packets have the same options of Geneve.
    #[inline]
    fn agree(&self, first: &(usize, Range<usize>), second: &(usize, Range<usize>)) -> bool {
        let bytes = |(i, range): &(usize, Range<usize>)| self.burst.head(*i).get(range.clone());
        bytes(first) == bytes(second)
    }

    /// The pass and the edit of packets with these outer headers of `strip` bytes.
    fn leave(
        &mut self,
        (kind, port): (Kind, u16),
        (opened, info): (&Opened, TunnelInfo),
        (strip, options): (usize, (usize, Range<usize>)),
    ) -> Option<Left> {
        let tunnel = self.scope.directory.tunnels.find(kind, port, opened)?;
        let member: Member = self.scope.directory.member(tunnel)?;
        let edit = self.verdicts.edit_with(|edit| edit.set_splice(0, strip, &[])).ok()?;
        let bytes = self.burst.head(options.0).get(options.1.clone()).unwrap_or_default().into();
        let received = Received { info, options: bytes };
        let carried = Carried { tunnel: Some(Arc::new(received)), ..Carried::default() };
        let stage = self.recirculations.enter(member, carried);
        Some(Left { info, strip, options, edit, tunnel, stage })
    }
}

/// Tests see that these paths were taken.
#[inline(always)]
fn count_simple() {
    #[cfg(test)]
    SIMPLE.set(SIMPLE.get() + 1);
}
