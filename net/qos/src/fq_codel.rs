//! FQ-CoDel (RFC 8290): packets of a class in queues by the hash of their flow, served by deficit round robin, with
//! CoDel on each.
//!
//! All classes of a port share one [`Store`]. Work per packet is bounded: a search for the longest queue drops up to
//! [`MAX_DROPS`] packets, and a round visits each queue at most as often as its deficit needs.

use crate::codel::{Codel, CodelParams, Fifo};
use crate::store::{List, Store};
use std::collections::VecDeque;

/// Maximum packets dropped at once from the longest queue (RFC 8290, section 4.1).
const MAX_DROPS: usize = 64;

/// A packet that waits.
pub trait Waiting {
    /// Bytes of the frame, without frame check sequence.
    fn bytes(&self) -> u32;
    /// Bytes of memory that it occupies.
    fn memory(&self) -> u32;
    /// Marks congestion. Returns `false` if the transport of the packet does not support ECN.
    fn mark(&mut self) -> bool;
}

/// Parameters of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqParams {
    /// CoDel of each queue.
    pub codel: CodelParams,
    /// Bytes that a queue may send in a round.
    pub quantum: u32,
    /// Queues: flows with the same hash share one.
    pub flows: u16,
    /// Maximum packets in the class.
    pub limit: u32,
}

impl Default for FqParams {
    /// RFC 8290, section 5.2, with a limit for each class.
    fn default() -> Self {
        Self { codel: CodelParams::default(), quantum: 1514, flows: 1024, limit: 1024 }
    }
}

/// Counters of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Packets that left the class to be sent.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets dropped because the class, or the memory of the port, was full.
    pub full: u64,
    /// Packets dropped by CoDel.
    pub codel: u64,
    /// Packets that CoDel marked.
    pub marked: u64,
    /// Packets that wait.
    pub backlog: u64,
    /// Their bytes.
    pub backlog_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Absent,
    New,
    Old,
}

#[derive(Clone, Copy, Default)]
struct Flow {
    packets: List,
    bytes: u64,
    deficit: i64,
    codel: Codel,
    place: Place,
}

/// A packet with the time of its arrival.
pub(crate) type Stored<T> = (T, u64);

/// Queues of one class.
pub(crate) struct FqCodel {
    params: FqParams,
    flows: Box<[Flow]>,
    new: VecDeque<u16>,
    old: VecDeque<u16>,
    counts: ClassCounts,
}

/// The store, and packets to discard.
pub(crate) struct Shared<'a, T> {
    pub(crate) store: &'a mut Store<Stored<T>>,
    /// Packets that were dropped; the caller frees their memory.
    pub(crate) dropped: &'a mut Vec<T>,
}

impl FqCodel {
    pub(crate) fn new(params: FqParams) -> Self {
        let flows = usize::from(params.flows.max(1));
        Self {
            params,
            flows: vec![Flow::default(); flows].into(),
            new: VecDeque::with_capacity(flows),
            old: VecDeque::with_capacity(flows),
            counts: ClassCounts::default(),
        }
    }

    pub(crate) fn counts(&self) -> &ClassCounts {
        &self.counts
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.counts.backlog == 0
    }

    /// Adds a packet. If the class or the store is full, drops from its longest queue, which may be that of the packet.
    pub(crate) fn enqueue<T: Waiting>(&mut self, shared: &mut Shared<'_, T>, packet: T, hash: u32, now: u64) {
        let is_full = self.counts.backlog >= u64::from(self.params.limit) || !shared.store.has_room();
        if is_full {
            self.drop_longest(shared);
        }
        let number = ((u64::from(hash) * self.flows.len() as u64) >> 32) as usize;
        let (flow, len) = (&mut self.flows[number], u64::from(packet.bytes()));
        if let Some((packet, _)) = flow.packets.push(shared.store, (packet, now)) {
            self.counts.full += 1;
            return shared.dropped.push(packet);
        }
        flow.bytes += len;
        self.counts.backlog += 1;
        self.counts.backlog_bytes += len;
        if flow.place == Place::Absent {
            (flow.place, flow.deficit) = (Place::New, i64::from(self.params.quantum));
            self.new.push_back(number as u16);
        }
    }

