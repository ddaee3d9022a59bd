//! A guest's memory: one memfd with two rings at the start and their buffers behind them, mapped in this process and,
//! if the switch is another process, there.
//!
//! This is the only module of the library with raw memory. It must never return a reference into the memory.

use anyhow::{Context, Result};
use mem::copy::Portable;
use mem::{GuestMemory, MemTable, Region, RegionSpec, VolatileSlice};
use port::virtio_user::SharedRegion;
use ring::Layout;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::sync::Arc;

use port::virtio_user::RingKind;

/// Guest-physical address of the first byte; the value is arbitrary.
const GUEST: u64 = 0x1_0000_0000;
/// User address of the first byte, by which the protocol addresses rings; the value is arbitrary.
const USER: u64 = 0x7000_0000_0000;
/// Bytes from one buffer to the next: 2 KiB for the frame, two lines for the header, two against cache aliasing.
const STRIDE: u64 = 2048 + 256;
/// Offset of the frame in a buffer; aligned to a cache line.
const FRAME: u64 = 128;
/// Bytes of the virtio-net header in front of the frame.
pub(crate) const HEADER: u64 = 12;

/// One of a guest's two rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuestRing {
    /// The guest's receive ring.
    Receive,
    /// The guest's transmit ring.
    Send,
}

/// Rings and buffers of one queue pair.
#[derive(Debug)]
pub(crate) struct Memory {
    file: OwnedFd,
    spec: RegionSpec,
    region: Arc<Region>,
    pub(crate) map: Arc<GuestMemory>,
    size: u16,
}

impl Memory {
    /// Memory for two rings of `size` entries and one buffer per entry.
    pub(crate) fn new(size: u16) -> Result<Self> {
        let len = (2 * (Layout::bytes(size) + u64::from(size) * STRIDE)).next_multiple_of(4096);
        let file = memfd_create("linerate-bench", MemfdFlags::CLOEXEC).context("no memory to share")?;
        ftruncate(&file, len).context("no memory to share")?;
        let spec = RegionSpec { guest: GUEST, user: USER, len, offset: 0 };
        let region = Arc::new(Region::map(file.as_fd(), spec)?);
        let map = Arc::new(GuestMemory::new(vec![region.clone()])?);
        Ok(Self { file, spec, region, map, size })
    }

    /// The memory table for a switch in this process.
    pub(crate) fn cell(&self) -> Result<Arc<MemTable>> {
        Ok(Arc::new(MemTable::new(GuestMemory::new(vec![self.region.clone()])?)))
    }

    /// The region as passed to the front end.
    pub(crate) fn shared(&self) -> SharedRegion<'_> {
        SharedRegion { file: self.file.as_fd(), spec: self.spec }
    }

    /// Layout of a ring.
    pub(crate) fn layout(&self, way: GuestRing, ring: RingKind) -> Layout {
        let base = if ring.is_packed() { 0x8000_8000 } else { 0 };
        let at = USER + way as u64 * Layout::bytes(self.size);
        Layout { base, in_order: ring.is_in_order(), ..Layout::fresh(at, self.size) }
    }

    /// Offset of buffer `id` of a ring, at its header.
    fn offset(&self, way: GuestRing, id: u16) -> u64 {
        let index = way as u64 * u64::from(self.size) + u64::from(id);
        2 * Layout::bytes(self.size) + index * STRIDE + FRAME - HEADER
    }

    /// The guest-physical address of buffer `id` of a ring, and its length in bytes.
    pub(crate) fn buffer(&self, way: GuestRing, id: u16) -> (u64, u32) {
        (GUEST + self.offset(way, id), (STRIDE - FRAME + HEADER) as u32)
    }

    fn frame(&self, way: GuestRing, id: u16, len: usize) -> VolatileSlice {
        let place = USER + self.offset(way, id) + HEADER;
        self.map.by_user(place, len as u32).expect("buffers were laid out within the memory")
    }

    /// Writes the first bytes of the frame in buffer `id` of the transmit ring.
    pub(crate) fn write(&self, id: u16, bytes: &[u8; 42]) {
        let frame = self.frame(GuestRing::Send, id, bytes.len());
        // SAFETY: the slice is inside the map held by `self` and has the length of `bytes`.
        unsafe { frame.copy_in::<Portable>(bytes) };
    }
}
