//! Memory layout of a path, and the names of its lines.

use super::Path;
use super::virtqueue::Virtqueue;
use sim::memory::Address;

/// Distance between buffers of a pool: the pool's own header, the buffer's (128), headroom (128) and data, as in
/// testpmd.
pub(super) const BUFFER: u64 = 2368;
/// Offset of the packet in a buffer.
pub(super) const PACKET_AT: u64 = 256;
/// Size of the virtio-net header, including the number of buffers.
pub(super) const NET_HEADER: u64 = 12;
/// Number of the guest's buffers (`--total-num-mbufs`).
const BUFFERS: u64 = 32_768;
/// Size of the switch's private memory.
const OWN: u64 = 1 << 20;

/// Addresses of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    /// Receive and transmit ring of the guest for each port
    pub(super) receive: [Virtqueue; 2],
    pub(super) transmit: [Virtqueue; 2],
    buffers: Address,
    /// The switch's private memory: its bursts, or its buffers
    pub(super) own: Address,
    pub(super) bytes: u64,
}

impl Places {
    pub(super) fn new(path: &Path) -> Places {
        let size = Virtqueue::bytes(path.entries);
        let queue = |n: u64| Virtqueue::new(path.ring, n * size, path.entries);
        let buffers = 4 * size;
        let own = (buffers + BUFFERS * BUFFER).next_multiple_of(4096);
        Places {
            receive: [queue(0), queue(1)],
            transmit: [queue(2), queue(3)],
            buffers,
            own,
            bytes: own + OWN,
        }
    }

    /// Addresses of the guest's buffers, in the pool's initial order.
    pub(super) fn guest_buffers(&self) -> impl Iterator<Item = Address> + use<> {
        let buffers = self.buffers;
        (0..BUFFERS).map(move |n| buffers + n * BUFFER)
    }

    /// Returns the purpose and the part of a ring or buffer at an address.
    pub(super) fn name(&self, at: Address) -> (&'static str, &'static str) {
        for (way, queues) in [("to the switch", &self.transmit), ("to the guest", &self.receive)] {
            if let Some(part) = queues.iter().find_map(|queue| queue.part(at)) {
                return (way, part);
            }
        }
        if at >= self.own {
            return ("switch", "its own memory");
        }
        let within = (at - self.buffers) % BUFFER;
        match within {
            0..128 => ("guest", "buffer's own header"),
            128..192 => ("frame", "headroom"),
            192..PACKET_AT => ("frame", "virtio-net header"),
            PACKET_AT..320 => ("frame", "first line"),
            _ => ("frame", "other lines"),
        }
    }
}
