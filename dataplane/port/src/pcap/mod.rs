//! A port that is files: packets of a capture enter by it, and what leaves by it is a capture.
//!
//! `recording` is a file that was read and judged to its end before the port was made, on the caller's thread: from then on
//! its packets are memory of our own, and no disk makes a worker wait. `rx` plays it, with the times between its
//! packets, at a factor, or as fast as it goes. `tx` spools what is sent to the control thread, which writes it
//! (`crate::spool`); a worker never touches a file. `control` is the port's life.

mod control;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod legacy;
mod options;
mod pcapng;
mod recording;
mod rx;
#[cfg(test)]
mod tests;
mod tx;
mod window;

pub use crate::spool::{CreateError, Output};
pub use control::Pcap;
pub use error::PcapError;
pub use options::{Options, Pace, Playing, Repeat};
pub use recording::Recording;

/// Most bytes of a file that is played.
pub const MOST_BYTES: u64 = 1 << 30;
/// Most packets of a file that is played: 64 bytes for each, where it has as many bytes as it may.
pub const MOST_PACKETS: usize = 1 << 24;
/// Most packets of a file that are shorter than an Ethernet header, and so are counted and not played.
pub const MOST_SHORT: usize = 1 << 16;
/// Shortest frame: an Ethernet header.
const SHORTEST: usize = 14;
