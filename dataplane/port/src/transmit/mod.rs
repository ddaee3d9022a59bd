//! Sending in three steps: reserve, write, commit.
//!
//! [`TxQueue::reserve`](crate::TxQueue::reserve) reserves slots for frames of known lengths ([`Slots`]), the caller
//! writes the frames to them ([`Slots::write_packet`], [`Slots::write`]), and
//! [`TxQueue::commit`](crate::TxQueue::commit) sends them in reservation order. Ring queues ([`RingTx`] over a
//! [`TxRing`]: vhost-user, virtio-user, memif) reserve slots in the ring's buffers, so a frame is written once, to
//! its final location. Other queues reserve slots in private memory ([`staged`]).
//!
//! Each worker has its own handle. Several handles of one ring share it under a lock, which is held while slots are
//! reserved and while they are posted, never while frames are written; `tickets` preserves the order.

mod checksum;
mod queue;
mod ring;
mod slots;
mod staged;
#[cfg(test)]
pub(crate) mod tests;
mod tickets;

pub(crate) use queue::RingTx;
pub(crate) use ring::{Taken, TxRing};
pub use slots::Slots;
pub(crate) use slots::{Filled, Form, HeaderKind};
