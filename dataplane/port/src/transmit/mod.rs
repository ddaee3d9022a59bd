//! Sending in three steps: reserve, write, commit.
//!
//! [`TxQueue::reserve`](crate::TxQueue::reserve) takes places for frames of known lengths ([`Slots`]), the caller writes the
//! frames into them ([`Slots::write_packet`], [`Slots::write`]), and [`TxQueue::commit`](crate::TxQueue::commit) sends them in
//! the order in which they were reserved. The queues of rings ([`RingTx`] over a [`TxRing`]: vhost-user, virtio-user, memif)
//! reserve in the ring's own memory, so a frame is written once, where its receiver reads it. Other queues reserve in private
//! memory ([`staged`]).
//!
//! Each worker has a handle of its own. Several handles of one ring share it under a lock that is held while places are taken
//! and while they are posted, never while frames are written; `tickets` keeps the order.

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
pub(crate) use slots::{Filled, Form, Told};
