//! Sizes of handoff queues, which the laboratory's models share.

use super::entry::HandoffEntry;
use crate::model::HandoffConfig;

/// Size of an entry in bytes.
pub const ENTRY: usize = size_of::<HandoffEntry>();
/// Headroom for headers that pipelines add; the head of a burst grows by at most this.
pub const HEADROOM: usize = 64;
/// Buffer size: holds a full Ethernet frame, and is an odd number of cache-line pairs.
pub const BUFFER: u16 = 17 * 128;
/// Buffers of one thread outside of rings: two bursts of two stages, and a cache of the pool.
const BESIDE: usize = 512;

/// Number of buffers for `handoffs` handoff queues between `threads` threads.
pub fn buffers(config: &HandoffConfig, handoffs: usize, threads: usize) -> usize {
    let ring = config.ring.next_power_of_two() + config.read_unit;
    // Bursts may hold as many buffers as rings if packets are longer than a buffer.
    (2 * handoffs * ring + threads * BESIDE).max(config.buffers)
}
