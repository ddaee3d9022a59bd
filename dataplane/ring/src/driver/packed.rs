//! Driver side of a packed virtqueue (VIRTIO 1.2 section 2.8).
//!
//! Descriptors of one publish become visible together: the first one's flags are held back and stored last. Later
//! descriptors of a chain are stored tail first, for a device that reads ahead of the first (section 2.8.13).

use super::{DriverRing, DriverState, Outstanding, Post, Table, Used, is_legal};
use crate::area::Area;
use crate::chain::{AVAIL, DESC, INDIRECT, NEXT, USED};
use crate::device::Place;
use crate::offsets::packed::{EVENT_DESC, EVENT_DISABLE, EVENT_ENABLE, event};
use crate::{Layout, MAX_SIZE, RingFault};
use core::sync::atomic::{Ordering, fence};
use mem::GuestMemory;
use std::sync::Arc;

/// A packed virtqueue, driver side.
#[derive(Debug)]
pub struct Packed {
    layout: Layout,
    descriptors: Area,
    driver: Area,
    device: Area,
    /// Posted identifiers by the ring index of their first descriptor, for in-order devices.
    order: Vec<u16>,
    /// Outstanding chains, by identifier.
    out: Vec<Outstanding>,
    next: Place,
    /// End of the entries visible to the device.
    published: Place,
    taken: Place,
    /// 32 bits for the reason given at [`Place`].
    free: u32,
    held: Option<(usize, u64)>,
    asked: Place,
    /// Entries published since the last `should_kick`; may exceed the range of positions.
    unchecked: u32,
    /// In-order only: last buffer of a batch whose earlier buffers are not yet returned by `take`.
    batch: Option<Used>,
}

impl Packed {
    #[inline(always)]
    fn size(&self) -> u32 {
        self.layout.size.into()
    }

    #[inline(always)]
    fn used_at(&self, place: Place) -> Option<Used> {
        // Acquire pairs with the device's release store of the flags.
        let word = self.descriptors.load64(place.at() * DESC + 8, Ordering::Acquire);
        let flags = (word >> 48) as u16 & (AVAIL | USED);
        let want = if place.wrap() { AVAIL | USED } else { 0 };
        (flags == want).then_some(Used { id: (word >> 32) as u16, len: word as u32 })
    }

    /// In-order only: the last buffer of the next batch (section 2.7.9 and its note, which apply to packed rings by
    /// 2.8.9).
    fn batch(&self) -> Result<Option<Used>, RingFault> {
        let last = self.used_at(self.taken);
        if last.is_some_and(|last| self.out.get(usize::from(last.id)).is_none_or(|out| out.is_none())) {
            return Err(RingFault::NotOut(last.map_or(0, |last| last.id.into())));
        }
        Ok(last)
    }

    /// In-order only: reclaims the buffers of one used entry, which are all up to `last`. Skipped buffers count as
    /// fully written.
    fn take_batch(&mut self, to: &mut [Used], last: Used) -> usize {
        let (out, order, size) = (&mut self.out[..], &self.order[..], u32::from(self.layout.size));
        // Local copies, so that they stay in registers.
        let (mut taken, mut freed, published, mut n) = (self.taken, 0, self.published, 0);
        for slot in to {
            if taken == published {
                // Posted but not yet published.
                break;
            }
            let id = order[taken.at()];
            let gone = std::mem::replace(&mut out[usize::from(id)], Outstanding::NONE);
            let passed = gone.passed();
            freed += passed;
            taken = taken.advance(passed, size);
            n += 1;
            if id == last.id {
                *slot = last;
                self.batch = None;
                break;
            }
            *slot = Used { id, len: gone.writable() };
        }
        (self.taken, self.free) = (taken, self.free + freed);
        n
    }

