//! Rings from outside: driver against device, and hostile sides.

#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

mod chains;
mod hostile;
mod hostile_device;
mod lines;
mod pair;
mod recover;
mod replay_corpus;
mod round_trip;
