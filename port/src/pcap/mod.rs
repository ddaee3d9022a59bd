//! A port that is files: packets of a capture enter by it, and what leaves by it is a capture.
//!
//! `recording` is a file that was read and judged whole when the port was made, on the caller's thread: from then on its
//! bytes are memory of our own, and nobody's disk makes a worker wait. `rx` plays it, with the times between its packets,
//! at a factor, or as fast as it goes. `tx` spools what is sent to the control thread, which writes it
//! (`crate::spool`); a worker never touches a file. `control` is the port's life.

mod control;
#[doc(hidden)]
pub mod fuzz;
mod options;
mod pcapng;
mod recording;
mod rx;
#[cfg(test)]
mod tests;
mod tx;

pub use crate::spool::{CreateError, Output};
pub use control::Pcap;
pub use options::{Options, Pace, Playing, Repeat};
pub use recording::{PcapError, Recording};
