//! Device side of a split virtqueue (VIRTIO 1.2 section 2.7).
//!
//! The available index is loaded at most once per batch, with acquire, which pairs with the driver's release store. The
//! used index is stored once per flush, with release. All other state is private.

use super::indirect::{self, Joined};
use super::{DeviceRing, VisitPlain, plain_flags};
use crate::area::{Area, View};
use crate::chain::{DESC, INDIRECT, MAX_CHAIN, NEXT};
use crate::offsets::split::{ELEMENT, FLAGS, INDEX, NO_INTERRUPT, NO_NOTIFY, RING};
use crate::{BufId, Descriptor, Direction, Layout, MAX_SIZE, RingFault};
use core::sync::atomic::{Ordering, fence};
use mem::{GuestMemory, Translator};
use std::sync::Arc;

/// Entries validated at once.
const FOUR: usize = 4;

/// A split virtqueue, device side.
#[derive(Debug)]
pub struct Split {
    layout: Layout,
    mask: u16,
    descriptors: Area,
    available: Area,
    used: Area,
    /// Next available index to take.
    taken: u16,
    /// Available index as last read.
    index: u16,
    /// End of the entries whose descriptors are prefetched; at or after `taken`.
    fetched: u16,
    /// Next used index to write.
    next_used: u16,
    /// Used index at the last flush.
    published: u16,
    /// Value of `published` at the last `needs_notification`.
    asked: u16,
    /// Entries flushed since the last `needs_notification`; may exceed the 16-bit index range.
    unchecked: u32,
}

fn areas(layout: &Layout, map: &Arc<GuestMemory>) -> Result<(Area, Area, Area), RingFault> {
    let n = usize::from(layout.size);
    Ok((
        Area::new(map, "descriptor", layout.descriptors, n * DESC, 16)?,
        Area::new(map, "available", layout.driver, RING + n * 2 + 2, 2)?,
        Area::new(map, "used", layout.device, RING + n * ELEMENT + 2, 4)?,
    ))
}

impl Split {
    /// Descriptor `at`; the caller has checked it against the size. The index is masked as well, to prevent speculative
    /// out-of-bounds loads (Spectre v1).
    #[inline(always)]
    fn descriptor(&self, at: u16) -> Descriptor {
        let offset = usize::from(at & self.mask) * DESC;
        let address = self.descriptors.load64(offset, Ordering::Relaxed);
        Descriptor::split(address, self.descriptors.load64(offset + 8, Ordering::Relaxed))
    }

    /// Number of available entries, at most `max`; reads the index only if fewer than `max` are known.
    #[inline(always)]
    fn ready(&mut self, max: usize) -> Result<usize, RingFault> {
        let known = self.index.wrapping_sub(self.taken);
        if usize::from(known) >= max {
            return Ok(max);
        }
        // Acquire pairs with the driver's release store of the index: entries before it are written.
        self.index = self.available.load16(INDEX, Ordering::Acquire);
        // A driver may have at most `size` entries outstanding, including those taken and not yet used.
        if self.index.wrapping_sub(self.next_used) > self.layout.size {
            return Err(RingFault::IndexJump {
                index: self.index,
                used: self.next_used,
                size: self.layout.size,
            });
        }
        let ready = self.index.wrapping_sub(self.taken);
        if ready > self.layout.size {
            return Err(RingFault::IndexJump {
                index: self.index,
                used: self.next_used,
                size: self.layout.size,
            });
        }
        Ok(usize::from(ready).min(max))
    }

    #[inline(always)]
    fn entries(&self) -> Entries<'_> {
        let (available, descriptors) = (self.available.view(), self.descriptors.view());
        Entries { available, descriptors, taken: self.taken, mask: self.mask }
    }

    #[inline(always)]
    fn advance_taken(&mut self, n: usize) {
        self.taken = self.taken.wrapping_add(n as u16);
    }

    /// Appends the whole chain that starts with `first` to `chain`.
    #[cold]
    fn walk(
        &self,
        first: Descriptor,
        translator: &mut Translator,
        chain: &mut Vec<Descriptor>,
    ) -> Result<(), RingFault> {
        let mut d = first;
        loop {
            if d.flags & INDIRECT != 0 {
                if !self.layout.indirect {
                    return Err(RingFault::IndirectNotNegotiated);
                }
                return indirect::walk(d, Joined::ByNext, translator, chain);
            }
            chain.push(d);
            if d.flags & NEXT == 0 {
                return Ok(());
            }
            if chain.len() >= MAX_CHAIN.min(self.layout.size.into()) {
                return Err(RingFault::ChainTooLong);
            }
            if d.link >= self.layout.size {
                return Err(RingFault::NoSuchDescriptor(d.link));
            }
            d = self.descriptor(d.link);
        }
    }

    #[inline(always)]
    fn element(&self, position: u16) -> usize {
        RING + usize::from(position & self.mask) * ELEMENT
    }

    fn event_crossed(&self, event: u16, old: u16) -> bool {
        let new = self.published;
        new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
    }
}

