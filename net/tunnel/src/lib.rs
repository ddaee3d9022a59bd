//! Tunnels: their headers, and the addresses of a switch on the networks that carry them.
//!
//! [`open`] validates a received tunnel packet, [`Tunnels`] finds its tunnel, and a [`Template`] writes the headers of
//! packets to send. An [`Underlay`] answers for the addresses of the switch and resolves next hops, with packets and
//! the time passed in. The crate knows neither flows nor ports, starts no threads and reads no clock.

#![forbid(unsafe_code)]

#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod kind;
mod open;
mod options;
mod path_mtu;
mod template;
mod too_big;
mod tunnel;
mod underlay;

pub use kind::{Kind, UnknownKind};
pub use open::{Check, Malformed, Opened, Payload, open};
pub use options::{GeneveOption, geneve_options};
pub use template::{Header, Inner, MAX_HEADER, Outer, Template, TooLong};
pub use too_big::packet_too_big;
pub use tunnel::{Ambiguous, Key, TTL, Tunnel, Tunnels};
pub use underlay::{Address, Interface, Neighbour, Path, Paths, Request, Route, Sent, Underlay, Unreachable};
