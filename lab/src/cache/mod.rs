//! The cache laboratory: why a data path is as fast as it is, shown line by line.
//!
//! A [`model`] of a virtual switch's path (three threads over packed rings and pools) is written once, generic over the
//! [`memory::Memory`] it acts on. Under [`simulated`] memory it runs in a multi-core cache and coherence simulator with a virtual clock.
//! [`factors`] names every variation of the model that the published study knows, so that a whole experiment is one value.
//!
//! What is simulated is never given out as measured: each result says which memory it comes from. Nothing here is
//! needed by the product, and nothing here knows how a result is drawn.

pub mod analysis;
pub mod batch;
pub mod calibrate;
pub mod copystudy;
pub mod counted;
pub mod experiment;
pub mod factors;
mod fingerprint;
pub mod memory;
pub mod micro;
pub mod model;
pub mod paths;
pub mod program;
pub mod provenance;
pub mod published;
pub mod real;
pub mod results;
pub mod simulated;
pub mod trial;
mod warming;
