//! The guest's packet buffers.
//!
//! A frame starts on a cache line and its virtio-net header ends there, so the header has a separate line. After the
//! first lap the header has the contents that the switch needs, and its line does not move between cores again. As in
//! DPDK's driver, `num_buffers` keeps the device's value when the same buffer is sent.
//!
//! In a chain with separate header and frame, the frame's identifier is the buffer's number plus the number of buffers.
//! With indirect tables, each buffer has two, one per ring, on an otherwise unused line: the receive table is written
//! once, the transmit table only if a length changes.

use super::memory::Memory;
use super::{Descriptors, GuestError};
use core::sync::atomic::Ordering::Relaxed;
use mem::{GuestMemory, VolatileSlice};
use ring::Direction;
use ring::driver::{DriverRing, Post, Table, Used};
use std::sync::Arc;

/// Bytes from one buffer to the next: 2 KiB for the frame, two lines for the header, two against cache aliasing.
pub(super) const STRIDE: u64 = 2048 + 256;
/// Offset of the frame in a buffer.
const FRAME: u64 = 128;
/// Descriptors of a frame whose header is separate.
const SPLIT_DESCRIPTORS: u16 = 2;
/// Bytes of an indirect table with that many descriptors.
const TABLE: u64 = 16 * SPLIT_DESCRIPTORS as u64;

/// All buffers of one queue pair.
pub(super) struct Buffers {
    base: u64,
    header: u32,
    descriptors: Descriptors,
    frames: Vec<VolatileSlice>,
    /// Per buffer: the table of the receive ring and the table of the transmit ring.
    tables: Vec<[Table; 2]>,
    _map: Arc<GuestMemory>,
}

impl Buffers {
    /// Number of frames in a ring of `size` entries.
    pub(super) fn count(size: u16, descriptors: Descriptors) -> u16 {
        if descriptors == Descriptors::Chain { size / SPLIT_DESCRIPTORS } else { size }
    }

    /// Buffers from offset `base` of the guest's memory, for rings of `size` entries.
    pub(super) fn new(
        memory: &Memory,
        base: u64,
        size: u16,
        descriptors: Descriptors,
        header: usize,
    ) -> Result<Self, GuestError> {
        let outside = || GuestError::Memory("the buffers lie outside it".into());
        let place = |id: u64| Memory::user(base + id * STRIDE + FRAME);
        let frame = |id: u64| memory.map.by_user(place(id), (STRIDE - FRAME) as u32).ok_or_else(outside);
        let ids = 0..u64::from(Self::count(size, descriptors));
        let frames = ids.clone().map(frame).collect::<Result<_, _>>()?;
        let table = |at: u64| Table::new(&memory.map, Memory::guest(at), SPLIT_DESCRIPTORS);
        let both = |id: u64| {
            let at = base + id * STRIDE;
            Ok([table(at)?, table(at + TABLE)?])
        };
        let tables = if descriptors == Descriptors::Indirect { ids } else { 0..0 };
        let tables = tables.map(both).collect::<Result<_, GuestError>>()?;
        Ok(Self { base, header: header as u32, descriptors, frames, tables, _map: memory.map.clone() })
    }

    /// Number of buffers.
    pub(super) fn len(&self) -> u16 {
        self.frames.len() as u16
    }

    /// Number of frames that can still be posted to `ring`.
    #[inline(always)]
    pub(super) fn room<R: DriverRing>(&self, ring: &R) -> usize {
        let each = if self.descriptors == Descriptors::Chain { usize::from(SPLIT_DESCRIPTORS) } else { 1 };
        ring.free() / each
    }

    /// Posts buffers for reception.
    #[inline(always)]
    pub(super) fn offer_each<R: DriverRing>(&mut self, ring: &mut R, ids: impl Iterator<Item = u16>) {
        if self.descriptors == Descriptors::Single {
            let len = (STRIDE - FRAME) as u32 + self.header;
            ring.post_each(ids.map(|id| self.single(id, len, Direction::Write)));
        } else {
            ids.for_each(|id| self.offer(ring, id));
        }
    }

