//! Integration tests of the `linerate` binary.

#![expect(clippy::unwrap_used, reason = "a failure here is the test's")]

mod abuse;
mod arguments;
mod check;
mod cli;
mod common;
mod documents;
mod guests;
mod layers;
mod placement;
mod sockets;
mod supervision;
