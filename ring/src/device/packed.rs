//! The device's side of a packed virtqueue (VIRTIO 1.2 section 2.8).
//!
//! A descriptor's flags are loaded with acquire, which pairs with the driver's release store of them; its other
//! fields are read after that, once. Used descriptors of a sweep are written from the second on; the first
//! one's word is held back and stored with release at the publish, so the driver sees none or all.

use super::indirect::{self, Joined};
use super::{DeviceRing, SWEEP, Sweep};
use crate::area::{Area, Layout};
use crate::chain::{AVAIL, DESC, INDIRECT, NEXT, USED};
use crate::offsets::packed::{EVENT_DESC, EVENT_DISABLE, EVENT_ENABLE, EVENT_FLAGS};
use crate::{Descriptor, MAX_SIZE, RingFault, Token};
use core::sync::atomic::{Ordering, fence};
use mem::{Map, Translator};
use std::sync::Arc;

/// A place in a packed ring: index and wrap counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) at: u16,
    pub(crate) wrap: bool,
}

impl Place {
    /// From 15 bits of index and one of wrap counter.
    pub(crate) fn decode(word: u16) -> Self {
        Self { at: word & 0x7fff, wrap: word & 0x8000 != 0 }
    }

    /// To 15 bits of index and one of wrap counter.
    pub(crate) fn encode(self) -> u16 {
        self.at | u16::from(self.wrap) << 15
    }

    /// `n` entries further in a ring of `size`; `n <= size`.
    #[inline(always)]
    pub(crate) fn advance(self, n: u16, size: u16) -> Self {
        let next = u32::from(self.at) + u32::from(n);
        if next >= u32::from(size) {
            return Self { at: (next - u32::from(size)) as u16, wrap: !self.wrap };
        }
        Self { at: next as u16, wrap: self.wrap }
    }

    /// Entries from here to `to`, at most a lap ahead, in a ring of `size`.
    #[inline(always)]
    pub(crate) fn distance(self, to: Place, size: u16) -> u16 {
        let lap = if to.wrap == self.wrap { 0 } else { size };
        to.at.wrapping_add(lap).wrapping_sub(self.at)
    }

    /// `n` entries back in a ring of `size`; `n <= size`.
    fn retreat(self, n: u16, size: u16) -> Self {
        if n > self.at {
            return Self { at: self.at + (size - n), wrap: !self.wrap };
        }
        Self { at: self.at - n, wrap: self.wrap }
    }

    /// Whether the other side's `event` lies between `old` (before) and `self` (after), so that it wants to be
    /// told (VIRTIO 1.2 section 2.8.10.1: places of an earlier lap count as one ring behind).
    pub(crate) fn crossed(self, event: Place, old: Place, size: u16) -> bool {
        let relative = |p: Place| if p.wrap == self.wrap { p.at } else { p.at.wrapping_sub(size) };
        let (new, event, old) = (self.at, relative(event), relative(old));
        new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
    }
}

/// A packed virtqueue, device side.
#[derive(Debug)]
pub struct Packed {
    layout: Layout,
    descriptors: Area,
    driver: Area,
    device: Area,
    taken: Place,
    used: Place,
    /// Entries between `used` and `taken`: never more than the ring has, whatever the driver writes.
    outstanding: u16,
    /// The first used descriptor since the last publish: where, and the word that makes it visible.
    held: Option<(usize, u64)>,
    /// Where the driver was last asked about calls, and whether anything was published since.
    asked: Place,
    published: Place,
    /// Entries published since that question: places alone cannot tell two laps from none.
    unasked: u32,
}

fn areas(layout: &Layout, map: &Arc<Map>) -> Result<(Area, Area, Area), RingFault> {
    Ok((
        Area::new(map, "descriptor", layout.descriptors, usize::from(layout.size) * DESC, 16)?,
        Area::new(map, "driver", layout.driver, 4, 4)?,
        Area::new(map, "device", layout.device, 4, 4)?,
    ))
}

impl Packed {
    /// The descriptor at `place` if the driver made it available.
    #[inline(always)]
    fn available(&self, place: Place) -> Option<Descriptor> {
        let offset = usize::from(place.at) * DESC;
        // Acquire pairs with the driver's release store of the flags, the last it writes of a descriptor.
        let word = self.descriptors.load64(offset + 8, Ordering::Acquire);
        let flags = (word >> 48) as u16;
        let want = if place.wrap { AVAIL } else { USED };
        if flags & (AVAIL | USED) != want {
            return None;
        }
        Some(Descriptor::packed(self.descriptors.load64(offset, Ordering::Relaxed), word))
    }

    /// The chain that begins with `first` at the place of `taken`, whole, into `chain`; what returns it.
    #[cold]
    fn walk(
        &self,
        first: Descriptor,
        at: Place,
        translator: &mut Translator,
        chain: &mut Vec<Descriptor>,
    ) -> Result<Token, RingFault> {
        if first.flags & INDIRECT != 0 {
            if !self.layout.indirect {
                return Err(RingFault::IndirectNotNegotiated);
            }
            indirect::walk(first, Joined::InSequence, self.layout.size, translator, chain)?;
            return Ok(Token { id: first.link, slots: 1 });
        }
        let (mut d, mut place, mut slots) = (first, at, 1);
        chain.push(d);
        while d.flags & NEXT != 0 {
            if slots >= self.layout.size {
                return Err(RingFault::ChainTooLong);
            }
            place = place.advance(1, self.layout.size);
            d = self.available(place).ok_or(RingFault::ChainUnfinished)?;
            if d.flags & INDIRECT != 0 {
                return Err(RingFault::IndirectNested);
            }
            chain.push(d);
            slots += 1;
        }
        // The buffer ID is in the last descriptor of the list (section 2.8.6).
        Ok(Token { id: d.link, slots })
    }
}

