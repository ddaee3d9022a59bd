//! The model of a virtual switch's path through a guest, as the cache study has it: three threads over shared memory.
//!
//! Rx takes a packet that has just arrived in its own buffer and copies it into a buffer of the guest; Guest hands each
//! packet from the receive ring to the transmit ring; Tx copies it out into a buffer of its own. Descriptors are
//! published once per batch. Which lines that touches is decided by a [`Config`] (what is varied) and the [`layout`]
//! that follows from it; the threads know neither clocks nor caches, and never block but by asking again.

pub mod config;
pub mod layout;
mod modulo;
mod names;
mod threads;

pub use config::Config;
pub use layout::Layout;
pub(super) use threads::STEP;
pub use threads::{Guest, Rx, Thread, Tx};
