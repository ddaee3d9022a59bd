//! Guest memory: one file with rings followed by buffers. The ring drivers map it; frames are written and read through
//! the file, so that no address is needed here.

use mem::{GuestMemory, Region, RegionSpec};
use port::virtio_user::SharedRegion;
use ring::Layout;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Guest-physical address of the first byte; arbitrary.
const GUEST: u64 = 0x1_0000_0000;
/// Front-end virtual address of the first byte; arbitrary.
const USER: u64 = 0x7000_0000_0000;
/// Distance between buffers in bytes; not a divisor of the page size, so that page boundaries fall inside buffers.
const STRIDE: u64 = 2048 + 192;
/// Buffer size in bytes.
pub(crate) const ROOM: u32 = 1600;

/// Rings and buffers of several queue pairs, two rings each.
pub(crate) struct Memory {
    file: File,
    pub(crate) map: Arc<GuestMemory>,
    size: u16,
    packed: bool,
    pub(crate) event_idx: bool,
    rings: u64,
    len: u64,
}

impl Memory {
    /// Memory for `rings` rings of `size` entries, with one buffer per entry.
    pub(crate) fn new(rings: u64, size: u16, packed: bool) -> Self {
        let len = rings * (Layout::bytes(size) + u64::from(size) * STRIDE);
        let len = len.next_multiple_of(4096);
        let file = memfd_create("workers", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, len).unwrap();
        let region = Region::map(file.as_fd(), spec(0, len)).unwrap();
        let map = Arc::new(GuestMemory::new(vec![Arc::new(region)]).unwrap());
        Self { file: File::from(file), map, size, packed, event_idx: false, rings, len }
    }

    /// All memory as one region.
    pub(crate) fn whole(&self) -> Vec<SharedRegion<'_>> {
        vec![self.part(0, self.len)]
    }

    /// All memory as two adjacent regions, split at a page inside the buffers that depends on `n`.
    pub(crate) fn halves(&self, n: u64) -> Vec<SharedRegion<'_>> {
        let first = (self.rings * Layout::bytes(self.size)).div_ceil(4096) + 1;
        let edge = (first + n % (self.len / 4096 - first - 1)) * 4096;
        vec![self.part(0, edge), self.part(edge, self.len)]
    }

    fn part(&self, from: u64, to: u64) -> SharedRegion<'_> {
        SharedRegion { file: self.file.as_fd(), spec: spec(from, to - from) }
    }

    /// Layout of ring `index`.
    pub(crate) fn layout(&self, index: u64) -> Layout {
        let base = if self.packed { 0x8000_8000 } else { 0 };
        let at = USER + index * Layout::bytes(self.size);
        Layout { base, event_idx: self.event_idx, ..Layout::fresh(at, self.size) }
    }

    fn offset(&self, ring: u64, id: u16) -> u64 {
        self.rings * Layout::bytes(self.size) + (ring * u64::from(self.size) + u64::from(id)) * STRIDE
    }

    /// Guest-physical address of buffer `id` of ring `ring`.
    pub(crate) fn buffer(&self, ring: u64, id: u16) -> u64 {
        GUEST + self.offset(ring, id)
    }

    /// Writes the start of a buffer.
    pub(crate) fn write(&self, ring: u64, id: u16, bytes: &[u8]) {
        self.file.write_all_at(bytes, self.offset(ring, id)).unwrap();
    }

    /// Reads the start of a buffer.
    pub(crate) fn read(&self, ring: u64, id: u16, len: u32) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        self.file.read_exact_at(&mut bytes, self.offset(ring, id)).unwrap();
        bytes
    }

    /// Overwrites all descriptor addresses of a ring with unmapped ones.
    pub(crate) fn spoil(&self, ring: u64) {
        for at in 0..u64::from(self.size) {
            self.file.write_all_at(&[0xee; 8], ring * Layout::bytes(self.size) + at * 16).unwrap();
        }
    }
}

fn spec(from: u64, len: u64) -> RegionSpec {
    RegionSpec { guest: GUEST + from, user: USER + from, len, offset: from }
}

/// An owned eventfd.
pub(crate) fn event() -> OwnedFd {
    use rustix::event::{EventfdFlags, eventfd};
    eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap()
}
