//! A Linux TAP interface as a port: what the kernel sends out of it enters here, and what leaves here comes in there.
//!
//! `control` is the port's life, `device` makes or finds the interface (in a network namespace, where one
//! is named), `slots` is the memory that packets are received into, `rx` and `tx` are its queues with plain system
//! calls, `uring` the same through `io_uring`, and `sys` all that is unsafe about either. Checksums and segments stay
//! undone in both directions where the other side can do them.
//!
//! The kernel is trusted, and what it says about a packet is judged all the same, because the same words come from
//! guests and go on to them. Nothing here blocks, but for setting the interface up.

mod control;
mod device;
mod error;
mod options;
mod rx;
mod slots;
mod sys;
mod tx;
mod uring;
mod verdict;

pub use control::Tap;
pub use error::TapError;
pub use options::{Io, MAX_MTU, MAX_NAME, MAX_QUEUE_PAIRS, MIN_MTU, Options};

#[cfg(test)]
mod tests;
