//! Recovery of a packed ring whose device ended without notice, for example by SIGKILL.
//!
//! A packed ring does not store the position of the device. A device therefore records it outside of guest memory
//! ([`super::DeviceRing::set_record`]): the positions before and after the last flush, in one word, which is stored
//! after the used descriptors of the batch and before the flags that publish them. A killed device leaves the ring in
//! one of three states, which [`recover`] distinguishes by the flags of the descriptors: the last batch is published;
//! it is complete and not published; or some descriptors of the next batch were written. In the last two, the first
//! descriptor of the batch still belongs to the device, and is returned with length 0: a frame that was being written
//! to the guest when the device was killed is lost, and all others are kept.

use super::place::Place;
use crate::area::Area;
use crate::chain::{AVAIL, DESC, INDIRECT, MAX_CHAIN, NEXT, USED};
use crate::{Layout, MAX_SIZE};
use core::sync::atomic::Ordering;
use mem::GuestMemory;
use std::sync::Arc;

/// A place outside of guest memory where a device records its positions.
#[derive(Debug)]
pub struct Record(Area);

impl Record {
    /// Length in bytes.
    pub const BYTES: usize = 8;

    /// The record at `address` of `map`, aligned. Returns `None` if it is not inside.
    pub fn new(map: &Arc<GuestMemory>, address: u64) -> Option<Self> {
        Area::new(map, "record", address, Self::BYTES, 4).ok().map(Self)
    }

    /// Begins at `base` ([`Layout::base`]).
    pub fn begin(&self, base: u32) {
        let at = Place::decode((base >> 16) as u16);
        self.0.store32(CHAINS, 0, Ordering::Relaxed);
        self.store(at, at);
    }

    /// Records that the driver has added a buffer of several descriptors.
    pub(super) fn note_chain(&self) {
        self.0.store32(CHAINS, 1, Ordering::Relaxed);
    }

    /// The bytes of the record as two words.
    pub fn words(&self) -> (u32, u32) {
        (self.0.load32(0, Ordering::Relaxed), self.0.load32(CHAINS, Ordering::Relaxed))
    }

    /// Records that the entries from `old` to `new` are about to be published.
    #[inline(always)]
    pub(super) fn store(&self, old: Place, new: Place) {
        // Release: the used descriptors of the batch are stored before, and the flags that publish them after it.
        self.0.store32(0, word(old, new), Ordering::Release);
    }
}

fn word(old: Place, new: Place) -> u32 {
    u32::from(old.encode()) | u32::from(new.encode()) << 16
}

/// Offset of the flag for buffers of several descriptors.
const CHAINS: usize = 4;

/// Base ([`Layout::base`]) at which a device continues a packed ring, from the record ([`Record::words`]) of a device
/// that was killed. Completes a batch that was not published. `layout.base` is ignored.
///
/// Returns `None` if the ring does not match the record, because the driver has initialised it again, or if buffers of
/// several descriptors were being returned, whose lengths are not known.
pub fn recover(layout: &Layout, map: &Arc<GuestMemory>, (record, chains): (u32, u32)) -> Option<u32> {
    let size = u32::from(layout.size);
    if size == 0 || layout.size > MAX_SIZE {
        return None;
    }
    let (old, new) = (Place::decode(record as u16), Place::decode((record >> 16) as u16));
    if old.at() >= size as usize || new.at() >= size as usize {
        return None;
    }
    let length = usize::from(layout.size) * DESC;
    let descriptors = Area::new(map, "descriptor", layout.descriptors, length, 16).ok()?;
    let ring = Ring { descriptors, size };
    let is_later = if old.wrap() == new.wrap() { new.at() >= old.at() } else { new.at() <= old.at() };
    let (chains, is_published) = (chains != 0, old == new || ring.is_returned(old));
    let position = match is_published {
        _ if !is_later => return None,
        // Nothing is written to a ring that does not match.
        true if ring.is_passed(new, chains) => ring.complete(new, chains)?,
        false => ring.publish_batch(old, new, (chains, layout.in_order))?,
        true => return None,
    };
    Some(u32::from(position.encode()) * 0x1_0001)
}

