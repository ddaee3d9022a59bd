//! Parsing and rewriting of frames.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

mod edits;
mod frames;
mod parsing;
mod properties;
mod rewriting;
mod vectors;
mod verify;
