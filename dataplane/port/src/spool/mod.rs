//! From workers to a file, without a worker ever waiting for it: packets are spooled into rings and the control thread
//! writes them out.
//!
//! A [`Feed`] is one queue's end, in the hands of a worker; the [`Spool`] is control's end, with the file. Each feed
//! has a ring (`ring::spsc`) of [`LINE`]-byte lines. A packet is one record: a header that says when and what it was,
//! then its first bytes, over as many lines as that takes. A record is published whole: a reader of its first line sees
//! all. A full ring is the feed's answer and never a wait.
//!
//! *Waking.* Control empties the rings every [`FLUSH`] while anything comes. When nothing came, it stores `idle`,
//! executes a full fence and looks once more. A feed that has published executes a full fence and then loads `idle`:
//! either it sees `idle` and rings the doorbell, or control saw the record. A feed also rings when a quarter of its ring was
//! filled since it last rang.
//!
//! *Order.* Each feed's records are in order of time. Control sorts what it took from all of them and holds back the
//! youngest [`SLACK`] until the next time, so that a file is in order unless a worker is slower than that between its
//! clock and its publishing.
//!
//! After every flush the file ends with a whole record. What cannot be written ends the file there, once and with a
//! reason, and no traffic waits for it.

mod drain;
mod feed;
mod file;
mod pcapng;
mod record;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use drain::{Format, Spool};
pub(crate) use feed::{Feed, Spooled};
pub use file::{CreateError, Output};
pub(crate) use record::{Direction, Fate, MOST, Record};

use std::time::Duration;

/// Bytes of one line of a ring.
const LINE: usize = 64;
/// Lines of a ring: 4 MiB.
const LINES: usize = 1 << 16;
/// How old a packet is at most before it is in the file, while the disk keeps up; twice that for the youngest.
const FLUSH: Duration = Duration::from_millis(200);
/// Nanoseconds within which records of different workers may come out of order.
const SLACK: u64 = 1_000_000;
