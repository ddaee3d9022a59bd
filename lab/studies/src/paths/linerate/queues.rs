//! Queues of the model: taking and returning a guest's frames, and writing frames into the other guest's buffers.

use super::super::Change;
use super::super::pace::Paced;
use super::super::places::NET_HEADER;
use super::super::virtqueue::{RingKind, Virtqueue, index_ahead};
use sim::memory::{Address, Copying, Intent, LINE, Memory, Width};
use std::ops::Range;

/// Bytes of a packet's head in a burst.
pub(super) const HEAD: u64 = port::HEAD as u64;
/// Size of a head slot, including headroom.
pub(super) const SLOT: u64 = port::HEAD_SLOT as u64;
pub(super) const HEADROOM: u64 = port::HEAD_HEADROOM as u64;
/// Packets per burst.
pub(super) const BURST: u64 = port::BURST as u64;
/// Buffers cached ahead of need, and minimum number taken at a time.
pub(super) const AHEAD: u64 = port::vhost_user::PREFETCH as u64;
pub(super) const PART: u64 = port::vhost_user::PART as u64;
/// Other bytes per packet in a burst, and per buffer in the cache: an estimate.
pub(super) const RECORD: u64 = 40;
/// Bytes of an available entry.
pub(super) const ENTRY: u64 = 2;
/// Descriptors per line.
pub(super) const PER_LINE: u64 = LINE / ring::DESC as u64;

/// A guest's transmit ring, which the worker receives from.
#[derive(Clone, Debug)]
pub(super) struct Rx {
    pub(super) queue: Virtqueue,
    /// Entries taken, marked used, and (split) known to be available
    pub(super) taken: u64,
    pub(super) used: u64,
    pub(super) known: u64,
    pub(super) dirty: bool,
    /// Whether the last poll found something
    pub(super) found: bool,
    /// Buffers done but not yet given back, and empty polls since then
    pub(super) gathered: u64,
    pub(super) idle: u64,
}

/// The other guest's receive ring, with its cache of available buffers.
#[derive(Clone, Debug)]
pub(super) struct Tx {
    pub(super) queue: Virtqueue,
    pub(super) taken: u64,
    pub(super) used: u64,
    pub(super) known: u64,
    pub(super) dirty: bool,
    pub(super) cache_at: Address,
    pub(super) cache: std::collections::VecDeque<Address>,
}

/// Packets in transit, by address.
#[derive(Clone, Debug, Default)]
pub(super) struct Burst {
    pub(super) at: Address,
    pub(super) sources: Vec<Address>,
}

impl Rx {
    pub(super) fn next_available(&self) -> Address {
        match self.queue.kind {
            RingKind::Split => self.queue.available_index(),
            RingKind::Packed => self.queue.flags(self.taken),
        }
    }

    /// `Rx::take`: pops descriptors and prefetches the frames' first lines.
    pub(super) fn take<M: Memory>(
        &mut self,
        memory: &mut Paced<'_, M>,
        burst: &mut Burst,
        frame: u64,
        share: f64,
    ) -> u64 {
        burst.sources.clear();
        pop_plain(memory, &self.queue, (&mut self.taken, &mut self.known), BURST, |memory, n, address| {
            memory.prefetch(address + NET_HEADER, Intent::Read);
            if frame > LINE {
                memory.prefetch(address + NET_HEADER + LINE, Intent::Read);
            }
            memory.write(burst.at + BURST * SLOT + n * RECORD, RECORD);
            burst.sources.push(address + NET_HEADER);
            memory.owe(share);
        });
        burst.sources.len() as u64
    }

    /// `DeviceRing::prefetch`: prefetches the first reads of the next `pop_avail`.
    pub(super) fn prefetch<M: Memory>(&self, memory: &mut M, change: Option<Change>) {
        let queue = &self.queue;
        match queue.kind {
            RingKind::Split => {
                memory.prefetch(queue.available_index(), Intent::Read);
                memory.prefetch(queue.available_entry(self.taken), Intent::Read);
                memory.prefetch(queue.available_entry(self.taken) + LINE, Intent::Read);
            }
            RingKind::Packed => {
                let lines = if change == Some(Change::DescriptorsAhead) { 1 } else { 4 };
                for line in 0..lines {
                    memory.prefetch(queue.descriptor(self.taken + line * PER_LINE), Intent::Read);
                }
            }
        }
    }

    /// `Rx::complete`: in order, so one used entry covers the burst.
    pub(super) fn complete<M: Memory>(&mut self, memory: &mut Paced<'_, M>) {
        let (queue, count) = (&self.queue, std::mem::take(&mut self.gathered));
        match queue.kind {
            RingKind::Split => {
                element(memory, queue, self.used, (self.used + count - 1) % queue.entries);
                memory.store(queue.used_index(), Width::Two, (self.used + count) & 0xffff);
            }
            RingKind::Packed => used(memory, queue, self.used, count),
        }
        self.used += count;
        self.dirty = true;
    }
}

