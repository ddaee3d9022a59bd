//! Interfaces of the TCP/IP stack for programs on the same thread.
#![forbid(unsafe_code)]

pub mod queue;
