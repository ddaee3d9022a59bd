//! One packet of a burst, and its copy to memory.

use super::{BURST, Burst, HEAD, HEADROOM, Heads, Shape, layout};
use crate::Offload;
use mem::VolatileSlice;
use mem::copy::Kernel;
use mem::pool::Buffer;
use std::ops::Range;
use wire::checksum::Sum;

/// Maximum length of a frame that is written without a call.
const MAX_SHORT: usize = 64;

/// One packet of a burst: its private head, and the rest in the source's memory.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    /// Private first bytes.
    pub head: &'a [u8],
    /// Offloads still needed.
    pub offload: Offload,
    rest: VolatileSlice,
    more: &'a [VolatileSlice],
}

impl Burst {
    /// Packet `i`, for transmission.
    #[inline(always)]
    pub fn frame(&self, i: usize) -> Frame<'_> {
        let (from, to) = self.more(i);
        let more = &self.spill[from as usize..to as usize];
        Frame { head: self.head(i), offload: self.offload(i), rest: self.rest(i), more }
    }

    /// Writes packet `i` of `len` bytes to the start of `to`, like [`Frame::write_to`]. `LAYOUT` is
    /// [`Burst::layout`].
    ///
    /// # Safety
    /// The map of `to` is alive, `len` is the packet's length, and `to.len()` is at least `len`.
    #[inline(always)]
    pub(crate) unsafe fn write_to<K: Kernel, const LAYOUT: u8>(
        &self,
        (i, len): (usize, usize),
        to: VolatileSlice,
    ) {
        debug_assert!(len == self.frame_len(i) && (LAYOUT == layout::ANY || LAYOUT == self.layout()));
        // Loaded once, so that the compiler reuses the compared value for the copy.
        let rest = self.rest[i];
        // SAFETY: the contract of this function.
        unsafe {
            match LAYOUT {
                // The shortest Ethernet frames, which fill at most one line, without a call.
                layout::WHOLE if (MAX_SHORT / 2 + 1..=MAX_SHORT).contains(&len) => {
                    to.copy_in::<K>(&self.slots.0[i][HEADROOM..HEADROOM + len]);
                }
                // Long frames, whose head length is known at compile time.
                layout::IN_PLACE if self.head[i] as usize == HEAD && rest.len() > 4 * MAX_SHORT => {
                    to.copy_in::<K>(&self.slots.0[i][HEADROOM..HEADROOM + HEAD]);
                    // Head and rest form the packet, so `to` is longer than a head.
                    to.skip(HEAD as u32).copy_from::<K>(rest, rest.len());
                }
                // Completely in the source's memory.
                layout::ANY if self.heads == Heads::Absent && self.shape != Shape::Chained => {
                    to.copy_from::<K>(rest, len);
                }
                _ => self.write_long::<K>(i, to),
            }
        }
    }

    /// [`Burst::write_to`] for the other cases. Not inlined, so that the loops for short frames keep their values in
    /// registers.
    ///
    /// # Safety
    /// As for [`Burst::write_to`].
    #[inline(never)]
    unsafe fn write_long<K: Kernel>(&self, i: usize, to: VolatileSlice) {
        // SAFETY: the contract of this function.
        unsafe {
            if self.shape == Shape::Chained {
                return self.frame(i).write_to::<K>(to);
            }
            let (i, head) = (i % BURST, self.head[i % BURST] as usize);
            to.copy_in::<K>(self.head(i));
            let rest = self.rest(i);
            if !rest.is_empty() {
                to.split_at(head).1.copy_from::<K>(rest, rest.len());
            }
        }
    }
}

