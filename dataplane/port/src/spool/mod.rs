//! Packet logging from workers to a file without blocking workers: packets are spooled into rings, and the control
//! thread writes them.
//!
//! A [`Feed`] is one queue's end, owned by a worker; the [`Spool`] is the control thread's end, with the file. Each
//! feed has a ring (`ring::spsc`) of [`LINE`]-byte lines. A record is one packet: a header with time and metadata, then
//! its first bytes, over as many lines as needed. A record is published whole. If the ring is full, the feed returns an
//! error and does not wait.
//!
//! *Wake-up.* While records arrive, the control thread empties the rings every [`FLUSH`]. If there were none, it stores
//! `idle`, executes a full fence and checks once more. After publishing, a feed executes a full fence and then loads
//! `idle`: either it sees `idle` and rings the doorbell, or the control thread sees the record. A feed also rings after
//! filling a quarter of its ring since its last ring.
//!
//! *Order.* Records of each feed are in time order. The control thread sorts the records of all feeds and holds back
//! the most recent [`SLACK`] until the next flush, so the file is in order unless a worker takes longer than that
//! between reading its clock and publishing.
//!
//! After each flush the file ends with a complete record. A write error ends the file there, once, with a reason;
//! traffic does not wait for it.

mod capture;
mod drain;
mod feed;
mod file;
mod filter;
mod handover;
mod pcapng;
mod record;
#[cfg(test)]
mod tests;
mod text;

pub use capture::{CaptureCounts, CaptureDirection, CaptureFeed, CaptureFile};
pub(crate) use drain::{Format, Spool};
pub(crate) use feed::{Feed, Spooled};
pub use file::{CreateError, Output};
pub use filter::{Filter, FilterError};
pub(crate) use record::{Direction, MAX_PACKET, Record};
pub use record::{Outcome, TraceStep};
pub use text::summary;

use std::time::Duration;

/// Size of a ring line, in bytes.
const LINE: usize = 64;
/// Lines per ring: 4 MiB.
const LINES: usize = 1 << 16;
/// Maximum age of a packet before it is written, if the disk keeps up; twice that for the most recent ones.
const FLUSH: Duration = Duration::from_millis(200);
/// Maximum reordering between records of different workers, in nanoseconds.
const SLACK: u64 = 1_000_000;
