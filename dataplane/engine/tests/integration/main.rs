//! The engine from outside, in every execution model.

#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

mod coalesced;
mod common;
mod handover;
mod injected;
mod moving;
mod panics;
mod punt;
mod timers;
