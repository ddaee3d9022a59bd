//! Indirect tables as a driver writes them (VIRTIO 1.2 sections 2.7.5.3 and 2.8.7).
//!
//! A table is memory of the guest's that the caller chose and a private copy of what stands there. Whoever binds a
//! table to a buffer writes it once, and then no more than the entries that change. It must never be written by
//! anything else, nor while the device has it.

use super::Post;
use crate::area::Area;
use crate::chain::{DESC, NEXT};
use crate::{MAX_SIZE, RingFault};
use core::sync::atomic::Ordering;
use mem::GuestMemory;
use std::sync::Arc;

/// What no entry ever is, so that the first one differs.
const UNKNOWN: (u64, u64) = (0, u64::MAX);

/// A place for an indirect table.
#[derive(Debug)]
pub struct Table {
    address: u64,
    area: Area,
    shadow: Box<[(u64, u64)]>,
}

impl Table {
    /// A table of up to `entries` descriptors at a guest-physical address, which lies in one region of `map` and is
    /// aligned to 16 bytes.
    pub fn new(map: &Arc<GuestMemory>, address: u64, entries: u16) -> Result<Self, RingFault> {
        if entries == 0 || entries > MAX_SIZE {
            return Err(RingFault::Size(entries));
        }
        let area = Area::of_guest(map, "indirect table", address, usize::from(entries) * DESC, DESC)?;
        Ok(Self { address, area, shadow: vec![UNKNOWN; entries.into()].into() })
    }

    /// The guest-physical address.
    #[inline(always)]
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// Descriptors that it holds.
    #[inline(always)]
    pub(super) fn entries(&self) -> usize {
        self.shadow.len()
    }

    /// Writes a chain for a split ring: joined by `next`, entry after entry. Its bytes.
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

    /// Writes a chain for a packed ring: its entries follow one another, and no flag but WRITE means anything.
    #[inline(always)]
    pub(super) fn write_packed(&mut self, chain: &[Post]) -> u32 {
        for (at, post) in chain.iter().enumerate() {
            self.put(at, (post.address, u64::from(post.len) | u64::from(post.flag()) << 48));
        }
        (chain.len() * DESC) as u32
    }

    /// The device sees this with the descriptor that names the table, whose publish is a release store.
    #[inline(always)]
    fn put(&mut self, at: usize, entry: (u64, u64)) {
        if self.shadow[at] != entry {
            self.shadow[at] = entry;
            self.area.store64(at * DESC, entry.0, Ordering::Relaxed);
            self.area.store64(at * DESC + 8, entry.1, Ordering::Relaxed);
        }
    }
}
