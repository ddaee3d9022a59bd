//! TAP ports: packets sent by the kernel on a TAP interface are received here, and packets sent here are received by
//! it.
//!
//! `control` is the control side, `device` creates or finds the interface (in a network namespace, if configured),
//! `slots` is the receive memory, `waiting` has frames of a stopped queue, `handover` passes the
//! interface to another process, `rx` and `tx` are the queues with plain system calls, `uring` those with `io_uring`,
//! and `sys` contains the unsafe code of the former. Checksum and segmentation offloads pass through in both directions
//! where the other side supports them.
//!
//! The kernel is trusted, but offload headers are validated all the same, because they come from guests and are passed
//! on to guests. Nothing here blocks, except interface configuration.

mod control;
mod device;
mod error;
mod handover;
mod options;
mod rx;
mod slots;
mod sys;
mod tx;
mod uring;
mod verdict;
mod waiting;

pub use control::Tap;
pub use error::TapError;
pub use options::{Io, MAX_MTU, MAX_NAME, MAX_QUEUE_PAIRS, MIN_MTU, Options};

#[cfg(test)]
mod tests;
