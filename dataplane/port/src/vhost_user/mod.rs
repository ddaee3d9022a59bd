//! A virtual machine's port: the back end (device side) of the vhost-user protocol.
//!
//! `session` is one connection's state; `control` is the port's life (listening, connecting, letting go); `back_end` is the
//! protocol for a program with rings of its own; `rx` and `tx` are its queues on the fast path; `setup` is what a session
//! hands to them. The protocol itself is in [`crate::vhost`]. A front end is hostile until proven otherwise: it may send any
//! message at any time, and the worst it gets is its own port stopped with a named reason.

pub(crate) mod avail_cache;
mod back_end;
mod control;
#[doc(hidden)]
pub mod fake;
mod fill;
#[doc(hidden)]
pub mod fuzz;
mod rx;
mod session;
pub mod setup;
mod tx;

pub use crate::queue::{MAX_QUEUE_PAIRS, OutOfRange};
pub use crate::socket::ListenError;
pub use back_end::{BackEnd, BackEndError};
pub use control::{Options, PlugError, VhostUser};
pub use session::{Offer, Queues, Session};

/// The fast path's queues.
#[doc(hidden)]
pub const QUEUES: Queues = Queues { rx: rx::VhostRx::start, tx: tx::VhostTx::start };
