//! Frames of the stack itself, held until there is room on their link.

use super::deferred::Deferred;
use super::interface::Interfaces;
use super::{HEAD, InterfaceId};
use crate::{Counters, Link, LinkOffloads, Payload, Piece, Slice};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use wire::MacAddress;

/// A frame to send: headers, and payload by reference.
pub(super) struct OutFrame<P> {
    pub(super) interface: InterfaceId,
    pub(super) head: [u8; HEAD],
    pub(super) len: usize,
    /// Offset of the IP header.
    pub(super) network: usize,
    pub(super) payload: Vec<Slice<P>>,
    pub(super) deferred: Deferred,
}

impl<P: Payload> OutFrame<P> {
    pub(super) fn new(interface: InterfaceId) -> Self {
        let deferred = Deferred::default();
        Self { interface, head: [0; HEAD], len: 0, network: 0, payload: Vec::new(), deferred }
    }

    /// Appends to the head. The headers of the stack's own packets always fit.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if let Some(to) = self.head.get_mut(self.len..self.len + bytes.len()) {
            to.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    pub(super) fn set_destination(&mut self, mac: MacAddress) {
        self.head[..6].copy_from_slice(&mac.octets());
    }

    /// The frame in one piece.
    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len + self.payload.iter().map(Slice::len).sum::<usize>());
        bytes.extend_from_slice(&self.head[..self.len]);
        for slice in &self.payload {
            let at = bytes.len();
            bytes.resize(at + slice.len(), 0);
            slice.copy_to(0, &mut bytes[at..]);
        }
        bytes
    }

    fn send<L: Link<Payload = P>>(mut self, link: &mut L, offloads: &LinkOffloads) {
        let offload = self.offload(offloads);
        let pieces = self.payload.iter().map(|slice| Piece::of(slice, 0..slice.len()));
        link.send(self.interface, &self.head[..self.len], pieces, offload);
    }
}

/// Frames that wait for their link, by interface. All together are limited.
pub(super) struct Outbox<P> {
    queues: Vec<VecDeque<OutFrame<P>>>,
    len: usize,
    limit: usize,
    /// Frames dropped since [`Outbox::take_dropped`].
    dropped: u64,
}

impl<P: Payload> Outbox<P> {
    pub(super) fn new(limit: u32) -> Self {
        Self { queues: Vec::new(), len: 0, limit: limit as usize, dropped: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[cfg(any(test, feature = "fuzz"))]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Number of frames dropped because the outbox was full.
    pub(super) fn take_dropped(&mut self) -> u64 {
        core::mem::take(&mut self.dropped)
    }

    /// Counts a frame that another queue did not take.
    pub(super) fn count_dropped(&mut self) {
        self.dropped += 1;
    }

    /// Appends a frame; drops it if the outbox is full.
    pub(super) fn push(&mut self, frame: OutFrame<P>) {
        let at = usize::from(frame.interface.0);
        if self.len >= self.limit {
            self.dropped += 1;
            return;
        }
        if self.queues.len() <= at {
            self.queues.resize_with(at + 1, VecDeque::new);
        }
        if let Some(queue) = self.queues.get_mut(at) {
            queue.push_back(frame);
            self.len += 1;
        }
    }

    /// Sends frames while their link has room.
    pub(super) fn transmit<L: Link<Payload = P>>(
        &mut self,
        interfaces: &Interfaces,
        link: &mut L,
        counters: &mut Counters,
    ) {
        if self.is_empty() {
            return;
        }
        for (id, _) in interfaces.iter() {
            let Some(queue) = self.queues.get_mut(usize::from(id.0)) else { continue };
            let offloads = link.offloads(id);
            while !queue.is_empty() && link.has_room(id) {
                let Some(frame) = queue.pop_front() else { break };
                if frame.is_cut(&offloads) {
                    let before = queue.len() + 1;
                    frame
                        .datagrams()
                        .collect::<Vec<_>>()
                        .into_iter()
                        .rev()
                        .for_each(|part| queue.push_front(part));
                    self.len += queue.len() - before;
                    continue;
                }
                frame.send(link, &offloads);
                self.len -= 1;
                counters.frames_out += 1;
            }
        }
    }
}
