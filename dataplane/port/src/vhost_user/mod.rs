//! Port of a virtual machine: the back end (device side) of the vhost-user protocol.
//!
//! `session` is the state of one connection; `control` is the port's control side (listening, connecting,
//! disconnecting); `back_end` is the protocol for a program with its own rings; `rx` and `tx` are the fast-path
//! queues; `setup` describes a ring to them. `positions` keeps the
//! positions of packed rings in a file. The protocol itself is in [`crate::vhost`]. A front end is untrusted: it
//! may send any message at any time, and a violation stops only its own port, with a named fault.

pub(crate) mod avail_cache;
mod back_end;
mod control;
#[doc(hidden)]
pub mod fake;
mod fill;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod positions;
mod rx;
mod session;
pub mod setup;
mod tx;

pub use crate::queue::{MAX_QUEUE_PAIRS, OutOfRange};
pub use crate::socket::ListenError;
#[doc(hidden)]
pub use avail_cache::{PART, PREFETCH};
pub use back_end::{BackEnd, BackEndError};
pub use control::{Options, PlugError, VhostUser};
pub use session::{MAX_BYTES, Offer, Queues, Session};

/// Constructors of the fast-path queues.
#[doc(hidden)]
pub const QUEUES: Queues = Queues { rx: rx::VhostRx::start, tx: tx::VhostTx::start };
