//! The Link Layer Discovery Protocol (IEEE 802.1AB-2016): what is at the other end of a link.
//!
//! An [`Agent`] takes links, frames and time, and returns frames to send and a table of neighbours. `frame` is the
//! codec over the TLVs of `tlv`, `table` has the neighbours of one port, `agent` the timers.
//!
//! Nothing here reads a clock, sends or waits. Memory is bounded for each port.

#![forbid(unsafe_code)]

mod agent;
mod frame;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod table;
#[cfg(test)]
mod tests;
mod tlv;

pub use agent::{Agent, PortCounts};
pub use frame::{Capabilities, GROUP, Id, LldpError, Lldpdu, MAX_FRAME, Vlan};
pub use table::{MAX_NEIGHBORS, Neighbor};
