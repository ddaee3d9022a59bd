//! Device side of a packed virtqueue (VIRTIO 1.2 section 2.8).
//!
//! A descriptor's flags are loaded with acquire, which pairs with the driver's release store; its other fields are read
//! afterwards, once. Of the used descriptors of a batch, the second and later ones are written directly; the first
//! one's flags word is held back and stored with release on flush, so the driver sees all or none.

use super::indirect::{self, Joined};
use super::place::{Place, WRAP};
use super::recover::Record;
use super::{DeviceRing, VisitPlain, plain_flags};
use crate::area::Area;
use crate::chain::{AVAIL, DESC, INDIRECT, MAX_CHAIN, NEXT, USED, WRITE};
use crate::offsets::packed::{EVENT_DESC, EVENT_DISABLE, EVENT_ENABLE, event};
use crate::{BufId, Descriptor, Direction, Layout, MAX_SIZE, RingFault};
use core::sync::atomic::{Ordering, fence};
use mem::{GuestMemory, Translator};
use std::sync::Arc;

/// A packed virtqueue, device side.
#[derive(Debug)]
pub struct Packed {
    layout: Layout,
    descriptors: Area,
    driver: Area,
    device: Area,
    taken: Place,
    used: Place,
    /// Entries between `published` and `taken`. Limited to the ring size for all entries of the driver, because it
    /// cannot know of a free entry before the flush. 32 bits for the reason given at [`Place`].
    outstanding: u32,
    /// First used descriptor since the last flush: byte offset and value of its flags word.
    held: Option<(usize, u64)>,
    /// Value of `published` at the last `needs_notification`.
    asked: Place,
    /// End of the used entries visible to the driver.
    published: Place,
    /// Entries flushed since the last `needs_notification`: positions alone cannot distinguish two laps from none.
    unchecked: u32,
    /// Where positions are recorded for the case that this process is killed.
    record: Option<Record>,
}

/// Descriptors per cache line.
const LINE: usize = 64 / DESC;
/// Offset of a descriptor's length, ID and flags, in bytes.
const SECOND_WORD: usize = 8;

/// Write position for used descriptors.
#[derive(Debug)]
pub struct Cursor {
    /// Byte offset of the descriptor.
    at: usize,
    end: usize,
    /// Flags of used descriptors on this lap, in the position of the second word.
    flags: u64,
    /// Offset and flags word of the first used descriptor since the last flush; valid only if `holds`.
    held: (usize, u64),
    holds: bool,
}

/// Wraps `at` at the ring `end` and toggles the flags for the next lap. Passes values, so that a cursor stays in
/// registers.
#[cold]
#[inline(never)]
fn next_lap(at: usize, end: usize, flags: u64) -> (usize, u64) {
    (at - end, flags ^ USED_FLAGS)
}

/// Flags of used descriptors on a lap with wrap counter 1.
const USED_FLAGS: u64 = ((AVAIL | USED) as u64) << 48;
/// The device wrote to the buffer, so its length is valid (VIRTIO 1.2 section 2.8.4).
const WRITTEN: u64 = (WRITE as u64) << 48;

fn areas(layout: &Layout, map: &Arc<GuestMemory>) -> Result<(Area, Area, Area), RingFault> {
    Ok((
        Area::new(map, "descriptor", layout.descriptors, usize::from(layout.size) * DESC, 16)?,
        Area::new(map, "driver", layout.driver, 4, 4)?,
        Area::new(map, "device", layout.device, 4, 4)?,
    ))
}

impl Packed {
    #[inline(always)]
    fn size(&self) -> u32 {
        self.layout.size.into()
    }

    /// The descriptor at `place`, or `None` if it is not available.
    #[inline(always)]
    fn available(&self, place: Place) -> Option<Descriptor> {
        let offset = place.at() * DESC;
        // Acquire pairs with the driver's release store of the flags, which the driver writes last.
        let word = self.descriptors.load64(offset + 8, Ordering::Acquire);
        let flags = (word >> 48) as u16;
        let want = if place.wrap() { AVAIL } else { USED };
        if flags & (AVAIL | USED) != want {
            return None;
        }
        Some(Descriptor::packed(self.descriptors.load64(offset, Ordering::Relaxed), word))
    }

    /// The four descriptors of one cache line at `place`. Returns `None` unless `place` is the start of a line and all
    /// four are available with the wanted flags; one comparison checks all four.
    #[inline(always)]
    fn line(&self, place: Place, mask: u16, want: u16) -> Option<[Descriptor; LINE]> {
        let offset = place.at() * DESC;
        if !place.at().is_multiple_of(LINE) || place.at() + LINE > self.size() as usize {
            return None;
        }
        // Acquire: as in `available`.
        let load = |offset| self.descriptors.load64(offset, Ordering::Acquire);
        let words = [load(offset + 8), load(offset + 24), load(offset + 40), load(offset + 56)];
        let wanted = want | if place.wrap() { AVAIL } else { USED };
        let differs = words.iter().fold(0, |differs, word| differs | ((word >> 48) as u16 ^ wanted));
        if differs & (AVAIL | USED | mask) != 0 {
            return None;
        }
        let address = |i: usize| self.descriptors.load64(offset + i * DESC, Ordering::Relaxed);
        let head = |i: usize| Descriptor::packed(address(i), words[i]);
        Some([head(0), head(1), head(2), head(3)])
    }