    /// Posts buffers for transmission; lengths are in bytes, header included.
    #[inline(always)]
    pub(super) fn send_each<R: DriverRing>(&mut self, ring: &mut R, used: impl Iterator<Item = Used>) {
        if self.descriptors == Descriptors::Single {
            ring.post_each(used.map(|u| self.single(u.id, u.len, Direction::Read)));
        } else {
            used.for_each(|u| self.send(ring, u.id, u.len));
        }
    }

    /// Header and frame of buffer `id` as one descriptor of `len` bytes.
    #[inline(always)]
    fn single(&self, id: u16, len: u32, direction: Direction) -> Post {
        Post { id, address: self.address(id), len, direction }
    }

    /// Guest-physical address of the header of buffer `id`.
    #[inline(always)]
    fn address(&self, id: u16) -> u64 {
        Memory::guest(self.base + u64::from(id) * STRIDE + FRAME - u64::from(self.header))
    }

    /// Posts buffer `id` for reception.
    #[inline(always)]
    pub(super) fn offer<R: DriverRing>(&mut self, ring: &mut R, id: u16) {
        self.post(ring, id, (STRIDE - FRAME) as u32 + self.header, Direction::Write);
    }

    /// Posts buffer `id` for transmission; `len` is in bytes, header included.
    #[inline(always)]
    pub(super) fn send<R: DriverRing>(&mut self, ring: &mut R, id: u16, len: u32) {
        self.post(ring, id, len, Direction::Read);
    }

    #[inline(always)]
    fn post<R: DriverRing>(&mut self, ring: &mut R, id: u16, len: u32, direction: Direction) {
        if self.descriptors == Descriptors::Single {
            return ring.post(self.single(id, len, direction));
        }
        let address = self.address(id);
        let header = Post { id, address, len: self.header, direction };
        let frame = Post {
            id: id + self.len(),
            address: address + u64::from(self.header),
            len: len.saturating_sub(self.header),
            direction,
        };
        if self.descriptors == Descriptors::Chain {
            ring.post_chain(&[header, frame]);
        } else {
            let table = &mut self.tables[usize::from(id)][usize::from(direction == Direction::Read)];
            ring.post_indirect(id, table, &[header, frame]);
        }
    }

    /// Bytes of the virtio-net header in front of each frame.
    pub(super) fn header(&self) -> u32 {
        self.header
    }

    /// Prefetches the line of the Ethernet addresses for writing.
    #[inline(always)]
    pub(super) fn prefetch(&self, id: u16) {
        self.frames[usize::from(id)].prefetch_write(0);
    }

    /// Swaps destination and source address of the frame in buffer `id`.
    #[inline(always)]
    pub(super) fn swap_addresses(&self, id: u16) {
        let frame = self.frames[usize::from(id)];
        // SAFETY: the map is held by `self`; frames begin on a cache line and have 2 KiB.
        unsafe {
            let (low, high) = (frame.load_u64(0, Relaxed), frame.load_u32(8, Relaxed));
            let destination = low & 0xffff_ffff_ffff;
            let source = low >> 48 | u64::from(high) << 16;
            frame.store_u64(0, source | destination << 48, Relaxed);
            frame.store_u32(8, (destination >> 16) as u32, Relaxed);
        }
    }

    /// Sets the UDP ports of the frame in buffer `id`, which has no IP options. Its checksum is 0, which is none
    /// (RFC 768).
    #[inline(always)]
    pub(super) fn set_ports(&self, id: u16, ports: u32) {
        let frame = self.frames[usize::from(id)];
        // SAFETY: the map is held by `self`; frames begin on a cache line and have 2 KiB.
        unsafe {
            let word = frame.load_u64(32, Relaxed);
            frame.store_u64(32, word & !(0xffff_ffff << 16) | u64::from(ports) << 16, Relaxed);
        }
    }

    /// Copies a frame into buffer `id`, truncated to the buffer's size.
    pub(super) fn fill(&self, id: u16, frame: &[u8]) {
        let room = self.frames[usize::from(id)];
        let frame = &frame[..frame.len().min(room.len())];
        // SAFETY: the map is held by `self`; the frame is truncated to the size of the slice.
        unsafe { room.copy_in::<mem::copy::Portable>(frame) };
    }
}
