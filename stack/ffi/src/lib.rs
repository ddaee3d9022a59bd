//! The TCP/IP stack for programs in C: the completion queue of one core ([`api::queue`]).
//!
//! Every function validates its arguments, returns 0 or a positive result, or a negative error number of the system's
//! `errno.h`, and then leaves a text for `linerate_last_error`. No panic crosses the boundary ([`call`]).
//!
//! The contract of all functions, which the header states: pointers are null where that is allowed, or point to valid
//! objects; a host is used by one thread at a time; freed objects are not used.
//!
//! The crate must not contain protocol code or logic that a Rust program would need as well.
#![allow(clippy::doc_markdown, reason = "the comments are also those of the header")]
#![allow(non_camel_case_types, reason = "names of C")]
#![allow(
    clippy::missing_safety_doc,
    reason = "one contract holds for all functions; it is above and in the header"
)]

pub mod address;
pub mod buffer;
pub mod call;
pub mod configure;
pub mod counters;
pub mod host;
pub mod open;
mod pointer;
pub mod queue;
pub mod tcp;
pub mod tcp_options;
pub mod udp;
mod workers;

#[cfg(test)]
mod tests;