    #[inline(always)]
    fn take_slots(&mut self, slots: u32) {
        self.taken = self.taken.advance(slots, self.size());
        self.outstanding += slots;
    }

    /// Appends the whole chain that starts with `first`, at the taken position `at`, to `chain`; returns its buffer ID.
    #[cold]
    fn walk(
        &self,
        first: Descriptor,
        at: Place,
        translator: &mut Translator,
        chain: &mut Vec<Descriptor>,
    ) -> Result<BufId, RingFault> {
        if first.flags & INDIRECT != 0 {
            if !self.layout.indirect {
                return Err(RingFault::IndirectNotNegotiated);
            }
            indirect::walk(first, Joined::InSequence, translator, chain)?;
            return Ok(BufId { id: first.link, slots: 1 });
        }
        let (mut d, mut place, mut slots) = (first, at, 1);
        chain.push(d);
        while d.flags & NEXT != 0 {
            if chain.len() >= MAX_CHAIN.min(self.layout.size.into()) {
                return Err(RingFault::ChainTooLong);
            }
            place = place.advance(1, self.size());
            d = self.available(place).ok_or(RingFault::ChainUnfinished)?;
            if d.flags & INDIRECT != 0 {
                return Err(RingFault::IndirectNested);
            }
            chain.push(d);
            slots += 1;
        }
        // The buffer ID is in the last descriptor of the list (section 2.8.6).
        Ok(BufId { id: d.link, slots })
    }

    /// Writes one-slot used descriptors for device-readable buffers. The run must not extend beyond the end of the lap.
    #[inline(always)]
    fn put_run(&self, cursor: &mut Cursor, buf_ids: &[BufId]) {
        let mut offset = cursor.at + SECOND_WORD;
        for buf_id in buf_ids {
            self.descriptors.store64(offset, u64::from(buf_id.id) << 32 | cursor.flags, Ordering::Relaxed);
            offset += DESC;
        }
        cursor.at = offset - SECOND_WORD;
        if cursor.at == cursor.end {
            (cursor.at, cursor.flags) = next_lap(cursor.at, cursor.end, cursor.flags);
        }
    }
}

impl DeviceRing for Packed {
    fn new(layout: &Layout, map: &Arc<GuestMemory>) -> Result<Self, RingFault> {
        if layout.size == 0 || layout.size > MAX_SIZE {
            return Err(RingFault::Size(layout.size));
        }
        let (taken, used) = (Place::decode(layout.base as u16), Place::decode((layout.base >> 16) as u16));
        if taken.at() >= layout.size.into() || used.at() >= layout.size.into() {
            return Err(RingFault::Base(layout.base));
        }
        let (descriptors, driver, device) = areas(layout, map)?;
        let mut ring = Self {
            layout: *layout,
            descriptors,
            driver,
            device,
            taken: used,
            used,
            outstanding: 0,
            held: None,
            asked: used,
            published: used,
            unchecked: 0,
            record: None,
        };
        ring.disable_notification();
        Ok(ring)
    }

    fn device_areas(layout: &Layout) -> Vec<(u64, u32)> {
        vec![(layout.descriptors, u32::from(layout.size) * DESC as u32), (layout.device, 4)]
    }

    fn set_record(&mut self, record: Record) {
        self.record = Some(record);
    }

    fn remap(&mut self, map: &Arc<GuestMemory>) -> Result<(), RingFault> {
        (self.descriptors, self.driver, self.device) = areas(&self.layout, map)?;
        Ok(())
    }

