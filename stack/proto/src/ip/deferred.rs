//! Checksums and segments of datagrams that are left to the link (`Link::offloads`), and completed here for a link that
//! cannot.

use super::Outgoing;
use super::outbox::OutFrame;
use crate::{LinkOffloads, Payload, Segmentation, Slice, TxOffload};
use wire::checksum::{Sum, protocol};
use wire::{IPV4_HEADER, IPV6_HEADER, UDP_HEADER};

/// Offset of the checksum in the UDP header.
const CHECKSUM: usize = 6;
/// Offset of the length in the UDP header.
const LENGTH: usize = 4;

/// What is left to do for a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deferred {
    /// Whether the checksum of the UDP header is the sum of the pseudo header.
    pub(crate) is_partial: bool,
    /// Payload in bytes of each datagram that the packet is cut into; 0 for a single datagram.
    pub(crate) segment: u16,
}

/// The checksum of a datagram whose header has the sum of the pseudo header in its place.
fn completed<P: Payload>(header: &[u8], payload: &[Slice<P>]) -> [u8; 2] {
    let mut sum = Sum::of(header);
    for slice in payload {
        sum.add_words(slice.words(0..slice.len()), slice.len());
    }
    sum.finish_nonzero()
}

impl<P: Payload> Outgoing<P> {
    /// Completes the checksum.
    pub(crate) fn complete(&mut self) {
        if core::mem::take(&mut self.deferred.is_partial) {
            let header = self.header.bytes.get_mut(..usize::from(self.header.len)).unwrap_or_default();
            let sum = completed(header, &self.payload);
            if let Some(place) = header.get_mut(CHECKSUM..CHECKSUM + 2) {
                place.copy_from_slice(&sum);
            }
        }
    }
}

impl<P: Payload> OutFrame<P> {
    /// Offset of the transport header.
    fn transport(&self) -> usize {
        self.network + if self.is_v4() { IPV4_HEADER } else { IPV6_HEADER }
    }

    fn is_v4(&self) -> bool {
        self.head[self.network] >> 4 == 4
    }

    fn payload_len(&self) -> usize {
        self.payload.iter().map(Slice::len).sum()
    }

    /// Whether it must be cut into datagrams before it is sent on a link.
    pub(super) fn is_cut(&self, offloads: &LinkOffloads) -> bool {
        let can_cut = offloads.checksum && self.len + self.payload_len() <= offloads.uso as usize;
        self.deferred.segment > 0 && !can_cut
    }

    /// The offloads that the link completes. A checksum that it does not is completed now.
    pub(super) fn offload(&mut self, offloads: &LinkOffloads) -> TxOffload {
        let Deferred { is_partial, segment } = self.deferred;
        if !is_partial {
            return TxOffload::default();
        }
        let at = self.transport();
        if !offloads.checksum {
            let sum = completed(self.head.get(at..self.len).unwrap_or_default(), &self.payload);
            self.put(at + CHECKSUM, sum);
            return TxOffload::default();
        }
        let segments = (segment > 0).then_some((Segmentation::Udp, segment));
        TxOffload { checksum: Some((at as u16, CHECKSUM as u16)), segments, ecn: false }
    }

    /// The datagrams that it is cut into, whose checksums are left.
    pub(super) fn datagrams(&self) -> impl Iterator<Item = Self> + '_ {
        let (len, step) = (self.payload_len(), usize::from(self.deferred.segment).max(1));
        (0..len).step_by(step).enumerate().map(move |(number, start)| {
            let payload = super::slices(&self.payload, start..len.min(start + step)).collect();
            let mut part = Self { payload, head: self.head, ..*self };
            part.deferred.segment = 0;
            part.set_lengths(number as u16);
            part
        })
    }

    /// Sets the lengths, the identification, and the sum of the pseudo header of datagram `number`.
    fn set_lengths(&mut self, number: u16) {
        let (network, at, len) = (self.network, self.transport(), UDP_HEADER + self.payload_len());
        if self.is_v4() {
            let identification = u16::from_be_bytes([self.head[network + 4], self.head[network + 5]]);
            let identification = identification.wrapping_add(number);
            wire::rewrite_ipv4(&mut self.head[network..], (IPV4_HEADER + len) as u16, identification);
        } else {
            self.put(network + 4, (len as u16).to_be_bytes());
        }
        let addresses = if self.is_v4() { 12..IPV4_HEADER } else { 8..IPV6_HEADER };
        let addresses = self.head.get(network + addresses.start..network + addresses.end);
        let sum = Sum::pseudo(addresses.unwrap_or_default(), protocol::UDP, len as u32).partial();
        self.put(at + LENGTH, (len as u16).to_be_bytes());
        self.put(at + CHECKSUM, sum);
    }

    fn put(&mut self, at: usize, bytes: [u8; 2]) {
        if let Some(place) = self.head.get_mut(at..at + 2) {
            place.copy_from_slice(&bytes);
        }
    }
}