    /// Reclaims buffers that have their own used entry, lap by lap. `IN_ORDER`: whether an entry may represent several
    /// buffers.
    #[inline(always)]
    fn take_each<const IN_ORDER: bool>(&mut self, to: &mut [Used]) -> Result<usize, RingFault> {
        let mut n = 0;
        loop {
            let there = self.taken.distance(self.published, self.size());
            let lap = there.min(self.size() - self.taken.at() as u32);
            let (more, passed) = self.take_lap::<IN_ORDER>(&mut to[n..], lap)?;
            if passed > there {
                // The last one was posted but not yet published.
                return Err(RingFault::NotOut(to[n + more - 1].id.into()));
            }
            self.taken = self.taken.advance(passed, self.size());
            self.free += passed;
            n += more;
            if passed < lap || passed == 0 {
                return Ok(n);
            }
        }
    }

    /// [`Self::take_each`] within one lap of `lap` descriptors. Returns the number of buffers and of descriptors.
    #[inline(always)]
    fn take_lap<const IN_ORDER: bool>(
        &mut self,
        to: &mut [Used],
        lap: u32,
    ) -> Result<(usize, u32), RingFault> {
        // Local copies, so that they stay in registers.
        let (descriptors, order, out) = (self.descriptors.view(), &self.order[..], &mut self.out[..]);
        let (start, want) = (self.taken.at(), if self.taken.wrap() { AVAIL | USED } else { 0 });
        let (mut n, mut passed) = (0, 0);
        for slot in to {
            if passed >= lap {
                break;
            }
            let at = start + passed as usize;
            // Acquire pairs with the device's release store of the flags.
            let word = descriptors.load64(at * DESC + 8, Ordering::Acquire);
            let id = (word >> 32) as u16;
            if (word >> 48) as u16 & (AVAIL | USED) != want || IN_ORDER && order[at] != id {
                break;
            }
            let Some(place) = out.get_mut(usize::from(id)) else {
                return Err(RingFault::NotOut(id.into()));
            };
            match std::mem::replace(place, Outstanding::NONE).passed() {
                0 => return Err(RingFault::NotOut(id.into())),
                n => passed += n,
            }
            *slot = Used { id, len: word as u32 };
            n += 1;
        }
        Ok((n, passed))
    }

    /// Writes the first word of the descriptor at `place`; returns offset and value of its second word.
    #[inline(always)]
    fn describe(&self, place: Place, address: u64, len: u32, id: u16, flags: u16) -> (usize, u64) {
        let offset = place.at() * DESC;
        let flags = flags | if place.wrap() { AVAIL } else { USED };
        self.descriptors.store64(offset, address, Ordering::Relaxed);
        (offset + 8, u64::from(len) | u64::from(id) << 32 | u64::from(flags) << 48)
    }

    /// Stores the word that makes a descriptor available, or holds it back if it is the first of a publish.
    #[inline(always)]
    fn store_or_hold(&mut self, (offset, word): (usize, u64)) {
        if self.held.is_none() {
            self.held = Some((offset, word));
        } else {
            self.store(offset, word);
        }
    }

    #[inline(always)]
    fn store(&self, offset: usize, word: u64) {
        // Release orders the address before the flags, for a device that reads ahead of the first descriptor. It pairs
        // with the device's acquire load of the flags.
        self.descriptors.store64(offset, word, Ordering::Release);
    }

    /// Posts buffers up to the end of the ring. The iterator must not yield more. Returns their number.
    #[inline(always)]
    fn post_lap(&mut self, buffers: &mut impl Iterator<Item = Post>) -> u32 {
        // Local copies, so that they stay in registers.
        let Self { descriptors, order, out, next, layout, .. } = self;
        let (order, out, start, is_in_order) = (&mut order[..], &mut out[..], next.at(), layout.in_order);
        let descriptors = descriptors.view();
        let flags = u64::from(if next.wrap() { AVAIL } else { USED }) << 48;
        let mut n = 0;
        for buffer in buffers {
            let (at, id) = (start + n, usize::from(buffer.id));
            let word = u64::from(buffer.len) | u64::from(buffer.id) << 32 | u64::from(buffer.flag()) << 48;
            descriptors.store64(at * DESC, buffer.address, Ordering::Relaxed);
            // Release as in `store`.
            descriptors.store64(at * DESC + 8, word | flags, Ordering::Release);
            out[id] = Outstanding::new(1, buffer.writable());
            if is_in_order {
                order[at] = buffer.id;
            }
            n += 1;
        }
        n as u32
    }

