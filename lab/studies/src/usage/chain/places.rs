//! Memory layout of the simulated switch, and the parts that its lines belong to.

use super::handoff::Handoff;
use super::pool::Depot;
use engine::{HandoffConfig, handoff_sizes};
use mem::line::Padded;
use mem::pool::{Cache, stride};
use sim::memory::Address;

/// Parts of the arena whose lines are counted separately, in arena order.
pub const PARTS: [&str; 6] = [
    "pool's depot",
    "positions of handoff queues",
    "entries of handoff queues",
    "threads' own",
    "rings of ports",
    "packets",
];

/// A pair of lines, which the adjacent-line prefetcher fetches together.
const PAIR: u64 = align_of::<Padded<u8>>() as u64;
/// Distance between buffers of the pool.
const BUFFER: u64 = stride(handoff_sizes::BUFFER) as u64;
/// Offset of a packet in its buffer.
const HEADROOM: u64 = handoff_sizes::HEADROOM as u64;
/// Frame size in bytes.
pub(super) const FRAME: u64 = 64;
/// Distance between frames in a port's memory.
const PLACE: u64 = 2048;
/// Entries of a port's ring, and size of an entry in bytes.
const ENTRIES: u64 = 1024;
const ENTRY: u64 = 16;
/// Distance between heads in a burst (including headroom), offset of a head, and number of heads.
const SLOT: u64 = port::HEAD_SLOT as u64;
const HEAD: u64 = port::HEAD_HEADROOM as u64;
pub(super) const BURST: u64 = port::BURST as u64;

/// A port's ring in one direction, with its frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortRing(Address);

impl PortRing {
    const BYTES: u64 = ENTRIES * (ENTRY + PLACE);

    /// Address of the descriptor of packet `n`.
    pub(super) fn descriptor(self, n: u64) -> Address {
        self.0 + n % ENTRIES * ENTRY
    }

    /// Address of the frame of packet `n`.
    pub(super) fn frame(self, n: u64) -> Address {
        self.0 + ENTRIES * ENTRY + n % ENTRIES * PLACE
    }
}

/// Heads of a burst.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heads(Address);

impl Heads {
    pub(super) fn at(self, n: u64) -> Address {
        self.0 + n % BURST * SLOT + HEAD
    }
}

/// Numbers of objects to place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    pub(super) handoffs: u64,
    pub(super) threads: u64,
    pub(super) stages: u64,
    pub(super) caches: u64,
    pub(super) ports: u64,
}

/// Addresses of the simulated switch.
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

/// Allocates consecutive addresses.
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
        let (handoffs, threads) = (needs.handoffs as usize, needs.threads as usize);
        let buffers = handoff_sizes::buffers(&HandoffConfig::default(), handoffs, threads) as u64;
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

    /// Address of the magazines of cache `n`.
    pub(super) fn cache(&self, n: u64) -> Address {
        self.caches + n * CACHE
    }

    pub(super) fn heads(&self, n: u64) -> Heads {
        Heads(self.heads + n * BURST * SLOT)
    }

    /// Address that the bystander thread writes to.
    pub(super) fn idle(&self) -> Address {
        self.idle
    }

    /// Ring that port `n` receives from.
    pub(super) fn source(&self, n: u64) -> PortRing {
        PortRing(self.ports + 2 * n * PortRing::BYTES)
    }

    /// Ring that port `n` sends to.
    pub(super) fn sink(&self, n: u64) -> PortRing {
        PortRing(self.ports + (2 * n + 1) * PortRing::BYTES)
    }

    /// Address of the packet in buffer `n`.
    pub(super) fn packet(&self, n: u64) -> Address {
        self.buffers + n * BUFFER + HEADROOM
    }
}

/// Size of a pool cache: its stack and its counts.
const CACHE: u64 = size_of::<Cache>().next_multiple_of(PAIR as usize) as u64;
