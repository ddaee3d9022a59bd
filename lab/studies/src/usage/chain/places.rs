//! Where everything of the simulated switch lies, and which part of it a line belongs to.

use super::handoff::{Handoff, RING};
use super::pool::Depot;
use sim::memory::{Address, LINE};

/// Parts of the arena whose lines are counted apart, in their order there.
pub const PARTS: [&str; 6] =
    ["pool's depot", "positions of hops", "parcels", "threads' own", "rings of ports", "packets"];

/// A pair of lines, which the adjacent-line prefetcher brings together.
const PAIR: u64 = 2 * LINE;
/// Bytes from one buffer of the pool to the next, as `dataplane/engine/src/handoff` has them.
const BUFFER: u64 = 17 * PAIR;
/// Bytes before a packet in its buffer.
const HEADROOM: u64 = 64;
/// Bytes of a frame.
pub(super) const FRAME: u64 = 64;
/// From one frame to the next in the memory of a port.
const PLACE: u64 = 2048;
/// Entries of a port's ring, and bytes of one.
const ENTRIES: u64 = 1024;
const ENTRY: u64 = 16;
/// From one head to the next in a burst, room before it, and heads.
const SLOT: u64 = 192;
const BURST: u64 = 64;

/// A ring of a port in one direction, with the frames that it names.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortRing(Address);

impl PortRing {
    const BYTES: u64 = ENTRIES * (ENTRY + PLACE);

    /// The descriptor of packet `n`.
    pub(super) fn descriptor(self, n: u64) -> Address {
        self.0 + n % ENTRIES * ENTRY
    }

    /// The frame of packet `n`.
    pub(super) fn frame(self, n: u64) -> Address {
        self.0 + ENTRIES * ENTRY + n % ENTRIES * PLACE
    }
}

/// The heads of a burst.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heads(Address);

impl Heads {
    pub(super) fn at(self, n: u64) -> Address {
        self.0 + n % BURST * SLOT + HEADROOM
    }
}

/// What there is to find room for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    pub(super) handoffs: u64,
    pub(super) threads: u64,
    pub(super) stages: u64,
    pub(super) caches: u64,
    pub(super) ports: u64,
}

/// Where it lies.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) depot: Depot,
    pub(super) ends: Vec<Address>,
    positions: Address,
    handoff_slots: Address,
    caches: Address,
    heads: Address,
    idle: Address,
    ports: Address,
    buffers: Address,
}

/// Takes one after the other.
struct Cutter {
    next: Address,
    ends: Vec<Address>,
}

impl Cutter {
    fn take(&mut self, bytes: u64) -> Address {
        let at = self.next;
        self.next = (at + bytes).next_multiple_of(PAIR);
        at
    }

    fn end_part(&mut self) {
        self.next = self.next.next_multiple_of(4096);
        self.ends.push(self.next);
    }
}

impl Places {
    pub(super) fn new(needs: Needs) -> Places {
        // As many as an engine makes: none is missing while a ring has room.
        let buffers = 2 * needs.handoffs * (RING + BURST) + needs.threads * 512;
        let mut cut = Cutter { next: 0, ends: Vec::new() };
        let (top, entries) = (cut.take(PAIR), cut.take(buffers * 8));
        cut.end_part();
        let positions = cut.take(needs.handoffs * 2 * PAIR);
        cut.end_part();
        let handoff_slots = cut.take(needs.handoffs * Handoff::SLOTS);
        cut.end_part();
        let caches = cut.take(needs.caches * CACHE);
        let heads = cut.take(needs.stages * BURST * SLOT);
        let idle = cut.take(PAIR);
        cut.end_part();
        let ports = cut.take(needs.ports * 2 * PortRing::BYTES);
        cut.end_part();
        let at = cut.take(buffers * BUFFER);
        cut.end_part();
        let depot = Depot { top, entries, buffers };
        Places { depot, ends: cut.ends, positions, handoff_slots, caches, heads, idle, ports, buffers: at }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    pub(super) fn handoff(&self, n: u64) -> Handoff {
        let head = self.positions + n * 2 * PAIR;
        Handoff { head, tail: head + PAIR, slots: self.handoff_slots + n * Handoff::SLOTS }
    }

    /// The magazines of cache `n`.
    pub(super) fn cache(&self, n: u64) -> Address {
        self.caches + n * CACHE
    }

    pub(super) fn heads(&self, n: u64) -> Heads {
        Heads(self.heads + n * BURST * SLOT)
    }

    /// What the thread beside the path writes to.
    pub(super) fn idle(&self) -> Address {
        self.idle
    }

    /// Where packets of port `n` come from.
    pub(super) fn source(&self, n: u64) -> PortRing {
        PortRing(self.ports + 2 * n * PortRing::BYTES)
    }

    /// Where packets for it go.
    pub(super) fn sink(&self, n: u64) -> PortRing {
        PortRing(self.ports + (2 * n + 1) * PortRing::BYTES)
    }

    /// The packet in buffer `n`.
    pub(super) fn packet(&self, n: u64) -> Address {
        self.buffers + n * BUFFER + HEADROOM
    }
}

/// Four magazines of 32 addresses and their counts.
const CACHE: u64 = 9 * PAIR;
