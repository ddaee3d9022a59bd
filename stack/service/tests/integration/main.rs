//! Services between hosts in one process, and the corpus of the fuzz target.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests are tests too")]

mod pair;
mod replay_corpus;
mod sockets;
mod workers;
