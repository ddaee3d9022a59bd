//! `AF_XDP` port on a network card or on one end of a veth pair.
//!
//! `control` opens the port: memory (`umem`) into which the kernel writes received frames, one `socket` with four
//! `rings` for each queue of the interface, and a `program` that redirects frames to the sockets and passes those that
//! match `rules` to the kernel. `assembler` encodes the program and `sys` loads it. `rx` and `tx` are the queues of the
//! fast path. `fast_path` has the maps by which programs forward frames between ports without the switch,
//! `fast_key` their keys, `fast_program` that part of the program, and `peer` enables what it needs at the other ends. `unfinished` detects
//! checksums that a local sender left to offload.
//!
//! The rings and the UMEM are shared with the kernel only, which is trusted. Frame contents are untrusted; headers
//! are validated in the burst's private copy, as for all ports.

mod assembler;
mod control;
mod fast_key;
mod fast_path;
mod fast_program;
mod options;
mod peer;
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
pub use fast_key::{FastKey, Headers, Pair};
pub use fast_path::{
    ConnectionEpoch, Edits, FastCounts, FastPath, MAX_ENTRIES, MAX_ENTRIES_PER_PORT, Target,
};
pub use options::{
    Attachment, BusyPoll, FastPathOptions, MAX_RING, MAX_RULES, MIN_RING, Mode, Options, RING,
};
pub use rules::{BadRule, Rule};

#[cfg(test)]
mod tests;
