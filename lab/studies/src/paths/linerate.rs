//! linerate's switch, access by access: one worker of the engine over two vhost-user ports.
//!
//! It performs the memory accesses of `dataplane/engine/src/worker.rs` (`round`, `poll`, `finish`, `notify`),
//! `dataplane/port/src/vhost_user` (`rx.rs`, `tx.rs`, `avail_cache.rs`, `fill.rs`) and `dataplane/ring/src/device`, in
//! their order: a burst waits while the next is taken, heads are copied and classified, a cache of available buffers is
//! filled ahead of need, headers and used elements are written only if they differ, and one fence serves all rings of a
//! round. The worker's private data (bursts, caches) is accessed too, since it competes for the first level. Counters
//! and the bridge's memo, a few lines that no other thread writes, are omitted, and so is the scheduler, which skips a
//! queue of long frames at times.
//!
//! `conformance` runs a real worker beside this model, and fails if they touch different lines of rings and buffers.

use super::instructions::Counts;
use super::pace::{Pace, Paced};
use super::places::{NET_HEADER, Places};
use super::virtqueue::{RingKind, Virtqueue, index_ahead};
use super::{Change, Path};
use std::ops::Range;

use sim::memory::{Address, Copying, Intent, LINE, Memory, Width};

/// Bytes of a packet's head in a burst.
const HEAD: u64 = port::HEAD as u64;
/// Size of a head slot, including headroom.
const SLOT: u64 = port::HEAD_SLOT as u64;
const HEADROOM: u64 = port::HEAD_HEADROOM as u64;
/// Packets per burst.
const BURST: u64 = port::BURST as u64;
/// Buffers cached ahead of need, and minimum number taken at a time.
const AHEAD: u64 = port::vhost_user::PREFETCH as u64;
const PART: u64 = port::vhost_user::PART as u64;
/// Other bytes per packet in a burst, and per buffer in the cache: an estimate.
const RECORD: u64 = 40;
/// Bytes of an available entry.
const ENTRY: u64 = 2;
/// Descriptors per line.
const PER_LINE: u64 = LINE / ring::DESC as u64;
/// Number of equal shares of the instructions: taking, classifying, writing, giving back.
const STEPS: f64 = 4.0;

/// A guest's transmit ring, which the worker receives from.
#[derive(Clone, Debug)]
struct Rx {
    queue: Virtqueue,
    /// Entries taken, marked used, and (split) known to be available
    taken: u64,
    used: u64,
    known: u64,
    dirty: bool,
    /// Whether the last poll found something
    found: bool,
    /// Buffers done but not yet given back, and empty polls since then
    gathered: u64,
    idle: u64,
}

/// The other guest's receive ring, with its cache of available buffers.
#[derive(Clone, Debug)]
struct Tx {
    queue: Virtqueue,
    taken: u64,
    used: u64,
    known: u64,
    dirty: bool,
    cache_at: Address,
    cache: std::collections::VecDeque<Address>,
}

/// Packets in transit, by address.
#[derive(Clone, Debug, Default)]
struct Burst {
    at: Address,
    sources: Vec<Address>,
}

/// The model of linerate's switch.
#[derive(Clone, Debug)]
pub(super) struct Linerate {
    rx: [Rx; 2],
    tx: [Tx; 2],
    bursts: [Burst; 2],
    /// Burst taken but not yet classified, and the index of its ring
    pending: Option<(usize, usize)>,
    next: usize,
    frame: u64,
    change: Option<Change>,
    pace: Pace,
    counts: Counts,
    pub(super) forwarded: u64,
    pub(super) polls: u64,
    pub(super) empty: u64,
}

impl Linerate {
    pub(super) fn new(path: &Path, places: &Places, counts: Counts) -> Linerate {
        let mut free = places.own;
        let mut own = |bytes: u64| {
            let at = free;
            free += bytes.next_multiple_of(LINE);
            at
        };
        let rx = [0, 1].map(|port: usize| Rx {
            queue: places.transmit[port],
            taken: 0,
            used: 0,
            known: 0,
            dirty: false,
            found: false,
            gathered: 0,
            idle: 0,
        });
        let tx = [0, 1].map(|port: usize| Tx {
            queue: places.receive[port],
            taken: 0,
            used: 0,
            known: 0,
            dirty: false,
            cache_at: own(2 * AHEAD * RECORD),
            cache: std::collections::VecDeque::new(),
        });
        let bursts = [0, 1].map(|_| Burst { at: own(BURST * (SLOT + RECORD)), sources: Vec::new() });
        Linerate {
            rx,
            tx,
            bursts,
            pending: None,
            next: 0,
            frame: path.frame,
            change: path.change,
            pace: Pace::default(),
            counts,
            forwarded: 0,
            polls: 0,
            empty: 0,
        }
    }

