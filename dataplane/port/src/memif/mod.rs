//! memif: packets through memory shared by two processes, compatible with VPP, libmemif and DPDK's `net_memif`.
//!
//! One process listens (the *server*; "master" in older texts) and one connects (the *client*, "slave"). The client
//! provides memory, rings and eventfds (`device`) and describes them over a packet socket (`message` is the codec,
//! `session` the protocol state machine, `link` the transport, `control` the port's control side). Frames then pass
//! through a `ring` in each direction and `buffers` (`rx`, `tx`). `handover` passes the port to another process.
//! Protocol: version 2.0, as in libmemif's `memif.h` and DPDK's `drivers/net/memif`.
//!
//! The peer is as untrusted as a guest: every message, index and descriptor is validated, and a violation stops only
//! its own port, with a named fault.

mod buffers;
mod control;
mod device;
mod endpoint;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod handover;
pub(crate) mod joined;
mod link;
mod message;
mod options;
pub(crate) mod queue;
mod raw;
mod ring;
mod rx;
mod session;
mod tx;

pub use crate::socket::is_abstract;
pub use control::Memif;
pub use endpoint::{AttachError, Endpoint};
pub use message::MAX_SECRET;
pub use options::{MAX_QUEUE_PAIRS, MAX_RING_SIZE, MIN_RING_SIZE, MemifError, Options, Secret};
pub use raw::{RawClient, RawEntry, RawRing};

#[cfg(test)]
mod thaw_tests;

/// Violation of a ring by the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingFault {
    /// The ring is not inside its region.
    #[error("a ring lies outside the shared memory, or not on 16 bytes")]
    Place,
    /// The peer's index is ahead by more than the ring's size, or moved backwards.
    #[error("its index is {theirs}, the index of this end is {ours}, and the ring has {size} entries")]
    Index {
        /// The peer's index.
        theirs: u16,
        /// This end's index.
        ours: u16,
        /// Ring size.
        size: u16,
    },
    /// The descriptor is outside the shared memory.
    #[error("a descriptor names {len} bytes from {offset:#x} of region {region}, which lie outside")]
    Outside {
        /// Region.
        region: u16,
        /// Offset.
        offset: u32,
        /// Length.
        len: u32,
    },
    /// The frame is longer than its buffer.
    #[error("a descriptor has a length of {len} bytes, and its buffer has {room}")]
    Length {
        /// Length in the descriptor.
        len: u32,
        /// Length of the buffer.
        room: u32,
    },
    /// The last available descriptor of a frame has the NEXT flag.
    #[error("a frame goes on in a descriptor that was not sent")]
    Unfinished,
    /// More buffers than any frame needs.
    #[error("a frame spans more than {0} buffers")]
    ChainTooLong(usize),
}
