//! The guest's packet buffers.
//!
//! A frame begins on a cache line and its virtio-net header ends where the frame begins, so a header has a line
//! of its own; the switch finds it as it must be after the first lap, and the line never moves again. As DPDK's
//! driver does, `num_buffers` is left as the device wrote it when the same buffer is sent.

use super::memory::Memory;
use core::sync::atomic::Ordering::Relaxed;
use mem::{Map, Seg};
use std::sync::Arc;

/// From one buffer to the next: 2 KiB for the frame, two lines for the header, two against aliasing.
pub(super) const STRIDE: u64 = 2048 + 256;
/// Where in a buffer the frame begins.
const FRAME: u64 = 128;

/// All buffers of one queue pair.
pub(super) struct Buffers {
    base: u64,
    header: u64,
    frames: Vec<Seg>,
    _map: Arc<Map>,
}

impl Buffers {
    /// `count` buffers from byte `base` of the guest's memory.
    pub(super) fn new(memory: &Memory, base: u64, count: u16, header: usize) -> Option<Self> {
        let frame =
            |i: u64| memory.map.by_user(Memory::user(base + i * STRIDE + FRAME), (STRIDE - FRAME) as u32);
        let frames = (0..u64::from(count)).map(frame).collect::<Option<_>>()?;
        Some(Self { base, header: header as u64, frames, _map: memory.map.clone() })
    }

    /// The guest-physical address of buffer `id`'s header, and the room from there.
    pub(super) fn address(&self, id: u16) -> (u64, u32) {
        let offset = self.base + u64::from(id) * STRIDE + FRAME - self.header;
        (Memory::guest(offset), (STRIDE - FRAME + self.header) as u32)
    }

    /// Bytes of the header in front of each frame.
    pub(super) fn header(&self) -> u32 {
        self.header as u32
    }

    /// Fetches the line that the addresses are on, to be written.
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

    /// Puts a whole frame into buffer `id`.
    pub(super) fn fill(&self, id: u16, frame: &[u8]) {
        let room = self.frames[usize::from(id)];
        let frame = &frame[..frame.len().min(room.len())];
        // SAFETY: the map is held by `self`; the frame was cut to the room.
        unsafe { room.copy_in::<mem::copy::Portable>(frame) };
    }
}
