//! Messages against bytes of other implementations, as properties, and as a corpus.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

mod actions;
mod arbitrary;
mod common;
mod messages;
mod options;
mod replay_corpus;
mod round_trip;
mod vectors;
