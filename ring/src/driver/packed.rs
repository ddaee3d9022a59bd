//! The driver's side of a packed virtqueue (VIRTIO 1.2 section 2.8).
//!
//! Descriptors of one publish become visible together: the first one's flags are held back and stored last.

use super::{DriverRing, Post, Used};
use crate::area::{Area, Layout};
use crate::chain::{AVAIL, DESC, USED, WRITE};
use crate::device::Place;
use crate::offsets::packed::{EVENT_DESC, EVENT_DISABLE, EVENT_ENABLE, EVENT_FLAGS};
use crate::{Direction, MAX_SIZE, RingFault};
use core::sync::atomic::{Ordering, fence};
use mem::Map;
use std::sync::Arc;

/// A packed virtqueue, driver side.
#[derive(Debug)]
pub struct Packed {
    layout: Layout,
    /// Entries.
    size: u32,
    descriptors: Area,
    driver: Area,
    device: Area,
    /// The order of posting, by ring place, for in-order devices: identifier, and bytes to write.
    order: Vec<(u16, u32)>,
    outstanding: Vec<bool>,
    next: Place,
    taken: Place,
    /// A word, as [`Place`] is.
    free: u32,
    held: Option<(usize, u64)>,
    asked: Place,
    published: bool,
    /// In order: the last buffer of a batch whose earlier members are still to be handed out.
    batch: Option<Used>,
}

impl Packed {
    #[inline(always)]
    fn used_at(&self, place: Place) -> Option<Used> {
        // Acquire pairs with the device's release store of the flags.
        let word = self.descriptors.load64(place.at() * DESC + 8, Ordering::Acquire);
        let flags = (word >> 48) as u16 & (AVAIL | USED);
        let want = if place.wrap() { AVAIL | USED } else { 0 };
        (flags == want).then_some(Used { id: (word >> 32) as u16, len: word as u32 })
    }

    #[inline(always)]
    fn take_one(&mut self) -> Result<Option<Used>, RingFault> {
        let Some(last) = self.batch.or_else(|| self.used_at(self.taken)) else { return Ok(None) };
        if !self.outstanding.get(usize::from(last.id)).is_some_and(|&out| out) {
            return Err(RingFault::NotOut(last.id.into()));
        }
        if !self.layout.in_order {
            return Ok(Some(last));
        }
        let (id, whole) = self.order[self.taken.at()];
        self.batch = (last.id != id).then_some(last);
        // Skipped buffers were written completely (section 2.8.9 and the note in 2.7.9).
        Ok(Some(Used { id, len: if last.id == id { last.len } else { whole } }))
    }
}

impl DriverRing for Packed {
    fn new(layout: &Layout, map: &Arc<Map>) -> Result<Self, RingFault> {
        if layout.size == 0 || layout.size > MAX_SIZE {
            return Err(RingFault::Size(layout.size));
        }
        let n = usize::from(layout.size);
        let start = Place::START;
        let mut ring = Self {
            layout: *layout,
            size: layout.size.into(),
            descriptors: Area::new(map, "descriptor", layout.descriptors, n * DESC, 16)?,
            driver: Area::new(map, "driver", layout.driver, 4, 4)?,
            device: Area::new(map, "device", layout.device, 4, 4)?,
            order: vec![(0, 0); n],
            outstanding: vec![false; n],
            next: start,
            taken: start,
            free: layout.size.into(),
            held: None,
            asked: start,
            published: false,
            batch: None,
        };
        ring.disarm();
        Ok(ring)
    }

    #[inline(always)]
    fn free(&self) -> usize {
        self.free as usize
    }

    #[inline(always)]
    fn post(&mut self, buffer: Post) {
        let at = self.next.at();
        let offset = at * DESC;
        let flags = if self.next.wrap() { AVAIL } else { USED };
        let (flags, whole) =
            if buffer.direction == Direction::Write { (flags | WRITE, buffer.len) } else { (flags, 0) };
        let word = u64::from(buffer.len) | u64::from(buffer.id) << 32 | u64::from(flags) << 48;
        self.descriptors.store64(offset, buffer.address, Ordering::Relaxed);
        if self.held.is_none() {
            self.held = Some((offset + 8, word));
        } else {
            // Release orders the address before the flags, for a device that looks ahead of the first.
            self.descriptors.store64(offset + 8, word, Ordering::Release);
        }
        self.order[at] = (buffer.id, whole);
        self.outstanding[usize::from(buffer.id)] = true;
        self.free -= 1;
        self.next = self.next.advance(1, self.size);
    }

    #[inline]
    fn publish(&mut self) {
        if let Some((offset, word)) = self.held.take() {
            // Release pairs with the device's acquire load of these flags.
            self.descriptors.store64(offset, word, Ordering::Release);
            self.published = true;
        }
    }

    fn should_kick(&mut self) -> bool {
        let old = std::mem::replace(&mut self.asked, self.next);
        if !std::mem::take(&mut self.published) {
            return false;
        }
        let word = self.device.load32(0, Ordering::Relaxed);
        match (word >> 16) as u16 & 3 {
            EVENT_DISABLE => false,
            EVENT_DESC if self.layout.event_idx => {
                self.next.crossed(Place::decode(word as u16), old, self.layout.size)
            }
            _ => true,
        }
    }

    #[inline]
    fn take(&mut self, out: &mut [Used]) -> Result<usize, RingFault> {
        let mut n = 0;
        while n < out.len() && self.free < self.size {
            let Some(used) = self.take_one()? else { break };
            self.outstanding[usize::from(used.id)] = false;
            self.taken = self.taken.advance(1, self.size);
            self.free += 1;
            out[n] = used;
            n += 1;
        }
        Ok(n)
    }

    fn arm(&mut self) -> bool {
        if self.layout.event_idx {
            let word = u32::from(self.taken.encode()) | u32::from(EVENT_DESC) << 16;
            self.driver.store32(0, word, Ordering::Relaxed);
        } else {
            self.driver.store16(EVENT_FLAGS, EVENT_ENABLE, Ordering::Relaxed);
        }
        // Pairs with the device's fence between its store of the flags and its load of our event suppression.
        fence(Ordering::SeqCst);
        self.free < self.size && self.used_at(self.taken).is_some()
    }

    fn disarm(&mut self) {
        self.driver.store16(EVENT_FLAGS, EVENT_DISABLE, Ordering::Relaxed);
    }

    #[inline]
    fn prefetch(&self) {
        let at = self.taken.at() * DESC;
        self.descriptors.prefetch_read(at);
        self.descriptors.prefetch_read(at + 64);
    }
}
