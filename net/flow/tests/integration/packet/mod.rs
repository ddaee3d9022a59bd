//! Parsing and rewriting of frames.

mod edits;
mod frames;
mod parsing;
mod properties;
mod rewriting;
mod vectors;
mod verify;
