//! State of a stopped queue, for migration of a guest and for takeover of a port by another process.
//!
//! All kinds have the same interface: [`RxQueue::freeze`](crate::RxQueue::freeze) and
//! [`TxQueue::freeze`](crate::TxQueue::freeze) return a [`QueueState`], and the function of the kind that starts a
//! queue takes one (`thaw` of virtio-user and memif, the base in vhost-user's `QueueSetup`). The state is plain data
//! without addresses or descriptors; memory and eventfds are passed separately. A queue that moves between workers of
//! one process moves as a whole and needs no state.
//!
//! A state is validated when a queue starts from it ([`PortFault::State`](crate::PortFault::State)), because it may
//! have been stored or sent by another version.

use crate::PortFault;
use ring::driver::{DriverState, Used};

/// State of a stopped queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum QueueState {
    /// No state: the next queue starts with empty rings. The only state of kinds without rings in shared memory (AF_XDP,
    /// files).
    #[default]
    Fresh,
    /// A virtqueue in the peer's memory (vhost-user).
    Ring {
        /// Position as encoded by `GET_VRING_BASE` and `SET_VRING_BASE`. Split: the next available index, which is
        /// also the used index. Packed: bits 0-14 next available, bit 15 its wrap counter, bits 16-30 next used, bit
        /// 31 its wrap counter. Buffers taken ahead of need are available again from this position.
        base: u32,
    },
    /// A virtqueue in the port's own memory (virtio-user).
    Driver(Box<DriverQueue>),
    /// A memif ring.
    Memif(Box<MemifQueue>),
    /// Frames that the kernel has passed to a TAP queue and that the queue has not received yet, each behind its offload
    /// header.
    Frames(Vec<Box<[u8]>>),
    /// Position in the blocks of a packet socket. Its blocks before `block` belong to the kernel.
    Blocks {
        /// Current block, or the next one if no frame is left.
        block: u16,
        /// Offset of the next frame in the block.
        at: u32,
        /// Number of frames left in the block.
        left: u32,
    },
    /// Bytes that a stream queue has read, behind the last frame that it has passed on.
    Bytes(Box<[u8]>),
}

/// State of a virtio-user queue. Buffers that it does not name are free (transmit) or posted again (receive).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverQueue {
    /// State of the ring.
    pub ring: DriverState,
    /// Receive: buffers of an incomplete frame.
    pub waiting: Vec<Used>,
    /// Transmit: for each buffer, the next one of its frame, or `u16::MAX`. Empty if no frame spans buffers.
    pub links: Vec<u16>,
}

/// State of a memif queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemifQueue {
    /// Next entry to receive from or send in. Positions are not reduced modulo the ring's size.
    pub at: u16,
    /// Receive: first entry that was not returned. Less than `at` by the number of retained buffers.
    pub done: u16,
    /// Receiving client: for each entry, the number of its buffer. Otherwise empty.
    pub held: Vec<u16>,
}

mod encoding;

/// Error for a state of another queue kind than the one that starts from it.
pub(crate) const OTHER_KIND: PortFault = PortFault::State("it is of another kind of queue");

#[cfg(test)]
pub(crate) mod tests;
