//! Interfaces of the TCP/IP stack for programs on the same thread.
//!
//! [`queue`] is a loop of the program instead of callbacks. [`token`] and [`aio`] share one state per connection
//! (`net`): received data, whether the peer has finished, and the waiter of each direction. A waiter is the queue of an
//! operation or the waker of a task.
#![forbid(unsafe_code)]

pub mod aio;
mod list;
mod net;
pub mod queue;
pub mod token;

/// Compiles the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/async-programs.md")]
struct Guide;
