//! The port that leads nowhere: nothing comes in, and what goes out is counted as sent and is gone.
//!
//! For measuring a pipeline without a destination's price, and as a sink for unwanted traffic.

mod control;
mod tx;

pub use control::Null;