    /// Whether published buffers are outstanding.
    #[inline(always)]
    fn is_out(&self) -> bool {
        self.taken != self.published
    }

    /// Records that the chain under `id` was written from `next` on.
    #[inline(always)]
    fn posted(&mut self, id: u16, out: Outstanding) {
        if self.layout.in_order {
            self.order[self.next.at()] = id;
        }
        self.out[usize::from(id)] = out;
        self.free -= out.descriptors();
        self.next = self.next.advance(out.descriptors(), self.size());
    }
}

impl DriverRing for Packed {
    fn new(layout: &Layout, map: &Arc<GuestMemory>) -> Result<Self, RingFault> {
        if layout.size == 0 || layout.size > MAX_SIZE {
            return Err(RingFault::Size(layout.size));
        }
        let n = usize::from(layout.size);
        let start = Place::START;
        let mut ring = Self {
            layout: *layout,
            descriptors: Area::new(map, "descriptor", layout.descriptors, n * DESC, 16)?,
            driver: Area::new(map, "driver", layout.driver, 4, 4)?,
            device: Area::new(map, "device", layout.device, 4, 4)?,
            order: vec![0; n],
            out: vec![Outstanding::NONE; n],
            next: start,
            published: start,
            taken: start,
            free: layout.size.into(),
            held: None,
            asked: start,
            unchecked: 0,
            batch: None,
        };
        ring.disable_notification();
        Ok(ring)
    }

    fn freeze(&mut self) -> DriverState {
        self.publish();
        DriverState {
            posted: self.next.encode(),
            taken: self.taken.encode(),
            out: self.out.iter().map(|out| out.0).collect(),
            order: std::mem::take(&mut self.order),
            descriptors: Vec::new(),
            batch: self.batch,
        }
    }

    fn thaw(layout: &Layout, map: &Arc<GuestMemory>, state: &DriverState) -> Result<Self, RingFault> {
        let (ring, size) = (Self::new(layout, map)?, u32::from(layout.size));
        let [posted, taken] = [state.posted, state.taken].map(Place::decode);
        let is_behind =
            if posted.wrap() == taken.wrap() { posted.at() >= taken.at() } else { posted.at() <= taken.at() };
        if posted.at().max(taken.at()) as u32 >= size || !is_behind || !state.descriptors.is_empty() {
            return Err(RingFault::State("it is not of a packed ring of this size"));
        }
        let there = taken.distance(posted, size);
        if state.validate(layout)?.1 != there {
            return Err(RingFault::State("positions and outstanding buffers do not agree"));
        }
        if layout.in_order {
            state.validate_order(taken.at(), |at, n| (at + n as usize) % usize::from(layout.size))?;
        }
        Ok(Self {
            order: state.order.clone(),
            out: state.out(),
            next: posted,
            published: posted,
            asked: posted,
            unchecked: size + 1,
            taken,
            free: size - there,
            batch: state.batch,
            ..ring
        })
    }

    #[inline(always)]
    fn free(&self) -> usize {
        self.free as usize
    }

    #[inline(always)]
    fn post(&mut self, buffer: Post) {
        let word = self.describe(self.next, buffer.address, buffer.len, buffer.id, buffer.flag());
        self.store_or_hold(word);
        self.posted(buffer.id, Outstanding::new(1, buffer.writable()));
    }

    #[inline(always)]
    fn post_each(&mut self, mut buffers: impl Iterator<Item = Post>) {
        if self.held.is_none() {
            let Some(first) = buffers.next() else { return };
            self.post(first);
        }
        let size = self.size();
        loop {
            let lap = size - self.next.at() as u32;
            let n = self.post_lap(&mut buffers.by_ref().take(lap as usize));
            self.next = self.next.advance(n, size);
            self.free -= n;
            if n < lap {
                break;
            }
        }
    }

