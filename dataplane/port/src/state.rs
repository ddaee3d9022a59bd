//! The state that a stopped queue leaves, for migration of a guest and for another process that takes the port over.
//!
//! Every kind has the same shape: [`RxQueue::freeze`](crate::RxQueue::freeze) and
//! [`TxQueue::freeze`](crate::TxQueue::freeze) return a [`QueueState`], and the function of the kind that starts a queue
//! takes one (`thaw` of virtio-user and memif, the base in vhost-user's `QueueSetup`). It is plain data without
//! addresses or descriptors; memory and eventfds are passed beside it. A queue that moves between workers of one process
//! moves whole and needs none of this.
//!
//! A state is validated when a queue starts from it, because it may have been stored or sent by another version:
//! [`PortFault::State`](crate::PortFault::State).

use crate::PortFault;
use ring::driver::{DriverState, Used};

/// State of a stopped queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum QueueState {
    /// Nothing: the next queue starts with empty rings. The kinds without rings in shared memory (TAP, AF_XDP, packet
    /// sockets, streams, files) have no other state.
    #[default]
    Fresh,
    /// A virtqueue in the memory of the other side (vhost-user).
    Ring {
        /// Position as `GET_VRING_BASE` and `SET_VRING_BASE` encode it. Split: the next available index, which is also
        /// the used index. Packed: bits 0-14 next available, bit 15 its wrap counter, bits 16-30 next used, bit 31 its
        /// wrap counter. Buffers taken ahead of need are available again from there.
        base: u32,
    },
    /// A virtqueue in the port's own memory (virtio-user).
    Driver(Box<DriverQueue>),
    /// A memif ring.
    Memif(Box<MemifQueue>),
}

/// State of a virtio-user queue. Buffers that it does not name are free (transmit) or posted anew (receive).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverQueue {
    /// The ring.
    pub ring: DriverState,
    /// Receive: buffers of a frame whose other buffers are still to come.
    pub waiting: Vec<Used>,
    /// Transmit: by buffer, the one that follows it in its frame, or `u16::MAX`. Empty if no frame spans buffers.
    pub links: Vec<u16>,
}

/// State of a memif queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemifQueue {
    /// Next entry to receive from or send in. Positions count beyond the ring's size.
    pub at: u16,
    /// Receive: first entry that was not given back. It differs from `at` by the buffers that are retained.
    pub done: u16,
    /// Client that receives: by entry, the number of the buffer in it. Otherwise empty.
    pub held: Vec<u16>,
}

/// The state is of another kind of queue than the one that starts from it.
pub(crate) const OTHER_KIND: PortFault = PortFault::State("it is of another kind of queue");

#[cfg(test)]
pub(crate) mod tests;
