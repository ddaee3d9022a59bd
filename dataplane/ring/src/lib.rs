//! Rings: split and packed virtqueues, device and driver side, and rings between cores of one process.
//!
//! A virtqueue is in memory that a guest can write at any time. Each value is read once into private memory and
//! validated there; an invalid value is a [`RingFault`], and the ring is not used afterwards. This crate must not
//! access an untranslated address, block, or interpret buffer content.
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

#[doc(hidden)]
pub use chain::DESC;
pub use chain::{BufId, Descriptor, Direction, MAX_CHAIN, MAX_PIECES, resolve};
pub use fault::RingFault;
pub use layout::Layout;

/// Largest queue of either kind (VIRTIO 1.2 sections 2.7 and 2.8.10).
pub const MAX_SIZE: u16 = 32_768;
