//! DPDK's switch: `testpmd` between two `net_vhost` ports, which copies each packet into its own buffer and from there
//! into the other guest's.
//!
//! From `lib/vhost/virtio_net.c` and `drivers/net/vhost/rte_eth_vhost.c`: frames of up to 256 bytes are copied together
//! after the burst's descriptors; used elements of a split ring are gathered and written even if unchanged; packed
//! descriptors are validated and marked used four at a time; each ring is published and its driver's notification flag
//! read separately, with a full fence each. Its pool returns the same buffers repeatedly, because one core frees the
//! buffers that it took.

use super::instructions::Counts;
use super::pace::{Pace, Paced};
use super::places::{BUFFER, NET_HEADER, PACKET_AT, Places};
use super::virtqueue::{RingKind, Virtqueue};
use super::{BURST, Path};
use sim::memory::{Address, Copying, Intent, LINE, Memory, Width};

/// Frames of at most this many bytes are copied after the burst.
const GATHERED: u64 = 256;
/// Number of equal shares of the instructions: taking, copying in, copying out, giving back.
const STEPS: f64 = 4.0;

#[derive(Clone, Debug)]
struct Lane {
    from: Virtqueue,
    to: Virtqueue,
    taken: u64,
    given: u64,
}

/// The model of DPDK's switch.
#[derive(Clone, Debug)]
pub(super) struct Dpdk {
    lanes: [Lane; 2],
    frame: u64,
    own: Address,
    pace: Pace,
    counts: Counts,
    pub(super) forwarded: u64,
    pub(super) polls: u64,
    pub(super) empty: u64,
}

impl Dpdk {
    pub(super) fn new(path: &Path, places: &Places, counts: Counts) -> Dpdk {
        let lane = |from: usize, to: usize| Lane {
            from: places.transmit[from],
            to: places.receive[to],
            taken: 0,
            given: 0,
        };
        Dpdk {
            lanes: [lane(0, 1), lane(1, 0)],
            frame: path.frame,
            own: places.own,
            pace: Pace::default(),
            counts,
            forwarded: 0,
            polls: 0,
            empty: 0,
        }
    }

    /// One iteration over both ports.
    pub(super) fn round<M: Memory>(&mut self, memory: &mut M) {
        let Dpdk { lanes, frame, own, pace, counts, .. } = self;
        let mut memory = Paced::new(memory, pace);
        let mut worked = false;
        for lane in lanes.iter_mut() {
            self.polls += 1;
            let mut burst =
                Burst { memory: &mut memory, frame: *frame, own: *own, step: counts.switch / STEPS };
            let count = burst.take(lane);
            if count == 0 {
                self.empty += 1;
                memory.forgive();
                memory.work(counts.empty_poll);
                memory.forgive();
                continue;
            }
            burst.send(lane, count);
            self.forwarded += count;
            worked = true;
        }
        if !worked {
            // Pauses on the ring that was polled first, so that a change to either ring ends the wait.
            memory.pause(lanes[0].next_available());
        }
    }
}

impl Lane {
    fn next_available(&self) -> Address {
        match self.from.kind {
            RingKind::Split => self.from.available_index(),
            RingKind::Packed => self.from.flags(self.taken),
        }
    }
}

/// One burst in progress.
struct Burst<'a, 'b, M> {
    memory: &'a mut Paced<'b, M>,
    frame: u64,
    own: Address,
    step: f64,
}

impl<M: Memory> Burst<'_, '_, M> {
    /// Address of the switch's `n`-th buffer of this burst.
    fn buffer(&self, n: u64) -> Address {
        self.own + n * BUFFER
    }

    /// Takes packets into buffers of the switch; returns their number.
    fn take(&mut self, lane: &mut Lane) -> u64 {
        let count = lane.from.count_available(self.memory, lane.taken, BURST);
        let mut sources = Vec::with_capacity(BURST as usize);
        for n in 0..count {
            let own = self.buffer(n);
            self.memory.write(own, LINE);
            self.memory.write(own + LINE, 16);
            sources.push(self.descriptor(&lane.from, lane.taken + n));
            self.memory.owe(self.step);
        }
        for (n, source) in (0..).zip(&sources) {
            let own = self.buffer(n);
            self.memory.copy(source + NET_HEADER, own + PACKET_AT, self.frame, Copying::Sse);
            self.memory.write(own, 16);
            self.memory.owe(self.step);
        }
        if count > 0 {
            match lane.from.kind {
                RingKind::Split => self.give_split(&lane.from, lane.taken, count),
                // In order: one used descriptor for the burst.
                RingKind::Packed => self.give_packed(&lane.from, lane.taken, count),
            }
            self.ask(&lane.from);
        }
        lane.taken += count;
        count
    }

    /// Copies the packets to the other guest's buffers, and frees the switch's own.
    fn send(&mut self, lane: &mut Lane, count: u64) {
        let available = lane.to.count_available(self.memory, lane.given, count);
        let mut targets = Vec::with_capacity(BURST as usize);
        for n in 0..available {
            self.memory.read(self.buffer(n), 32);
            let target = self.descriptor(&lane.to, lane.given + n);
            self.memory.read(target, NET_HEADER);
            if self.frame <= GATHERED && lane.to.kind == RingKind::Split {
                targets.push((n, target));
            } else {
                self.memory.copy(self.buffer(n) + PACKET_AT, target + NET_HEADER, self.frame, Copying::Sse);
            }
            if lane.to.kind == RingKind::Packed {
                self.give_packed(&lane.to, lane.given + n, 1);
            }
            self.memory.owe(self.step);
        }
        for (n, target) in targets {
            self.memory.copy(self.buffer(n) + PACKET_AT, target + NET_HEADER, self.frame, Copying::Sse);
        }
        if lane.to.kind == RingKind::Split {
            self.give_split(&lane.to, lane.given, available);
        }
        self.ask(&lane.to);
        for n in 0..available {
            self.memory.read(self.buffer(n), 32);
            self.memory.read(self.buffer(n) + LINE, 8);
            self.memory.owe(self.step);
        }
        lane.given += available;
    }

    /// Reads a descriptor and prefetches the line it points to, with the virtio-net header.
    fn descriptor(&mut self, queue: &Virtqueue, n: u64) -> Address {
        if queue.kind == RingKind::Split {
            self.memory.load(queue.available_entry(n), Width::Two);
        }
        let at = queue.descriptor(n);
        self.memory.load(at + 8, Width::Eight);
        let address = self.memory.load(at, Width::Eight);
        self.memory.follows();
        self.memory.prefetch(address, Intent::Read);
        address
    }

    /// Writes the used elements of a burst, and the index.
    fn give_split(&mut self, queue: &Virtqueue, first: u64, count: u64) {
        for n in first..first + count {
            self.memory.store(queue.used_entry(n), Width::Eight, n % queue.entries);
        }
        // The index is updated by a locked instruction.
        self.memory.fence();
        self.memory.store(queue.used_index(), Width::Two, (first + count) & 0xffff);
    }

    /// Writes one used descriptor for `count` buffers.
    fn give_packed(&mut self, queue: &Virtqueue, n: u64, count: u64) {
        self.memory.store(queue.descriptor(n) + 8, Width::Four, count);
        self.memory.store(queue.descriptor(n) + 12, Width::Two, n % queue.entries);
        self.memory.store(queue.flags(n), Width::Two, (queue.mark(n) + 1) & 0xffff);
    }

    /// Reads whether the driver wants a notification.
    fn ask(&mut self, queue: &Virtqueue) {
        self.memory.fence();
        self.memory.load(queue.wants_call(), Width::Two);
    }
}
