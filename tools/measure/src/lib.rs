//! What every measurement needs: clocks, CPUs to pin threads to, medians with intervals, the provenance of results, and
//! files that hold them.
//!
//! Nothing here decides what is measured or how results are shown.

pub mod clock;
pub mod distance;
mod fingerprint;
pub mod processor;
pub mod provenance;
pub mod seats;
pub mod statistics;
pub mod store;

pub use clock::Clock;
pub use fingerprint::{START, fingerprint};
pub use processor::Processor;
pub use provenance::Kind;
pub use seats::{Seats, SeatsError};
pub use statistics::Estimate;