    #[inline(always)]
    fn pop_plain(
        &mut self,
        max: usize,
        direction: Option<Direction>,
        visitor: &mut impl VisitPlain,
    ) -> Result<usize, RingFault> {
        let (mask, want) = plain_flags(direction);
        let (start, size) = (self.taken, self.size());
        let max = max.min((size - self.outstanding) as usize);
        let (mut k, mut place) = (0, start);
        'taken: while k < max {
            if k + LINE <= max
                && let Some(line) = self.line(place, mask, want)
            {
                for d in line {
                    if !visitor.visit(k, d) {
                        break 'taken;
                    }
                    k += 1;
                }
                place = place.advance(LINE as u32, size);
                continue;
            }
            let Some(d) = self.available(place) else { break };
            if d.flags & mask != want || !visitor.visit(k, d) {
                break;
            }
            k += 1;
            place = place.advance(1, size);
        }
        self.take_slots(k as u32);
        Ok(k)
    }

    fn pop_chain(
        &mut self,
        translator: &mut Translator,
        chain: &mut Vec<Descriptor>,
    ) -> Result<Option<BufId>, RingFault> {
        let Some(first) = self.available(self.taken) else { return Ok(None) };
        if first.is_plain() && self.outstanding < self.size() {
            return Ok(None);
        }
        let buf_id =
            if first.is_plain() { first.buf_id() } else { self.walk(first, self.taken, translator, chain)? };
        if u32::from(buf_id.slots) > self.size() - self.outstanding {
            return Err(RingFault::Lapped);
        }
        if let Some(record) = self.record.as_ref().filter(|_| buf_id.slots > 1) {
            record.note_chain();
        }
        self.take_slots(buf_id.slots.into());
        Ok(Some(buf_id))
    }

    fn has_beyond(&self, slots: u32) -> bool {
        slots < self.size() - self.outstanding
            && self.available(self.taken.advance(slots, self.size())).is_some()
    }

    #[inline]
    fn prefetch(&self) {
        let at = self.taken.at() * DESC;
        for line in 0..4 {
            self.descriptors.prefetch_read(at + line * 64);
        }
    }

    type Cursor = Cursor;

    #[inline(always)]
    fn cursor(&self) -> Cursor {
        Cursor {
            at: self.used.at() * DESC,
            end: self.size() as usize * DESC,
            flags: if self.used.wrap() { WRITTEN | USED_FLAGS } else { WRITTEN },
            held: self.held.unwrap_or_default(),
            holds: self.held.is_some(),
        }
    }

    #[inline(always)]
    fn put_used(&self, cursor: &mut Cursor, buf_id: BufId, len: u32) {
        let word = u64::from(len) | u64::from(buf_id.id) << 32 | cursor.flags;
        let offset = cursor.at + SECOND_WORD;
        if cursor.holds {
            self.descriptors.store64(offset, word, Ordering::Relaxed);
        } else {
            (cursor.held, cursor.holds) = ((offset, word), true);
        }
        cursor.at += usize::from(buf_id.slots) * DESC;
        if cursor.at >= cursor.end {
            (cursor.at, cursor.flags) = next_lap(cursor.at, cursor.end, cursor.flags);
        }
    }

    #[inline(always)]
    fn put_read(&self, cursor: &mut Cursor, buf_ids: &[BufId]) {
        let Some((first, buf_ids)) = buf_ids.split_first() else { return };
        cursor.flags &= !WRITTEN;
        self.put_used(cursor, *first, 0);
        let slots = buf_ids.iter().fold(0, |all, buf_id| all | buf_id.slots);
        if slots != 1 {
            return buf_ids.iter().for_each(|&buf_id| self.put_used(cursor, buf_id, 0));
        }
        // One descriptor per buffer, so the end of the lap is known.
        let mut left = buf_ids;
        while !left.is_empty() {
            let (run, behind) = left.split_at(left.len().min((cursor.end - cursor.at) / DESC));
            self.put_run(cursor, run);
            left = behind;
        }
    }

    #[inline(always)]
    fn advance(&mut self, cursor: Cursor) {
        let wrap = if cursor.flags & USED_FLAGS == 0 { 0 } else { WRAP };
        let at = (cursor.at / DESC) as u32;
        (self.used, self.held) = (Place(at | wrap), cursor.holds.then_some(cursor.held));
    }

    #[inline(always)]
    fn is_in_order(&self) -> bool {
        self.layout.in_order
    }

    #[inline]
    fn flush_used(&mut self) {
        if let Some((offset, word)) = self.held.take() {
            if let Some(record) = &self.record {
                record.store(self.published, self.used);
            }
            // Release pairs with the driver's acquire load of these flags and publishes all later entries too.
            self.descriptors.store64(offset, word, Ordering::Release);
            let n = self.published.distance(self.used, self.size());
            self.outstanding -= n;
            self.unchecked = self.unchecked.saturating_add(n);
            self.published = self.used;
        }
    }

    fn needs_notification(&mut self) -> bool {
        let old = std::mem::replace(&mut self.asked, self.published);
        let unchecked = std::mem::take(&mut self.unchecked);
        if unchecked == 0 {
            return false;
        }
        let word = self.driver.load32(0, Ordering::Relaxed);
        match (word >> 16) as u16 & 3 {
            EVENT_DISABLE => false,
            EVENT_DESC if self.layout.event_idx => {
                let event = Place::decode(word as u16);
                unchecked > self.size() || self.published.crossed(event, old, self.size())
            }
            _ => true,
        }
    }

    fn enable_notification(&mut self) -> bool {
        let by_place = event(self.taken.encode(), EVENT_DESC);
        let word = if self.layout.event_idx { by_place } else { event(0, EVENT_ENABLE) };
        self.device.store32(0, word, Ordering::Relaxed);
        // Pairs with the driver's fence between its store of the flags and its load of the device event suppression.
        fence(Ordering::SeqCst);
        self.available(self.taken).is_some()
    }

    fn disable_notification(&mut self) {
        self.device.store32(0, event(0, EVENT_DISABLE), Ordering::Relaxed);
    }

    fn base(&self) -> u32 {
        u32::from(self.used.encode()) | u32::from(self.used.encode()) << 16
    }

    fn rewind(&mut self, buf_ids: &[BufId]) {
        for buf_id in buf_ids {
            let slots = u32::from(buf_id.slots);
            self.taken = self.taken.retreat(slots, self.size());
            self.outstanding -= slots;
        }
    }
}