    #[inline]
    fn post_chain(&mut self, chain: &[Post]) {
        debug_assert!(is_legal(chain, self.free()), "the caller looks at the free descriptors");
        let Some(head) = chain.first() else { return };
        let n = chain.len();
        // The last descriptor carries the buffer ID (section 2.8.6); in the others it is ignored.
        for k in (1..n).rev() {
            let (post, place) = (chain[k], self.next.advance(k as u32, self.size()));
            let joined = if k + 1 < n { NEXT } else { 0 };
            let (offset, word) = self.describe(place, post.address, post.len, head.id, post.flag() | joined);
            self.store(offset, word);
        }
        let joined = if n > 1 { NEXT } else { 0 };
        let word = self.describe(self.next, head.address, head.len, head.id, head.flag() | joined);
        self.store_or_hold(word);
        self.posted(head.id, Outstanding::of(chain, n as u16));
    }

    #[inline]
    fn post_indirect(&mut self, id: u16, table: &mut Table, chain: &[Post]) {
        debug_assert!(is_legal(chain, table.entries().min(self.layout.size.into())) && self.layout.indirect);
        let bytes = table.write_packed(chain);
        let word = self.describe(self.next, table.address(), bytes, id, INDIRECT);
        self.store_or_hold(word);
        self.posted(id, Outstanding::of(chain, 1));
    }

    #[inline]
    fn publish(&mut self) {
        if let Some((offset, word)) = self.held.take() {
            // Release pairs with the device's acquire load of these flags.
            self.descriptors.store64(offset, word, Ordering::Release);
            let n = self.published.distance(self.next, self.size());
            self.unchecked = self.unchecked.saturating_add(n);
            self.published = self.next;
        }
    }

    fn should_kick(&mut self) -> bool {
        let old = std::mem::replace(&mut self.asked, self.published);
        let unchecked = std::mem::take(&mut self.unchecked);
        if unchecked == 0 {
            return false;
        }
        let word = self.device.load32(0, Ordering::Relaxed);
        match (word >> 16) as u16 & 3 {
            EVENT_DISABLE => false,
            EVENT_DESC if self.layout.event_idx => {
                let event = Place::decode(word as u16);
                unchecked > self.size() || self.published.crossed(event, old, self.size())
            }
            _ => true,
        }
    }

    #[inline]
    fn take(&mut self, out: &mut [Used]) -> Result<usize, RingFault> {
        if !self.layout.in_order {
            return self.take_each::<false>(out);
        }
        let mut n = 0;
        while n < out.len() && self.is_out() {
            n += match self.batch {
                Some(last) => self.take_batch(&mut out[n..], last),
                None => self.take_each::<true>(&mut out[n..])?,
            };
            if n < out.len() && self.is_out() && self.batch.is_none() {
                self.batch = self.batch()?;
                if self.batch.is_none() {
                    break;
                }
            }
        }
        Ok(n)
    }

    fn enable_notification(&mut self) -> bool {
        let by_place = event(self.taken.encode(), EVENT_DESC);
        let word = if self.layout.event_idx { by_place } else { event(0, EVENT_ENABLE) };
        self.driver.store32(0, word, Ordering::Relaxed);
        // Pairs with the device's fence between its store of the flags and its load of the driver event suppression.
        fence(Ordering::SeqCst);
        self.is_out() && (self.batch.is_some() || self.used_at(self.taken).is_some())
    }

    fn disable_notification(&mut self) {
        self.driver.store32(0, event(0, EVENT_DISABLE), Ordering::Relaxed);
    }

    #[inline]
    fn prefetch(&self) {
        let at = self.taken.at() * DESC;
        self.descriptors.prefetch_read(at);
        self.descriptors.prefetch_read(at + 64);
    }
}
