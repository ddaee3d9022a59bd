//! A virtio-user guest: a front end with rings and buffers of its own and no virtual machine.
//!
//! Every ring has as many buffers as its entries allow. A buffer's number is its identifier in both rings for ever, so
//! a packet that is sent back moves between the rings without its descriptor changing, and on a split ring most
//! descriptor lines are never written twice. A guest polls; it is a load, not a citizen.

mod buffers;
mod device;
mod frames;
pub mod hostile;
mod memory;

pub use device::{GuestDevice, GuestStats, plug_in};
pub use frames::{FrameSizes, Mac};
pub use port::virtio_user::RingKind;

use port::virtio_user::FrontEndError;
use ring::RingFault;
use std::path::PathBuf;

/// How a frame lies in descriptors, received and sent. Switches carry one of them faster than the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Descriptors {
    /// Header and frame in one descriptor, as DPDK's driver has it (`VIRTIO_F_ANY_LAYOUT`, part of VIRTIO 1).
    #[default]
    Single,
    /// Header and frame apart, in a chain of two: the layout of VIRTIO before 1.0.
    Chain,
    /// Header and frame apart, in an indirect table of two (`VIRTIO_F_INDIRECT_DESC`), as Linux's driver sends.
    Indirect,
}

/// What a guest does with packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Swaps source and destination address and sends every packet back.
    #[default]
    MacSwap,
    /// Sends every packet back as it is.
    Io,
    /// Sends only.
    TxOnly,
    /// Receives only.
    RxOnly,
}

/// One guest device.
#[derive(Clone, Debug)]
pub struct GuestConfig {
    /// Ring kind.
    pub ring: RingKind,
    /// How frames lie in descriptors. With chains a ring holds half as many frames as it has entries.
    pub descriptors: Descriptors,
    /// What it does.
    pub mode: Mode,
    /// Entries per ring: a power of two on split rings.
    pub queue_size: u16,
    /// Queue pairs.
    pub queue_pairs: u16,
    /// Ask for mergeable receive buffers.
    pub mergeable: bool,
    /// Its own address.
    pub mac: Mac,
    /// Where the packets that it makes are addressed to.
    pub peer: Mac,
    /// Sizes of the packets that it makes.
    pub sizes: FrameSizes,
    /// Packets that it puts into circulation at the start (macswap and io).
    pub packets: u32,
}

/// Why a guest could not run.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The protocol did not come to an agreement.
    #[error("the back end was not reached or did not agree: {0}")]
    FrontEnd(#[from] FrontEndError),
    /// The back end broke a ring.
    #[error("the back end broke a ring: {0}")]
    Ring(#[from] RingFault),
    /// Memory to share could not be had.
    #[error("no memory could be shared: {0}")]
    Memory(String),
    /// The back end lacks what ring kind or descriptors need.
    #[error("the back end does not offer {0}; choose another kind of ring or of descriptors")]
    Missing(&'static str),
    /// The back end lacks what an attack needs.
    #[error("the back end does not offer {0}, which this attack needs")]
    NotOffered(&'static str),
    /// The back end has fewer queue pairs.
    #[error("the back end has {has} queue pairs but {wants} were asked for")]
    QueuePairs {
        /// What it has.
        has: u16,
        /// What was asked for.
        wants: u16,
    },
    /// A socket that a guest should listen on.
    #[error("{0} cannot be listened on: {1}")]
    Listen(PathBuf, String),
    /// The back end went away.
    #[error("the back end closed the connection")]
    Closed,
}
