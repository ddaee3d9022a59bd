//! Indirect descriptor tables, driver side (VIRTIO 1.2 sections 2.7.5.3 and 2.8.7).
//!
//! A table is caller-chosen guest memory plus a private shadow copy. A table bound to a buffer is written once;
//! afterwards only changed entries are written. No other code may write it, and it must not be written while the device
//! owns it.

use super::Post;
use crate::area::Area;
use crate::chain::{DESC, NEXT};
use crate::{MAX_SIZE, RingFault};
use core::sync::atomic::Ordering;
use mem::GuestMemory;
use std::sync::Arc;

/// Initial shadow value, which no real entry equals, so that the first write always happens.
const UNKNOWN: (u64, u64) = (0, u64::MAX);

/// An indirect descriptor table.
#[derive(Debug)]
pub struct Table {
    address: u64,
    area: Area,
    shadow: Box<[(u64, u64)]>,
}

impl Table {
    /// A table of up to `entries` descriptors at guest-physical address `address`, which must be 16-byte aligned and
    /// inside one region of `map`.
    pub fn new(map: &Arc<GuestMemory>, address: u64, entries: u16) -> Result<Self, RingFault> {
        if entries == 0 || entries > MAX_SIZE {
            return Err(RingFault::Size(entries));
        }
        let area = Area::of_guest(map, "indirect table", address, usize::from(entries) * DESC, DESC)?;
        Ok(Self { address, area, shadow: vec![UNKNOWN; entries.into()].into() })
    }

    /// Guest-physical address.
    #[inline(always)]
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// Capacity in descriptors.
    #[inline(always)]
    pub(super) fn entries(&self) -> usize {
        self.shadow.len()
    }

    /// Writes a chain for a split ring, with consecutive entries linked by `next`. Returns its size in bytes.
    #[inline(always)]
    pub(super) fn write_split(&mut self, chain: &[Post]) -> u32 {
        for (at, post) in chain.iter().enumerate() {
            let joined = if at + 1 < chain.len() { NEXT } else { 0 };
            let next = if joined == 0 { 0 } else { at as u64 + 1 };
            let flags = u64::from(post.flag() | joined);
            self.put(at, (post.address, u64::from(post.len) | flags << 32 | next << 48));
        }
        (chain.len() * DESC) as u32
    }

    /// Writes a chain for a packed ring, with consecutive entries; only the WRITE flag is significant. Returns its size
    /// in bytes.
    #[inline(always)]
    pub(super) fn write_packed(&mut self, chain: &[Post]) -> u32 {
        for (at, post) in chain.iter().enumerate() {
            self.put(at, (post.address, u64::from(post.len) | u64::from(post.flag()) << 48));
        }
        (chain.len() * DESC) as u32
    }

    /// Writes entry `at` if it differs. The publish of the descriptor that refers to the table, a release store, makes
    /// it visible.
    #[inline(always)]
    fn put(&mut self, at: usize, entry: (u64, u64)) {
        if self.shadow[at] != entry {
            self.shadow[at] = entry;
            self.area.store64(at * DESC, entry.0, Ordering::Relaxed);
            self.area.store64(at * DESC + 8, entry.1, Ordering::Relaxed);
        }
    }
}
