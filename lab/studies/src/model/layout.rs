//! Memory layout of the model: all addresses follow from a [`Config`] alone.
//!
//! The two rings come first, then the reused headers, if any, then three pools: the guest's, Rx's and Tx's.

use super::config::{Config, Order};
use super::modulo::Modulo;
use sim::memory::{Address, LINE, Width};

/// Addresses of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Index of the filler's next slot
    pub last_avail: Address,
    /// Index of the emptier's next slot
    pub last_used: Address,
    /// Index of the pool's next buffer
    pub last_pool: Address,
    pub(super) descriptors: Address,
    pub(super) end: Address,
}

/// Pool of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Buffers that Rx and Tx share with the guest
    Guest,
    /// Buffers of arriving packets
    Rx,
    /// Buffers of leaving packets
    Tx,
}

/// All addresses of one experiment.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Ring from Rx to Guest
    pub rx: Ring,
    /// Ring from Guest to Tx
    pub tx: Ring,
    /// Access width of indices
    pub index_width: Width,
    /// Access width of a descriptor's buffer index
    pub entry_width: Width,
    pub(super) config: Config,
    headers: Address,
    pools: Address,
    step: u64,
    multiplier: u64,
    in_ring: Modulo,
    in_pool: Modulo,
    pool_bytes: u64,
}

/// Allocates consecutive addresses.
struct Cursor(Address);

impl Cursor {
    fn take(&mut self, bytes: u64, own_line: bool) -> Address {
        if own_line {
            self.0 = self.0.next_multiple_of(LINE);
        }
        let at = self.0;
        self.0 += bytes;
        if own_line {
            self.0 = self.0.next_multiple_of(LINE);
        }
        at
    }
}

fn ring(from: Address, config: &Config) -> Ring {
    let index = if config.wide_indices { 8 } else { 2 };
    let mut cursor = Cursor(if config.aligned { from.next_multiple_of(LINE) } else { from });
    let table = config.ring * config.descriptor;
    let early = config.descriptors_first.then(|| cursor.take(table, config.aligned));
    // The ring's size, which is not read while packets pass.
    cursor.take(index, false);
    let last_avail = cursor.take(index, config.own_avail);
    let last_used = cursor.take(index, config.own_used);
    // An index of 4 bytes after three of 2 is aligned to 4.
    cursor.0 = cursor.0.next_multiple_of(4);
    let last_pool = cursor.take(4, config.own_pool);
    cursor.0 = cursor.0.next_multiple_of(config.descriptor.min(16));
    let descriptors = early.unwrap_or_else(|| cursor.take(table, config.aligned));
    Ring { last_avail, last_used, last_pool, descriptors, end: cursor.0 }
}

impl Layout {
    /// Computes the layout of an experiment.
    pub fn new(config: &Config) -> Layout {
        let rx = ring(0, config);
        let tx = ring(rx.end, config);
        let headers = tx.end.next_multiple_of(4096);
        let reused = config.reused_headers.unwrap_or(0) * 3;
        let pools = (headers + reused * config.header).next_multiple_of(4096);
        let front = if config.reused_headers.is_some() { 0 } else { config.header };
        let step = front + config.headroom + config.data;
        Layout {
            rx,
            tx,
            index_width: if config.wide_indices { Width::Eight } else { Width::Two },
            entry_width: if config.descriptor < 16 { Width::Four } else { Width::Eight },
            config: config.clone(),
            headers,
            pools,
            step,
            multiplier: multiplier(config.pool, config.seed),
            in_ring: Modulo::new(config.ring),
            in_pool: Modulo::new(config.pool),
            pool_bytes: (config.pool * step).next_multiple_of(4096),
        }
    }

    /// Size of the arena in bytes.
    pub fn bytes(&self) -> u64 {
        (self.pools + 3 * self.pool_bytes).next_multiple_of(4096)
    }

    /// Address of the descriptor of the `n`-th packet in a ring.
    #[inline]
    pub fn descriptor(&self, ring: &Ring, n: u64) -> Address {
        let mut slot = self.in_ring.of(n);
        if self.config.stride > 1 {
            let groups = self.config.ring / self.config.stride;
            slot = (slot % groups) * self.config.stride + slot / groups;
        }
        ring.descriptors + slot * self.config.descriptor
    }

    /// Initial values of both rings: descriptors without buffers.
    pub fn empty_rings(&self) -> impl Iterator<Item = (Address, Width, u64)> + '_ {
        let slots = (0..self.config.ring).flat_map(|n| [(self.rx, n), (self.tx, n)]);
        slots.map(|(ring, n)| (self.descriptor(&ring, n), self.entry_width, empty(self.entry_width)))
    }

    /// Index of the `n`-th buffer taken from a pool.
    #[inline]
    pub fn buffer(&self, n: u64) -> u64 {
        let n = self.in_pool.of(n);
        match self.config.order {
            Order::Sequential => n,
            Order::Permuted => self.in_pool.of(n * self.multiplier),
        }
    }

    /// Address of the header of a pool's buffer.
    #[inline]
    pub fn header(&self, pool: Pool, buffer: u64) -> Address {
        match self.config.reused_headers {
            Some(few) => self.headers + ((pool as u64) * few + buffer % few) * self.config.header,
            None => self.start(pool, buffer),
        }
    }

    /// Address of the packet in a pool's buffer.
    #[inline]
    pub fn packet(&self, pool: Pool, buffer: u64) -> Address {
        let front = if self.config.reused_headers.is_some() { 0 } else { self.config.header };
        self.start(pool, buffer) + front + self.config.headroom
    }

    #[inline]
    fn start(&self, pool: Pool, buffer: u64) -> Address {
        self.pools + (pool as u64) * self.pool_bytes + buffer * self.step
    }
}

/// Value of a descriptor without a buffer: all ones in the width of the index.
pub fn empty(width: Width) -> u64 {
    if width == Width::Eight { u64::MAX } else { u64::from(u32::MAX) }
}

/// Distance between consecutively taken buffers as a fraction of the pool, by seed: the golden ratio for 1, otherwise a
/// fraction near it, so that the permutation scatters about as well.
fn part(seed: u64) -> f64 {
    if seed == 1 { 0.618_033_988_749 } else { 0.56 + 0.12 * fastrand::Rng::with_seed(seed).f64() }
}

/// Returns a multiplier coprime to the pool's size, so that each buffer comes once per round.
fn multiplier(pool: u64, seed: u64) -> u64 {
    let near = (pool as f64 * part(seed)) as u64 | 1;
    (near..).step_by(2).find(|m| gcd(*m, pool) == 1).unwrap_or(1)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(pool: u64, seed: u64) -> Vec<u64> {
        let layout = Layout::new(&Config { pool, seed, ..Config::default() });
        (0..pool).map(|n| layout.buffer(n)).collect()
    }

    #[test]
    fn each_buffer_comes_once_a_round_for_any_seed() {
        for (pool, seed) in [(1024, 1), (1024, 7), (1000, 3), (4099, u64::MAX), (1, 2), (2, 9)] {
            let mut order = order(pool, seed);
            order.sort_unstable();
            assert_eq!(order, (0..pool).collect::<Vec<_>>(), "{pool} buffers, seed {seed}");
        }
    }

    #[test]
    fn seeds_give_different_orders() {
        let orders: Vec<_> = (1..=20).map(|seed| order(163_456, seed)[1]).collect();
        assert_eq!(orders[0], 101_021);
        let distinct: std::collections::BTreeSet<_> = orders.iter().collect();
        assert!(distinct.len() >= 19, "{orders:?}");
    }
}
