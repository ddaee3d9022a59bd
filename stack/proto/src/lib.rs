//! TCP/IP as a library: packets and the time in; packets, events and the time of the next call out.
//!
//! A [`Stack`] has no threads, clocks or sockets, and does not depend on a port kind. One instance serves one core and
//! shares nothing with others. The caller passes received frames ([`Stack::receive`]), runs timers
//! ([`Stack::advance`]), sends what is due ([`Stack::transmit`]), and handles the events ([`Stack::poll_event`]).
//!
//! Payload is never copied here: received payload is a counted handle of the port's buffer ([`Payload`]), and sent
//! payload is a list of such handles, gathered behind a header by the caller's [`Link`].
//!
//! The crate must not read payload bytes of established connections, except for checksums in software, and must not
//! allocate for a packet once its tables have grown to their size.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod address;
mod affinity;
mod config;
mod control;
mod counters;
mod dhcp;
mod event;
mod frame;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
pub mod ip;
mod link;
mod payload;
mod random;
mod slaac;
mod slab;
mod stack;
pub mod tcp;
mod time;
mod udp;
mod wheel;

pub use address::{Address, Cidr, Endpoint, ParseCidrError};
pub use affinity::{Affinity, Flows, Home};
pub use config::{Config, Limits, send_cost};
pub use counters::Counters;
pub use dhcp::Lease;
pub use event::{Closed, DatagramError, Event, SocketId};
pub use frame::Frame;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use link::Recorder;
pub use link::{Link, LinkOffloads, Piece, Segmentation, TxOffload};
pub use payload::{Payload, Slice};
pub use slaac::Identifier;
pub use stack::{ConnectError, Handoff, ListenError, SendError, Stack};
pub use time::Time;
pub use udp::{UdpError, UdpOptions};
