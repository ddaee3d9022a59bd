//! Driver side of a split virtqueue (VIRTIO 1.2 section 2.7).

use super::{DriverRing, DriverState, Outstanding, Post, Table, Used, is_legal};
use crate::area::Area;
use crate::chain::{DESC, INDIRECT, NEXT};
use crate::offsets::split::{ELEMENT, FLAGS, INDEX, NO_INTERRUPT, NO_NOTIFY, RING};
use crate::{Layout, MAX_SIZE, RingFault};
use core::sync::atomic::{Ordering, fence};
use mem::GuestMemory;
use std::sync::Arc;

/// A split virtqueue, driver side.
#[derive(Debug)]
pub struct Split {
    layout: Layout,
    mask: u16,
    descriptors: Area,
    available: Area,
    used: Area,
    /// Shadow of the descriptor area: address, and the word of length, flags and next.
    shadow: Vec<(u64, u64)>,
    /// Shadow of the available ring; also the posting order, for in-order devices.
    order: Vec<u16>,
    /// Outstanding chains, by head.
    out: Vec<Outstanding>,
    /// Outstanding descriptors beyond one per chain.
    more: u32,
    posted: u16,
    published: u16,
    asked: u16,
    /// Entries published since the last `should_kick`; may exceed the 16-bit index range.
    unchecked: u32,
    taken: u16,
    /// Used index as last read.
    index: u16,
    /// In-order only: last buffer of a batch whose earlier buffers are not yet returned by `take`.
    batch: Option<Used>,
}

impl Split {
    /// Reclaims `to.len()` buffers, which must be used, while each has its own used element. `IN_ORDER`: whether an
    /// element may represent several buffers.
    #[inline(always)]
    fn take_each<const IN_ORDER: bool>(&mut self, to: &mut [Used]) -> Result<usize, RingFault> {
        // Local copies, so that they stay in registers.
        let (mut taken, mut more, mask, used, out, order) =
            (self.taken, self.more, self.mask, self.used.view(), &mut self.out[..], &self.order[..]);
        let mut n = 0;
        for slot in to {
            let place = usize::from(taken & mask);
            let at = RING + place * ELEMENT;
            let (id, len) = (used.load32(at, Ordering::Relaxed), used.load32(at + 4, Ordering::Relaxed));
            if IN_ORDER && u32::from(order[place]) != id {
                break;
            }
            let Some(entry) = out.get_mut(id as usize).filter(|out| !out.is_none()) else {
                return Err(RingFault::NotOut(id));
            };
            more -= std::mem::replace(entry, Outstanding::NONE).descriptors() - 1;
            taken = taken.wrapping_add(1);
            *slot = Used { id: id as u16, len };
            n += 1;
        }
        (self.taken, self.more) = (taken, more);
        Ok(n)
    }

    /// In-order only: the last buffer of the next batch (section 2.7.9).
    fn batch(&self) -> Result<Used, RingFault> {
        let at = RING + usize::from(self.taken & self.mask) * ELEMENT;
        let id = self.used.load32(at, Ordering::Relaxed) as u16;
        if self.out.get(usize::from(id)).is_none_or(|out| out.is_none()) {
            return Err(RingFault::NotOut(id.into()));
        }
        Ok(Used { id, len: self.used.load32(at + 4, Ordering::Relaxed) })
    }

    /// In-order only: reclaims the buffers of one used element, which are all up to `last`. Skipped buffers count as
    /// fully written (note in section 2.7.9).
    fn take_batch(&mut self, to: &mut [Used], last: Used) -> usize {
        let (out, order, mask) = (&mut self.out[..], &self.order[..], self.mask);
        for (n, slot) in to.iter_mut().enumerate() {
            let id = order[usize::from(self.taken & mask)];
            let gone = std::mem::replace(&mut out[usize::from(id)], Outstanding::NONE);
            self.more -= gone.descriptors() - 1;
            self.taken = self.taken.wrapping_add(1);
            if id == last.id {
                *slot = last;
                self.batch = None;
                return n + 1;
            }
            *slot = Used { id, len: gone.writable() };
        }
        to.len()
    }

    /// Writes descriptor `at` if it differs from the shadow.
    #[inline(always)]
    fn describe(&mut self, at: u16, address: u64, word: u64) {
        let at = usize::from(at);
        if self.shadow[at] != (address, word) {
            self.shadow[at] = (address, word);
            self.descriptors.store64(at * DESC, address, Ordering::Relaxed);
            self.descriptors.store64(at * DESC + 8, word, Ordering::Relaxed);
        }
    }

