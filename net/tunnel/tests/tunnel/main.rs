//! Tests of headers and of the addresses of a switch.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

mod headers;
mod replay;
mod too_big;
mod underlay;
mod vectors;