    /// Runs one round of the worker: `Worker::round`.
    pub(super) fn round<M: Memory>(&mut self, memory: &mut M) {
        let mut pace = self.pace;
        let mut memory = Paced::new(memory, &mut pace);
        let mut worked = false;
        for at in 0..2 {
            worked |= self.poll(&mut memory, at);
        }
        if self.pending.is_some() && !worked {
            self.finish(&mut memory);
            worked = true;
        }
        self.notify(&mut memory);
        if !worked {
            // Pauses on the ring that was polled first, so that a change to either ring ends the wait.
            memory.pause(self.rx[0].next_available());
        }
        self.pace = pace;
    }

    /// `Worker::poll`: takes a burst, prefetches the next ring's entries, and sends the previous burst.
    fn poll<M: Memory>(&mut self, memory: &mut Paced<'_, M>, at: usize) -> bool {
        self.polls += 1;
        let share = self.counts.switch / STEPS;
        let filled = self.next;
        let got = self.rx[at].take(memory, &mut self.bursts[filled], self.frame, share);
        self.rx[at].found = got > 0;
        if self.prefetches(1 - at) {
            self.rx[1 - at].prefetch(memory, self.change);
        }
        let before = self.pending.is_some();
        self.finish(memory);
        if got > 0 {
            (self.pending, self.next) = (Some((filled, at)), 1 - filled);
        } else {
            self.empty += 1;
            self.rx[at].idle += 1;
            if self.rx[at].idle == 16 && self.rx[at].gathered > 0 {
                self.rx[at].complete(memory);
            }
            memory.forgive();
            memory.work(self.counts.empty_poll);
            memory.forgive();
        }
        got > 0 || before
    }

    fn prefetches(&self, at: usize) -> bool {
        match self.change {
            Some(Change::RingsAhead) => false,
            Some(Change::AheadIfBusy) => self.rx[at].found,
            _ => true,
        }
    }

    /// `Worker::finish`: classifies and sends the pending burst, and gives its buffers back.
    fn finish<M: Memory>(&mut self, memory: &mut Paced<'_, M>) {
        let Some((index, at)) = self.pending.take() else { return };
        let share = self.counts.switch / STEPS;
        let burst = &self.bursts[index];
        let head = self.frame.min(HEAD);
        for (n, source) in (0..).zip(&burst.sources) {
            memory.copy(*source, burst.at + n * SLOT + HEADROOM, head, Copying::Libc);
            memory.owe(share);
        }
        let tx = &mut self.tx[1 - at];
        self.forwarded += tx.send(memory, burst, self.frame, share, self.change);
        let (rx, count) = (&mut self.rx[at], burst.sources.len() as u64);
        rx.gathered += count;
        rx.idle = 0;
        memory.owe(share * count as f64);
        if self.change != Some(Change::GatherUsed) || rx.gathered >= 32 {
            rx.complete(memory);
        }
    }

    /// `Worker::notify`: one fence for everything published, then the reads that need it.
    fn notify<M: Memory>(&mut self, memory: &mut Paced<'_, M>) {
        if !self.rx.iter().any(|rx| rx.dirty) && !self.tx.iter().any(|tx| tx.dirty) {
            return;
        }
        memory.fence();
        for rx in self.rx.iter_mut().filter(|rx| rx.dirty) {
            rx.dirty = false;
            memory.load(rx.queue.wants_call(), Width::Two);
        }
        for tx in self.tx.iter_mut().filter(|tx| tx.dirty) {
            tx.dirty = false;
            memory.load(tx.queue.wants_call(), Width::Two);
        }
    }
}

impl Rx {
    fn next_available(&self) -> Address {
        match self.queue.kind {
            RingKind::Split => self.queue.available_index(),
            RingKind::Packed => self.queue.flags(self.taken),
        }
    }

    /// `Rx::take`: pops descriptors and prefetches the frames' first lines.
    fn take<M: Memory>(
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
    fn prefetch<M: Memory>(&self, memory: &mut M, change: Option<Change>) {
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
    fn complete<M: Memory>(&mut self, memory: &mut Paced<'_, M>) {
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
    fn send<M: Memory>(
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
