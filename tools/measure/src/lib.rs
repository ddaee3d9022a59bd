//! Common parts of measurements: clocks, CPU pinning, histograms, medians with intervals, provenance of results, result
//! files.
//!
//! This crate does not define which quantities are measured or how results are shown.

#![forbid(unsafe_code)]

pub mod clock;
pub mod distance;
mod fingerprint;
mod histogram;
pub mod pinning;
pub mod processor;
pub mod provenance;
pub mod rounds;
pub mod statistics;
pub mod store;

pub use clock::Clock;
pub use fingerprint::{START, fingerprint};
pub use histogram::{Histogram, Summary};
pub use pinning::{CpuPinning, PinningError};
pub use processor::Processor;
pub use provenance::Kind;
pub use statistics::Estimate;
