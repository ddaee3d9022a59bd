//! Packed ring driver (VIRTIO 1.2 section 2.8). Descriptors of a long chain are written over several turns; the first
//! descriptor is written last, so that the device sees only complete chains.

use super::replay::{Chains, DESC, Desc, NEXT, RingAreas};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use ring::RingFault;

const AVAIL: u16 = 1 << 7;
const USED: u16 = 1 << 15;
/// Offset of the flags in an event suppression structure, and the flag that disables events.
const EVENT_FLAGS: usize = 2;
const DISABLE: u16 = 1;

/// A ring position and its wrap counter.
#[derive(Clone, Copy)]
struct Place {
    at: u16,
    wrap: bool,
}

pub(super) struct Packed {
    places: RingAreas,
    pub(super) chains: Chains,
    in_order: bool,
    next: Place,
    used: Place,
    room: u16,
    /// Descriptors of the next chain already written, counted from its second one.
    written: u16,
    /// In-order use: the last chain of a batch whose earlier chains are still to be returned.
    batch: Option<u16>,
}

impl Place {
    fn advance(self, by: u16, size: u16) -> Self {
        let at = u32::from(self.at) + u32::from(by);
        let (size, over) = (u32::from(size), at >= u32::from(size));
        Self { at: if over { at - size } else { at } as u16, wrap: self.wrap != over }
    }
}

impl Packed {
    pub(super) fn new(places: RingAreas, chains: Chains, in_order: bool) -> Self {
        places.driver.store16(EVENT_FLAGS, DISABLE, Relaxed);
        let (start, room) = (Place { at: 0, wrap: true }, places.size);
        Self { places, chains, in_order, next: start, used: start, room, written: 0, batch: None }
    }

    #[inline]
    pub(super) fn take(&mut self, most: usize, mut back: impl FnMut(u16)) -> Result<usize, RingFault> {
        let mut n = 0;
        while n < most && self.chains.out() > 0 {
            let Some(chain) = self.one()? else { break };
            let slots = self.chains.chain(chain).len() as u16;
            self.used = self.used.advance(slots, self.places.size);
            self.room += slots;
            back(chain);
            n += 1;
        }
        Ok(n)
    }

    fn one(&mut self) -> Result<Option<u16>, RingFault> {
        let Some(id) = self.batch.or_else(|| self.used_id()) else { return Ok(None) };
        if !self.in_order {
            return self.chains.back(id.into()).map(Some);
        }
        // One used descriptor returns all chains up to its own (section 2.8.9).
        let oldest = self.chains.oldest().ok_or(RingFault::NotOut(id.into()))?;
        self.batch = (oldest != id).then_some(id);
        Ok(Some(oldest))
    }

    fn used_id(&self) -> Option<u16> {
        // Pairs with the device's release store of the flags.
        let word = self.places.descriptors.load64(usize::from(self.used.at) * DESC + 8, Acquire);
        let want = if self.used.wrap { AVAIL | USED } else { 0 };
        ((word >> 48) as u16 & (AVAIL | USED) == want).then_some((word >> 32) as u16)
    }

    #[inline]
    pub(super) fn post(&mut self, most: usize, budget: usize, mut prepare: impl FnMut(u16)) -> usize {
        let (mut sent, mut left) = (0, budget);
        while sent < most && left > 0 {
            let Some(n) = self.chains.next() else { break };
            let len = self.chains.chain(n).len() as u16;
            if len > self.room {
                break;
            }
            left -= self.write_some(n, left);
            if left == 0 || self.written + 1 < len {
                break;
            }
            prepare(n);
            left -= 1;
            self.put(n, 0, Release);
            (self.next, self.written) = (self.next.advance(len, self.places.size), 0);
            self.room -= len;
            self.chains.sent();
            sent += 1;
        }
        sent
    }

    /// Writes descriptors of chain `n` after its first one, at most `budget`. Returns the number written.
    fn write_some(&mut self, n: u16, budget: usize) -> usize {
        let rest = self.chains.chain(n).len() as u16 - 1 - self.written;
        let some = budget.min(usize::from(rest)) as u16;
        for k in self.written + 1..=self.written + some {
            self.put(n, k, Relaxed);
        }
        self.written += some;
        usize::from(some)
    }

    /// Writes descriptor `k` of chain `n`.
    #[inline]
    fn put(&self, n: u16, k: u16, order: core::sync::atomic::Ordering) {
        let (chain, place) = (self.chains.chain(n), self.next.advance(k, self.places.size));
        let Desc { address, len, flags } = chain[usize::from(k)];
        let joined = if usize::from(k) + 1 < chain.len() { NEXT } else { 0 };
        let flags = flags | joined | if place.wrap { AVAIL } else { USED };
        let at = usize::from(place.at) * DESC;
        self.places.descriptors.store64(at, address, Relaxed);
        let word = u64::from(len) | u64::from(n) << 32 | u64::from(flags) << 48;
        // For the first descriptor, pairs with the device's acquire load of the flags.
        self.places.descriptors.store64(at + 8, word, order);
    }

    pub(super) fn wants_kick(&self) -> bool {
        self.places.device.load16(EVENT_FLAGS, Relaxed) & 3 != DISABLE
    }
}
