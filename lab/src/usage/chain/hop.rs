//! A hop of the simulated switch: `ring/src/spsc.rs` with the parcels of `engine/src/hop`, access by access.

use crate::cache::memory::{Address, Memory, Width::Eight};
use crate::cache::simulated::Simulated;

/// Parcels that a hop holds.
pub(super) const RING: u64 = 1024;
/// Bytes of one.
const PARCEL: u64 = 32;

/// Where its positions and slots lie; each position on a pair of lines of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop {
    pub(super) head: Address,
    pub(super) tail: Address,
    pub(super) slots: Address,
}

impl Hop {
    pub(super) const SLOTS: u64 = RING * PARCEL;

    fn slot(self, n: u64) -> Address {
        self.slots + n % RING * PARCEL
    }
}

/// A packet between two stages: its buffer, and which of the next stages it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parcel {
    pub(super) buffer: u64,
    pub(super) to: u64,
}

/// The end that parcels go into.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    hop: Hop,
    tail: u64,
    head_seen: u64,
}

impl Sender {
    pub(super) fn new(hop: Hop) -> Sender {
        Sender { hop, tail: 0, head_seen: 0 }
    }

    /// Whether there is room for so many.
    pub(super) fn has_room(&mut self, memory: &mut Simulated<'_>, wanted: u64) -> bool {
        if RING - (self.tail - self.head_seen) < wanted {
            self.head_seen = memory.load(self.hop.head, Eight);
        }
        RING - (self.tail - self.head_seen) >= wanted
    }

    /// Appends parcels, for which there is room, and shows them.
    pub(super) fn push(&mut self, memory: &mut Simulated<'_>, parcels: &[Parcel]) {
        for parcel in parcels {
            let slot = self.hop.slot(self.tail);
            memory.store(slot, Eight, parcel.to << 32 | parcel.buffer);
            memory.write(slot + 8, PARCEL - 8);
            self.tail += 1;
        }
        if !parcels.is_empty() {
            memory.store(self.hop.tail, Eight, self.tail);
        }
    }
}

/// The end that they come out of.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    hop: Hop,
    head: u64,
    tail_seen: u64,
}

impl Receiver {
    pub(super) fn new(hop: Hop) -> Receiver {
        Receiver { hop, head: 0, tail_seen: 0 }
    }

    /// Takes up to so many, and gives their slots back at once.
    pub(super) fn take(&mut self, memory: &mut Simulated<'_>, most: u64) -> Vec<Parcel> {
        if self.tail_seen - self.head < most {
            self.tail_seen = memory.load(self.hop.tail, Eight);
        }
        let count = (self.tail_seen - self.head).min(most);
        let mut parcels = Vec::with_capacity(count as usize);
        for n in self.head..self.head + count {
            let value = memory.load(self.hop.slot(n), Eight);
            memory.read(self.hop.slot(n) + 8, PARCEL - 8);
            parcels.push(Parcel { buffer: value & u64::from(u32::MAX), to: value >> 32 });
        }
        if count > 0 {
            self.head += count;
            memory.store(self.hop.head, Eight, self.head);
        }
        parcels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::program::Program;
    use crate::cache::simulated::Profile;

    #[test]
    fn parcels_come_out_in_the_order_in_which_they_went_in() {
        const MANY: u64 = 3_000;
        let hop = Hop { head: 0, tail: 128, slots: 256 };
        let program = Program::new(1 << 16).thread(move |memory| {
            let (mut sender, mut n) = (Sender::new(hop), 0);
            while n < MANY {
                let parcels: Vec<_> = (n..n + 50).map(|n| Parcel { buffer: n, to: n % 7 }).collect();
                while !sender.has_room(memory, 50) {
                    memory.work(100);
                }
                sender.push(memory, &parcels);
                n += 50;
            }
        });
        let program = program.thread(move |memory| {
            let (mut receiver, mut n) = (Receiver::new(hop), 0);
            while n < MANY {
                for parcel in receiver.take(memory, 64) {
                    assert_eq!(parcel, Parcel { buffer: n, to: n % 7 });
                    n += 1;
                }
                memory.work(300);
            }
        });
        program.simulate(&Profile::study()).expect("both go on");
    }
}
