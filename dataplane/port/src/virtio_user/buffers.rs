//! Packet buffers of one ring, at fixed addresses: the only unsafe module of this port.
//!
//! A frame starts on a cache line and its virtio-net header ends where the frame starts, so headers have lines of
//! their own. Transmit buffers are zeroed initially, and a zero header is valid for a frame without offloads (VIRTIO
//! 1.2 section 5.1.6.2: no offload, `num_buffers` 0). The header's line is then not written and stays in both caches;
//! `offloads` decides when it is. A frame longer than one buffer occupies the frame areas of several; the headers of
//! the later ones are not used.
//!
//! Protocol: a buffer is either owned by this side, to be read or filled, or outstanding in the ring. The back end
//! can nevertheless write to all buffers at any time. No reference to their content is created, and only copies are
//! validated.

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

/// Offset of the frame in a buffer. The header is on the line before, which no other frame uses.
const FRAME: u64 = 128;

/// Header fields read before the header is copied.
#[derive(Clone, Copy)]
pub(super) struct HeaderHint {
    /// Whether the first two bytes are not zero: a hint that the back end left an offload or validated the checksum.
    pub(super) is_marked: bool,
    /// Number of buffers of the frame. Only 12-byte headers contain it.
    pub(super) buffers: u16,
}

impl HeaderHint {
    /// Value for an absent header.
    pub(super) const NONE: Self = Self { is_marked: false, buffers: 1 };
}

/// `count` contiguous buffers.
#[derive(Clone, Debug)]
pub(super) struct Buffers {
    whole: VolatileSlice,
    /// Frame areas, and the headers before them.
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
    /// Distance between buffers with `room` bytes of frame: two lines for the header, two against cache aliasing.
    pub(super) fn stride(room: u64) -> u64 {
        room + 256
    }

    /// Buffers starting at byte `at` of `memory`, with headers of `header` bytes.
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

    /// Map that contains every segment of these buffers.
    #[inline(always)]
    pub(super) fn map(&self) -> &Arc<GuestMemory> {
        &self.map
    }

    /// Lender of these buffers, shared by all queues that use them.
    #[inline(always)]
    pub(super) fn lender(&self) -> &Lender {
        &self.lender
    }

    /// Frame bytes per buffer.
    #[inline(always)]
    pub(super) fn room(&self) -> usize {
        self.room as usize
    }

    /// Header length in bytes.
    #[inline(always)]
    pub(super) fn header(&self) -> u32 {
        self.header
    }

    /// Buffer size in bytes: header and frame area.
    #[inline(always)]
    pub(super) fn capacity(&self) -> u32 {
        self.header + self.room
    }

    /// Post for receiving into buffer `id`.
    #[inline(always)]
    pub(super) fn to_fill(&self, id: u16) -> Post {
        Post { id, address: self.address(id), len: self.capacity(), direction: Direction::Write }
    }

    /// Post for sending the first `len` bytes of buffer `id`, header and frame.
    #[inline(always)]
    pub(super) fn to_send(&self, id: u16, len: u32) -> Post {
        Post { id, address: self.address(id), len, direction: Direction::Read }
    }

    /// Post for sending the next `len` bytes of a frame from buffer `id`, without its header.
    pub(super) fn to_send_more(&self, id: u16, len: u32) -> Post {
        let address = self.address(id) + u64::from(self.header);
        Post { id, address, len, direction: Direction::Read }
    }

    /// The complete buffer `id`, header and frame area.
    pub(super) fn whole(&self, id: u16) -> VolatileSlice {
        self.part(id, FRAME - u64::from(self.header), self.capacity() as usize)
    }

    /// Number of buffers needed to send a frame of `len` bytes.
    pub(super) fn count(&self, len: usize) -> usize {
        len.div_ceil(self.room())
    }

    #[inline(always)]
    fn address(&self, id: u16) -> u64 {
        self.first + u64::from(id) * self.stride
    }

    /// `len` bytes at `offset` of buffer `id`. Empty if out of range, which identifiers returned by the ring and
    /// lengths up to the capacity never are.
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

    /// Like [`Buffers::frame`], with the line after the frame area as margin; `None` if out of range.
    #[inline(always)]
    pub(super) fn wide_frame(&self, id: u16, len: usize) -> Option<Wide> {
        self.frames.cell(id, len as u32)
    }

    /// The first `len` bytes of buffer `id`, without a header: only the first buffer of a received frame has one.
    pub(super) fn continued(&self, id: u16, len: usize) -> VolatileSlice {
        self.part(id, FRAME - u64::from(self.header), len)
    }

    /// Prefetches the lines of a returned buffer that are read first.
    #[inline(always)]
    pub(super) fn prefetch(&self, id: u16, header: bool) {
        let frame = (u64::from(id) * self.stride + FRAME) as usize;
        self.whole.prefetch_read(frame);
        if header {
            self.whole.prefetch_read(frame - 64);
        }
    }

    /// Prefetches for writing the line that holds a short frame.
    #[inline(always)]
    pub(super) fn prefetch_write(&self, id: u16) {
        self.whole.prefetch_write((u64::from(id) * self.stride + FRAME) as usize);
    }

    /// Reads the hint fields of the header of buffer `id`, each once.
    #[inline(always)]
    pub(super) fn hint(&self, id: u16) -> HeaderHint {
        let len = self.header as usize;
        let Some(field) = self.headers.cell(id, self.header) else { return HeaderHint::NONE };
        let field = field.seg();
        // SAFETY: the map is held by `self`; the fields are inside buffers whose range was checked in `new`. A frame
        // starts on a cache line, so an even number of bytes before it is aligned.
        let [first, last] = unsafe { [field.load_u16(0, Relaxed), field.load_u16(len - 2, Relaxed)] };
        HeaderHint { is_marked: first != 0, buffers: last }
    }

    /// Copies the offload part of the header of buffer `id` once.
    pub(super) fn words(&self, id: u16) -> Words {
        let (mut words, place) = ([0; OFFLOAD_HEADER], self.header_of(id));
        // SAFETY: the map is held by `self`; the slice has the segment's length.
        unsafe { place.copy_out::<Portable>(&mut words[..place.len()]) };
        words
    }

    /// The offload part of the header.
    fn header_of(&self, id: u16) -> VolatileSlice {
        self.part(id, FRAME - u64::from(self.header), OFFLOAD_HEADER)
    }

    /// Writes packet `i` of `len` bytes into buffer `id`. Returns `None`, with nothing written, if it does not fit.
    /// `LAYOUT`: [`Burst::layout`] or `ANY`.
    #[inline(always)]
    pub(super) fn fill<K: Kernel, const LAYOUT: u8>(
        &self,
        id: u16,
        (burst, i): (&Burst, usize),
        len: usize,
    ) -> Option<()> {
        // Frame lengths fit in 32 bits.
        let to = self.wide_frame(id, len)?.seg();
        debug_assert_eq!(to.len(), len);
        // SAFETY: the map is held by `self`; the place has the frame's length.
        unsafe { burst.write_to::<K, LAYOUT>((i, len), to) };
        Some(())
    }
}
