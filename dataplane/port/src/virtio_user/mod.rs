//! Front end (driver side) of the vhost-user protocol: a guest without a virtual machine.
//!
//! Two users share the protocol code (`negotiation` negotiates features, `script` generates the other requests).
//! [`VirtioUser`] is a port of the switch: `control` is its control side (with `link`), `device` its memory, rings
//! and `buffers`, `rx` and `tx` its fast-path queues, `handover` passes it to another process. [`FrontEnd`] is for a
//! guest with its own memory and rings; it may block up to its timeout and must never run on a worker.
//!
//! Both work with any back end: this project's, DPDK's, Open vSwitch's. A back end is as untrusted as a guest: its
//! replies and its writes to the rings are validated, and a violation stops only its own port, with a named fault.

mod buffers;
mod control;
mod device;
mod error;
mod front_end;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod handover;
mod link;
mod links;
mod listener;
mod negotiation;
mod offloads;
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
mod grant_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod thaw_tests;
