//! The guest: DPDK's `testpmd` with its virtio-user driver, which returns packets through the other port with new
//! addresses (`set fwd mac`), as in the measured comparison.
//!
//! From `drivers/net/virtio/virtio_rxtx.c` and `app/test-pmd/macfwd.c`: buffers are used in order; descriptors are
//! written for every packet; available entries and the virtio-net header are written only if they differ, so never; a
//! transmit ring is reclaimed late, when it is nearly full of used buffers; each publish is followed by a full fence
//! and a read of the switch's notification flag.

use super::instructions::Counts;
use super::pace::{Pace, Paced};
use super::places::{NET_HEADER, PACKET_AT, Places};
use super::pool::Pool;
use super::virtqueue::{RingKind, Virtqueue};
use super::{BURST, Path, Polls};
use sim::memory::{Address, Intent, Memory, Width};

/// A transmit ring is reclaimed when fewer free entries than this remain (`tx_free_thresh`).
const KEPT_FREE: u64 = 32;
/// Bytes of a frame that are written: both addresses.
const ADDRESSES: u64 = 12;

/// One direction: a receive ring and the other port's transmit ring.
#[derive(Clone, Debug)]
struct Lane {
    receive: Virtqueue,
    transmit: Virtqueue,
    /// Entries of the receive ring posted and taken
    posted: u64,
    received: u64,
    /// Entries of the transmit ring posted and reclaimed
    sent: u64,
    reclaimed: u64,
    receiving: Vec<Address>,
    sending: Vec<Address>,
    burst: Vec<Address>,
}

/// The model of the guest.
#[derive(Clone, Debug)]
pub(super) struct Guest {
    lanes: [Lane; 2],
    pool: Pool,
    pace: Pace,
    counts: Counts,
    frames: u64,
    polls: u64,
    empty: u64,
}

impl Guest {
    pub(super) fn new(path: &Path, places: &Places, counts: Counts) -> Guest {
        let lane = |from: usize, to: usize| Lane {
            receive: places.receive[from],
            transmit: places.transmit[to],
            posted: 0,
            received: 0,
            sent: 0,
            reclaimed: 0,
            receiving: vec![0; path.entries as usize],
            sending: vec![0; path.entries as usize],
            burst: Vec::with_capacity(BURST as usize),
        };
        Guest {
            lanes: [lane(0, 1), lane(1, 0)],
            pool: Pool::new(places.guest_buffers()),
            pace: Pace::default(),
            counts,
            frames: path.frames,
            polls: 0,
            empty: 0,
        }
    }

    /// Polls of the receive rings so far, and the empty ones among them.
    pub(super) fn polls(&self) -> Polls {
        Polls { all: self.polls, empty: self.empty }
    }

    /// Entries posted so far to the receive ring of a port, and to its transmit ring.
    #[cfg(test)]
    pub(super) fn posted(&self, port: usize) -> [u64; 2] {
        [self.lanes[port].posted, self.lanes[1 - port].sent]
    }

    /// Posts receive buffers, and sends the circulating frames.
    pub(super) fn begin<M: Memory>(&mut self, memory: &mut M) {
        let Guest { lanes, pool, frames, .. } = self;
        for lane in lanes {
            lane.refill(memory, pool);
            for _ in 0..*frames {
                if let Some(buffer) = pool.take() {
                    lane.send(memory, buffer);
                }
            }
            lane.transmit_publish(memory);
        }
    }

    /// One iteration over both directions.
    pub(super) fn round<M: Memory>(&mut self, memory: &mut M) {
        let Guest { lanes, pool, pace, counts, .. } = self;
        let mut memory = Paced::new(memory, pace);
        let mut worked = false;
        for lane in lanes.iter_mut() {
            self.polls += 1;
            if lane.forward(&mut memory, pool, *counts) == 0 {
                self.empty += 1;
                memory.forgive();
                memory.work(counts.guest_empty_poll);
                memory.forgive();
            } else {
                worked = true;
            }
        }
        if !worked {
            // Pauses on the ring that was polled first: the one polled last may have changed already, so a change to
            // either ring ends the wait.
            memory.pause(lanes[0].next_used());
        }
    }
}

impl Lane {
    fn slot(&self, n: u64) -> usize {
        (n % self.receive.entries) as usize
    }

    /// Address at which the next used entry appears.
    fn next_used(&self) -> Address {
        match self.receive.kind {
            RingKind::Split => self.receive.used_index(),
            RingKind::Packed => self.receive.flags(self.received),
        }
    }

    fn forward<M: Memory>(&mut self, memory: &mut Paced<'_, M>, pool: &mut Pool, counts: Counts) -> u64 {
        let most = BURST.min(self.posted - self.received);
        let count = self.receive.count_used(memory, self.received, most);
        if count == 0 {
            return 0;
        }
        let step = counts.guest / 3.0;
        self.burst.clear();
        for _ in 0..count {
            self.take(memory);
            memory.owe(step);
        }
        self.refill(memory, pool);
        memory.owe(step * count as f64);
        self.reclaim(memory, pool, count);
        for n in 0..count as usize {
            let buffer = self.burst[n];
            if let Some(next) = self.burst.get(n + 1) {
                memory.prefetch(next + PACKET_AT, Intent::Read);
            }
            memory.write(buffer + PACKET_AT, ADDRESSES);
            memory.write(buffer, 8);
            memory.write(buffer + 64, 8);
            self.send(memory, buffer);
            memory.owe(step);
        }
        self.transmit_publish(memory);
        count
    }