impl Tx {
    /// `send_plain`: writes each frame into the first cached buffer, publishes, and refills the cache.
    pub(super) fn send<M: Memory>(
        &mut self,
        memory: &mut Paced<'_, M>,
        burst: &Burst,
        frame: u64,
        share: f64,
        change: Option<Change>,
    ) -> u64 {
        if self.cache.is_empty() {
            self.fill_cache(memory);
        }
        let first = self.used;
        for (n, source) in (0..).zip(&burst.sources) {
            let Some(target) = self.cache.pop_front() else { break };
            memory.read(self.cache_at + self.used % (2 * AHEAD) * RECORD, RECORD);
            if change != Some(Change::Header) {
                memory.read(target, NET_HEADER);
            }
            let head = frame.min(HEAD);
            memory.copy(burst.at + n * SLOT + HEADROOM, target + NET_HEADER, head, Copying::Libc);
            memory.copy(source + head, target + NET_HEADER + head, frame - head, Copying::Libc);
            match self.queue.kind {
                RingKind::Split => element(memory, &self.queue, self.used, self.used % self.queue.entries),
                // The first entry is held back until the others are written.
                RingKind::Packed if n > 0 => used(memory, &self.queue, self.used, 1),
                RingKind::Packed => {}
            }
            self.used += 1;
            memory.owe(share);
        }
        match self.queue.kind {
            RingKind::Split => memory.store(self.queue.used_index(), Width::Two, self.used & 0xffff),
            RingKind::Packed if self.used > first => used(memory, &self.queue, first, 1),
            RingKind::Packed => {}
        }
        self.dirty = true;
        if change == Some(Change::RefillEachBurst) || self.cache.len() as u64 <= AHEAD - PART {
            self.fill_cache(memory);
            if self.queue.kind == RingKind::Packed && change == Some(Change::OwnPlaces) {
                self.own_ahead(memory);
            }
        }
        self.used - first
    }

    /// Prefetches the descriptor lines of the next cache fill for writing.
    fn own_ahead<M: Memory>(&self, memory: &mut M) {
        if (self.cache.len() as u64) < AHEAD {
            return;
        }
        for line in 0..AHEAD / 2 / PER_LINE {
            memory.prefetch(self.queue.descriptor(self.taken + line * PER_LINE), Intent::Write);
        }
    }

    /// `Core::fill_cache`.
    fn fill_cache<M: Memory>(&mut self, memory: &mut Paced<'_, M>) {
        let wanted = AHEAD.saturating_sub(self.cache.len() as u64);
        if wanted == 0 {
            return;
        }
        let (from, cache_at, cache) = (self.taken, self.cache_at, &mut self.cache);
        pop_plain(memory, &self.queue, (&mut self.taken, &mut self.known), wanted, |memory, n, address| {
            memory.prefetch(address, Intent::Read);
            memory.prefetch(address + NET_HEADER, Intent::Write);
            memory.write(cache_at + (from + n) % (2 * AHEAD) * RECORD, RECORD);
            cache.push_back(address);
        });
    }
}

/// `DeviceRing::pop_plain`: calls `visit` with the number and the address of each available buffer, at most `most`.
fn pop_plain<M: Memory>(
    memory: &mut M,
    queue: &Virtqueue,
    (taken, known): (&mut u64, &mut u64),
    most: u64,
    mut visit: impl FnMut(&mut M, u64, Address),
) {
    match queue.kind {
        RingKind::Split => {
            if *known - *taken < most {
                *known = *taken + index_ahead(memory, queue.available_index(), *taken);
            }
            let (from, end) = (*taken, *taken + (*known - *taken).min(most));
            for entries in steps(queue, from, end) {
                memory.read(queue.available_entry(entries.start), ENTRY * (entries.end - entries.start));
                fetch(memory, queue, entries);
            }
            for entries in steps(queue, from, end) {
                memory.read(queue.available_entry(entries.start), ENTRY * (entries.end - entries.start));
                for n in entries {
                    let address = memory.load(queue.descriptor(n), Width::Eight);
                    memory.load(queue.descriptor(n) + 8, Width::Eight);
                    memory.follows();
                    visit(memory, n - from, address);
                }
            }
            *taken = end;
        }
        RingKind::Packed => {
            let from = *taken;
            while *taken < from + most && queue.is_marked(memory, *taken, 0) {
                let address = memory.load(queue.descriptor(*taken), Width::Eight);
                memory.follows();
                visit(memory, *taken - from, address);
                *taken += 1;
            }
        }
    }
}

/// `Entries::step`: reads available entries four at a time, if four are left before the ring wraps.
fn steps(queue: &Virtqueue, from: u64, end: u64) -> impl Iterator<Item = Range<u64>> + use<> {
    let (entries, mut next) = (queue.entries, from);
    std::iter::from_fn(move || {
        let first = next;
        next += if first + 4 <= end && first % entries + 4 <= entries { 4 } else { 1 };
        (first < end).then_some(first..next)
    })
}

/// `Entries::fetch`: prefetches the descriptors of these entries, and four that share a line once.
fn fetch<M: Memory>(memory: &mut M, queue: &Virtqueue, mut entries: Range<u64>) {
    if entries.end - entries.start == PER_LINE && entries.start.is_multiple_of(PER_LINE) {
        entries.end = entries.start + 1;
    }
    entries.for_each(|n| memory.prefetch(queue.descriptor(n), Intent::Read));
}

/// `put_used` on a split ring: writes an element only if it differs.
fn element<M: Memory>(memory: &mut M, queue: &Virtqueue, n: u64, id: u64) {
    let at = queue.used_entry(n);
    let there = memory.load(at, Width::Four);
    memory.load(at + 4, Width::Four);
    if there != id {
        memory.store(at, Width::Four, id);
        memory.write(at + 4, 4);
    }
}

/// `put_used` on a packed ring: one word with the flags; it covers `count` buffers.
fn used<M: Memory>(memory: &mut M, queue: &Virtqueue, n: u64, count: u64) {
    let flags = (queue.mark(n) + 1) & 0xffff;
    memory.store(queue.descriptor(n) + 8, Width::Eight, count | flags << 48);
}
