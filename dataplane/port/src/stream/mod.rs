//! Frames over a stream socket, Unix or TCP, each prefixed with a four-byte big-endian length.
//!
//! The wire format of QEMU's `-netdev stream` and `-netdev socket` (`net/stream.c`, `net/socket.c`, `net_fill_rstate`
//! in `net/net.c`) and of `passt`, for guests without shared memory. `control` is the control side, `connection` the
//! connection shared by queues and control, `rx` and `tx` are the queues, `frames` is the framing, `handover` passes the
//! port to another process.
//!
//! The peer is untrusted, like a guest. It may send anything, stop in the middle of a frame, stop reading, disconnect
//! and reconnect; only its own port is affected, which stops with a reason. Workers do not wait for it: all system
//! calls are non-blocking.

mod connection;
mod control;
mod frames;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod handover;
mod rx;
mod sys;
mod tx;

pub use crate::socket::{ListenError, SocketAddress};
pub use control::Stream;

#[cfg(test)]
mod handover_tests;
#[cfg(test)]
mod tests;