    /// Takes one received packet: the used entry, the buffer's own header, and the buffer count of the virtio-net
    /// header.
    fn take<M: Memory>(&mut self, memory: &mut M) {
        let at = match self.receive.kind {
            RingKind::Split => self.receive.used_entry(self.received),
            RingKind::Packed => self.receive.descriptor(self.received) + 8,
        };
        memory.load(at, Width::Four);
        let buffer = self.receiving[self.slot(self.received)];
        memory.write(buffer, 32);
        if self.receive.kind == RingKind::Split {
            memory.read(buffer + PACKET_AT - NET_HEADER, NET_HEADER);
        }
        self.burst.push(buffer);
        self.received += 1;
    }

    fn send<M: Memory>(&mut self, memory: &mut M, buffer: Address) {
        memory.read(buffer, 32);
        memory.read(buffer + PACKET_AT - NET_HEADER, NET_HEADER);
        let slot = self.slot(self.sent);
        self.sending[slot] = buffer;
        post(memory, &self.transmit, self.sent, &self.sending);
        self.sent += 1;
    }

    fn transmit_publish<M: Memory>(&self, memory: &mut M) {
        publish(memory, &self.transmit, self.sent, &self.sending);
    }

    /// Reclaims the buffers of transmitted packets if the ring would otherwise be full.
    fn reclaim<M: Memory>(&mut self, memory: &mut M, pool: &mut Pool, wanted: u64) {
        let held = self.sent - self.reclaimed;
        let used = match self.transmit.kind {
            RingKind::Split => {
                let used = super::virtqueue::index_ahead(memory, self.transmit.used_index(), self.reclaimed);
                if used > self.transmit.entries - KEPT_FREE { used } else { 0 }
            }
            RingKind::Packed if self.transmit.entries - held < wanted => self.used_packed(memory, held),
            RingKind::Packed => 0,
        };
        for _ in 0..used {
            let buffer = self.sending[self.slot(self.reclaimed)];
            memory.read(buffer, 32);
            memory.read(buffer + 64, 8);
            pool.give(buffer);
            self.reclaimed += 1;
        }
    }

    /// Counts used entries at the front of a packed ring: one descriptor may cover a whole burst.
    fn used_packed<M: Memory>(&self, memory: &mut M, held: u64) -> u64 {
        let mut used = 0;
        while used < KEPT_FREE.min(held) {
            let n = self.reclaimed + used;
            if !self.transmit.is_marked(memory, n, 1) {
                break;
            }
            // The model's switches store, beside the flags, the number of buffers that the entry covers.
            used += memory.load(self.transmit.descriptor(n) + 8, Width::Four).max(1);
        }
        used
    }

    /// Posts a buffer for every free entry of the receive ring.
    fn refill<M: Memory>(&mut self, memory: &mut M, pool: &mut Pool) {
        let free = self.receive.entries - (self.posted - self.received);
        if self.receive.kind == RingKind::Packed && free < KEPT_FREE {
            return;
        }
        for _ in 0..free {
            let Some(buffer) = pool.take() else { break };
            let slot = self.slot(self.posted);
            self.receiving[slot] = buffer;
            memory.write(buffer, 64);
            memory.write(buffer + 64, 16);
            post(memory, &self.receive, self.posted, &self.receiving);
            self.posted += 1;
        }
        publish(memory, &self.receive, self.posted, &self.receiving);
    }
}

/// Descriptors per line.
const PER_LINE: u64 = 4;

/// Makes the `n`-th entry available. In a packed ring, the entries of a line are written together once the last one is
/// known, as the vectorised driver does with one store; those of an incomplete line are written when they are
/// published.
fn post<M: Memory>(memory: &mut M, queue: &Virtqueue, n: u64, buffers: &[Address]) {
    match queue.kind {
        RingKind::Split => {
            describe(memory, queue, n, buffers);
            let entry = queue.available_entry(n);
            if memory.load(entry, Width::Two) != n % queue.entries {
                memory.store(entry, Width::Two, n % queue.entries);
            }
        }
        RingKind::Packed if n % PER_LINE == PER_LINE - 1 => post_line(memory, queue, n + 1, buffers),
        RingKind::Packed => {}
    }
}

/// Writes the entries of a packed ring's line up to `to`; flags are stored from last to first, so that the switch finds
/// none or all.
fn post_line<M: Memory>(memory: &mut M, queue: &Virtqueue, to: u64, buffers: &[Address]) {
    let entries = (to - 1) / PER_LINE * PER_LINE..to;
    entries.clone().for_each(|n| describe(memory, queue, n, buffers));
    entries.rev().for_each(|n| memory.store(queue.flags(n), Width::Two, queue.mark(n) & 0xffff));
}

fn describe<M: Memory>(memory: &mut M, queue: &Virtqueue, n: u64, buffers: &[Address]) {
    let address = buffers[(n % queue.entries) as usize] + PACKET_AT - NET_HEADER;
    memory.store(queue.descriptor(n), Width::Eight, address);
    memory.store(queue.descriptor(n) + 8, Width::Four, 1);
    memory.store(queue.descriptor(n) + 12, Width::Two, n % queue.entries);
}

/// Publishes the entries posted up to `n`, and reads whether the switch wants a notification.
fn publish<M: Memory>(memory: &mut M, queue: &Virtqueue, n: u64, buffers: &[Address]) {
    match queue.kind {
        RingKind::Split => memory.store(queue.available_index(), Width::Two, n & 0xffff),
        RingKind::Packed if !n.is_multiple_of(PER_LINE) => post_line(memory, queue, n, buffers),
        RingKind::Packed => {}
    }
    memory.fence();
    memory.load(queue.wants_kick(), Width::Two);
}
