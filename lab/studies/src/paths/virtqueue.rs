//! A virtqueue as far as lines are concerned (VIRTIO 1.2, 2.7 and 2.8): where its parts lie, and what its values mean.
//!
//! Values are only as true as the protocol between the two threads needs: indices and flags tell whose an entry is,
//! and addresses are real. A packed descriptor's flags are a number that grows with each lap (odd: available,
//! even: used), which lies where the two wrap bits lie and changes as often as they do.

use serde::{Deserialize, Serialize};

use sim::memory::{Address, Memory, Width};

/// The two kinds of rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RingKind {
    /// Descriptors, available ring and used ring apart
    Split,
    /// One ring of descriptors
    Packed,
}

impl RingKind {
    /// As results show it.
    pub fn name(self) -> &'static str {
        match self {
            RingKind::Split => "split",
            RingKind::Packed => "packed",
        }
    }
}

/// Where a virtqueue lies: one part behind the other, the device's part on a page of its own, as DPDK's driver lays it out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Virtqueue {
    pub(super) kind: RingKind,
    pub(super) entries: u64,
    descriptors: Address,
    driver: Address,
    device: Address,
}

const PAGE: u64 = 4096;

impl Virtqueue {
    /// Bytes that one takes.
    pub(super) fn bytes(entries: u64) -> u64 {
        (16 * entries + 2 * entries + 6).next_multiple_of(PAGE) + (8 * entries + 6).next_multiple_of(PAGE)
    }

    pub(super) fn new(kind: RingKind, at: Address, entries: u64) -> Virtqueue {
        let driver = at + 16 * entries;
        let driver_bytes = if kind == RingKind::Split { 2 * entries + 6 } else { 4 };
        let device = (driver + driver_bytes).next_multiple_of(PAGE);
        Virtqueue { kind, entries, descriptors: at, driver, device }
    }

    pub(super) fn descriptor(&self, n: u64) -> Address {
        self.descriptors + n % self.entries * 16
    }

    /// The two flags of a packed descriptor.
    pub(super) fn flags(&self, n: u64) -> Address {
        self.descriptor(n) + 14
    }

    pub(super) fn available_index(&self) -> Address {
        self.driver + 2
    }

    pub(super) fn available_entry(&self, n: u64) -> Address {
        self.driver + 4 + n % self.entries * 2
    }

    pub(super) fn used_index(&self) -> Address {
        self.device + 2
    }

    pub(super) fn used_entry(&self, n: u64) -> Address {
        self.device + 4 + n % self.entries * 8
    }

    /// Where the driver says whether it wants to be called: the available ring's flags, or the driver's event field.
    pub(super) fn wants_call(&self) -> Address {
        self.driver
    }

    /// Where the device says whether it wants to be kicked.
    pub(super) fn wants_kick(&self) -> Address {
        self.device
    }

    /// What the flags of the `n`-th entry are once the driver has made it available; one more once it is used.
    pub(super) fn mark(&self, n: u64) -> u64 {
        n / self.entries * 2 + 1
    }

    /// How many entries beyond `n`, at most `most`, the driver has made available.
    pub(super) fn count_available<M: Memory>(&self, memory: &mut M, n: u64, most: u64) -> u64 {
        match self.kind {
            RingKind::Split => index_ahead(memory, self.available_index(), n).min(most),
            RingKind::Packed => self.count_marked(memory, n, most, 0),
        }
    }

    /// How many entries beyond `n`, at most `most`, the device has made used, each with an element or a descriptor of its own.
    pub(super) fn count_used<M: Memory>(&self, memory: &mut M, n: u64, most: u64) -> u64 {
        match self.kind {
            RingKind::Split => index_ahead(memory, self.used_index(), n).min(most),
            RingKind::Packed => self.count_marked(memory, n, most, 1),
        }
    }

    fn count_marked<M: Memory>(&self, memory: &mut M, n: u64, most: u64, used: u64) -> u64 {
        (n..n + most).take_while(|n| self.is_marked(memory, *n, used)).count() as u64
    }

    /// Whether the `n`-th entry is available (0) or used (1).
    pub(super) fn is_marked<M: Memory>(&self, memory: &mut M, n: u64, used: u64) -> bool {
        memory.load(self.flags(n), Width::Two) == (self.mark(n) + used) & 0xffff
    }

    /// What part of the queue an address lies in; nothing outside of it.
    pub(super) fn part(&self, at: Address) -> Option<&'static str> {
        let end = self.device + (8 * self.entries + 6).next_multiple_of(PAGE);
        if !(self.descriptors..end).contains(&at) {
            return None;
        }
        // A line has the name of what changes most often in it.
        Some(match (self.kind, at) {
            (_, at) if at < self.driver => "descriptors",
            (RingKind::Split, at) if at < self.driver + 64 => "available index",
            (RingKind::Split, at) if at < self.device => "available entries",
            (RingKind::Split, at) if at < self.device + 64 => "used index",
            (RingKind::Split, _) => "used elements",
            (RingKind::Packed, at) if at < self.device => "driver's events",
            (RingKind::Packed, _) => "device's events",
        })
    }
}

/// How far the index at `at` is ahead of `n`.
pub(super) fn index_ahead<M: Memory>(memory: &mut M, at: Address, n: u64) -> u64 {
    memory.load(at, Width::Two).wrapping_sub(n) & 0xffff
}