struct Ring {
    descriptors: Area,
    size: u32,
}

impl Ring {
    /// Length, ID and flags of a descriptor.
    fn word(&self, place: Place) -> u64 {
        self.descriptors.load64(place.at() * DESC + 8, Ordering::Acquire)
    }

    fn flags(&self, place: Place) -> u16 {
        (self.word(place) >> 48) as u16
    }

    fn is_used(&self, place: Place) -> bool {
        let used = if place.wrap() { AVAIL | USED } else { 0 };
        self.flags(place) & (AVAIL | USED) == used
    }

    /// Whether the buffer at `place` was returned; the driver may have added another one there since.
    fn is_returned(&self, place: Place) -> bool {
        self.is_used(place) || self.is_available(place.on_other_lap())
    }

    fn is_available(&self, place: Place) -> bool {
        let available = if place.wrap() { AVAIL } else { USED };
        self.flags(place) & (AVAIL | USED) == available
    }

    /// Completes the batch of which descriptors behind the first one were written. Returns the position after it.
    fn complete(&self, at: Place, chains: bool) -> Option<Place> {
        // At `at` and after it, only such a batch has descriptors that are used on their lap.
        let written = (1..self.size).filter(|n| self.is_used(at.advance(*n, self.size))).count();
        if written == 0 || !self.is_available(at) {
            return Some(at);
        }
        let is_run = (1..=written as u32).all(|n| self.is_used(at.advance(n, self.size)));
        if chains || !is_run {
            return None;
        }
        self.publish(at)?;
        Some(at.advance(written as u32 + 1, self.size))
    }

    /// Returns the buffer at `at`, unwritten.
    fn publish(&self, at: Place) -> Option<()> {
        let (mut last, mut steps) = (at, 0);
        while self.flags(last) & NEXT != 0 && self.flags(last) & INDIRECT == 0 {
            (last, steps) = (last.advance(1, self.size), steps + 1);
            if steps >= MAX_CHAIN || !self.is_available(last) {
                return None;
            }
        }
        let id = self.word(last) & 0xffff_0000_0000;
        let flags = if at.wrap() { u64::from(AVAIL | USED) << 48 } else { 0 };
        // Release publishes the rest of the batch too, as a flush does.
        self.descriptors.store64(at.at() * DESC + 8, id | flags, Ordering::Release);
        Some(())
    }

    /// Publishes the batch from `old` to `new`, which is written except for its first descriptor. Returns the position
    /// after it.
    fn publish_batch(&self, old: Place, new: Place, (chains, in_order): (bool, bool)) -> Option<Place> {
        let slots = old.distance(new, self.size);
        let written = (1..slots).filter(|n| self.is_used(old.advance(*n, self.size))).count() as u32;
        // The batch may be the whole ring, and have the buffer before it.
        let is_passed = slots == self.size || self.is_passed(old, chains);
        if !is_passed || !self.is_available(old) {
            return None;
        }
        match written + 1 == slots {
            // One descriptor returns the batch: it is taken again.
            false if in_order && written == 0 => Some(old),
            false if !chains => None,
            _ => self.publish(old).map(|()| new),
        }
    }

    /// Whether the device can be at `at`: the buffer before it was returned on its lap, and that at `at` was not. In a
    /// ring that was initialised again, this is not so.
    fn is_passed(&self, at: Place, chains: bool) -> bool {
        let mut before = at.retreat(1, self.size);
        // Only the first descriptor of a buffer is written when it is returned.
        while chains && self.is_available(before) && before.at() > 0 {
            before = before.retreat(1, self.size);
        }
        let is_old = self.is_available(at.on_other_lap());
        self.is_returned(before) && !self.is_used(at) && (chains || !is_old)
    }
}
