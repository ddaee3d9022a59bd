//! Patch ports: two ports of one process that are connected to each other, like the ends of a cable.
//!
//! They use the rings and queues of [`crate::memif`] without a socket: the second end to arrive allocates the memory,
//! and the other maps it. `exchange` is the rendezvous, `control` the control side. The queues validate ring content as
//! for any memif peer.

mod control;
mod exchange;

pub use control::Patch;
pub use exchange::Exchange;

#[cfg(test)]
mod tests;