/// Loop state for reading available entries, as a value that stays in registers.
#[derive(Clone, Copy)]
struct Entries<'a> {
    available: View<'a>,
    descriptors: View<'a>,
    taken: u16,
    mask: u16,
}

/// Entries read in one step.
enum Step {
    /// Four descriptor indices, all within the table.
    Four([u16; FOUR]),
    /// One descriptor index, not validated.
    One(u16),
}

impl Entries<'_> {
    #[inline(always)]
    fn slot(self, ahead: usize) -> usize {
        usize::from(self.taken.wrapping_add(ahead as u16) & self.mask)
    }

    /// Reads entries from `ahead` on: four at once if four of the next `ready` are contiguous and all refer to existing
    /// descriptors, which one comparison checks; else one.
    #[inline(always)]
    fn step(self, ahead: usize, ready: usize) -> Step {
        let slot = self.slot(ahead);
        if ahead + FOUR <= ready && slot + FOUR <= usize::from(self.mask) + 1 {
            let ids = self.available.load_four16(RING + slot * 2);
            // The size is a power of two. The indices are masked as well, as in `Split::descriptor`.
            let inside = u64::from(self.mask) * 0x0001_0001_0001_0001;
            if ids & !inside == 0 {
                let ids = ids & inside;
                return Step::Four([ids as u16, (ids >> 16) as u16, (ids >> 32) as u16, (ids >> 48) as u16]);
            }
        }
        Step::One(self.id(ahead))
    }

    /// The descriptor index in entry `ahead`, not validated.
    #[inline(always)]
    fn id(self, ahead: usize) -> u16 {
        self.available.load16(RING + self.slot(ahead) * 2, Ordering::Relaxed)
    }

    /// Descriptor `id`, which must be below the size.
    #[inline(always)]
    fn descriptor(self, id: u16) -> Descriptor {
        let at = usize::from(id) * DESC;
        let load32 = |offset| self.descriptors.load32(at + offset, Ordering::Relaxed);
        let address = self.descriptors.load64(at, Ordering::Relaxed);
        Descriptor { address, len: load32(8), flags: load32(12) as u16, link: id }
    }

    /// Prefetches the descriptors of entries `from..ready`.
    #[inline(always)]
    fn fetch(self, from: usize, ready: usize) {
        let fetch = |id: u16| self.descriptors.prefetch_read(usize::from(id) * DESC);
        let mut k = from;
        while k < ready {
            match self.step(k, ready) {
                // Four consecutive descriptors from the start of a line share that line.
                Step::Four([first, _, _, last]) if first % 4 == 0 && first + 3 == last => {
                    fetch(first);
                    k += FOUR;
                }
                Step::Four(ids) => {
                    ids.into_iter().for_each(fetch);
                    k += FOUR;
                }
                Step::One(id) => {
                    fetch(id & self.mask);
                    k += 1;
                }
            }
        }
    }

    /// Calls `visitor` with descriptor `id`, the `k`-th of this call, if its flags match. Returns whether it is taken.
    #[inline(always)]
    fn offer(self, k: usize, id: u16, (mask, want): (u16, u16), visitor: &mut impl VisitPlain) -> bool {
        let buffer = self.descriptor(id);
        buffer.flags & mask == want && visitor.visit(k, buffer)
    }

    /// [`DeviceRing::pop_plain`] for the next `ready` entries.
    #[inline(always)]
    fn plain(
        self,
        ready: usize,
        flags: (u16, u16),
        visitor: &mut impl VisitPlain,
    ) -> Result<usize, RingFault> {
        let mut k = 0;
        while k < ready {
            match self.step(k, ready) {
                Step::Four(ids) => {
                    for id in ids {
                        if !self.offer(k, id, flags, visitor) {
                            return Ok(k);
                        }
                        k += 1;
                    }
                }
                Step::One(id) if id > self.mask => return Err(RingFault::NoSuchDescriptor(id)),
                Step::One(id) => {
                    if !self.offer(k, id & self.mask, flags, visitor) {
                        return Ok(k);
                    }
                    k += 1;
                }
            }
        }
        Ok(k)
    }
}

impl DeviceRing for Split {
    fn new(layout: &Layout, map: &Arc<GuestMemory>) -> Result<Self, RingFault> {
        if !layout.size.is_power_of_two() || layout.size > MAX_SIZE {
            return Err(RingFault::Size(layout.size));
        }
        let start = u16::try_from(layout.base).map_err(|_| RingFault::Base(layout.base))?;
        let (descriptors, available, used) = areas(layout, map)?;
        let mut ring = Self {
            layout: *layout,
            mask: layout.size - 1,
            descriptors,
            available,
            used,
            taken: start,
            index: start,
            fetched: start,
            next_used: start,
            published: start,
            asked: start,
            unchecked: 0,
        };
        ring.disable_notification();
        Ok(ring)
    }

