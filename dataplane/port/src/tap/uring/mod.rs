//! The same queues through `io_uring`: what would be one system call per packet is one per burst.
//!
//! Receiving (`rx`): one multishot read stays posted and takes its slots from a ring of them. The kernel notes in shared
//! memory that packets have come; only then does the worker enter the kernel, once, and harvests all that there are. An
//! idle look costs no system call. Sending ([`Sender`]): the writes of a burst are submitted and waited for together, so the
//! memory of their source is not used any more when `tx` returns; TUN takes packets in on the spot, so nothing is waited
//! for in truth.
//!
//! A ring belongs to the thread that enables it, which is the worker that first uses it, and the kernel runs its work in
//! that thread only, while it is inside the call (`DEFER_TASKRUN`): between calls the kernel touches no slot. With a
//! thread of the kernel's (`sqpoll`) it may at any time, so that ring is cancelled before its slots go.

mod rx;
mod sys;

pub(super) use rx::start as start_rx;
pub(super) use sys::{Sender, probe};

use crate::PortFault;

/// A ring that the kernel does not give.
pub(super) fn unavailable(error: &std::io::Error) -> PortFault {
    PortFault::Interface(format!("io_uring cannot be used: {error}; write io = \"calls\""))
}
