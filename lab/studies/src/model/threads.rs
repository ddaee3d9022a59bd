//! The three threads. Each runs one batch per call and polls for every descriptor that it does not own yet, so the
//! threads may share a processor if they alternate batch by batch.
//!
//! Protocol: the buffer index of a descriptor defines its owner. With [`empty`] the filler may write it, with any other
//! value the emptier may read it. To pass a descriptor on, a thread stores its other fields first and the index last;
//! stores become visible in order, so a thread that sees the index sees all fields.

use super::config::{Config, HeaderOwner, HeaderUse};
use super::layout::{Layout, Pool, Ring, empty};
use sim::memory::{Address, Copying, Intent, LINE, Memory, Width};

/// Instructions of a step besides those that access the arena: address arithmetic, calls, loop and branches. Rx and Tx
/// take one step per packet, Guest three: it takes the packet, handles it and passes it on. A free constant, fitted to
/// the published ratios of (a) and (a)+(d); our own program on real memory, which reads its configuration at run time,
/// takes 160 to 260 instructions per packet (`lab/studies/examples/instructions.rs`).
pub(crate) const STEP: u64 = 40;

/// Header prefetch distance in packets, as in DPDK's forwarding examples (`PREFETCH_OFFSET`).
const AHEAD: u64 = 3;

/// Common interface of the three threads.
pub trait Thread {
    /// Runs one batch, polling for every descriptor that is not ready.
    fn batch<M: Memory>(&mut self, memory: &mut M);
}

/// Common state of the three threads.
#[derive(Clone, Debug)]
struct Common {
    config: Config,
    layout: Layout,
    /// Packets so far.
    done: u64,
}

impl Common {
    fn new(config: &Config) -> Common {
        Common { config: config.clone(), layout: Layout::new(config), done: 0 }
    }

    fn entry(&self, ring: &Ring, n: u64) -> Address {
        self.layout.descriptor(ring, self.done + n)
    }

    /// Polls until the descriptor is free or filled, and returns its buffer index.
    #[inline]
    fn await_entry<M: Memory>(&self, memory: &mut M, at: Address, free: bool) -> u64 {
        let width = self.layout.entry_width;
        loop {
            let index = memory.load(at, width);
            if (index == empty(width)) == free {
                return index;
            }
            memory.pause(at);
        }
    }

    /// Loads and stores one of a ring's indices, as each packet does.
    #[inline]
    fn advance<M: Memory>(&self, memory: &mut M, at: Address, n: u64) {
        let width = self.layout.index_width;
        memory.load(at, width);
        memory.store(at, width, (self.done + n + 1) & 0xffff);
    }

    /// Accesses the header of a thread's packet.
    #[inline]
    fn use_header<M: Memory>(&self, memory: &mut M, own: Pool, own_buffer: u64, guest_buffer: u64) {
        let config = &self.config;
        if config.header == 0 || config.header_use == HeaderUse::NotWritten {
            return;
        }
        let at = match config.header_owner {
            HeaderOwner::Private => self.layout.header(own, own_buffer),
            HeaderOwner::Shared => self.layout.header(Pool::Guest, guest_buffer),
        };
        let first = config.header.min(LINE);
        memory.read(at, if config.header_use == HeaderUse::ReadFour { 4 } else { first.min(16) });
        match config.header_use {
            HeaderUse::WriteFour => memory.write(at, 4),
            _ => memory.write(at, config.header),
        }
    }

    /// Whether headers are prefetched some packets ahead.
    fn prefetches(&self) -> bool {
        self.config.header > 0 && self.config.header_use == HeaderUse::PrefetchWrite
    }

    /// Prefetches the header of a later packet whose buffer is known.
    #[inline]
    fn fetch_own_header<M: Memory>(&self, memory: &mut M, pool: Pool, n: u64) {
        self.fetch_header(memory, self.layout.header(pool, self.layout.buffer(self.done + n)));
    }

    /// Prefetches both lines of a header for writing.
    #[inline]
    fn fetch_header<M: Memory>(&self, memory: &mut M, at: Address) {
        memory.prefetch(at, Intent::Write);
        if self.config.header > LINE {
            memory.prefetch(at + LINE, Intent::Write);
        }
    }

    /// Executes the instructions of `steps` steps with the `n`-th packet of a batch; packets vary by up to a half, as
    /// their branches do.
    #[inline]
    fn work<M: Memory>(&self, memory: &mut M, steps: u64, n: u64) {
        let scattered = (self.done + n).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        let most = STEP * steps;
        memory.work(most / 2 + ((most * scattered) >> 16));
    }

    fn copy<M: Memory>(&self, memory: &mut M, from: Address, to: Address, how: Copying) {
        if how == Copying::None {
            return;
        }
        memory.copy(from, to, self.config.packet, how);
        if let Some(cleaning) = self.config.after_copy {
            memory.clean(to, cleaning);
        }
    }

