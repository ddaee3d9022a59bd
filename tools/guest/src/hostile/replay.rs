//! Rings that send the same chains repeatedly.
//!
//! Chains are prepared before the first one is sent, so that an attacker's turn costs as little as a greedy sender's
//! and an attack costs time of the switch, not of the CPU that attacker and measurement share. On a split ring,
//! resending a chain is one store. On a packed ring its descriptors are rewritten, at most a budget of them per turn.

use super::super::GuestError;
use super::arena::{Area, Arena};
use super::packed::Packed;
use super::split::Split;
use ring::{Layout, RingFault};
use std::collections::VecDeque;

/// Descriptor flag: the buffer continues in the next descriptor.
pub(super) const NEXT: u16 = 1;
/// Descriptor flag: the device writes the buffer.
pub(super) const WRITE: u16 = 2;
/// Descriptor flag: the buffer is an indirect table.
pub(super) const INDIRECT: u16 = 4;
/// Bytes of a descriptor.
pub(super) const DESC: usize = 16;

/// A descriptor without its chaining information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Desc {
    pub(super) address: u64,
    pub(super) len: u32,
    /// [`WRITE`] or [`INDIRECT`].
    pub(super) flags: u16,
}

/// The chains of a ring. Chain `n` is variant `n` modulo their number; there are as many as fit into the ring.
pub(super) struct Chains {
    variants: Vec<Vec<Desc>>,
    count: u16,
    /// Chains that the device does not own.
    free: VecDeque<u16>,
    /// Chains that the device owns, in posting order.
    out: VecDeque<u16>,
    is_out: Vec<bool>,
}

/// The areas of a ring.
pub(super) struct RingAreas {
    pub(super) size: u16,
    pub(super) descriptors: Area,
    pub(super) driver: Area,
    pub(super) device: Area,
}

/// A ring of either kind.
pub(super) enum Replay {
    Split(Split),
    Packed(Packed),
}

impl Chains {
    fn new(variants: Vec<Vec<Desc>>, size: u16) -> Self {
        let (mut count, mut room) = (0u16, usize::from(size));
        while let Some(chain) = variants.get(usize::from(count) % variants.len().max(1)) {
            if chain.is_empty() || chain.len() > room {
                break;
            }
            room -= chain.len();
            count += 1;
        }
        let free = (0..count).collect();
        Self { variants, count, free, out: VecDeque::new(), is_out: vec![false; count.into()] }
    }

    pub(super) fn count(&self) -> u16 {
        self.count
    }

    pub(super) fn chain(&self, n: u16) -> &[Desc] {
        &self.variants[usize::from(n) % self.variants.len()]
    }

    /// The next chain to send.
    pub(super) fn next(&self) -> Option<u16> {
        self.free.front().copied()
    }

    /// Marks the next chain as sent.
    pub(super) fn sent(&mut self) {
        if let Some(n) = self.free.pop_front() {
            self.out.push_back(n);
            self.is_out[usize::from(n)] = true;
        }
    }

    /// Takes back the oldest chain that the device owns.
    pub(super) fn oldest(&mut self) -> Option<u16> {
        let oldest = self.out.front().copied()?;
        self.back(oldest.into()).ok()
    }

    pub(super) fn out(&self) -> usize {
        self.out.len()
    }

    /// Takes back chain `n`. Returns an error if the device does not own it.
    pub(super) fn back(&mut self, n: u32) -> Result<u16, RingFault> {
        let fault = RingFault::NotOut(n);
        let n = u16::try_from(n).map_err(|_| fault)?;
        if !self.is_out.get(usize::from(n)).is_some_and(|out| *out) {
            return Err(fault);
        }
        self.is_out[usize::from(n)] = false;
        // Devices usually return chains in order, so the search ends at the first entry.
        if let Some(at) = self.out.iter().position(|other| *other == n) {
            self.out.remove(at);
        }
        Ok(n)
    }

    /// Makes chain `n` available for sending.
    pub(super) fn release(&mut self, n: u16) {
        self.free.push_back(n);
    }
}

impl Replay {
    /// A ring at `layout`, whose first byte is byte `at` of the arena.
    pub(super) fn new(
        arena: &Arena,
        at: u64,
        layout: &Layout,
        packed: bool,
        variants: Vec<Vec<Desc>>,
    ) -> Result<Self, GuestError> {
        let start = layout.descriptors;
        let (size, n) = (layout.size, u64::from(layout.size));
        let area = |place: u64, len: u64| arena.area(at + place - start, len);
        let places = RingAreas {
            size,
            descriptors: area(layout.descriptors, n * DESC as u64)?,
            driver: area(layout.driver, if packed { 4 } else { n * 2 + 6 })?,
            device: area(layout.device, if packed { 4 } else { n * 8 + 6 })?,
        };
        let chains = Chains::new(variants, size);
        if packed {
            return Ok(Self::Packed(Packed::new(places, chains, layout.in_order)));
        }
        if !size.is_power_of_two() {
            return Err(RingFault::Size(size).into());
        }
        Ok(Self::Split(Split::new(places, chains, layout.in_order)))
    }

    /// Takes back at most `most` chains. Returns their number.
    #[inline]
    pub(super) fn take(&mut self, most: usize, back: impl FnMut(u16)) -> Result<usize, RingFault> {
        match self {
            Self::Split(ring) => ring.take(most, back),
            Self::Packed(ring) => ring.take(most, back),
        }
    }

    /// Makes a returned chain available for sending.
    #[inline]
    pub(super) fn release(&mut self, n: u16) {
        match self {
            Self::Split(ring) => ring.chains.release(n),
            Self::Packed(ring) => ring.chains.release(n),
        }
    }

    /// Sends at most `most` chains and writes at most `budget` descriptors. Returns the number of chains sent.
    #[inline]
    pub(super) fn post(&mut self, most: usize, budget: usize, prepare: impl FnMut(u16)) -> usize {
        match self {
            Self::Split(ring) => ring.post(most, prepare),
            Self::Packed(ring) => ring.post(most, budget, prepare),
        }
    }

    /// Whether the device requests kicks. The caller must have executed a sequentially consistent fence since the last
    /// post.
    #[inline]
    pub(super) fn wants_kick(&self) -> bool {
        match self {
            Self::Split(ring) => ring.wants_kick(),
            Self::Packed(ring) => ring.wants_kick(),
        }
    }
}