    fn device_areas(layout: &Layout) -> Vec<(u64, u32)> {
        vec![(layout.device, (RING + usize::from(layout.size) * ELEMENT + 2) as u32)]
    }

    fn remap(&mut self, map: &Arc<GuestMemory>) -> Result<(), RingFault> {
        (self.descriptors, self.available, self.used) = areas(&self.layout, map)?;
        Ok(())
    }

    #[inline(always)]
    fn pop_plain(
        &mut self,
        max: usize,
        direction: Option<Direction>,
        visitor: &mut impl VisitPlain,
    ) -> Result<usize, RingFault> {
        let ready = self.ready(max)?;
        let entries = self.entries();
        entries.fetch(usize::from(self.fetched.wrapping_sub(self.taken)).min(ready), ready);
        let taken = entries.plain(ready, plain_flags(direction), visitor);
        self.fetched = self.taken.wrapping_add(ready as u16);
        self.advance_taken(*taken.as_ref().unwrap_or(&0));
        taken
    }

    fn pop_chain(
        &mut self,
        translator: &mut Translator,
        chain: &mut Vec<Descriptor>,
    ) -> Result<Option<BufId>, RingFault> {
        if self.ready(1)? == 0 {
            return Ok(None);
        }
        let id = self.entries().id(0);
        if id >= self.layout.size {
            return Err(RingFault::NoSuchDescriptor(id));
        }
        let head = self.descriptor(id);
        if head.is_plain() {
            return Ok(None);
        }
        self.walk(head, translator, chain)?;
        self.advance_taken(1);
        Ok(Some(BufId { id, slots: 1 }))
    }

    fn has_beyond(&self, slots: u32) -> bool {
        // Relaxed is sufficient: this is a hint, and entries are taken only after an acquire load.
        let index = self.available.load16(INDEX, Ordering::Relaxed);
        u32::from(index.wrapping_sub(self.taken)) > slots
    }

    #[inline]
    fn prefetch(&self) {
        self.available.prefetch_read(INDEX);
        let slot = usize::from(self.taken & self.mask);
        self.available.prefetch_read(RING + slot * 2);
        self.available.prefetch_read(RING + slot * 2 + 64);
    }

    /// Next used index.
    type Cursor = u16;

    #[inline(always)]
    fn cursor(&self) -> u16 {
        self.next_used
    }

    #[inline(always)]
    fn put_used(&self, cursor: &mut u16, buf_id: BufId, len: u32) {
        // The used ring is only 4-byte aligned, so an element may straddle an 8-byte boundary.
        self.used.put_two32(self.element(*cursor), buf_id.id.into(), len);
        *cursor = cursor.wrapping_add(buf_id.slots);
    }

    #[inline(always)]
    fn advance(&mut self, cursor: u16) {
        self.next_used = cursor;
    }

    #[inline(always)]
    fn is_in_order(&self) -> bool {
        self.layout.in_order
    }

    #[inline]
    fn flush_used(&mut self) {
        if self.published == self.next_used {
            return;
        }
        let n = u32::from(self.next_used.wrapping_sub(self.published));
        self.unchecked = self.unchecked.saturating_add(n);
        self.published = self.next_used;
        // Release pairs with the driver's acquire load of the used index.
        self.used.store16(INDEX, self.published, Ordering::Release);
    }

    fn needs_notification(&mut self) -> bool {
        let old = std::mem::replace(&mut self.asked, self.published);
        let unchecked = std::mem::take(&mut self.unchecked);
        if unchecked == 0 {
            return false;
        }
        if !self.layout.event_idx {
            return self.available.load16(FLAGS, Ordering::Relaxed) & NO_INTERRUPT == 0;
        }
        let event = self.available.load16(RING + usize::from(self.layout.size) * 2, Ordering::Relaxed);
        unchecked > u32::from(u16::MAX) || self.event_crossed(event, old)
    }

    fn enable_notification(&mut self) -> bool {
        if self.layout.event_idx {
            self.used.store16(self.element_end(), self.taken, Ordering::Relaxed);
        } else {
            self.used.store16(FLAGS, 0, Ordering::Relaxed);
        }
        // Pairs with the driver's fence between its store of the available index and its load of `avail_event`.
        fence(Ordering::SeqCst);
        self.available.load16(INDEX, Ordering::Acquire) != self.taken
    }

    fn disable_notification(&mut self) {
        if !self.layout.event_idx {
            self.used.store16(FLAGS, NO_NOTIFY, Ordering::Relaxed);
        }
    }

    fn base(&self) -> u32 {
        u32::from(self.next_used)
    }

    fn rewind(&mut self, buf_ids: &[BufId]) {
        self.taken = self.taken.wrapping_sub(buf_ids.len() as u16);
    }
}

impl Split {
    /// Offset of `avail_event`: after the last used element.
    fn element_end(&self) -> usize {
        RING + usize::from(self.layout.size) * ELEMENT
    }
}
