//! Writing headers and frames to slots.

use super::form::MAX_HEADER;
use super::{Slot, Slots, range};
use crate::burst::layout;
use crate::transmit::checksum::finished;
use crate::{Burst, Frame, OFFLOAD_HEADER, Offload};
use mem::VolatileSlice;
use mem::copy::Kernel;

impl Slots {
    /// Writes packet `i` of `burst`, which must have the reserved length, to the `k`-th slot. Its offloads must be
    /// covered by the queue's [`capabilities`](crate::TxQueue::capabilities).
    #[inline]
    pub fn write_packet<K: Kernel>(&mut self, k: usize, burst: &Burst, i: usize) {
        debug_assert_eq!(self.frame_len(k), burst.frame_len(i));
        let (slot, header) = self.header(k, burst.offload(i), burst.head(i));
        let [piece] = self.pieces[range(slot.pieces)] else {
            return self.scatter::<K>(slot, &header, &burst.frame(i));
        };
        let (first, body) = piece.split_at(self.form.header_len);
        if body.len() >= burst.frame_len(i) {
            // SAFETY: the piece is inside the map that `self` pins; the body has room for the packet.
            unsafe {
                write_header(first, &header[..self.form.header_len]);
                burst.write_to::<K, { layout::ANY }>(
                    (i, burst.frame_len(i)),
                    body.split_at(burst.frame_len(i)).0,
                );
            }
        }
    }

    /// Writes a frame to several pieces.
    #[cold]
    fn scatter<K: Kernel>(&self, slot: Slot, header: &[u8; MAX_HEADER], frame: &Frame<'_>) {
        self.put_header(slot, header);
        let bodies = self.bodies(slot);
        // SAFETY: the pieces are inside the map that `self` pins and were gathered until header and frame fit.
        unsafe { frame.scatter_to::<K>(bodies) };
    }

    /// Writes a frame given as concatenated `parts` of the reserved total length. Each slot is written once.
    ///
    /// `offload` describes the offloads left; the first part contains the packet's headers. A checksum that the queue
    /// does not accept ([`capabilities`](crate::TxQueue::capabilities)) is completed here. Segmentation must be
    /// accepted, because a slot holds one frame. If it is not, or if the checksum is outside the frame, the frame is
    /// not sent, and counts as [`DropReason::BadOffload`](crate::DropReason::BadOffload) at commit.
    pub fn write<K: Kernel>(&mut self, k: usize, offload: Offload, parts: &[&[u8]]) {
        if offload.is_work() && !self.accepted.cover(offload.needs()) {
            return self.write_finished::<K>(k, offload, parts);
        }
        self.write_parts::<K>(k, offload, parts);
    }

    /// Completes the checksum and writes the frame, or refuses it.
    #[cold]
    fn write_finished<K: Kernel>(&mut self, k: usize, offload: Offload, parts: &[&[u8]]) {
        let is_possible = offload.segmentation().is_none();
        let field = is_possible.then(|| finished(offload, parts, self.frame_len(k))).flatten();
        let Some(field) = field else { return self.refuse(k) };
        self.write_parts::<K>(k, Offload::NONE, parts);
        let (mut skip, mut left) = (field.at, field.bytes());
        for body in self.bodies(self.list[k]) {
            let behind = body.split_at(skip).1;
            skip -= skip.min(body.len());
            let (here, rest) = left.split_at(left.len().min(behind.len()));
            // SAFETY: the piece is inside the map that `self` pins; the bytes were limited to its length.
            unsafe { behind.split_at(here.len()).0.copy_in::<K>(here) };
            left = rest;
        }
    }

    /// Marks the frame in the `k`-th slot as not to be sent. Its buffers keep their place in ring order, so they are
    /// posted as an empty frame, which every receiver drops as too short.
    pub(super) fn refuse(&mut self, k: usize) {
        if self.is_refused(k) {
            return;
        }
        let (slot, header) = self.header(k, Offload::NONE, &[]);
        self.put_header(slot, &header);
        let mut left = self.form.header_len as u32;
        for buffer in &mut self.buffers[range(slot.buffers)] {
            buffer.len = buffer.len.min(left);
            buffer.is_refused = true;
            left -= buffer.len;
        }
        let slot = &mut self.list[k];
        (slot.pieces, slot.len) = ((0, 0), 0);
        self.refused += 1;
    }

    fn write_parts<K: Kernel>(&mut self, k: usize, offload: Offload, parts: &[&[u8]]) {
        let (slot, header) = self.header(k, offload, parts.first().copied().unwrap_or_default());
        self.put_header(slot, &header);
        let mut bodies = self.bodies(slot);
        let mut room = VolatileSlice::EMPTY;
        for part in parts {
            let mut part = *part;
            while !part.is_empty() {
                if room.is_empty() {
                    let Some(next) = bodies.next() else { return };
                    room = next;
                }
                let (here, rest) = part.split_at(part.len().min(room.len()));
                // SAFETY: the piece is inside the map that `self` pins; the part was limited to its length.
                unsafe { room.copy_in::<K>(here) };
                (room, part) = (room.split_at(here.len()).1, rest);
            }
        }
    }

    /// Records the offloads of the frame in slot `k`. Returns the slot and its header.
    #[inline]
    fn header(&mut self, k: usize, offload: Offload, head: &[u8]) -> (Slot, [u8; MAX_HEADER]) {
        let slot = &mut self.list[k];
        slot.offload = offload;
        let (words, buffers) = (self.form.fields(offload, head), &mut self.buffers[range(slot.buffers)]);
        let header = self.form.header(words, buffers.len());
        if let Some(first) = buffers.first_mut() {
            first.is_marked = words != [0; OFFLOAD_HEADER];
        }
        (*slot, header)
    }

    /// Writes a header to the beginning of the slot's pieces.
    #[inline(always)]
    fn put_header(&self, slot: Slot, header: &[u8; MAX_HEADER]) {
        let (pieces, header_len, mut written) = (&self.pieces[range(slot.pieces)], self.form.header_len, 0);
        for piece in pieces {
            let here = piece.split_at(header_len - written).0;
            // SAFETY: the piece is inside the map that `self` pins.
            unsafe { write_header(here, &header[written..written + here.len()]) };
            written += here.len();
        }
    }

    /// The part of each of the slot's pieces after the header.
    #[inline(always)]
    fn bodies(&self, slot: Slot) -> impl Iterator<Item = VolatileSlice> {
        let (pieces, header_len, mut skipped) = (&self.pieces[range(slot.pieces)], self.form.header_len, 0);
        pieces.iter().map(move |piece| {
            let (here, body) = piece.split_at(header_len - skipped);
            skipped += here.len();
            body
        })
    }
}

/// Writes a header, or a part of it, only if it differs: most headers are zero, and a line that is not written stays
/// in both caches.
///
/// # Safety
/// The map that created `to` must be alive, and `to.len()` must be at least the header's length.
#[inline(always)]
unsafe fn write_header(to: VolatileSlice, header: &[u8]) {
    // SAFETY: by contract.
    unsafe {
        match header.first_chunk() {
            Some(first) => {
                to.put_if_different(0, u64::from_ne_bytes(*first));
                match header[8..] {
                    [] => {}
                    [a, b] => to.put_if_different(8, u16::from_ne_bytes([a, b])),
                    [a, b, c, d] => to.put_if_different(8, u32::from_ne_bytes([a, b, c, d])),
                    ref rest => to.split_at(8).1.copy_in::<mem::copy::Portable>(rest),
                }
            }
            None => to.copy_in::<mem::copy::Portable>(header),
        }
    }
}
