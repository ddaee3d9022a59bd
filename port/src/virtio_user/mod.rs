//! The front end (driver side) of the vhost-user protocol: a guest without a virtual machine.
//!
//! [`FrontEnd`] speaks to any back end (this project's, DPDK's, Open vSwitch's) over the same protocol code as the
//! switch. It is a guest's start-up and shutdown, so it may block, but never longer than the timeout it was given.
//! It knows addresses and event descriptors of rings and not what is in them: the driver's rings and the data
//! path lie elsewhere. It must never run on a worker.

mod error;
mod front_end;
mod listener;
mod rings;

pub use crate::vhost_user::message::ProtocolFeatures;
pub use crate::vhost_user::{Features, ListenError};
pub use error::FrontEndError;
pub use front_end::{FrontEnd, Negotiated, SharedRegion};
pub use listener::FrontEndListener;
pub use rings::VringSetup;

#[cfg(test)]
mod tests;
