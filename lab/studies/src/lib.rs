//! The studies of the laboratory: why a data path is as fast as it is, shown line by line.
//!
//! A [`model`] of a virtual switch's path (three threads over packed rings and pools) is written once, generic over the
//! [`sim::memory::Memory`] it acts on. In the simulator it runs under a virtual clock; on real memory a [`slice`] of it is
//! timed, or [`counted`] by hardware counters. [`factors`] names every variation of the model that the published study
//! has, so that an experiment is one value. [`paths`] simulates the path of linerate and of DPDK, [`copystudy`] the copies
//! between host and guest, and [`usage`] measures a whole switch in the ways it is used.
//!
//! Simulated results are never presented as measured: each result names its memory. Nothing here draws results.

pub mod analysis;
pub mod batch;
pub mod calibrate;
pub mod copystudy;
pub mod counted;
pub mod experiment;
pub mod factors;
pub mod model;
pub mod origin;
pub mod paths;
pub mod published;
pub mod requirements;
pub mod results;
pub mod slice;
pub mod trial;
pub mod usage;
mod warming;
