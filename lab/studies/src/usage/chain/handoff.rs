//! A handoff queue of the simulated switch: `dataplane/ring/src/spsc.rs` with the entries of
//! `dataplane/engine/src/handoff`, access by access. `conformance` compares it with a pipeline of the engine.

use sim::memory::Width::Eight;
use sim::memory::{Address, Memory};

/// Capacity of a handoff queue in entries.
pub(super) const RING: u64 = engine::HandoffConfig::DEFAULT_RING as u64;
/// Size of an entry in bytes.
const ENTRY: u64 = engine::handoff_sizes::ENTRY as u64;

/// Addresses of positions and slots; each position is on its own pair of lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handoff {
    pub(super) head: Address,
    pub(super) tail: Address,
    pub(super) slots: Address,
}

impl Handoff {
    pub(super) const SLOTS: u64 = RING * ENTRY;

    fn slot(self, n: u64) -> Address {
        self.slots + n % RING * ENTRY
    }
}

/// A packet between two stages: its buffer, and its next stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HandoffEntry {
    pub(super) buffer: u64,
    pub(super) to: u64,
}

/// Sending end.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    handoff: Handoff,
    tail: u64,
    head_seen: u64,
}

impl Sender {
    pub(super) fn new(handoff: Handoff) -> Sender {
        Sender { handoff, tail: 0, head_seen: 0 }
    }

    /// Whether there is room for `wanted` entries.
    pub(super) fn has_room<M: Memory>(&mut self, memory: &mut M, wanted: u64) -> bool {
        if RING - (self.tail - self.head_seen) < wanted {
            self.head_seen = memory.load(self.handoff.head, Eight);
        }
        RING - (self.tail - self.head_seen) >= wanted
    }

    /// Appends entries, for which there must be room, and publishes them.
    pub(super) fn push<M: Memory>(&mut self, memory: &mut M, entries: &[HandoffEntry]) {
        for entry in entries {
            let slot = self.handoff.slot(self.tail);
            memory.store(slot, Eight, entry.to << 32 | entry.buffer);
            memory.write(slot + 8, ENTRY - 8);
            self.tail += 1;
        }
        if !entries.is_empty() {
            memory.store(self.handoff.tail, Eight, self.tail);
        }
    }
}

/// Receiving end.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    handoff: Handoff,
    head: u64,
    tail_seen: u64,
}

impl Receiver {
    pub(super) fn new(handoff: Handoff) -> Receiver {
        Receiver { handoff, head: 0, tail_seen: 0 }
    }

    /// Takes up to `most` entries, and releases their slots at once.
    pub(super) fn take<M: Memory>(&mut self, memory: &mut M, most: u64) -> Vec<HandoffEntry> {
        if self.tail_seen - self.head < most {
            self.tail_seen = memory.load(self.handoff.tail, Eight);
            if self.tail_seen == self.head {
                // `Consumer::settle`.
                memory.load(self.handoff.head, Eight);
            }
        }
        let count = (self.tail_seen - self.head).min(most);
        let mut entries = Vec::with_capacity(count as usize);
        for n in self.head..self.head + count {
            let value = memory.load(self.handoff.slot(n), Eight);
            memory.read(self.handoff.slot(n) + 8, ENTRY - 8);
            entries.push(HandoffEntry { buffer: value & u64::from(u32::MAX), to: value >> 32 });
        }
        if count > 0 {
            self.head += count;
            memory.store(self.handoff.head, Eight, self.head);
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Profile;
    use sim::program::Program;

    #[test]
    fn entries_leave_in_the_order_in_which_they_entered() {
        const MANY: u64 = 3_000;
        let handoff = Handoff { head: 0, tail: 128, slots: 256 };
        let program = Program::new(1 << 16).thread(move |memory| {
            let (mut sender, mut n) = (Sender::new(handoff), 0);
            while n < MANY {
                let entries: Vec<_> = (n..n + 50).map(|n| HandoffEntry { buffer: n, to: n % 7 }).collect();
                while !sender.has_room(memory, 50) {
                    memory.work(100);
                }
                sender.push(memory, &entries);
                n += 50;
            }
        });
        let program = program.thread(move |memory| {
            let (mut receiver, mut n) = (Receiver::new(handoff), 0);
            while n < MANY {
                for entry in receiver.take(memory, 64) {
                    assert_eq!(entry, HandoffEntry { buffer: n, to: n % 7 });
                    n += 1;
                }
                memory.work(300);
            }
        });
        program.simulate(&Profile::study()).expect("both go on");
    }
}
