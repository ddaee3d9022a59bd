//! What a ring must do so that [`RingTx`](super::RingTx) sends by it.

use super::{Filled, Form, Slots};
use crate::{Burst, BurstStats, PortFault, QueueState};
use mem::GuestMemory;
use mem::copy::Kernel;
use std::sync::Arc;

/// What became of taking buffers for one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// They stand behind the others in the slots.
    Slot,
    /// No buffers of the other side would hold the frame, however many it provides.
    TooSmall,
    /// The other side has provided too few buffers for now.
    Full,
}

/// A ring to send by, in the hands of one worker at a time. Buffers that were taken and not posted belong to the worker that
/// took them; they are posted in the order in which they were taken.
pub(crate) trait TxRing: Send + 'static {
    /// What stands in front of a frame.
    fn form(&self) -> Form;

    /// The map that all buffers lie in.
    fn map(&self) -> &Arc<GuestMemory>;

    /// Looks for buffers for `n` frames, if fewer are at hand.
    fn prepare(&mut self, n: usize) -> Result<(), PortFault>;

    /// Sends packets for as long as each fits into the buffer in front. Returns how many; they are visible after
    /// [`TxRing::publish`]. What remains is sent one by one with [`TxRing::take`].
    fn send_plain<K: Kernel>(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> usize;

    /// Takes buffers for a frame of `len` bytes behind those in `slots`; `others` frames are to follow. Takes nothing unless
    /// it returns [`Taken::Slot`].
    fn take(&mut self, len: usize, others: usize, slots: &mut Slots) -> Result<Taken, PortFault>;

    /// Posts buffers of whole frames, in the order in which they were taken. Nothing is sent in one that is refused.
    fn post(&mut self, filled: &[Filled]);

    /// Makes everything posted visible at once.
    fn publish(&mut self);

    /// Prepares for the next call: takes back buffers and fetches those that are next.
    fn refill(&mut self) -> Result<(), PortFault>;

    /// At least so many frames of `len` bytes can be taken now.
    fn room(&mut self, len: usize) -> usize;

    /// Units of work of taking buffers since the last call ([`crate::work`]).
    fn take_work(&mut self) -> u64;

    /// Whether the other side wants a notification for what was published since the last call. The caller has executed a
    /// sequentially consistent fence since.
    fn needs_notification(&mut self) -> bool;

    /// Fails if the memory of the other side was cut.
    fn check_memory(&mut self) -> Result<(), PortFault>;

    /// Takes over a changed map.
    fn refresh(&mut self) -> Result<(), PortFault>;

    /// Returns the state from which another ring continues. This one must not be used afterwards.
    fn freeze(&mut self) -> QueueState;
}
