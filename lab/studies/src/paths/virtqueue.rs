//! A virtqueue at cache line granularity (VIRTIO 1.2, 2.7 and 2.8): addresses of its parts, and meaning of its values.
//!
//! Values are as exact as the protocol between the two threads needs: indices and flags determine an entry's owner, and
//! addresses are real. A packed descriptor's flags are a number that grows with each lap (odd: available, even: used),
//! at the position of the two wrap bits and changing as often as they do.

use serde::{Deserialize, Serialize};

use sim::memory::{Address, Memory, Width};

/// Virtqueue format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RingKind {
    /// Separate descriptors, available ring and used ring
    Split,
    /// One ring of descriptors
    Packed,
}

impl RingKind {
    /// Display name.
    pub fn name(self) -> &'static str {
        match self {
            RingKind::Split => "split",
            RingKind::Packed => "packed",
        }
    }
}

/// Addresses of a virtqueue: contiguous parts, the device's part on its own page, as laid out by DPDK's driver.
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
    /// Size of a virtqueue in bytes.
    pub(super) fn bytes(entries: u64) -> u64 {
        (16 * entries + 2 * entries + 6).next_multiple_of(PAGE) + (8 * entries + 6).next_multiple_of(PAGE)
    }

    pub(super) fn new(kind: RingKind, at: Address, entries: u64) -> Virtqueue {
        let driver = at + 16 * entries;
        let driver_bytes = if kind == RingKind::Split { 2 * entries + 6 } else { 4 };
        let device = (driver + driver_bytes).next_multiple_of(PAGE);
        Virtqueue { kind, entries, descriptors: at, driver, device }
    }

    /// Addresses of the descriptor, driver and device areas.
    #[cfg(test)]
    pub(super) fn areas(&self) -> [Address; 3] {
        [self.descriptors, self.driver, self.device]
    }

    pub(super) fn descriptor(&self, n: u64) -> Address {
        self.descriptors + n % self.entries * 16
    }

    /// Address of the flags of a packed descriptor.
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

    /// Address of the driver's notification flag: the available ring's flags, or the driver's event field.
    pub(super) fn wants_call(&self) -> Address {
        self.driver
    }

    /// Address of the device's notification flag.
    pub(super) fn wants_kick(&self) -> Address {
        self.device
    }

    /// Flags value of the `n`-th entry once the driver has made it available; one more once it is used.
    pub(super) fn mark(&self, n: u64) -> u64 {
        n / self.entries * 2 + 1
    }

    /// Number of entries from `n` on, at most `most`, that the driver has made available.
    pub(super) fn count_available<M: Memory>(&self, memory: &mut M, n: u64, most: u64) -> u64 {
        match self.kind {
            RingKind::Split => index_ahead(memory, self.available_index(), n).min(most),
            RingKind::Packed => self.count_marked(memory, n, most, 0),
        }
    }

    /// Number of entries from `n` on, at most `most`, that the device has marked used, each with its own element or
    /// descriptor.
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

    /// Name of the queue's part at an address; `None` outside the queue.
    pub(super) fn part(&self, at: Address) -> Option<&'static str> {
        let end = self.device + (8 * self.entries + 6).next_multiple_of(PAGE);
        if !(self.descriptors..end).contains(&at) {
            return None;
        }
        // A line is named after its most frequently changed content.
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

/// Number of entries by which the index at `at` is ahead of `n`.
pub(super) fn index_ahead<M: Memory>(memory: &mut M, at: Address, n: u64) -> u64 {
    memory.load(at, Width::Two).wrapping_sub(n) & 0xffff
}
