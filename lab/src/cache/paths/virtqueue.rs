//! A virtqueue as far as lines are concerned (VIRTIO 1.2, 2.7 and 2.8): who loads and stores what, in which order.
//!
//! Values are only as true as the protocol between the two threads needs: indices and flags tell whose an entry is,
//! and addresses are real. A packed descriptor's flags are a number that grows with each lap (odd: available,
//! even: used), which lies where the two wrap bits lie and changes as often as they do.

use serde::Serialize;

use crate::cache::memory::{Address, Memory, Width};

/// The two kinds of rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RingKind {
    /// Descriptors, available ring and used ring apart
    Split,
    /// One ring of descriptors
    Packed,
}

/// Where a virtqueue lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Virtqueue {
    pub(super) kind: RingKind,
    pub(super) entries: u64,
    descriptors: Address,
    available: Address,
    used: Address,
}

impl Virtqueue {
    /// Bytes that one takes, with room so that each part begins on a page, as drivers lay it out.
    pub(super) fn bytes(entries: u64) -> u64 {
        3 * (16 * entries).next_multiple_of(4096)
    }

    pub(super) fn new(kind: RingKind, at: Address, entries: u64) -> Virtqueue {
        let part = (16 * entries).next_multiple_of(4096);
        Virtqueue { kind, entries, descriptors: at, available: at + part, used: at + 2 * part }
    }

    fn descriptor(&self, id: u64) -> Address {
        self.descriptors + id % self.entries * 16
    }

    fn available_entry(&self, n: u64) -> Address {
        self.available + 4 + n % self.entries * 2
    }

    fn used_entry(&self, n: u64) -> Address {
        self.used + 4 + n % self.entries * 8
    }

    fn available_mark(&self, n: u64) -> u64 {
        n / self.entries * 2 + 1
    }

    /// The driver makes an entry available: the `n`-th, with the buffer at `address`.
    pub(super) fn post<M: Memory>(&self, memory: &mut M, n: u64, address: Address) {
        let at = self.descriptor(n);
        memory.store(at, Width::Eight, address);
        memory.store(at + 8, Width::Four, 1);
        match self.kind {
            RingKind::Split => memory.store(self.available_entry(n), Width::Two, n % self.entries),
            RingKind::Packed => {
                memory.store(at + 12, Width::Two, n % self.entries);
                memory.store(at + 14, Width::Two, self.available_mark(n));
            }
        }
        memory.work(8);
    }

    /// The driver publishes what it posted up to `n`.
    pub(super) fn publish<M: Memory>(&self, memory: &mut M, n: u64) {
        if self.kind == RingKind::Split {
            memory.store(self.available + 2, Width::Two, n & 0xffff);
            // Whether the device wants to be told.
            memory.load(self.used, Width::Two);
        }
    }

    /// How many entries beyond `n`, at most `most`, the device has made used.
    pub(super) fn count_used<M: Memory>(&self, memory: &mut M, n: u64, most: u64) -> u64 {
        match self.kind {
            RingKind::Split => (memory.load(self.used + 2, Width::Two).wrapping_sub(n) & 0xffff).min(most),
            RingKind::Packed => {
                let used = |memory: &mut M, n| {
                    memory.load(self.descriptor(n) + 14, Width::Two) == self.available_mark(n) + 1
                };
                (0..most).take_while(|i| used(memory, n + i)).count() as u64
            }
        }
    }

    /// Where to ask again when nothing was used.
    pub(super) fn used_place(&self, n: u64) -> Address {
        if self.kind == RingKind::Split { self.used + 2 } else { self.descriptor(n) + 14 }
    }

    /// The driver takes the `n`-th used entry.
    pub(super) fn take_used<M: Memory>(&self, memory: &mut M, n: u64) {
        let at = if self.kind == RingKind::Split { self.used_entry(n) } else { self.descriptor(n) + 8 };
        memory.load(at, Width::Eight);
        memory.work(6);
    }

    /// How many entries beyond `n`, at most `most`, the driver has made available.
    pub(super) fn count_available<M: Memory>(&self, memory: &mut M, n: u64, most: u64) -> u64 {
        match self.kind {
            RingKind::Split => {
                (memory.load(self.available + 2, Width::Two).wrapping_sub(n) & 0xffff).min(most)
            }
            RingKind::Packed => {
                let mine = |memory: &mut M, n| {
                    memory.load(self.descriptor(n) + 14, Width::Two) == self.available_mark(n)
                };
                (0..most).take_while(|i| mine(memory, n + i)).count() as u64
            }
        }
    }

    /// Where to ask again when nothing was available.
    pub(super) fn available_place(&self, n: u64) -> Address {
        if self.kind == RingKind::Split { self.available + 2 } else { self.descriptor(n) + 14 }
    }

    /// The device takes the `n`-th available entry; the buffer's address.
    pub(super) fn take<M: Memory>(&self, memory: &mut M, n: u64) -> Address {
        if self.kind == RingKind::Split {
            memory.load(self.available_entry(n), Width::Two);
        }
        let address = memory.load(self.descriptor(n), Width::Eight);
        memory.load(self.descriptor(n) + 8, Width::Four);
        memory.work(6);
        address
    }

    /// The device makes the `n`-th entry used.
    pub(super) fn give<M: Memory>(&self, memory: &mut M, n: u64) {
        match self.kind {
            RingKind::Split => memory.store(self.used_entry(n), Width::Eight, n % self.entries),
            RingKind::Packed => {
                memory.store(self.descriptor(n) + 8, Width::Eight, n % self.entries);
                memory.store(self.descriptor(n) + 14, Width::Two, self.available_mark(n) + 1);
            }
        }
        memory.work(4);
    }

    /// The device publishes what it gave up to `n`.
    pub(super) fn publish_used<M: Memory>(&self, memory: &mut M, n: u64) {
        if self.kind == RingKind::Split {
            memory.store(self.used + 2, Width::Two, n & 0xffff);
            // Whether the driver wants to be called.
            memory.load(self.available, Width::Two);
        }
    }
}
