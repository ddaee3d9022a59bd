//! Split ring driver (VIRTIO 1.2 section 2.7) that writes its descriptors once.

use super::replay::{Chains, DESC, NEXT, RingAreas};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use ring::RingFault;

/// Offsets of the available or used index, behind the flags, and of the ring entries.
const INDEX: usize = 2;
const RING: usize = 4;
const ELEMENT: usize = 8;
const NO_INTERRUPT: u16 = 1;
const NO_NOTIFY: u16 = 1;

pub(super) struct Split {
    places: RingAreas,
    pub(super) chains: Chains,
    in_order: bool,
    /// Chain to head descriptor, and head descriptor to chain.
    heads: Vec<u16>,
    of_head: Vec<Option<u16>>,
    posted: u16,
    taken: u16,
}

impl Split {
    pub(super) fn new(places: RingAreas, chains: Chains, in_order: bool) -> Self {
        let (mut heads, mut of_head) = (Vec::new(), vec![None; places.size.into()]);
        let mut at = 0u16;
        for n in 0..chains.count() {
            heads.push(at);
            of_head[usize::from(at)] = Some(n);
            at += write(&places, at, chains.chain(n));
        }
        places.driver.store16(0, NO_INTERRUPT, Relaxed);
        Self { places, chains, in_order, heads, of_head, posted: 0, taken: 0 }
    }

    #[inline]
    pub(super) fn take(&mut self, most: usize, mut back: impl FnMut(u16)) -> Result<usize, RingFault> {
        // Pairs with the device's release store of the used index.
        let index = self.places.device.load16(INDEX, Acquire);
        let ready = index.wrapping_sub(self.taken);
        if usize::from(ready) > self.chains.out() {
            let out = self.chains.out() as u16;
            return Err(RingFault::UsedJump { index, taken: self.taken, out });
        }
        let n = usize::from(ready).min(most);
        for _ in 0..n {
            let chain = self.one()?;
            self.taken = self.taken.wrapping_add(1);
            back(chain);
        }
        Ok(n)
    }

    fn one(&mut self) -> Result<u16, RingFault> {
        if self.in_order {
            // With in-order use the index counts buffers, which are returned in posting order.
            return self.chains.oldest().ok_or(RingFault::NotOut(u32::MAX));
        }
        let slot = usize::from(self.taken & (self.places.size - 1));
        let head = self.places.device.load32(RING + slot * ELEMENT, Relaxed);
        let chain = self.of_head.get(head as usize).copied().flatten().ok_or(RingFault::NotOut(head))?;
        self.chains.back(chain.into())
    }

    #[inline]
    pub(super) fn post(&mut self, most: usize, mut prepare: impl FnMut(u16)) -> usize {
        let mut sent = 0;
        while sent < most {
            let Some(n) = self.chains.next() else { break };
            prepare(n);
            let slot = usize::from(self.posted & (self.places.size - 1));
            self.places.driver.store16(RING + slot * 2, self.heads[usize::from(n)], Relaxed);
            self.posted = self.posted.wrapping_add(1);
            self.chains.sent();
            sent += 1;
        }
        if sent > 0 {
            // Pairs with the device's acquire load of the available index.
            self.places.driver.store16(INDEX, self.posted, Release);
        }
        sent
    }

    pub(super) fn wants_kick(&self) -> bool {
        self.places.device.load16(0, Relaxed) & NO_NOTIFY == 0
    }
}

/// Writes a chain at descriptor `at` and the following ones. Returns the number of descriptors.
fn write(places: &RingAreas, at: u16, chain: &[super::replay::Desc]) -> u16 {
    for (k, desc) in (0u16..).zip(chain) {
        let place = usize::from(at + k) * DESC;
        let is_last = usize::from(k) + 1 == chain.len();
        let (joined, next) = if is_last { (0, 0) } else { (NEXT, at + k + 1) };
        let flags = desc.flags | joined;
        places.descriptors.store64(place, desc.address, Relaxed);
        let word = u64::from(desc.len) | u64::from(flags) << 32 | u64::from(next) << 48;
        places.descriptors.store64(place + 8, word, Relaxed);
    }
    chain.len() as u16
}
