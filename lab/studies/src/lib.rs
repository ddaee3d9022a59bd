//! Studies of the laboratory: explain the speed of a data path, down to single cache lines.
//!
//! A [`model`] of a virtual switch's path (three threads over packed rings and pools) is written once, generic over
//! [`sim::memory::Memory`]. The simulator runs it under a virtual clock; on real memory a [`mod@slice`] of it is timed,
//! or [`counted`] by hardware counters. [`factors`] names every variation of the model in the published study, so that
//! an experiment is one value. [`paths`] simulates the data paths of linerate and of DPDK, [`copystudy`] the copies
//! between host and guest, [`usage`] measures a whole switch in typical uses, and [`stack`] the TCP/IP stack.
//!
//! Simulated results are never presented as measured: each result names its memory. This crate draws no results.

pub mod analysis;
pub mod batch;
pub mod calibrate;
pub mod copystudy;
pub mod counted;
pub mod experiment;
pub mod factors;
pub mod model;
pub mod origin;
pub mod parallel;
pub mod paths;
pub mod published;
#[cfg(test)]
mod recorder;
pub mod requirements;
pub mod results;
pub mod slice;
pub mod stack;
pub mod trial;
pub mod usage;
mod warming;