    /// Drops half of the longest queue from its head, at most [`MAX_DROPS`] packets.
    pub(crate) fn drop_longest<T: Waiting>(&mut self, shared: &mut Shared<'_, T>) {
        let Some(flow) = self.flows.iter_mut().max_by_key(|flow| flow.bytes) else { return };
        let half = flow.bytes / 2;
        for _ in 0..MAX_DROPS {
            let Some((packet, _)) = flow.packets.pop(shared.store) else { return };
            flow.bytes -= u64::from(packet.bytes());
            self.counts.full += 1;
            self.counts.backlog -= 1;
            self.counts.backlog_bytes -= u64::from(packet.bytes());
            shared.dropped.push(packet);
            if flow.bytes <= half {
                return;
            }
        }
    }

    /// Takes the next packet to be sent. RFC 8290, section 4.2.
    pub(crate) fn dequeue<T: Waiting>(&mut self, shared: &mut Shared<'_, T>, now: u64) -> Option<T> {
        loop {
            let is_new = !self.new.is_empty();
            let number = *if is_new { self.new.front() } else { self.old.front() }?;
            let flow = &mut self.flows[usize::from(number)];
            if flow.deficit <= 0 {
                flow.deficit += i64::from(self.params.quantum);
                self.retire(number, is_new);
                continue;
            }
            let mut codel = flow.codel;
            let mut queue = FlowQueue { flow, counts: &mut self.counts, shared };
            let packet = codel.dequeue(now, &self.params.codel, &mut queue);
            flow.codel = codel;
            let Some(packet) = packet else {
                self.leave(number, is_new);
                continue;
            };
            flow.deficit -= i64::from(packet.bytes());
            self.counts.packets += 1;
            self.counts.bytes += u64::from(packet.bytes());
            return Some(packet);
        }
    }

    /// Moves the first queue of a list to the end of the old ones.
    fn retire(&mut self, number: u16, is_new: bool) {
        if is_new {
            self.new.pop_front()
        } else {
            self.old.pop_front()
        };
        self.flows[usize::from(number)].place = Place::Old;
        self.old.push_back(number);
    }

    /// Removes an empty queue. A new one becomes old first if others wait, so that it cannot starve them.
    fn leave(&mut self, number: u16, is_new: bool) {
        if is_new && !self.old.is_empty() {
            return self.retire(number, true);
        }
        if is_new {
            self.new.pop_front()
        } else {
            self.old.pop_front()
        };
        self.flows[usize::from(number)].place = Place::Absent;
    }

    /// Removes all packets, as drops of a full queue.
    pub(crate) fn clear<T: Waiting>(&mut self, shared: &mut Shared<'_, T>) {
        while !self.is_empty() {
            self.drop_longest(shared);
        }
    }
}

/// Queue of one flow.
struct FlowQueue<'a, 'b, T> {
    flow: &'a mut Flow,
    counts: &'a mut ClassCounts,
    shared: &'a mut Shared<'b, T>,
}

impl<T: Waiting> Fifo for FlowQueue<'_, '_, T> {
    type Packet = T;

    fn pop(&mut self) -> Option<(T, u64)> {
        let (packet, since) = self.flow.packets.pop(self.shared.store)?;
        let len = u64::from(packet.bytes());
        self.flow.bytes -= len;
        self.counts.backlog -= 1;
        self.counts.backlog_bytes -= len;
        Some((packet, since))
    }

    fn bytes(&self) -> u64 {
        self.flow.bytes
    }

    fn discard(&mut self, packet: T) {
        self.counts.codel += 1;
        self.shared.dropped.push(packet);
    }

    fn mark(&mut self, packet: &mut T) -> bool {
        let marked = packet.mark();
        self.counts.marked += u64::from(marked);
        marked
    }
}
