//! Null port: receives nothing; sent packets are counted and discarded.
//!
//! For measuring a pipeline without the cost of a destination, and as a sink for unwanted traffic.

mod control;
mod tx;

pub use control::Null;
