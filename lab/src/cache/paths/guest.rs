//! The guest: DPDK's, returning by one port what came in at the other. It touches its packets' headers, not the packets.
//!
//! Buffers come from a pool whose last returned is the next given, as a cache of one core has it.

use super::virtqueue::Virtqueue;
use super::{BUFFER, BURST, NET_HEADER, PACKET_AT, Path, Places};
use crate::cache::memory::{Address, Memory};

/// Instructions of the guest for a packet beside those that touch memory.
const WORK: u64 = 30;

/// One direction: a ring that receives and the other port's ring that sends.
#[derive(Clone, Debug)]
struct Lane {
    receive: Virtqueue,
    transmit: Virtqueue,
    /// Entries posted and taken of the ring that receives, and the buffers in it
    posted: u64,
    received: u64,
    /// The same of the ring that sends
    sent: u64,
    reclaimed: u64,
    receiving: Vec<Address>,
    sending: Vec<Address>,
}

/// The guest.
#[derive(Clone, Debug)]
pub(super) struct Guest {
    lanes: [Lane; 2],
    free: Vec<Address>,
    frames: u64,
}

impl Guest {
    /// As many as two rings each way hold, and a burst.
    pub(super) fn buffers(path: &Path) -> u64 {
        4 * path.entries + BURST
    }

    pub(super) fn new(path: &Path, places: Places) -> Guest {
        let lane = |from: usize, to: usize| Lane {
            receive: places.receive[from],
            transmit: places.transmit[to],
            posted: 0,
            received: 0,
            sent: 0,
            reclaimed: 0,
            receiving: vec![0; path.entries as usize],
            sending: vec![0; path.entries as usize],
        };
        let free = (0..Guest::buffers(path)).map(|n| places.buffers + n * BUFFER).collect();
        Guest { lanes: [lane(0, 1), lane(1, 0)], free, frames: path.frames }
    }

    /// Posts buffers to receive into, and sends the frames that are to circulate.
    pub(super) fn begin<M: Memory>(&mut self, memory: &mut M) {
        let Guest { lanes, free, frames } = self;
        for lane in lanes {
            lane.refill(memory, free);
            for _ in 0..*frames {
                if let Some(buffer) = free.pop() {
                    lane.send(memory, buffer);
                }
            }
            lane.transmit.publish(memory, lane.sent);
        }
    }

    /// One turn of the loop over both directions.
    pub(super) fn round<M: Memory>(&mut self, memory: &mut M) {
        let Guest { lanes, free, .. } = self;
        let moved: u64 = lanes.iter_mut().map(|lane| lane.forward(memory, free)).sum();
        if moved == 0 {
            // Either ring may be the next; asking at one of them is what keeps virtual time moving.
            let lane = &self.lanes[0];
            memory.pause(lane.receive.used_place(lane.received));
        }
    }
}

impl Lane {
    fn slot(&self, n: u64) -> usize {
        (n % self.receive.entries) as usize
    }

    fn forward<M: Memory>(&mut self, memory: &mut M, free: &mut Vec<Address>) -> u64 {
        let count = self.receive.count_used(memory, self.received, BURST.min(self.posted - self.received));
        if count == 0 {
            return 0;
        }
        self.reclaim(memory, free);
        for _ in 0..count {
            self.receive.take_used(memory, self.received);
            let buffer = self.receiving[self.slot(self.received)];
            self.received += 1;
            // The buffer's own header is filled in, and the virtio-net header judged.
            memory.write(buffer, 64);
            memory.read(buffer + PACKET_AT - NET_HEADER, NET_HEADER);
            self.send(memory, buffer);
            memory.work(WORK);
        }
        self.refill(memory, free);
        self.transmit.publish(memory, self.sent);
        count
    }

    fn send<M: Memory>(&mut self, memory: &mut M, buffer: Address) {
        memory.read(buffer, 16);
        memory.write(buffer + PACKET_AT - NET_HEADER, NET_HEADER);
        let slot = self.slot(self.sent);
        self.sending[slot] = buffer;
        self.transmit.post(memory, self.sent, buffer + PACKET_AT - NET_HEADER);
        self.sent += 1;
    }

    /// Takes back the buffers of what was sent.
    fn reclaim<M: Memory>(&mut self, memory: &mut M, free: &mut Vec<Address>) {
        let count = self.transmit.count_used(memory, self.reclaimed, self.sent - self.reclaimed);
        for _ in 0..count {
            self.transmit.take_used(memory, self.reclaimed);
            free.push(self.sending[self.slot(self.reclaimed)]);
            self.reclaimed += 1;
        }
    }

    /// Posts a buffer for every empty place of the ring that receives.
    fn refill<M: Memory>(&mut self, memory: &mut M, free: &mut Vec<Address>) {
        while self.posted - self.received < self.receive.entries {
            let Some(buffer) = free.pop() else { break };
            let slot = self.slot(self.posted);
            self.receiving[slot] = buffer;
            self.receive.post(memory, self.posted, buffer + PACKET_AT - NET_HEADER);
            self.posted += 1;
        }
        self.receive.publish(memory, self.posted);
    }
}
