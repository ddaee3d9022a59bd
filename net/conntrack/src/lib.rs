//! Connection tracking: which connection a packet belongs to, in which direction, and whether it fits the connection.
//!
//! States, timeouts and rules are those of the action `ct` in ovs-actions(7). [`Tracker::track`] reads a packet,
//! updates its connection and returns the state of the packet, and the addresses and ports that it must get. It changes
//! no packet. This crate starts no threads and reads no clock: time is passed in, in nanoseconds. Memory is bounded by
//! [`Config`] and the constants of the module `config`.
//!
//! Checksums of transport headers are not verified, because workers have only the first bytes of a packet.

#![forbid(unsafe_code)]

mod bounded;
mod config;
mod connection;
mod expiry;
mod ftp;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod handover;
mod helper;
mod icmp;
mod index;
mod limits;
mod nat;
mod packet;
mod peek;
#[cfg(any(test, feature = "fuzz"))]
pub mod sample;
mod sequence;
mod show;
mod table;
mod tcp;
mod tracker;
mod tuple;
mod udp;
mod watch;

pub use config::{Config, Timeouts, Timer};
pub use connection::{Effort, Outcome, Place, Rewrite, State};
pub use ftp::Text;
pub use handover::{Restoration, SavedChanges, SavedConnection, SavedExpectation};
pub use helper::Helper;
pub use limits::Refused;
pub use nat::{Direction, Nat};
pub use peek::Examined;
pub use show::Listed;
pub use tcp::Phase;
pub use tracker::{Exhausted, Parsed, Request, Search, Tracker};
pub use tuple::Tuple;
pub use watch::Watched;

/// Bits of [`State::bits`], as in ovs-fields(7), `ct_state`.
pub mod bits {
    /// A new connection.
    pub const NEW: u32 = 0x01;
    /// Part of an existing connection.
    pub const ESTABLISHED: u32 = 0x02;
    /// Related to an existing connection.
    pub const RELATED: u32 = 0x04;
    /// In the reply direction.
    pub const REPLY: u32 = 0x08;
    /// Contradicts the state of the connection.
    pub const INVALID: u32 = 0x10;
    /// Passed through connection tracking.
    pub const TRACKED: u32 = 0x20;
    /// The source is translated.
    pub const SNAT: u32 = 0x40;
    /// The destination is translated.
    pub const DNAT: u32 = 0x80;
}
