//! The front end (driver side) of the vhost-user protocol: a guest without a virtual machine.
//!
//! Two users of one protocol code (`opening` agrees on features, `script` says the rest). [`VirtioUser`] is a port
//! of the switch: `control` is its life (`link`), `device` its memory, rings and `buffers`, `rx` and `tx`
//! its queues on the fast path. [`FrontEnd`] is for a guest that brings memory and rings of its own; it may block,
//! never longer than the timeout it was given, and must never run on a worker.
//!
//! Either speaks to any back end: this project's, DPDK's, Open vSwitch's. A back end is as hostile as a guest: what
//! it answers and what it writes into the rings is judged, and the worst it gets is its own port stopped with a
//! named reason.

mod buffers;
mod control;
mod device;
mod error;
mod front_end;
#[doc(hidden)]
pub mod fuzz;
mod link;
mod links;
mod listener;
mod offloads;
mod opening;
mod options;
mod rings;
mod rx;
mod script;
mod tx;

pub use crate::memory::MAX_MEMORY;
pub use crate::socket::ListenError;
pub use crate::vhost::Features;
pub use crate::vhost::message::ProtocolFeatures;
pub use control::VirtioUser;
pub use error::FrontEndError;
pub use front_end::{FrontEnd, Negotiated, SharedRegion};
pub use listener::FrontEndListener;
pub use options::{MAX_QUEUE_SIZE, MIN_QUEUE_SIZE, Options, PlugError, RingKind, UnknownRing};
pub use rings::VringSetup;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod thaw_tests;
