//! Frames over a stream socket, Unix or TCP, each behind its length in four bytes (big-endian).
//!
//! The wire format of QEMU's `-netdev stream` and `-netdev socket` (`net/stream.c`, `net/socket.c`, `net_fill_rstate`
//! in `net/net.c`) and of `passt`, so that guests without shared memory can be connected too. `control` is the
//! port's life, `wire` the connection that both queues and control hold, `rx` and `tx` the queues, `frames` says what
//! a row of bytes begins with.
//!
//! The peer is as hostile as a guest. It may send anything, stop in the middle of a frame, stop reading, leave and
//! come back; the worst it gets is its own port stopped with a named reason. No worker waits for it: every call to
//! the kernel returns at once.

mod control;
mod frames;
#[doc(hidden)]
pub mod fuzz;
mod rx;
mod sys;
mod tx;
mod wire;

pub use crate::socket::{ListenError, Site};
pub use control::Stream;

#[cfg(test)]
mod tests;
