//! A virtio-user guest: a front end with its own rings and buffers, without a virtual machine.
//!
//! Each ring has as many buffers as its entries allow. A buffer's number is its permanent identifier in both rings, so
//! returning a packet moves it between the rings without changing its descriptor, and on a split ring most descriptor
//! lines are written only once. The guest is a load generator: it polls and never sleeps.

mod buffers;
mod device;
mod flows;
mod frames;
pub mod hostile;
mod memory;

pub use device::{GuestDevice, GuestStats, plug_in};
pub use flows::Flows;
pub use frames::{FrameSizes, Mac};
pub use port::virtio_user::RingKind;

use port::virtio_user::FrontEndError;
use ring::RingFault;
use std::path::PathBuf;

/// Descriptor layout of frames, for receive and transmit. Switches differ in which layout they process faster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Descriptors {
    /// Header and frame in one descriptor, as in DPDK's driver (`VIRTIO_F_ANY_LAYOUT`, part of VIRTIO 1).
    #[default]
    Single,
    /// Header and frame in a chain of two descriptors: the layout of VIRTIO before 1.0.
    Chain,
    /// Header and frame in an indirect table of two descriptors (`VIRTIO_F_INDIRECT_DESC`), as Linux's driver sends.
    Indirect,
}

/// Packet processing of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Swaps source and destination address and sends every packet back.
    #[default]
    MacSwap,
    /// Sends every packet back unchanged.
    Io,
    /// Transmits only.
    TxOnly,
    /// Receives only.
    RxOnly,
}

/// Configuration of a guest device.
#[derive(Clone, Debug)]
pub struct GuestConfig {
    /// Ring kind.
    pub ring: RingKind,
    /// Descriptor layout. With chains a ring holds half as many frames as it has entries.
    pub descriptors: Descriptors,
    /// Packet processing.
    pub mode: Mode,
    /// Entries per ring: a power of two on split rings.
    pub queue_size: u16,
    /// Queue pairs.
    pub queue_pairs: u16,
    /// Whether to negotiate mergeable receive buffers.
    pub mergeable: bool,
    /// The guest's address.
    pub mac: Mac,
    /// Destination address of generated packets.
    pub peer: Mac,
    /// Sizes of generated packets.
    pub sizes: FrameSizes,
    /// Packets put into circulation at the start (macswap and io).
    pub packets: u32,
    /// UDP ports that returned packets get (macswap); `None` to keep theirs.
    pub flows: Option<Flows>,
}

/// Error of a guest.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The back end is unreachable or negotiation failed.
    #[error("the connection to the back end failed: {0}")]
    FrontEnd(#[from] FrontEndError),
    /// The back end violated the ring protocol.
    #[error("the back end violated the virtqueue protocol: {0}")]
    Ring(#[from] RingFault),
    /// Shared memory cannot be allocated.
    #[error("cannot create shared memory: {0}")]
    Memory(String),
    /// The back end lacks a feature that the ring kind or the descriptor layout needs.
    #[error("the back end does not offer {0}; choose another kind of ring or of descriptors")]
    Missing(&'static str),
    /// The back end lacks a feature that the attack needs.
    #[error("the back end does not offer {0}, which this attack needs")]
    NotOffered(&'static str),
    /// The back end has too few queue pairs.
    #[error("the back end has {has} queue pairs, and {wants} are required")]
    QueuePairs {
        /// Queue pairs of the back end.
        has: u16,
        /// Requested queue pairs.
        wants: u16,
    },
    /// Listening on a socket failed.
    #[error("cannot listen on {0}: {1}")]
    Listen(PathBuf, String),
    /// The back end closed the connection.
    #[error("the back end closed the connection")]
    Closed,
}