impl DeviceRing for Packed {
    fn new(layout: &Layout, map: &Arc<Map>) -> Result<Self, RingFault> {
        if layout.size == 0 || layout.size > MAX_SIZE {
            return Err(RingFault::Size(layout.size));
        }
        let (taken, used) = (Place::decode(layout.base as u16), Place::decode((layout.base >> 16) as u16));
        if taken.at >= layout.size || used.at >= layout.size {
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
            unasked: 0,
        };
        ring.disarm();
        Ok(ring)
    }

    fn remap(&mut self, map: &Arc<Map>) -> Result<(), RingFault> {
        (self.descriptors, self.driver, self.device) = areas(&self.layout, map)?;
        Ok(())
    }

    #[inline]
    fn sweep(&mut self, max: usize, sweep: &mut Sweep, translator: &mut Translator) -> Result<(), RingFault> {
        sweep.len = 0;
        sweep.chain.clear();
        let mut place = self.taken;
        while sweep.len < max.min(SWEEP) {
            let k = sweep.len;
            let Some(first) = self.available(place) else { break };
            first.put(&mut sweep.heads[k]);
            let token = if sweep.heads[k].is_plain() {
                Token { id: sweep.heads[k].link, slots: 1 }
            } else {
                self.walk(sweep.heads[k], place, translator, &mut sweep.chain)?
            };
            if token.slots > self.layout.size - self.outstanding {
                return Err(RingFault::Lapped);
            }
            self.outstanding += token.slots;
            sweep.tokens[k] = token;
            place = place.advance(token.slots, self.layout.size);
            sweep.len += 1;
            if sweep.has_chain() {
                break;
            }
        }
        self.taken = place;
        Ok(())
    }

    #[inline]
    fn prefetch(&self) {
        let at = usize::from(self.taken.at) * DESC;
        for line in 0..4 {
            self.descriptors.prefetch_read(at + line * 64);
        }
    }

    #[inline(always)]
    fn push_used(&mut self, token: Token, len: u32) {
        let flags = if self.used.wrap { AVAIL | USED } else { 0 };
        let word = u64::from(len) | u64::from(token.id) << 32 | u64::from(flags) << 48;
        let offset = usize::from(self.used.at) * DESC + 8;
        if self.held.is_none() {
            self.held = Some((offset, word));
        } else {
            self.descriptors.store64(offset, word, Ordering::Relaxed);
        }
        self.used = self.used.advance(token.slots, self.layout.size);
        self.outstanding -= token.slots;
    }

    #[inline]
    fn push_read(&mut self, tokens: &[Token]) {
        let Some(last) = tokens.last() else { return };
        if self.layout.in_order {
            // One descriptor for the batch, with the last buffer's ID, at the batch's first place (section 2.8.11).
            let slots = tokens.iter().map(|t| t.slots).sum();
            self.push_used(Token { id: last.id, slots }, 0);
            return;
        }
        for token in tokens {
            self.push_used(*token, 0);
        }
    }

    #[inline]
    fn publish(&mut self) {
        if let Some((offset, word)) = self.held.take() {
            // Release pairs with the driver's acquire load of these flags: all later entries are visible too.
            self.descriptors.store64(offset, word, Ordering::Release);
            let n = self.published.distance(self.used, self.layout.size);
            self.unasked = self.unasked.saturating_add(n.into());
            self.published = self.used;
        }
    }

    fn should_call(&mut self) -> bool {
        let old = std::mem::replace(&mut self.asked, self.published);
        let unasked = std::mem::take(&mut self.unasked);
        if unasked == 0 {
            return false;
        }
        let word = self.driver.load32(0, Ordering::Relaxed);
        match (word >> 16) as u16 & 3 {
            EVENT_DISABLE => false,
            EVENT_DESC if self.layout.event_idx => {
                let event = Place::decode(word as u16);
                unasked > self.layout.size.into() || self.published.crossed(event, old, self.layout.size)
            }
            _ => true,
        }
    }

    fn arm(&mut self) -> bool {
        if self.layout.event_idx {
            let word = u32::from(self.taken.encode()) | u32::from(EVENT_DESC) << 16;
            self.device.store32(0, word, Ordering::Relaxed);
        } else {
            self.device.store16(EVENT_FLAGS, EVENT_ENABLE, Ordering::Relaxed);
        }
        // Pairs with the driver's fence between its store of the flags and its load of our event suppression.
        fence(Ordering::SeqCst);
        self.available(self.taken).is_some()
    }

    fn disarm(&mut self) {
        self.device.store16(EVENT_FLAGS, EVENT_DISABLE, Ordering::Relaxed);
    }

    fn base(&self) -> u32 {
        u32::from(self.used.encode()) | u32::from(self.used.encode()) << 16
    }

    fn untake(&mut self, tokens: &[Token]) {
        for token in tokens {
            self.taken = self.taken.retreat(token.slots, self.layout.size);
            self.outstanding -= token.slots;
        }
    }
}