    /// Posts single-descriptor chains. `AGAIN`: their descriptors are already written.
    #[inline(always)]
    fn post_all<const AGAIN: bool>(&mut self, buffers: impl Iterator<Item = Post>) {
        // Local copies, so that they stay in registers.
        let Self { shadow, order, out, descriptors, available, mask, posted, .. } = self;
        let (shadow, order, out, mask) = (&mut shadow[..], &mut order[..], &mut out[..], *mask);
        let mut position = *posted;
        for buffer in buffers {
            let (at, slot) = (usize::from(buffer.id), usize::from(position & mask));
            // Identifiers are below the size, which is the length of all three lists.
            let (Some(order), Some(out)) = (order.get_mut(slot), out.get_mut(at)) else { continue };
            let described = (buffer.address, word(buffer.len, buffer.flag(), 0));
            if AGAIN {
                debug_assert_eq!(shadow[at], described, "the caller posts it as it did before");
            } else if shadow.get(at).is_some_and(|shadow| *shadow != described) {
                shadow[at] = described;
                descriptors.store64(at * DESC, described.0, Ordering::Relaxed);
                descriptors.store64(at * DESC + 8, described.1, Ordering::Relaxed);
            }
            *out = Outstanding::new(1, buffer.writable());
            if *order != buffer.id {
                *order = buffer.id;
                available.store16(RING + slot * 2, buffer.id, Ordering::Relaxed);
            }
            position = position.wrapping_add(1);
        }
        *posted = position;
    }

    /// Writes `head` to the next available entry.
    #[inline(always)]
    fn offer(&mut self, head: u16, out: Outstanding) {
        self.out[usize::from(head)] = out;
        let slot = usize::from(self.posted & self.mask);
        if self.order[slot] != head {
            self.order[slot] = head;
            self.available.store16(RING + slot * 2, head, Ordering::Relaxed);
        }
        self.posted = self.posted.wrapping_add(1);
    }
}

#[inline(always)]
fn word(len: u32, flags: u16, next: u16) -> u64 {
    u64::from(len) | u64::from(flags) << 32 | u64::from(next) << 48
}

impl DriverRing for Split {
    fn new(layout: &Layout, map: &Arc<GuestMemory>) -> Result<Self, RingFault> {
        if !layout.size.is_power_of_two() || layout.size > MAX_SIZE {
            return Err(RingFault::Size(layout.size));
        }
        let n = usize::from(layout.size);
        let available = Area::new(map, "available", layout.driver, RING + n * 2 + 2, 2)?;
        let used = Area::new(map, "used", layout.device, RING + n * ELEMENT + 2, 4)?;
        let start = available.load16(INDEX, Ordering::Relaxed);
        let mut ring = Self {
            layout: *layout,
            mask: layout.size - 1,
            descriptors: Area::new(map, "descriptor", layout.descriptors, n * DESC, 16)?,
            available,
            used,
            shadow: vec![(0, 0); n],
            order: vec![0; n],
            out: vec![Outstanding::NONE; n],
            more: 0,
            posted: start,
            published: start,
            asked: start,
            unchecked: 0,
            taken: start,
            index: start,
            batch: None,
        };
        ring.disable_notification();
        Ok(ring)
    }

    fn freeze(&mut self) -> DriverState {
        self.publish();
        DriverState {
            posted: self.posted,
            taken: self.taken,
            out: self.out.iter().map(|out| out.0).collect(),
            order: std::mem::take(&mut self.order),
            descriptors: std::mem::take(&mut self.shadow),
            batch: self.batch,
        }
    }

    fn thaw(layout: &Layout, map: &Arc<GuestMemory>, state: &DriverState) -> Result<Self, RingFault> {
        let ring = Self::new(layout, map)?;
        let chains = state.posted.wrapping_sub(state.taken);
        let (out, descriptors) = state.validate(layout)?;
        if out != u32::from(chains) || state.descriptors.len() != usize::from(layout.size) {
            return Err(RingFault::State("it is not of a split ring with these positions"));
        }
        if layout.in_order {
            let mask = usize::from(ring.mask);
            state.validate_order(usize::from(state.taken) & mask, |at, _| (at + 1) & mask)?;
        }
        Ok(Self {
            shadow: state.descriptors.clone(),
            order: state.order.clone(),
            out: state.out(),
            more: descriptors - u32::from(chains),
            posted: state.posted,
            published: state.posted,
            asked: state.posted,
            unchecked: u32::from(u16::MAX) + 1,
            taken: state.taken,
            index: state.taken,
            batch: state.batch,
            ..ring
        })
    }

    #[inline(always)]
    fn free(&self) -> usize {
        usize::from(self.layout.size - self.posted.wrapping_sub(self.taken)) - self.more as usize
    }

