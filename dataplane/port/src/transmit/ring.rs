//! Interface of a ring for [`RingTx`](super::RingTx).

use super::{Filled, Form, Slots};
use crate::{Burst, BurstStats, PortFault, QueueState};
use mem::GuestMemory;
use mem::copy::Kernel;
use std::sync::Arc;

/// Result of reserving buffers for one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The buffers were appended to the slots.
    Slot,
    /// The frame fits in no number of the peer's buffers.
    TooSmall,
    /// The peer has provided too few buffers for now.
    Full,
}

/// A transmit ring, used by one worker at a time. Buffers reserved and not posted belong to the worker that reserved
/// them; they are posted in reservation order.
pub(crate) trait TxRing: Send + 'static {
    /// Header before a frame.
    fn form(&self) -> Form;

    /// The map that contains all buffers.
    fn map(&self) -> &Arc<GuestMemory>;

    /// Looks for buffers for `n` frames if fewer are known.
    fn prepare(&mut self, n: usize) -> Result<(), PortFault>;

    /// Sends packets while each fits in the next buffer. Returns the number of packets, which are visible after
    /// [`TxRing::publish`]. The others are sent one by one with [`TxRing::take`].
    fn send_plain<K: Kernel>(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> usize;

    /// Reserves buffers for a frame of `len` bytes and appends them to `slots`; `others` frames follow. Reserves
    /// nothing unless it returns [`Taken::Slot`].
    fn take(&mut self, len: usize, others: usize, slots: &mut Slots) -> Result<Taken, PortFault>;

    /// Posts the buffers of whole frames, in reservation order. Refused buffers are posted empty or returned.
    fn post(&mut self, filled: &[Filled]);

    /// Publishes everything posted with one store.
    fn publish(&mut self);

    /// Prepares for the next call: reclaims buffers and prefetches the next ones.
    fn refill(&mut self) -> Result<(), PortFault>;

    /// Minimum number of frames of `len` bytes that can be reserved now.
    fn room(&mut self, len: usize) -> usize;

    /// As [`crate::TxQueue::depth`].
    fn depth(&mut self) -> usize;

    /// Units of work for reserving buffers since the last call ([`crate::work`]).
    fn take_work(&mut self) -> u64;

    /// Whether the peer needs a notification of entries published since the last call. The caller must have executed
    /// a sequentially consistent fence since then.
    fn needs_notification(&mut self) -> bool;

    /// Returns an error if the peer's memory was truncated.
    fn check_memory(&mut self) -> Result<(), PortFault>;

    /// Switches to a changed map.
    fn refresh(&mut self) -> Result<(), PortFault>;

    /// Returns the state from which another ring continues. This ring must not be used afterwards.
    fn freeze(&mut self) -> QueueState;
}
