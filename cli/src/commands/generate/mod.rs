//! `linerate gen`: sends streams of frames from one port to another, and reports loss and latency.
//!
//! `args` defines the flags, `input` converts them and a file to streams and ports, `run` measures the loopback
//! baseline and then the ports, and `report` prints the results. The `generator` crate creates and checks frames;
//! this module does not process packets.

pub(crate) mod input;
pub(crate) mod peer;
mod report;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use run::{ends, key, run};
