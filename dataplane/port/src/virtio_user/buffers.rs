//! The packet buffers of one ring, each at its place for ever: the one unsafe room of this port.
//!
//! A frame begins on a cache line and its virtio-net header ends where the frame begins, so headers have lines of
//! their own. Buffers to send from start zeroed, and a header of zeros is what a finished frame has (VIRTIO 1.2 section
//! 5.1.6.2: no offload, `num_buffers` 0), so its line is not written and stays in both caches; `offloads` says when it
//! is. A frame longer than one buffer lies in the frames' places of several, and their headers stay as they are.
//!
//! Protocol: a buffer is either here, being read or filled, or out in the ring. The back end can write to all of
//! them at any time all the same, so nothing in them is ever behind a reference, and what is judged was copied.

use super::offloads::Words;
use crate::memory::Memory;
use crate::retain::Lender;
use crate::{Burst, OFFLOAD_HEADER};
use core::sync::atomic::Ordering::Relaxed;
use mem::copy::{Kernel, Portable};
use mem::{Grid, GuestMemory, VolatileSlice, Wide};
use ring::driver::Post;
use ring::{Direction, RingFault};
use std::sync::Arc;

/// Where in a buffer the frame begins: its header is on the line before, and that line is no other frame's.
const FRAME: u64 = 128;

/// A header at first sight.
#[derive(Clone, Copy)]
pub(super) struct Sight {
    /// Whether the back end left anything to be done, or vouches for the frame: its first two bytes, which are a hint.
    pub(super) is_marked: bool,
    /// How many buffers the frame spans. Only headers of 12 bytes say so.
    pub(super) buffers: u16,
}

impl Sight {
    /// Of a header that says nothing.
    pub(super) const NONE: Self = Self { is_marked: false, buffers: 1 };
}

/// `count` buffers in a row.
#[derive(Clone, Debug)]
pub(super) struct Buffers {
    whole: VolatileSlice,
    /// The frames' places, and those of the headers in front of them.
    frames: Grid,
    headers: Grid,
    /// Guest-physical address of the first header.
    first: u64,
    stride: u64,
    header: u32,
    room: u32,
    map: Arc<GuestMemory>,
    lender: Lender,
}

impl Buffers {
    /// From one buffer to the next where each holds `room` bytes of frame: two lines for the header, two against
    /// aliasing.
    pub(super) fn stride(room: u64) -> u64 {
        room + 256
    }

    /// Buffers from byte `at` of `memory`, with headers of `header` bytes.
    pub(super) fn new(
        memory: &Memory,
        at: u64,
        count: u16,
        room: u64,
        header: usize,
    ) -> Result<Self, RingFault> {
        let stride = Self::stride(room);
        let bytes = u64::from(count) * stride;
        let outside = RingFault::Outside { address: Memory::guest(at), len: bytes as u32 };
        let whole = u32::try_from(bytes).ok().and_then(|len| memory.map.by_user(Memory::user(at), len));
        let whole = whole.ok_or(outside)?;
        let grid = |before: usize, len: usize| {
            Grid::new(whole, FRAME as usize - before, stride as usize, count.into(), len as u32)
                .ok_or(outside)
        };
        Ok(Self {
            whole,
            frames: grid(0, room as usize)?,
            headers: grid(header, header)?,
            first: Memory::guest(at) + FRAME - header as u64,
            stride,
            header: header as u32,
            room: room as u32,
            map: memory.map.clone(),
            lender: Lender::shared(whole, stride as usize, count.into(), memory.pages().clone()),
        })
    }

    /// The map that every segment of these buffers lies in.
    #[inline(always)]
    pub(super) fn map(&self) -> &Arc<GuestMemory> {
        &self.map
    }

    /// Lends these buffers to retained packets. The same for every queue that uses them.
    #[inline(always)]
    pub(super) fn lender(&self) -> &Lender {
        &self.lender
    }

    /// Bytes of frame that one buffer holds.
    #[inline(always)]
    pub(super) fn room(&self) -> usize {
        self.room as usize
    }

    /// Bytes of the header in front of each frame.
    #[inline(always)]
    pub(super) fn header(&self) -> u32 {
        self.header
    }

    /// Bytes of a buffer, header and room.
    #[inline(always)]
    pub(super) fn capacity(&self) -> u32 {
        self.header + self.room
    }

    /// Buffer `id`, to be received into.
    #[inline(always)]
    pub(super) fn to_fill(&self, id: u16) -> Post {
        Post { id, address: self.address(id), len: self.capacity(), direction: Direction::Write }
    }

    /// The first `len` bytes of buffer `id`, header and frame, to be sent.
    #[inline(always)]
    pub(super) fn to_send(&self, id: u16, len: u32) -> Post {
        Post { id, address: self.address(id), len, direction: Direction::Read }
    }

