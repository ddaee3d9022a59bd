//! Model of a virtual switch's path through a guest, from the cache study: three threads over shared memory.
//!
//! Rx copies an arrived packet from its own buffer into a buffer of the guest; Guest moves each packet from the receive
//! ring to the transmit ring; Tx copies it out into its own buffer. Descriptors are published once per batch. A
//! [`Config`] (the varied parameters) and the [`layout`] derived from it determine the accessed lines. The threads use
//! neither clocks nor caches directly, and wait only by polling.

pub mod config;
pub mod layout;
mod modulo;
mod names;
mod threads;

pub use config::Config;
pub use layout::Layout;
pub(super) use threads::STEP;
pub use threads::{Guest, Rx, Thread, Tx};
