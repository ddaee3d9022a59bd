//! Rings: virtqueues, split and packed, from the device's side and from the driver's, and the rings that join
//! cores of one process.
//!
//! A virtqueue lies in memory that a guest can write at any time. Everything read from it is read once, into
//! private memory, and judged there; what is judged wrong is a [`RingFault`] with a name, and the ring is not
//! used again. This crate must never follow an address that was not translated, never wait, and never learn
//! what a buffer contains.
//!
//! Source: VIRTIO 1.2, sections 2.6 (virtqueues), 2.7 (split) and 2.8 (packed).

mod area;
mod chain;
pub mod device;
pub mod driver;
mod fault;
mod layout;
#[cfg(feature = "mock")]
pub mod mock;
pub mod mpmc;
mod offsets;
pub mod spsc;

pub use chain::{BufId, Descriptor, Direction, MAX_CHAIN, MAX_PIECES, resolve};
pub use fault::RingFault;
pub use layout::Layout;

/// Largest queue of either kind (VIRTIO 1.2 sections 2.7 and 2.8.10).
pub const MAX_SIZE: u16 = 32_768;
