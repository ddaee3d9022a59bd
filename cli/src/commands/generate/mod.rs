//! `linerate gen`: streams of frames from one port to another, and what became of them.
//!
//! `args` are the flags, `input` turns them and a file into streams and ports, `run` runs the wire of our own and then the
//! ports, `report` prints. Frames are made and checked in the laboratory's room; no frame passes through here.

pub(crate) mod input;
mod peer;
mod report;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use run::{ends, key, run};