    #[inline(always)]
    fn post(&mut self, buffer: Post) {
        self.describe(buffer.id, buffer.address, word(buffer.len, buffer.flag(), 0));
        self.offer(buffer.id, Outstanding::new(1, buffer.writable()));
    }

    #[inline(always)]
    fn post_each(&mut self, buffers: impl Iterator<Item = Post>) {
        self.post_all::<false>(buffers);
    }

    #[inline(always)]
    fn post_again(&mut self, buffers: impl Iterator<Item = Post>) {
        self.post_all::<true>(buffers);
    }

    #[inline]
    fn post_chain(&mut self, chain: &[Post]) {
        debug_assert!(is_legal(chain, self.free()), "the caller looks at the free descriptors");
        let Some(head) = chain.first() else { return };
        for (k, post) in chain.iter().enumerate() {
            let (joined, next) = chain.get(k + 1).map_or((0, 0), |next| (NEXT, next.id));
            self.describe(post.id, post.address, word(post.len, post.flag() | joined, next));
        }
        let n = chain.len() as u16;
        self.more += u32::from(n - 1);
        self.offer(head.id, Outstanding::of(chain, n));
    }

    #[inline]
    fn post_indirect(&mut self, id: u16, table: &mut Table, chain: &[Post]) {
        debug_assert!(is_legal(chain, table.entries().min(self.layout.size.into())) && self.layout.indirect);
        let bytes = table.write_split(chain);
        self.describe(id, table.address(), word(bytes, INDIRECT, 0));
        self.offer(id, Outstanding::of(chain, 1));
    }

    #[inline]
    fn publish(&mut self) {
        if self.published != self.posted {
            let n = u32::from(self.posted.wrapping_sub(self.published));
            self.unchecked = self.unchecked.saturating_add(n);
            self.published = self.posted;
            // Release pairs with the device's acquire load of the available index.
            self.available.store16(INDEX, self.posted, Ordering::Release);
        }
    }

    fn should_kick(&mut self) -> bool {
        let old = std::mem::replace(&mut self.asked, self.published);
        let unchecked = std::mem::take(&mut self.unchecked);
        if unchecked == 0 {
            return false;
        }
        if !self.layout.event_idx {
            return self.used.load16(FLAGS, Ordering::Relaxed) & NO_NOTIFY == 0;
        }
        let event = self.used.load16(RING + usize::from(self.layout.size) * ELEMENT, Ordering::Relaxed);
        let passed = self.published.wrapping_sub(event).wrapping_sub(1) < self.published.wrapping_sub(old);
        passed || unchecked > u32::from(u16::MAX)
    }

    #[inline]
    fn take(&mut self, out: &mut [Used]) -> Result<usize, RingFault> {
        let known = usize::from(self.index.wrapping_sub(self.taken));
        if known < out.len() {
            // Acquire pairs with the device's release store of the used index.
            self.index = self.used.load16(INDEX, Ordering::Acquire);
        }
        let (ready, out_there) =
            (self.index.wrapping_sub(self.taken), self.published.wrapping_sub(self.taken));
        if ready > out_there {
            return Err(RingFault::UsedJump { index: self.index, taken: self.taken, out: out_there });
        }
        let n = usize::from(ready).min(out.len());
        if !self.layout.in_order {
            return self.take_each::<false>(&mut out[..n]);
        }
        let mut taken = 0;
        while taken < n {
            let rest = &mut out[taken..n];
            taken += match self.batch {
                Some(last) => self.take_batch(rest, last),
                None => self.take_each::<true>(rest)?,
            };
            if taken < n && self.batch.is_none() {
                self.batch = Some(self.batch()?);
            }
        }
        Ok(n)
    }

    fn enable_notification(&mut self) -> bool {
        if self.layout.event_idx {
            let offset = RING + usize::from(self.layout.size) * 2;
            self.available.store16(offset, self.taken, Ordering::Relaxed);
        } else {
            self.available.store16(FLAGS, 0, Ordering::Relaxed);
        }
        // Pairs with the device's fence between its store of the used index and its load of `used_event`.
        fence(Ordering::SeqCst);
        self.used.load16(INDEX, Ordering::Acquire) != self.taken
    }

    fn disable_notification(&mut self) {
        if !self.layout.event_idx {
            self.available.store16(FLAGS, NO_INTERRUPT, Ordering::Relaxed);
        }
    }

    #[inline]
    fn prefetch(&self) {
        self.used.prefetch_read(INDEX);
        self.used.prefetch_read(RING + usize::from(self.taken & self.mask) * ELEMENT);
    }
}
