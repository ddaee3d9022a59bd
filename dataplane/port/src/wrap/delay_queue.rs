//! Storage for delayed packets: private copies with due times.
//!
//! Capacity is fixed at construction; a full queue rejects packets. Packets are delivered in separate bursts, which pin
//! the memory of the queue; their slots are freed when that burst is completed. Bursts are completed in the order in
//! which they were filled.

use crate::arena::Arena;
use crate::spool::MAX_PACKET;
use crate::{Burst, Frame, Offload, PortFault};
use mem::copy::Kernel;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Timeout in nanoseconds after which a reordered packet is due even if no later packet has passed.
const TIMEOUT: u64 = 100_000_000;

/// Metadata of a held packet.
#[derive(Clone, Copy, Debug, Default)]
struct DelayedPacket {
    len: u32,
    offload: Offload,
}

/// Delayed packets of one queue.
pub(super) struct DelayQueue {
    arena: Arena,
    held: Box<[DelayedPacket]>,
    free: Vec<u32>,
    /// Due time, arrival number and slot.
    due: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// Reordered packets that wait for a later one to pass: timeout and slot.
    behind: VecDeque<(u64, u32)>,
    /// Slots in bursts not completed yet, in order.
    lent: VecDeque<u32>,
    came: u64,
    staging: Box<[u8]>,
}

impl DelayQueue {
    /// A queue for `most` packets.
    pub(super) fn new(most: u32) -> Result<Self, PortFault> {
        let arena = Arena::new(most.max(1) as usize, MAX_PACKET)?;
        let places = arena.slots();
        Ok(Self {
            arena,
            held: vec![DelayedPacket::default(); places].into(),
            free: (0..most).rev().collect(),
            due: BinaryHeap::with_capacity(places),
            behind: VecDeque::with_capacity(places),
            lent: VecDeque::with_capacity(places),
            came: 0,
            staging: vec![0; MAX_PACKET].into(),
        })
    }

    /// Copies a packet that is due at `due`. Returns `false` if there is no space.
    pub(super) fn put<K: Kernel>(
        &mut self,
        due: u64,
        frame: &Frame<'_>,
        len: usize,
        flip: Option<u64>,
    ) -> bool {
        let Some(place) = self.copy::<K>(frame, len, flip) else { return false };
        self.make_due(due, place);
        true
    }

    /// Copies a packet to be delivered after a later one. Returns `false` if there is no space.
    pub(super) fn put_behind<K: Kernel>(
        &mut self,
        now: u64,
        frame: &Frame<'_>,
        len: usize,
        flip: Option<u64>,
    ) -> bool {
        let Some(place) = self.copy::<K>(frame, len, flip) else { return false };
        self.behind.push_back((now + TIMEOUT, place));
        true
    }

    /// Reports that a packet passed at `now`: reordered packets become due.
    pub(super) fn passed(&mut self, now: u64) {
        while let Some((_, place)) = self.behind.pop_front() {
            self.make_due(now, place);
        }
    }

    fn make_due(&mut self, due: u64, place: u32) {
        self.due.push(Reverse((due, self.came, place)));
        self.came += 1;
    }

    fn copy<K: Kernel>(&mut self, frame: &Frame<'_>, len: usize, flip: Option<u64>) -> Option<u32> {
        if len > self.staging.len() {
            return None;
        }
        let place = self.free.pop()?;
        let bytes = &mut self.staging[..len];
        let len = frame.copy_to::<K>(bytes);
        if let Some(bit) = flip.filter(|_| len > 0) {
            turn(&mut bytes[..len], bit);
        }
        let slot = self.arena.slot(place as usize);
        // SAFETY: the arena keeps its memory table alive; a slot is as long as the staging buffer.
        unsafe { slot.copy_in::<K>(&self.staging[..len]) };
        let offload = if flip.is_some() { unverified(frame.offload) } else { frame.offload };
        self.held[place as usize] = DelayedPacket { len: len as u32, offload };
        Some(place)
    }

    /// Time at which the next packet is due.
    pub(super) fn next(&self) -> Option<u64> {
        let behind = self.behind.front().map(|(due, _)| *due);
        self.due.peek().map(|Reverse((due, ..))| *due).into_iter().chain(behind).min()
    }

    /// Fills an empty burst with due packets. Returns their number and total length in bytes.
    pub(super) fn release(&mut self, now: u64, burst: &mut Burst) -> (usize, u64) {
        while self.behind.front().is_some_and(|(due, _)| *due <= now) {
            let (due, place) = self.behind.pop_front().unwrap_or_default();
            self.make_due(due, place);
        }
        burst.pin(self.arena.map());
        let (mut packets, mut bytes) = (0, 0);
        while packets < crate::BURST && self.due.peek().is_some_and(|Reverse((due, ..))| *due <= now) {
            let Some(Reverse((.., place))) = self.due.pop() else { break };
            let held = self.held[place as usize];
            burst.push_kept(self.arena.slot(place as usize).split_at(held.len as usize).0);
            burst.set_offload(packets, held.offload);
            self.lent.push_back(place);
            packets += 1;
            bytes += u64::from(held.len);
        }
        (packets, bytes)
    }

    /// Frees the slots of the oldest burst, which had `packets` packets.
    pub(super) fn give_back(&mut self, packets: usize) {
        self.free.extend(self.lent.drain(..packets.min(self.lent.len())));
    }
}

/// The offloads of a packet with a flipped bit, whose checksum the receiver must verify.
pub(super) fn unverified(offload: Offload) -> Offload {
    if offload.is_valid() { Offload::NONE } else { offload }
}

/// Flips one bit.
pub(super) fn turn(bytes: &mut [u8], bit: u64) {
    let bit = (bit % (bytes.len() as u64 * 8)) as usize;
    bytes[bit / 8] ^= 1 << (bit % 8);
}