impl Frame<'_> {
    /// Whether the whole frame is in the private head.
    #[inline(always)]
    pub fn is_head_only(&self) -> bool {
        self.rest.is_empty() && self.more.is_empty()
    }

    /// Segment `k` of the rest, including empty ones. Returns `None` after the last.
    pub(crate) fn piece(&self, k: usize) -> Option<VolatileSlice> {
        if k == 0 { Some(self.rest) } else { self.more.get(k - 1).copied() }
    }

    /// Non-empty segments after the head, in order, in the source's memory.
    pub fn rest(&self) -> impl Iterator<Item = VolatileSlice> {
        std::iter::once(self.rest).chain(self.more.iter().copied()).filter(|seg| !seg.is_empty())
    }

    /// Copies the frame to private memory, as far as it fits. Returns the number of bytes copied.
    pub fn copy_to<K: Kernel>(&self, to: &mut [u8]) -> usize {
        let mut at = self.head.len().min(to.len());
        to[..at].copy_from_slice(&self.head[..at]);
        for seg in self.rest() {
            let piece = seg.split_at(to.len() - at).0;
            // SAFETY: the segment is pinned by the burst that lent this frame; the slice has the piece's length.
            unsafe { piece.copy_out::<K>(&mut to[at..at + piece.len()]) };
            at += piece.len();
        }
        at
    }

    /// Unfolded sum of the 16-bit words of the bytes `range`, in native byte order ([`Sum::add_words`]).
    #[inline]
    pub fn sum(&self, range: Range<usize>) -> u64 {
        match self.head.get(range.clone()) {
            Some(bytes) => mem::sum::private_words(bytes),
            None => self.sum_of_pieces(range),
        }
    }

    fn sum_of_pieces(&self, range: Range<usize>) -> u64 {
        let head = VolatileSlice::of_private(self.head);
        // SAFETY: the head is borrowed, and the other segments are pinned by the burst that lent this frame.
        unsafe { sum_of(std::iter::once(head).chain(self.rest()), range) }
    }

    /// Copies the frame to empty buffers, which must have enough space.
    pub(crate) fn copy_into<K: Kernel>(&self, buffers: &mut [Buffer]) {
        let (mut head, mut rest) = (self.head, self.rest());
        let mut seg = VolatileSlice::EMPTY;
        for buffer in buffers {
            while buffer.tailroom() > 0 {
                if head.is_empty() && seg.is_empty() {
                    let Some(next) = rest.next() else { return };
                    seg = next;
                }
                let n = buffer.tailroom().min(if head.is_empty() { seg.len() } else { head.len() });
                let Some(to) = buffer.append(n) else { return };
                if head.is_empty() {
                    // SAFETY: the segment is pinned by the burst that lent this frame; `n` is at most its length.
                    unsafe { seg.split_at(n).0.copy_out::<K>(to) };
                    seg = seg.split_at(n).1;
                } else {
                    to.copy_from_slice(&head[..n]);
                    head = &head[n..];
                }
            }
        }
    }

    /// Copies only the last `N` bytes of the frame to private memory. Returns `None` if the frame is shorter.
    #[inline]
    pub fn tail<K: Kernel, const N: usize>(&self) -> Option<[u8; N]> {
        let mut tail = [0; N];
        if self.more.is_empty() && self.rest.len() >= N {
            let last = self.rest.split_at(self.rest.len() - N).1;
            // SAFETY: the segment is pinned by the burst that lent this frame; both have `N` bytes.
            unsafe { last.copy_out::<K>(&mut tail) };
            return Some(tail);
        }
        if self.is_head_only() {
            return self.head.last_chunk().copied();
        }
        self.scattered_tail::<K>(&mut tail).then_some(tail)
    }

    /// [`Frame::tail`] for a tail in several segments. Returns `false` if the frame is shorter than `tail`.
    fn scattered_tail<K: Kernel>(&self, tail: &mut [u8]) -> bool {
        let bytes = self.head.len() + self.rest().map(VolatileSlice::len).sum::<usize>();
        let Some(mut skip) = bytes.checked_sub(tail.len()) else { return false };
        let from_head = self.head.get(skip..).unwrap_or_default();
        tail[..from_head.len()].copy_from_slice(from_head);
        let mut at = from_head.len();
        skip = skip.saturating_sub(self.head.len());
        for seg in self.rest() {
            let piece = seg.split_at(skip).1;
            skip = skip.saturating_sub(seg.len());
            // SAFETY: the segment is pinned by the burst that lent this frame; the slice has the piece's length, and
            // the segments after `skip` fill exactly the part of `tail` that the head left.
            unsafe { piece.copy_out::<K>(&mut tail[at..at + piece.len()]) };
            at += piece.len();
        }
        true
    }

    /// Writes the frame to the start of `to`.
    ///
    /// # Safety
    /// The map of `to` is alive, and `to.len()` is at least the frame's length.
    #[inline(always)]
    pub unsafe fn write_to<K: Kernel>(&self, to: VolatileSlice) {
        let (first, mut after) = to.split_at(self.head.len());
        // SAFETY: the destination is valid by contract; the source segments are pinned by the burst that lent this
        // frame.
        unsafe {
            first.copy_in::<K>(self.head);
            if !self.rest.is_empty() {
                after.copy_from::<K>(self.rest, self.rest.len());
                after = after.split_at(self.rest.len()).1;
            }
            for seg in self.more {
                after.copy_from::<K>(*seg, seg.len());
                after = after.split_at(seg.len()).1;
            }
        }
    }

    /// Writes the frame to the segments `to`, in order.
    ///
    /// # Safety
    /// The map of the segments is alive, and their total length is at least the frame's.
    pub unsafe fn scatter_to<K: Kernel>(&self, to: impl Iterator<Item = VolatileSlice>) {
        let mut to = to;
        let mut room = VolatileSlice::EMPTY;
        let mut from_head = self.head;
        while !from_head.is_empty() {
            if room.is_empty() {
                let Some(next) = to.next() else { return };
                room = next;
            }
            let n = from_head.len().min(room.len());
            // SAFETY: the destination is valid by contract; `n` is at most both lengths.
            unsafe { room.copy_in::<K>(&from_head[..n]) };
            (room, from_head) = (room.split_at(n).1, &from_head[n..]);
        }
        for mut from in std::iter::once(self.rest).chain(self.more.iter().copied()) {
            while !from.is_empty() {
                if room.is_empty() {
                    let Some(next) = to.next() else { return };
                    room = next;
                }
                let n = from.len().min(room.len());
                // SAFETY: the destination is valid by contract and the source is pinned; `n` is at most both lengths.
                unsafe { room.copy_from::<K>(from, n) };
                (room, from) = (room.split_at(n).1, from.split_at(n).1);
            }
        }
    }
}

/// Unfolded sum of the 16-bit words of the bytes `range` of these segments, in native byte order.
///
/// # Safety
/// The memory of the segments is alive.
pub(crate) unsafe fn sum_of(segs: impl Iterator<Item = VolatileSlice>, range: Range<usize>) -> u64 {
    let (mut skip, mut left, mut sum) = (range.start, range.len(), Sum::default());
    for seg in segs {
        let piece = seg.split_at(skip).1.split_at(left).0;
        skip = skip.saturating_sub(seg.len());
        // SAFETY: guaranteed by the caller.
        sum.add_words(unsafe { mem::sum::words(piece) }, piece.len());
        left -= piece.len();
        if left == 0 {
            break;
        }
    }
    sum.total()
}