    /// Buffer `id` without its header, with the next `len` bytes of a frame that began in another, to be sent.
    pub(super) fn to_send_more(&self, id: u16, len: u32) -> Post {
        let address = self.address(id) + u64::from(self.header);
        Post { id, address, len, direction: Direction::Read }
    }

    /// The whole of buffer `id`, header and room.
    pub(super) fn whole(&self, id: u16) -> VolatileSlice {
        self.part(id, FRAME - u64::from(self.header), self.capacity() as usize)
    }

    /// How many buffers a frame of `len` bytes takes to be sent.
    pub(super) fn count(&self, len: usize) -> usize {
        len.div_ceil(self.room())
    }

    #[inline(always)]
    fn address(&self, id: u16) -> u64 {
        self.first + u64::from(id) * self.stride
    }

    /// `len` bytes from `offset` of buffer `id`; nothing where they lie outside, which identifiers that the ring
    /// knows and lengths up to the capacity never do.
    #[inline(always)]
    fn part(&self, id: u16, offset: u64, len: usize) -> VolatileSlice {
        let at = u64::from(id) * self.stride + offset;
        self.whole.slice(at as usize, len).unwrap_or(VolatileSlice::EMPTY)
    }

    /// The first `len` bytes of the frame in buffer `id`.
    #[inline(always)]
    pub(super) fn frame(&self, id: u16, len: usize) -> VolatileSlice {
        self.frames.cell(id, len as u32).map_or(VolatileSlice::EMPTY, Wide::seg)
    }

    /// The same, where the line behind each buffer's room is part of the margin; `None` where they lie outside.
    #[inline(always)]
    pub(super) fn wide_frame(&self, id: u16, len: usize) -> Option<Wide> {
        self.frames.cell(id, len as u32)
    }

    /// The first `len` bytes of buffer `id` itself: what follows a frame's first buffer has no header.
    pub(super) fn continued(&self, id: u16, len: usize) -> VolatileSlice {
        self.part(id, FRAME - u64::from(self.header), len)
    }

    /// Fetches what is looked at first in a buffer that came back filled.
    #[inline(always)]
    pub(super) fn prefetch(&self, id: u16, header: bool) {
        let frame = (u64::from(id) * self.stride + FRAME) as usize;
        self.whole.prefetch_read(frame);
        if header {
            self.whole.prefetch_read(frame - 64);
        }
    }

    /// Fetches the line that a short frame is written to.
    #[inline(always)]
    pub(super) fn prefetch_write(&self, id: u16) {
        self.whole.prefetch_write((u64::from(id) * self.stride + FRAME) as usize);
    }

    /// What the header of buffer `id` says at first sight, each field read once.
    #[inline(always)]
    pub(super) fn sight(&self, id: u16) -> Sight {
        let len = self.header as usize;
        let Some(field) = self.headers.cell(id, self.header) else { return Sight::NONE };
        let field = field.seg();
        // SAFETY: the map is held by `self`; the fields lie inside buffers that were checked when this was made, and a
        // frame begins on a line, so what is an even number of bytes before it is aligned.
        let [first, last] = unsafe { [field.load_u16(0, Relaxed), field.load_u16(len - 2, Relaxed)] };
        Sight { is_marked: first != 0, buffers: last }
    }

    /// What the header of buffer `id` says, copied once.
    pub(super) fn words(&self, id: u16) -> Words {
        let (mut words, place) = ([0; OFFLOAD_HEADER], self.header_of(id));
        // SAFETY: the map is held by `self`; the slice has the segment's length.
        unsafe { place.copy_out::<Portable>(&mut words[..place.len()]) };
        words
    }

    /// As far as it says something of offloads.
    fn header_of(&self, id: u16) -> VolatileSlice {
        self.part(id, FRAME - u64::from(self.header), OFFLOAD_HEADER)
    }

    /// Writes packet `i`, which has `len` bytes, into buffer `id`. `None`, with nothing written, if it has less room. `LAYOUT`:
    /// [`Burst::layout`] or `ANY`.
    #[inline(always)]
    pub(super) fn fill<K: Kernel, const LAYOUT: u8>(
        &self,
        id: u16,
        (burst, i): (&Burst, usize),
        len: usize,
    ) -> Option<()> {
        // No frame has more than 32 bits of length.
        let to = self.wide_frame(id, len)?.seg();
        debug_assert_eq!(to.len(), len);
        // SAFETY: the map is held by `self`; the place has the frame's length.
        unsafe { burst.write_to::<K, LAYOUT>((i, len), to) };
        Some(())
    }
}
