//! The port of a stack in memory: received frames, and the transmit side with its offloads and its limited queue.

use super::offload;
use super::packet::Packet;
use stack::ip::InterfaceId;
use stack::{Frame, Link, LinkOffloads, Payload, Piece, Slice, TxOffload};
use std::ops::Range;
use std::sync::{Arc, Weak};
use wire::checksum::Sum;

/// Payload of the stacks under test.
pub(crate) type Bytes = Arc<[u8]>;

/// A received frame.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    bytes: Bytes,
    head: usize,
    is_checksum_valid: bool,
    can_retain: bool,
}

impl Received {
    /// A frame whose head is all of it, without checksum offload.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self { bytes: bytes.into(), head: bytes.len(), is_checksum_valid: false, can_retain: true }
    }

    /// A handle that shows whether the frame's bytes are still held.
    pub(crate) fn weak(&self) -> Weak<[u8]> {
        Arc::downgrade(&self.bytes)
    }

    /// The same frame with only its first 128 bytes in private memory.
    pub(crate) fn with_short_head(mut self) -> Self {
        self.head = self.bytes.len().min(128);
        self
    }

    /// The same frame, its transport checksum verified by the port.
    pub(crate) fn verified(mut self) -> Self {
        self.is_checksum_valid = Packet::decode(&self.bytes).is_some_and(|packet| packet.check().is_ok());
        self
    }

    /// The same frame, coalesced by the port: its checksum field is that of the first segment.
    pub(crate) fn coalesced(mut self) -> Self {
        self.is_checksum_valid = true;
        self
    }

    /// The same frame without a free buffer to retain it.
    pub(crate) fn without_buffer(mut self) -> Self {
        self.can_retain = false;
        self
    }
}

impl Frame for Received {
    type Payload = Bytes;

    fn head(&self) -> &[u8] {
        &self.bytes[..self.head]
    }

    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn is_checksum_valid(&self) -> bool {
        self.is_checksum_valid
    }

    fn sum(&self, range: Range<usize>) -> u64 {
        Sum::of(&self.bytes[range]).total()
    }

    fn copy_to(&self, at: usize, to: &mut [u8]) {
        to.copy_from_slice(&self.bytes[at..at + to.len()]);
    }

    fn retain(&mut self, range: Range<usize>) -> Option<Slice<Bytes>> {
        assert!(range.end <= self.bytes.len(), "{range:?} is beyond the frame of {} bytes", self.bytes.len());
        self.can_retain.then(|| Slice::of(self.bytes.clone(), range))
    }
}

/// The transmit side of a port.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) offloads: LinkOffloads,
    /// Maximum length of an IP packet in bytes.
    pub(crate) mtu: usize,
    /// Frames that the queue still takes.
    pub(crate) room: usize,
    /// Number of frames sent, before segmentation.
    pub(crate) frames: u64,
    /// Frames sent, after segmentation, in order.
    pub(crate) sent: Vec<Vec<u8>>,
}

impl Port {
    pub(crate) fn new(mtu: usize) -> Self {
        Self { offloads: LinkOffloads::default(), mtu, room: usize::MAX, frames: 0, sent: Vec::new() }
    }

    fn check(&self, frame: &[u8], head: &[u8], offload: &TxOffload) {
        assert!(head.len() >= 14, "frame without Ethernet header");
        assert!(offload.checksum.is_none() || self.offloads.checksum, "checksum offload not negotiated");
        let max = match offload.segments {
            None => self.mtu + 14,
            Some((stack::Segmentation::Tcp4, _)) => self.offloads.tso4 as usize,
            Some((stack::Segmentation::Tcp6, _)) => self.offloads.tso6 as usize,
            Some((stack::Segmentation::Udp, _)) => self.offloads.uso as usize,
        };
        assert!(frame.len() <= max, "frame of {} bytes, at most {max}: {offload:?}", frame.len());
    }
}

impl Link for Port {
    type Payload = Bytes;

    fn offloads(&self, _: InterfaceId) -> LinkOffloads {
        self.offloads
    }

    fn has_room(&mut self, _: InterfaceId) -> bool {
        self.room > 0
    }

    fn send<'a>(
        &mut self,
        _: InterfaceId,
        head: &[u8],
        pieces: impl Iterator<Item = Piece<'a, Bytes>>,
        offload: TxOffload,
    ) {
        assert!(self.room > 0, "frame sent without room");
        self.room -= 1;
        self.frames += 1;
        let mut frame = head.to_vec();
        for piece in pieces {
            assert!(piece.range.end <= Payload::len(piece.data), "piece beyond its payload");
            frame.extend(&piece.data[piece.range]);
        }
        self.check(&frame, head, &offload);
        for segment in offload::complete(&frame, &offload) {
            assert!(segment.len() <= self.mtu + 14, "segment of {} bytes", segment.len());
            if let Some(packet) = Packet::decode(&segment) {
                packet
                    .check()
                    .unwrap_or_else(|error| panic!("stack sent a packet with {error}: {segment:02x?}"));
            }
            self.sent.push(segment);
        }
    }
}