    /// Passes a batch's descriptors on.
    #[inline]
    fn publish<M: Memory>(&self, memory: &mut M, ring: &Ring, index: impl Fn(u64) -> u64) {
        let batch = self.config.batch;
        let held =
            if self.config.first_line_last { (LINE / self.config.descriptor).clamp(1, batch) } else { 0 };
        for n in (held..batch).chain(0..held) {
            let at = self.entry(ring, n);
            if self.config.descriptor >= 8 {
                // The flags, in the same line as the index.
                memory.store(at + self.config.descriptor.min(16) - 2, Width::Two, 1);
            }
            memory.store(at, self.layout.entry_width, index(n));
            memory.work(2);
        }
    }
}

/// Copies arrived packets into the guest's buffers.
#[derive(Clone, Debug)]
pub struct Rx(Common);

/// Moves packets from the receive ring to the transmit ring.
#[derive(Clone, Debug)]
pub struct Guest {
    common: Common,
    taken: Vec<u64>,
}

/// Copies packets out of the guest's buffers.
#[derive(Clone, Debug)]
pub struct Tx(Common);

impl Rx {
    /// Creates the Rx thread of an experiment.
    pub fn new(config: &Config) -> Rx {
        Rx(Common::new(config))
    }
}

impl Thread for Rx {
    fn batch<M: Memory>(&mut self, memory: &mut M) {
        let Rx(common) = self;
        let ring = common.layout.rx;
        for n in 0..common.config.batch {
            let buffer = common.layout.buffer(common.done + n);
            let own = common.layout.packet(Pool::Rx, buffer);
            if common.prefetches() {
                common.fetch_own_header(memory, Pool::Rx, n + AHEAD);
            }
            // The packet arrives: its identity and length.
            memory.write(own, 16);
            memory.load(ring.last_pool, Width::Four);
            common.await_entry(memory, common.entry(&ring, n), true);
            common.copy(memory, own, common.layout.packet(Pool::Guest, buffer), common.config.copy_rx);
            common.use_header(memory, Pool::Rx, buffer, buffer);
            common.advance(memory, ring.last_avail, n);
            common.work(memory, 1, n);
        }
        common.publish(memory, &ring, |n| common.layout.buffer(common.done + n));
        common.done += common.config.batch;
        memory.store(ring.last_pool, Width::Four, common.done % common.config.pool);
    }
}

impl Guest {
    /// Creates the Guest thread of an experiment.
    pub fn new(config: &Config) -> Guest {
        Guest { common: Common::new(config), taken: vec![0; config.batch as usize] }
    }
}

impl Thread for Guest {
    fn batch<M: Memory>(&mut self, memory: &mut M) {
        let Guest { common, taken } = self;
        let (rx, tx) = (common.layout.rx, common.layout.tx);
        for n in 0..common.config.batch {
            let buffer = common.await_entry(memory, common.entry(&rx, n), false);
            common.advance(memory, rx.last_used, n);
            memory.load(rx_length(common, &rx, n), Width::Two);
            common.await_entry(memory, common.entry(&tx, n), true);
            memory.follows();
            if common.prefetches() {
                fetch_next_header(common, memory, &rx, n + AHEAD);
            }
            common.use_header(memory, Pool::Guest, buffer, buffer);
            common.advance(memory, tx.last_avail, n);
            taken[n as usize] = buffer;
            common.work(memory, 3, n);
        }
        common.publish(memory, &tx, |n| taken[n as usize]);
        common.publish(memory, &rx, |_| empty(common.layout.entry_width));
        common.done += common.config.batch;
    }
}

/// Prefetches the header of a later packet, if it has already arrived.
#[inline]
fn fetch_next_header<M: Memory>(common: &Common, memory: &mut M, ring: &Ring, n: u64) {
    let width = common.layout.entry_width;
    let next = memory.load(common.entry(ring, n), width);
    if next != empty(width) {
        memory.follows();
        common.fetch_header(memory, common.layout.header(Pool::Guest, next));
    }
}

/// Address of a descriptor's length: within the descriptor, so in the line that was polled.
fn rx_length(common: &Common, ring: &Ring, n: u64) -> Address {
    common.entry(ring, n) + common.config.descriptor.min(16) / 2
}

impl Tx {
    /// Creates the Tx thread of an experiment.
    pub fn new(config: &Config) -> Tx {
        Tx(Common::new(config))
    }
}

impl Thread for Tx {
    fn batch<M: Memory>(&mut self, memory: &mut M) {
        let Tx(common) = self;
        let ring = common.layout.tx;
        for n in 0..common.config.batch {
            let own = common.layout.buffer(common.done + n);
            if common.prefetches() {
                common.fetch_own_header(memory, Pool::Tx, n + AHEAD);
            }
            let buffer = common.await_entry(memory, common.entry(&ring, n), false);
            common.advance(memory, ring.last_used, n);
            memory.follows();
            let from = common.layout.packet(Pool::Guest, buffer);
            if common.config.prefetch_packet {
                memory.prefetch(from, Intent::Read);
            }
            common.copy(memory, from, common.layout.packet(Pool::Tx, own), common.config.copy_tx);
            common.use_header(memory, Pool::Tx, own, buffer);
            common.work(memory, 1, n);
        }
        common.publish(memory, &ring, |_| empty(common.layout.entry_width));
        common.done += common.config.batch;
    }
}
