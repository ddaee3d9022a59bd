//! memif: packets through memory that two processes share, as VPP, libmemif and DPDK's `net_memif` have it.
//!
//! One process listens (the *server*; "master" in older texts) and one connects (the *client*, "slave"). The client
//! brings memory, rings and event descriptors and names them over a packet socket (`message` is its codec, `session`
//! what the messages come to, `link` their way, `control` the port's life, `device` what a client brings). From then on
//! frames move through a `ring` in each direction and `buffers` (`rx`, `tx`).
//! Protocol: version 2.0, as libmemif's `memif.h` and DPDK's `drivers/net/memif` have it.
//!
//! The peer is as hostile as a guest: every message, index and descriptor is judged, and the worst it gets is its own
//! port stopped with a named reason.

mod buffers;
mod control;
mod device;
mod endpoint;
#[doc(hidden)]
pub mod fuzz;
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

/// What the peer did to a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingFault {
    /// A ring that does not fit where it is said to be.
    #[error("a ring lies outside the shared memory, or not on 16 bytes")]
    Place,
    /// An index further ahead than the ring is long, or one that went back.
    #[error("its index says {theirs} where ours says {ours}, and the ring has {size} entries")]
    Index {
        /// The peer's.
        theirs: u16,
        /// Ours.
        ours: u16,
        /// Entries.
        size: u16,
    },
    /// A descriptor that names no shared memory.
    #[error("a descriptor names {len} bytes from {offset:#x} of region {region}, which lie outside")]
    Outside {
        /// Region.
        region: u16,
        /// First byte.
        offset: u32,
        /// Bytes.
        len: u32,
    },
    /// A frame that is longer than the buffer it is said to be in.
    #[error("a descriptor says {len} bytes of a buffer that has {room}")]
    Length {
        /// As it says.
        len: u32,
        /// As it is.
        room: u32,
    },
    /// A frame whose last descriptor says that it goes on.
    #[error("a frame goes on in a descriptor that was not sent")]
    Unfinished,
    /// A frame in more buffers than any frame needs.
    #[error("a frame spans more than {0} buffers")]
    ChainTooLong(usize),
}
