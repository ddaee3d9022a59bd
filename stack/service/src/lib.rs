//! The TCP/IP stack as a service for other threads and processes.
//!
//! Each worker of a [`host::Workers`], or the only host, runs a [`Service`] as its application, and a [`SlowPath`]
//! accepts and removes clients on a thread of its own. Clients, in the same process ([`Connector`]) or in others
//! ([`Client::connect`]), share a region of memory with each worker: two rings, for commands and completions, and two
//! arenas, for data in each direction. A busy side makes no system call; an idle one sleeps until an eventfd is
//! signalled. [`net`] has blocking sockets in the shape of `std::net`.
//!
//! Neither side must trust what the other writes: the service removes a client that violates the protocol, with a named
//! reason ([`Fault`]), and limits what a client can make it hold or do ([`Limits`]).
#![forbid(unsafe_code)]

mod accept;
mod chunks;
mod client;
mod connector;
mod entry;
mod handshake;
mod limits;
mod link;
pub mod net;
mod reason;
mod region;
mod ring;
mod service;
mod slow_path;

/// Environment variable with the path of a service's Unix socket.
pub const SOCKET_VARIABLE: &str = "LINERATE_SERVICE";

pub use accept::AcceptPolicy;
pub use client::{Client, Handle, Readiness};
pub use connector::Connector;
pub use entry::{DatagramOptions, StreamOptions};
pub use limits::Limits;
pub use reason::{Fault, Reason};
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub use service::fuzz::fuzz_client;
pub use service::{Service, ServiceOptions, Statistics};
pub use slow_path::{SlowPath, SlowPathThread};
