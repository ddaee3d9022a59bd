//! Two ports of one process that are each other's peer, as two ends of a cable are: what one sends, the other receives.
//!
//! They are joined through the rings and queues of [`crate::memif`] without a socket: the second end to arrive makes the
//! memory, and the other maps what it made. `exchange` is where the two meet, `control` a port's life. Nothing is ever
//! trusted less for being near: the queues judge as they always do.

mod control;
mod exchange;

pub use control::Patch;
pub use exchange::Exchange;

#[cfg(test)]
mod tests;
