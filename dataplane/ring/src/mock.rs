//! A virtqueue in heap memory for tests, benches and fuzz targets, with valid or invalid content.
//!
//! The memory has the ring areas first, then buffers in two adjacent regions, so that a buffer can span both. Valid
//! traffic comes from [`crate::driver`] over the same memory; everything else is written with raw stores, as by a
//! hostile guest.

use crate::Layout;
use core::sync::atomic::Ordering::Relaxed;
use mem::{GuestMemory, Region, VolatileSlice};
use std::sync::Arc;

/// Guest address of the ring areas.
pub const RINGS: u64 = 0x10_0000;
/// Guest address of the first buffer.
pub const BUFFERS: u64 = 0x100_0000;
/// Size of each of the two buffer regions, in bytes.
pub const REGION: u64 = 0x2_0000;
/// Offset from guest addresses to user addresses.
pub const USER: u64 = 0x7000_0000_0000;

/// Ring format and features of a mock.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "four features that are negotiated independently")]
pub struct Shape {
    /// Packed instead of split.
    pub packed: bool,
    /// Number of entries.
    pub size: u16,
    /// `VIRTIO_F_IN_ORDER`.
    pub in_order: bool,
    /// `VIRTIO_F_EVENT_IDX`.
    pub event_idx: bool,
    /// `VIRTIO_F_INDIRECT_DESC`.
    pub indirect: bool,
}

/// `miri` under Miri, which is about a thousand times slower, otherwise `native`.
pub const fn scale<T: Copy>(native: T, miri: T) -> T {
    if cfg!(miri) { miri } else { native }
}

/// A virtqueue in heap memory.
#[derive(Debug)]
pub struct Mock {
    /// Guest memory.
    pub map: Arc<GuestMemory>,
    /// Ring layout in `map`.
    pub layout: Layout,
}

impl Mock {
    /// Zeroed memory for a ring of this shape.
    pub fn new(shape: Shape) -> Self {
        let bytes = Layout::bytes(shape.size).next_multiple_of(4096);
        let region = |at: u64, len: u64| Arc::new(Region::heap(at, at + USER, len));
        let regions = vec![region(RINGS, bytes), region(BUFFERS, REGION), region(BUFFERS + REGION, REGION)];
        let map = Arc::new(GuestMemory::new(regions).expect("these regions do not overlap"));
        let layout = Layout {
            base: if shape.packed { 0x8000_8000 } else { 0 },
            event_idx: shape.event_idx,
            indirect: shape.indirect,
            in_order: shape.in_order,
            ..Layout::fresh(USER + RINGS, shape.size)
        };
        Self { map, layout }
    }

    fn at(&self, user: u64, len: u32) -> VolatileSlice {
        self.map.by_user(user, len).expect("a test names its own memory")
    }

    /// Reads 16 bits at a user address.
    pub fn peek16(&self, user: u64) -> u16 {
        // SAFETY: `map` is alive; the segment has two bytes, and tests keep it aligned.
        unsafe { self.at(user, 2).load_u16(0, Relaxed) }
    }

    /// Reads 64 bits at a user address.
    pub fn peek64(&self, user: u64) -> u64 {
        // SAFETY: as in `peek16`, with eight bytes.
        unsafe { self.at(user, 8).load_u64(0, Relaxed) }
    }

    /// Writes 16 bits at a user address.
    pub fn poke16(&self, user: u64, value: u16) {
        // SAFETY: as in `peek16`.
        unsafe { self.at(user, 2).store_u16(0, value, Relaxed) }
    }

    /// Writes 64 bits at a user address.
    pub fn poke64(&self, user: u64, value: u64) {
        // SAFETY: as in `peek64`.
        unsafe { self.at(user, 8).store_u64(0, value, Relaxed) }
    }

    /// Writes a split descriptor into entry `at` of the table at user address `table`.
    pub fn split_descriptor(&self, table: u64, at: u16, address: u64, len: u32, flags: u16, next: u16) {
        let place = table + u64::from(at) * 16;
        self.poke64(place, address);
        self.poke64(place + 8, u64::from(len) | u64::from(flags) << 32 | u64::from(next) << 48);
    }

    /// Writes a packed descriptor into entry `at` of the table at user address `table`.
    pub fn packed_descriptor(&self, table: u64, at: u16, address: u64, len: u32, id: u16, flags: u16) {
        let place = table + u64::from(at) * 16;
        self.poke64(place, address);
        self.poke64(place + 8, u64::from(len) | u64::from(id) << 32 | u64::from(flags) << 48);
    }

    /// Writes `head` to available ring entry `slot` of a split ring, without changing the index.
    pub fn offer(&self, slot: u16, head: u16) {
        self.poke16(self.layout.driver + 4 + u64::from(slot) * 2, head);
    }

    /// Sets the available index of a split ring.
    pub fn available_index(&self, index: u16) {
        self.poke16(self.layout.driver + 2, index);
    }

    /// The used index of a split ring.
    pub fn used_index(&self) -> u16 {
        self.peek16(self.layout.device + 2)
    }
}
