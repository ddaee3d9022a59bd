//! TAP queues with `io_uring`: one system call per burst instead of one per packet.
//!
//! Receive (`rx`): one multishot read stays posted and takes slots from a provided-buffer ring. The kernel flags
//! arrivals in shared memory; only then does the worker enter the kernel, once, and reaps all completions. An idle poll
//! needs no system call. Transmit ([`Sender`]): the writes of a burst are submitted and awaited together, so source
//! memory is not used after `tx` returns; TUN accepts packets immediately, so there is no actual wait.
//!
//! A ring belongs to the thread that enables it, the first worker that uses it, and the kernel runs its work in that
//! thread only during the call (`DEFER_TASKRUN`): between calls the kernel does not access slots. With a kernel thread
//! (`sqpoll`) it may at any time, so that ring is cancelled before its slots are freed.

mod rx;
mod sys;

pub(super) use rx::start as start_rx;
pub(super) use sys::{Sender, probe};

use crate::PortFault;

/// Fault for an unavailable ring.
pub(super) fn unavailable(error: &std::io::Error) -> PortFault {
    PortFault::Interface(format!("io_uring cannot be used: {error}; write io = \"calls\""))
}
