//! The switch: takes bursts from each port and moves them to the other, by one copy or by two.
//!
//! linerate copies heads into its burst, judges them there, and writes head and rest into the destination's buffer. DPDK's
//! library copies the packet into a buffer of the switch, whose header of two lines is filled in, and then from
//! there into the destination's buffer.

use super::virtqueue::Virtqueue;
use super::{BUFFER, BURST, NET_HEADER, PACKET_AT, Path, Places, Scheme};
use crate::cache::memory::{Address, Copying, LINE, Memory};

/// Bytes of a packet's head that the burst holds.
const HEAD: u64 = 128;
/// Instructions of the switch for a packet beside those that touch memory.
const WORK: u64 = 30;

#[derive(Clone, Debug)]
struct Lane {
    from: Virtqueue,
    to: Virtqueue,
    taken: u64,
    given: u64,
}

/// The switch.
#[derive(Clone, Debug)]
pub(super) struct Switch {
    lanes: [Lane; 2],
    scheme: Scheme,
    frame: u64,
    own: Address,
    forwarded: u64,
}

impl Switch {
    /// Buffers of its own: what a core's cache of them gives again and again.
    pub(super) const OWN: u64 = 2 * BURST;

    pub(super) fn new(path: &Path, places: Places) -> Switch {
        let lane = |from: usize, to: usize| Lane {
            from: places.transmit[from],
            to: places.receive[to],
            taken: 0,
            given: 0,
        };
        Switch {
            lanes: [lane(0, 1), lane(1, 0)],
            scheme: path.scheme,
            frame: path.frame,
            own: places.own,
            forwarded: 0,
        }
    }

    /// Frames forwarded so far.
    pub(super) fn forwarded(&self) -> u64 {
        self.forwarded
    }

    /// One turn over both ports.
    pub(super) fn round<M: Memory>(&mut self, memory: &mut M) {
        let mut moved = 0;
        for lane in 0..2 {
            moved += self.burst(memory, lane);
        }
        self.forwarded += moved;
        if moved == 0 {
            let lane = &self.lanes[0];
            memory.pause(lane.from.available_place(lane.taken));
        }
    }

    fn burst<M: Memory>(&mut self, memory: &mut M, lane: usize) -> u64 {
        let Lane { from, to, taken, given } = self.lanes[lane].clone();
        let offered = from.count_available(memory, taken, BURST);
        let count = if offered == 0 { 0 } else { to.count_available(memory, given, offered) };
        let sources: Vec<Address> = (0..count).map(|n| from.take(memory, taken + n)).collect();
        for (n, source) in (0..).zip(&sources) {
            self.receive(memory, n, *source);
        }
        for (n, source) in (0..).zip(&sources) {
            let target = to.take(memory, given + n);
            self.send(memory, n, *source, target);
            to.give(memory, given + n);
            memory.work(WORK);
        }
        if count > 0 {
            (0..count).for_each(|n| from.give(memory, taken + n));
            to.publish_used(memory, given + count);
            from.publish_used(memory, taken + count);
        }
        let lane = &mut self.lanes[lane];
        (lane.taken, lane.given) = (taken + count, given + count);
        count
    }

    /// Where the burst keeps a head, or the switch's own buffer begins.
    fn place(&self, n: u64) -> Address {
        match self.scheme {
            Scheme::Linerate => self.own + n * HEAD,
            Scheme::Dpdk => self.own + n * BUFFER,
        }
    }

    /// What is done to a packet when it was taken.
    fn receive<M: Memory>(&self, memory: &mut M, n: u64, source: Address) {
        let place = self.place(n);
        memory.follows();
        memory.read(source, NET_HEADER);
        match self.scheme {
            Scheme::Linerate => memory.copy(source + NET_HEADER, place, self.frame.min(HEAD), Copying::Libc),
            Scheme::Dpdk => {
                memory.write(place, 2 * LINE);
                memory.copy(source + NET_HEADER, place + PACKET_AT, self.frame, Copying::Libc);
            }
        }
    }

    /// How it comes to its destination.
    fn send<M: Memory>(&self, memory: &mut M, n: u64, source: Address, target: Address) {
        let place = self.place(n);
        memory.follows();
        memory.write(target, NET_HEADER);
        match self.scheme {
            Scheme::Linerate => {
                let head = self.frame.min(HEAD);
                memory.copy(place, target + NET_HEADER, head, Copying::Libc);
                let rest = self.frame - head;
                memory.copy(source + NET_HEADER + head, target + NET_HEADER + head, rest, Copying::Libc);
            }
            Scheme::Dpdk => {
                memory.read(place, 16);
                memory.copy(place + PACKET_AT, target + NET_HEADER, self.frame, Copying::Libc);
            }
        }
    }
}
