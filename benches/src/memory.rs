//! A guest's memory: one memfd with two rings in front and their buffers behind, mapped here and, where the switch
//! is another process, there.
//!
//! This is the one unsafe room of the benches. It must never hand out a reference into the memory.

use anyhow::{Context, Result};
use mem::copy::Portable;
use mem::{GuestMemory, MemTable, Region, RegionSpec, VolatileSlice};
use port::virtio_user::SharedRegion;
use ring::Layout;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::sync::Arc;

use crate::Ring;

/// The guest-physical address of the first byte; any would do.
const GUEST: u64 = 0x1_0000_0000;
/// The address by which the protocol names rings; any would do.
const USER: u64 = 0x7000_0000_0000;
/// From one buffer to the next: 2 KiB for the frame, two lines for the header, two against aliasing.
const STRIDE: u64 = 2048 + 256;
/// Where in a buffer the frame begins, so that it begins on a cache line.
const FRAME: u64 = 128;
/// Bytes of the virtio-net header in front of it.
pub(crate) const HEADER: u64 = 12;

/// Which of a guest's two rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The guest receives by it.
    Receive,
    /// The guest sends by it.
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
    /// Room for two rings of `size` entries and one buffer for each entry.
    pub(crate) fn new(size: u16) -> Result<Self> {
        let len = (2 * (Layout::bytes(size) + u64::from(size) * STRIDE)).next_multiple_of(4096);
        let file = memfd_create("linerate-bench", MemfdFlags::CLOEXEC).context("no memory to share")?;
        ftruncate(&file, len).context("no memory to share")?;
        let spec = RegionSpec { guest: GUEST, user: USER, len, offset: 0 };
        let region = Arc::new(Region::map(file.as_fd(), spec)?);
        let map = Arc::new(GuestMemory::new(vec![region.clone()])?);
        Ok(Self { file, spec, region, map, size })
    }

    /// The same memory as a switch in this process sees it.
    pub(crate) fn cell(&self) -> Result<Arc<MemTable>> {
        Ok(Arc::new(MemTable::new(GuestMemory::new(vec![self.region.clone()])?)))
    }

    /// As a front end shares it.
    pub(crate) fn shared(&self) -> SharedRegion<'_> {
        SharedRegion { file: self.file.as_fd(), spec: self.spec }
    }

    /// Where a ring lies.
    pub(crate) fn layout(&self, way: Way, ring: Ring) -> Layout {
        let base = if ring.is_packed() { 0x8000_8000 } else { 0 };
        let at = USER + way as u64 * Layout::bytes(self.size);
        Layout { base, in_order: ring.is_in_order(), ..Layout::fresh(at, self.size) }
    }

    /// Where buffer `id` of a ring begins in the memory, at its header.
    fn offset(&self, way: Way, id: u16) -> u64 {
        let index = way as u64 * u64::from(self.size) + u64::from(id);
        2 * Layout::bytes(self.size) + index * STRIDE + FRAME - HEADER
    }

    /// The guest-physical address of buffer `id` of a ring, and its bytes.
    pub(crate) fn buffer(&self, way: Way, id: u16) -> (u64, u32) {
        (GUEST + self.offset(way, id), (STRIDE - FRAME + HEADER) as u32)
    }

    fn frame(&self, way: Way, id: u16, len: usize) -> VolatileSlice {
        let place = USER + self.offset(way, id) + HEADER;
        self.map.by_user(place, len as u32).expect("buffers were laid out within the memory")
    }

    /// Writes the first bytes of the frame in buffer `id` of the ring that sends.
    pub(crate) fn write(&self, id: u16, bytes: &[u8; 14]) {
        let frame = self.frame(Way::Send, id, bytes.len());
        // SAFETY: the segment lies in the map that `self` holds and has the length of the bytes.
        unsafe { frame.copy_in::<Portable>(bytes) };
    }
}
