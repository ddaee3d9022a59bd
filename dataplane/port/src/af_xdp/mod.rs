//! `AF_XDP`: a network card, or one end of a veth pair, as a port.
//!
//! `control` puts the port onto its interface: memory (`umem`) that the kernel places received frames in, one `socket`
//! for each queue of the interface with its four `rings`, and a `program` that steers frames into the sockets and
//! leaves to the kernel what `rules` name; `assembler` writes it and `sys` loads it. `rx` and `tx` are the queues on
//! the fast path; `unfinished` finds checksums that a sender on the same machine left to be done.
//!
//! The kernel is trusted with the rings and the memory. What lies in the frames was written by strangers and is judged
//! where all frames are: in the burst's private copy of their heads.

mod assembler;
mod control;
mod options;
mod program;
mod rings;
mod rules;
mod rx;
mod socket;
mod sys;
mod tx;
mod umem;
mod unfinished;

pub use crate::interface::{InterfaceError, Place};
pub use control::open;
pub use options::{Attachment, BusyPoll, MAX_RING, MAX_RULES, MIN_RING, Mode, Options, RING};
pub use rules::{BadRule, Rule};

#[cfg(test)]
mod tests;
