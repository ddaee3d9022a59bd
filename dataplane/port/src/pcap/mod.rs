//! A port over capture files: received packets are read from one, sent packets are written to one.
//!
//! `recording` is a file that was read and validated completely before the port is created, on the caller's thread: its
//! packets are in private memory, so workers never block on the disk. `rx` plays it, with original timing, at a factor,
//! or at full speed. `tx` spools sent packets to the control thread, which writes them (`crate::spool`); workers do not
//! access files. `control` is the control side.

mod control;
mod error;
#[cfg(any(test, feature = "fuzz"))]
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

pub use crate::spool::{
    CaptureCounts, CaptureDirection, CaptureFeed, CaptureFile, CreateError, Filter, FilterError, Outcome,
    Output, TraceStep, summary,
};
pub use control::Pcap;
pub use error::PcapError;
pub use options::{Options, Pace, Playback, Repeat};
pub use recording::Recording;

/// Maximum size of a file to be played, in bytes.
pub const MAX_BYTES: u64 = 1 << 30;
/// Maximum number of packets of a file to be played: 64 bytes each at the maximum file size.
pub const MAX_PACKETS: usize = 1 << 24;
/// Maximum number of packets shorter than an Ethernet header; these are counted and not played.
pub const MAX_SHORT: usize = 1 << 16;
/// Minimum frame length in bytes: an Ethernet header.
const MIN_FRAME: usize = 14;
